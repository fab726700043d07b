use crate::{
    server::{
        app::{App, PathId, ask},
        caller::Caller,
        peer::Places,
        problem::ApiError,
        socket::{self, Sight},
        validate,
    },
    session::View,
};
use axum::{
    body::Body,
    extract::{RawQuery, Request, State},
    response::Response,
};
use hyper_util::rt::TokioIo;
use maestro_projection::DeltaForm;
use maestro_protocol::{Deltas, ProblemCode, Scope, SessionId, WatchQuery};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::server::create_response_with_body, protocol::Role},
};

/// Follow a session over a WebSocket.
///
/// The daemon sends one `TranscriptSnapshot`, one `ReducedState` of the same cursor, then a `ProjectionUpdate` for
/// what happens next. A client sends nothing, and ignores a delta about a row that it does not hold. Close codes: 4410 the session is dead, 1012 the daemon shuts down, 1009
/// a message over 64 KiB.
#[utoipa::path(
    get,
    path = "/api/structured/{id}",
    tag = "structured",
    operation_id = "watchSession",
    params(("id" = SessionId, Path, description = "The session."), WatchQuery),
    responses((
        status = SWITCHING_PROTOCOLS,
        description = "A WebSocket. Each text message of the daemon is one `Frame`, or one `TextFrame` with `deltas=text`.",
        extensions(("x-websocket-sends" = json!({"oneOf": [
            {"$ref": "#/components/schemas/Frame"}, {"$ref": "#/components/schemas/TextFrame"}
        ]})))
    ))
)]
pub(in crate::server::routes) async fn watch(
    State(App { registry, lifetime, .. }): State<App>,
    caller: Caller,
    places: Places,
    PathId(id): PathId,
    RawQuery(query): RawQuery,
    mut request: Request,
) -> Result<Response, ApiError> {
    let view = view(validate::watch(query.as_deref().unwrap_or_default())?);
    let feed = ask(&registry, &caller.account, id, async |session| socket::feed(session, view).await).await?;
    let not_upgrade = |error| {
        let detail = format!("this path speaks WebSocket (RFC 6455) over HTTP/1.1: {error}");
        ApiError::new(ProblemCode::InvalidRequest, detail)
    };
    let response = create_response_with_body(&request, Body::empty).map_err(not_upgrade)?;
    let sight = match caller.scope() {
        Scope::Person => Sight::Full,
        Scope::Agent => Sight::NoNonce,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let tasks = lifetime.tasks.clone();
    drop(tasks.spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let stream = TokioIo::new(upgraded);
                let socket =
                    WebSocketStream::from_raw_socket(stream, Role::Server, Some(socket::config())).await;
                socket::serve(socket, feed, sight, lifetime).await;
            }
            Err(error) => tracing::debug!(%error, "a connection broke off before it was a WebSocket"),
        }
        // The connection's place is free only now.
        drop(places);
    }));
    Ok(response)
}

fn view(query: WatchQuery) -> View {
    let form = match query.deltas.unwrap_or_default() {
        Deltas::Plain => DeltaForm::Plain,
        Deltas::Text => DeltaForm::Text,
    };
    // More rows than a machine can count are all rows.
    View { form, tail: query.tail.and_then(|n| usize::try_from(n).ok()) }
}
