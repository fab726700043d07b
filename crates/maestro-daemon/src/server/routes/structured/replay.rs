use crate::{
    registry::Registry,
    server::{
        app::{Folds, PathId, ask, live},
        peer::Caller,
        problem::ApiError,
        validate,
    },
};
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use http::{HeaderValue, header};
use maestro_log::{LogReader, ReadLogError};
use maestro_projection::{DeltaForm, Page, Window, replay as fold};
use maestro_protocol::{ReplayPage, ReplayQuery, SessionId};
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
    let log = ask(&registry, &caller.scope, id, async |session| {
        live(&session)?;
        session.log().await
    });
    let log = log.await?;
    let place = Arc::clone(&folds).acquire_owned().await.expect("the places are never closed");
    let page = tokio::task::spawn_blocking(move || {
        let page = read(&log, window);
        drop(place);
        page
    });
    let page = page.await.map_err(ApiError::internal)??;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], page))
}

fn window(query: ReplayQuery) -> Window {
    let page = match query.before {
        Some(before) => Page::Before(before),
        None => Page::Since(query.since.unwrap_or_default()),
    };
    Window { page, limit: query.limit.unwrap_or(LIMIT), form: DeltaForm::Plain }
}

/// The page as JSON. A log that cannot be read to the page's end makes no page: half of one would look whole.
fn read(log: &LogReader, window: Window) -> Result<Vec<u8>, ApiError> {
    let mut failed: Option<ReadLogError> = None;
    let lines = log.lines().map_while(|line| line.map_err(|error| failed = Some(error)).ok());
    let page = fold(lines, window);
    match failed {
        Some(error) => Err(ApiError::internal(error)),
        None => serde_json::to_vec(&page).map_err(ApiError::internal),
    }
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, read, window};
    use maestro_log::{Committer, LogDir};
    use maestro_projection::{Page, Window};
    use maestro_protocol::{ReplayPage, ReplayQuery, SessionId};
    use uuid::Uuid;

    /// A page of a log of `lines` messages, one row each.
    fn page(lines: u64, query: ReplayQuery) -> ReplayPage {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = LogDir::open(dir.path(), &Committer::start().expect("a committer")).expect("logs");
        let mut log = logs.create_log(SessionId::from_uuid(Uuid::nil())).expect("a log");
        for line in 1..=lines {
            let update = r#""sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}"#;
            let text = format!(r#"{{"sessionId":"s","update":{{{update},"messageId":"m{line}"}}}}"#);
            log.append(text.as_bytes()).expect("appended");
        }
        let page = read(&log.reader(), window(query)).expect("a page");
        serde_json::from_slice(&page).expect("JSON")
    }

    #[track_caller]
    fn check(
        query: ReplayQuery,
        cursors: impl IntoIterator<Item = u64>,
        next: Option<u64>,
        prev: Option<u64>,
    ) {
        let page = page(120, query);
        let seen: Vec<u64> = page.events.iter().map(|event| event.cursor).collect();
        assert_eq!(seen, cursors.into_iter().collect::<Vec<_>>());
        assert_eq!((page.next, page.prev), (next, prev));
    }

    #[test]
    fn a_page_is_read_from_the_log() {
        let query = ReplayQuery::default();
        check(query, 1..=LIMIT, Some(LIMIT), None);
        check(ReplayQuery { since: Some(100), ..query }, 101..=120, None, Some(101));
        check(ReplayQuery { before: Some(11), limit: Some(2), ..query }, 9..=10, Some(10), Some(9));
        check(ReplayQuery { limit: Some(0), ..query }, 1..=1, Some(1), None);
        check(ReplayQuery { limit: Some(u64::MAX), ..query }, 1..=120, None, None);
    }

    #[test]
    fn a_query_names_one_window() {
        let check = |query: ReplayQuery, page: Page, limit: u64| {
            let Window { page: got, limit: max, .. } = window(query);
            assert_eq!((got, max), (page, limit));
        };
        check(ReplayQuery::default(), Page::Since(0), LIMIT);
        check(ReplayQuery { since: Some(3), ..ReplayQuery::default() }, Page::Since(3), LIMIT);
        check(ReplayQuery { before: Some(3), limit: Some(7), since: None }, Page::Before(3), 7);
    }
}
