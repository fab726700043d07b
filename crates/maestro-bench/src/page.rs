//! The floor of every answer: an HTTP server on a Unix socket that answers each request with the same few bytes.

use crate::proc::listen;
use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, ffi::OsString, path::Path};

pub(crate) const ARG: &str = "__page";

pub(crate) fn main(socket: Option<OsString>) -> Result<()> {
    let socket = socket.context("name a socket")?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let listener = listen(Path::new(&socket))?;
        loop {
            let stream = TokioIo::new(listener.accept().await?.0);
            let answer = service_fn(|_request| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
            });
            tokio::spawn(http1::Builder::new().serve_connection(stream, answer));
        }
    })
}
