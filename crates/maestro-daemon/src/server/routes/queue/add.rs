use crate::{
    registry::Registry,
    server::{
        app::{PathId, ask},
        caller::Caller,
        client::ClientName,
        problem::ApiError,
        retry::Retriable,
        validate,
    },
    session::QueueCommand,
};
use axum::{Json, extract::State};
use http::StatusCode;
use maestro_protocol::{Author, PromptBody, QueueItem, SessionId};

/// Add a message behind those that wait.
///
/// It is sent when the turn before it has ended, at once where nothing is before it. A session that starts or is dead
/// keeps it. With an `Idempotency-Key` a retry gets the first answer and adds nothing.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/queue",
    tag = "queue",
    operation_id = "queueMessage",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same for every try of one request.")
    ),
    request_body = PromptBody,
    responses((status = CREATED, body = QueueItem, description = "The message, which is on the disk."))
)]
pub(in crate::server::routes) async fn add(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    ClientName(client): ClientName,
    Retriable(request, body): Retriable<PromptBody>,
) -> Result<(StatusCode, Json<QueueItem>), ApiError> {
    let content = validate::prompt(body)?;
    let by = Author { account: caller.account.email().into(), client };
    let added = ask(&registry, &caller.account, id, async |session| {
        let (content, by, request) = (content.clone(), by.clone(), request.clone());
        session.queue(|reply| QueueCommand::Add { content, by, request, reply }).await
    });
    Ok((StatusCode::CREATED, Json(added.await?)))
}
