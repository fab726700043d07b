//! What every request passes and every answer carries, whatever the route, unknown ones included (CONTRACT §11.2).

use super::{
    body::discard,
    caller::Caller,
    peer::{Peer, Places, stranger},
    problem::{ApiError, showable},
};
use crate::{account::AccountScope, audit::Audit, report};
use axum::{
    Router,
    body::{Body, HttpBody as _},
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use maestro_protocol::{AuditEvent, ProblemCode, SessionId};
use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe};
use tower::ServiceExt as _;
use tracing::Instrument as _;
use uuid::Uuid;

/// Names the request in the answer and in the log.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers one request. A panic below becomes an answer too, so that it ends nothing but this request.
pub(super) async fn answer(
    router: Router,
    audit: Audit,
    peer: Peer,
    places: Places,
    request_id: Uuid,
    request: Request<Body>,
) -> Result<Response, Infallible> {
    let asked = Asked::of(&request, &peer);
    let span = tracing::info_span!(
        "request",
        %request_id,
        method = %request.method(),
        path = loggable(request.uri().path()),
        scope = ?peer.caller().map(Caller::scope),
        via = peer.caller().map(|caller| tracing::field::display(caller.via())),
    );
    let answer = async {
        let response = match admit(peer, &request) {
            Ok(caller) => route(router, caller, places, request).await,
            Err(refusal) => {
                discard(request.into_body()).await;
                refusal.into_response()
            }
        };
        asked.note(&audit, &response);
        finish(response, request_id)
    };
    Ok(answer.instrument(span).await)
}

/// What was asked, as far as the audit log tells it of a refusal.
struct Asked {
    method: Method,
    path: String,
    /// The account that it is about: the owner's, if the caller has none.
    account: AccountScope,
    session: Option<SessionId>,
}

impl Asked {
    fn of(request: &Request<Body>, peer: &Peer) -> Self {
        let (method, path) = (request.method().clone(), showable(loggable(request.uri().path())));
        let account = peer.caller().map_or_else(AccountScope::owner, |caller| caller.account.clone());
        Self { method, path, account, session: peer.caller().and_then(Caller::own_session) }
    }

    /// Notes a refusal because of who asked.
    fn note(self, audit: &Audit, response: &Response) {
        let refusal = response.extensions().get::<ApiError>().filter(|error| error.is_of_caller());
        let Some(code) = refusal.map(ApiError::code) else { return };
        let Self { method, path, account, session } = self;
        audit.note(account.email(), AuditEvent::Refused { code, method: method.to_string(), path, session });
    }
}

/// Whether the peer may make any request, and whether the body is of a kind that is read at all. What it may do is for
/// the [permission](super::permission::Permission) of the route.
fn admit(peer: Peer, request: &Request<Body>) -> Result<Caller, ApiError> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let Peer::Known(caller) = peer else { return Err(stranger().of_caller()) };
    let has_body = !request.body().is_end_stream();
    if has_body && !reads && !is_plain_json(request.headers()) {
        let detail = "the body must be JSON: send it as `Content-Type: application/json`, not compressed";
        return Err(ApiError::new(ProblemCode::UnsupportedMediaType, detail));
    }
    Ok(caller)
}

fn is_plain_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else { return false };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json") && !headers.contains_key(header::CONTENT_ENCODING)
}

async fn route(router: Router, caller: Caller, places: Places, mut request: Request<Body>) -> Response {
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(places);
    match AssertUnwindSafe(router.oneshot(request)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(panic) => ApiError::internal(Panicked { message: message(panic.as_ref()) }).into_response(),
    }
}

/// A defect that a handler ran into.
#[derive(Debug, thiserror::Error)]
#[error("a handler panicked: {message}")]
struct Panicked {
    message: String,
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").into()
}

fn finish(mut response: Response, request_id: Uuid) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        error.fill(&mut response, request_id);
        log(&error);
    }
    let id = HeaderValue::from_str(&request_id.to_string()).expect("a UUID is visible ASCII");
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, id);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn log(error: &ApiError) {
    if let Some(cause) = error.cause() {
        tracing::error!(code = ?error.code(), cause = report::chain(cause), "a request failed");
    } else {
        tracing::debug!(code = ?error.code(), "a request was refused");
    }
}

/// The path without what follows its fifth piece: there stands the nonce of an approval, which no log may hold.
fn loggable(path: &str) -> &str {
    path.match_indices('/').nth(5).map_or(path, |(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::{is_plain_json, loggable};
    use http::{HeaderMap, HeaderValue, header};

    #[test]
    fn no_nonce_is_logged() {
        let check = |path: &str, expect: &str| assert_eq!(loggable(path), expect);
        check("/api/sessions/1/structured/approvals/secret", "/api/sessions/1/structured/approvals");
        check("/api/sessions/1/structured/approvals", "/api/sessions/1/structured/approvals");
        check("/", "/");
        check("", "");
    }

    #[test]
    fn only_plain_json_is_json() {
        let check = |headers: &[(header::HeaderName, &'static str)], expect: bool| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, HeaderValue::from_static(value));
            }
            assert_eq!(is_plain_json(&map), expect, "{headers:?}");
        };
        let kind = header::CONTENT_TYPE;
        check(&[(kind.clone(), "application/json")], true);
        check(&[(kind.clone(), "Application/JSON; charset=utf-8")], true);
        check(&[(kind.clone(), "text/plain")], false);
        check(&[(kind.clone(), "application/jsonp")], false);
        check(&[(kind.clone(), "application/json"), (kind.clone(), "text/plain")], false);
        check(&[(kind, "application/json"), (header::CONTENT_ENCODING, "gzip")], false);
        check(&[], false);
    }
}
