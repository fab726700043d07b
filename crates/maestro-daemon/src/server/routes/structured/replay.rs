use crate::{
    history,
    registry::Registry,
    server::{
        app::{Folds, PathId, ask, live},
        caller::Caller,
        problem::ApiError,
        validate,
    },
};
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use http::{HeaderValue, header};
use maestro_projection::{DeltaForm, Page, Window};
use maestro_protocol::{Deltas, ReplayPage, ReplayQuery, SessionId};
use std::sync::Arc;

/// Events on a page, unless the query says otherwise.
const LIMIT: u64 = 100;

/// Read a page of a session's history.
///
/// Each event holds the state at exactly its line. A page ends early at 4 MiB and has at least one event, if there is
/// one.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/structured/replay",
    tag = "structured",
    operation_id = "replay",
    params(("id" = SessionId, Path, description = "The session."), ReplayQuery),
    responses((status = OK, body = ReplayPage, description = "The page."))
)]
pub(in crate::server::routes) async fn replay(
    State(registry): State<Registry>,
    State(Folds(folds)): State<Folds>,
    caller: Caller,
    PathId(id): PathId,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, ApiError> {
    let window = window(validate::replay(query.as_deref().unwrap_or_default())?);
    let log = ask(&registry, &caller.account, id, async |session| {
        live(&session)?;
        session.log().await
    });
    let log = log.await?;
    let place = Arc::clone(&folds).acquire_owned().await.expect("the places are never closed");
    let page = tokio::task::spawn_blocking(move || {
        let page = history::page(id, &log, window);
        drop(place);
        page
    });
    let page = page.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], page))
}

fn window(query: ReplayQuery) -> Window {
    let page = match query.before {
        Some(before) => Page::Before(before),
        None => Page::Since(query.since.unwrap_or_default()),
    };
    let form = match query.deltas.unwrap_or_default() {
        Deltas::Plain => DeltaForm::Plain,
        Deltas::Text => DeltaForm::Text,
    };
    Window { page, limit: query.limit.unwrap_or(LIMIT), form }
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, window};
    use maestro_projection::{DeltaForm, Page, Window};
    use maestro_protocol::{Deltas, ReplayQuery};

    #[test]
    fn a_query_names_one_window() {
        let check = |query: ReplayQuery, page: Page, limit: u64, form: DeltaForm| {
            assert_eq!(window(query), Window { page, limit, form });
        };
        let query = ReplayQuery::default();
        check(query, Page::Since(0), LIMIT, DeltaForm::Plain);
        check(ReplayQuery { since: Some(3), ..query }, Page::Since(3), LIMIT, DeltaForm::Plain);
        check(ReplayQuery { before: Some(3), limit: Some(7), ..query }, Page::Before(3), 7, DeltaForm::Plain);
        check(ReplayQuery { deltas: Some(Deltas::Plain), ..query }, Page::Since(0), LIMIT, DeltaForm::Plain);
        check(ReplayQuery { deltas: Some(Deltas::Text), ..query }, Page::Since(0), LIMIT, DeltaForm::Text);
    }
}
