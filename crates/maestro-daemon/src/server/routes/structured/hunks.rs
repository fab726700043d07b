use crate::{
    registry::Registry,
    server::{
        app::{Folds, PathId, ask, live},
        caller::Caller,
        hunks,
        problem::ApiError,
    },
};
use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::IntoResponse,
};
use http::{HeaderValue, header};
use maestro_protocol::{ProblemCode, RowHunks, RowId, SessionId};
use std::sync::Arc;

/// Read what a `ToolDiff` row changes, as unified hunks.
///
/// Computed for each request. A change whose texts are longer than 2 MiB together, or hold a NUL, is named without
/// hunks. A row that is not there, or has no diff, is `not_found`.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/structured/rows/{row}/hunks",
    tag = "structured",
    operation_id = "rowHunks",
    params(
        ("id" = SessionId, Path, description = "The session."),
        ("row" = String, Path, description = "The row's id, percent-encoded.")
    ),
    responses((status = OK, body = RowHunks, description = "The changes, one for each diff of the row."))
)]
pub(in crate::server::routes) async fn row_hunks(
    State(registry): State<Registry>,
    State(Folds(folds)): State<Folds>,
    caller: Caller,
    PathId(id): PathId,
    pieces: Result<Path<(String, String)>, PathRejection>,
) -> Result<impl IntoResponse, ApiError> {
    // What cannot be decoded names no row.
    let Ok(Path((_, row_id))) = pieces else { return Err(ApiError::not_found()) };
    let row_id = RowId::from(row_id);
    let found = ask(&registry, &caller.account, id, async |session| {
        live(&session)?;
        session.row(row_id.clone()).await
    });
    let Some((cursor, row)) = found.await? else {
        let detail = format!("the session has no row `{row_id}`");
        return Err(ApiError::new(ProblemCode::NotFound, detail));
    };
    let place = Arc::clone(&folds).acquire_owned().await.expect("the places are never closed");
    let answer = tokio::task::spawn_blocking(move || {
        let answer = hunks::of_row(&row, cursor).map(|hunks| serde_json::to_vec(&hunks));
        drop(place);
        answer
    });
    let Some(answer) = answer.await.map_err(ApiError::internal)? else {
        let detail = format!("the row `{row_id}` has no diff: only rows of kind `ToolDiff` have one");
        return Err(ApiError::new(ProblemCode::NotFound, detail));
    };
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([kind], answer.map_err(ApiError::internal)?))
}
