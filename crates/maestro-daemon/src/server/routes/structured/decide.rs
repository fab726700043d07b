use crate::{
    registry::Registry,
    server::{
        app::{PathId, PathTail, ask, live},
        body::JsonBody,
        caller::Caller,
        client::ClientName,
        problem::ApiError,
    },
    session::Decider,
};
use axum::extract::State;
use http::StatusCode;
use maestro_protocol::{ApprovalAnswer, Nonce, SessionId};

/// Answer the live approval.
///
/// Always `204` for a live session, also for a nonce that was used already or never was: the first answer counts, and
/// a second click is no error. The user agent's product name is kept as the client that decided.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/structured/approvals/{nonce}",
    tag = "structured",
    operation_id = "answerApproval",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("nonce" = String, Path, description = "The nonce from `pending_approval` of the session's state.")
    ),
    request_body = ApprovalAnswer,
    responses((status = NO_CONTENT, description = "The approval has an answer: this one or an earlier one."))
)]
pub(in crate::server::routes) async fn decide(
    State(registry): State<Registry>,
    caller: Caller,
    PathId(id): PathId,
    PathTail(nonce): PathTail,
    ClientName(client): ClientName,
    JsonBody(ApprovalAnswer { decision }): JsonBody<ApprovalAnswer>,
) -> Result<StatusCode, ApiError> {
    let nonce = nonce.parse::<Nonce>().ok();
    let decider = Decider { account: caller.account.email().into(), client };
    let decided = ask(&registry, &caller.account, id, async |session| match nonce {
        Some(nonce) => session.decide(nonce, decision.clone(), decider.clone()).await,
        None => live(&session),
    });
    decided.await?;
    Ok(StatusCode::NO_CONTENT)
}
