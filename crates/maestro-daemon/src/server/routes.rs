//! The table of routes. Each line mounts one path and writes it into the API's document; there is no other way in.

mod agents;
mod health;
mod openapi;
mod queue;
mod sessions;
mod structured;
mod usage;

use super::{
    app::App,
    problem::{ApiError, PROBLEM_JSON, status},
};
use axum::Router;
use maestro_protocol::ProblemCode::{
    self, AgentPeer, AgentRefused, AgentSilent, AlreadyRunning, BodyTooLarge, Busy, CannotResume, CwdMissing,
    DecisionNotOffered, IdempotencyKeyReused, Internal, InvalidCwd, InvalidRequest, LogFailed, LogUnwritable,
    MethodNotAllowed, NotFound, NotOffered, NotStructured, QueueFull, Starting, TurnInFlight, UnknownAgent,
    UnknownPeer, UnsupportedMediaType,
};
use std::collections::BTreeMap;
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder,
    path::{Operation, PathItem},
};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

/// What any request can end in.
const ANY: &[ProblemCode] = &[UnknownPeer, Busy, Internal];

/// What any request that changes something can end in besides.
const CHANGE: &[ProblemCode] = &[AgentPeer, UnsupportedMediaType];

/// What any request with a body can end in besides.
const BODY: &[ProblemCode] = &[InvalidRequest, BodyTooLarge];

/// What a change of a setting can end in besides.
const SETTING: &[&[ProblemCode]] = &[
    CHANGE,
    BODY,
    &[NotOffered, NotFound, NotStructured, Starting, AgentRefused, AgentSilent, LogUnwritable],
];

/// All routes, with their document.
fn table(document: OpenApi) -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(document)
        // Sessions.
        .routes(can_fail(
            routes!(sessions::create::create),
            &[CHANGE, BODY, &[UnknownAgent, InvalidCwd, IdempotencyKeyReused, LogUnwritable]],
        ))
        .routes(can_fail(routes!(sessions::list::list), &[]))
        .routes(can_fail(routes!(sessions::get::get), &[&[NotFound]]))
        .routes(can_fail(
            routes!(sessions::rename::rename),
            &[CHANGE, BODY, &[NotFound, LogFailed, LogUnwritable]],
        ))
        .routes(can_fail(routes!(sessions::kill::kill), &[CHANGE, &[NotFound]]))
        .routes(can_fail(
            routes!(sessions::restart::restart),
            &[
                CHANGE,
                BODY,
                &[
                    NotFound,
                    AlreadyRunning,
                    CwdMissing,
                    CannotResume,
                    IdempotencyKeyReused,
                    LogFailed,
                    LogUnwritable,
                ],
            ],
        ))
        // The messages that wait for a session's turn.
        .routes(can_fail(routes!(queue::read::read), &[&[NotFound, LogFailed]]))
        .routes(can_fail(
            routes!(queue::add::add),
            &[CHANGE, BODY, &[NotFound, QueueFull, IdempotencyKeyReused, LogFailed, LogUnwritable]],
        ))
        .routes(can_fail(
            routes!(queue::edit::edit),
            &[CHANGE, BODY, &[NotFound, QueueFull, LogFailed, LogUnwritable]],
        ))
        .routes(can_fail(routes!(queue::remove::remove), &[CHANGE, &[NotFound, LogFailed, LogUnwritable]]))
        .routes(can_fail(
            routes!(queue::resume::resume),
            &[CHANGE, BODY, &[NotFound, NotStructured, LogFailed]],
        ))
        // The structured side of a session.
        .routes(can_fail(
            routes!(structured::prompt::prompt),
            &[
                CHANGE,
                BODY,
                &[
                    NotFound,
                    NotStructured,
                    Starting,
                    TurnInFlight,
                    IdempotencyKeyReused,
                    LogFailed,
                    LogUnwritable,
                ],
            ],
        ))
        .routes(can_fail(
            routes!(structured::cancel::cancel),
            &[CHANGE, BODY, &[NotFound, NotStructured, LogFailed, LogUnwritable]],
        ))
        .routes(can_fail(
            routes!(structured::decide::decide),
            &[CHANGE, BODY, &[DecisionNotOffered, NotFound, NotStructured, LogFailed, LogUnwritable]],
        ))
        .routes(can_fail(routes!(structured::settings::mode), SETTING))
        .routes(can_fail(routes!(structured::settings::model), SETTING))
        .routes(can_fail(routes!(structured::settings::config), SETTING))
        .routes(can_fail(routes!(structured::replay::replay), &[&[InvalidRequest, NotFound, NotStructured]]))
        .routes(can_fail(routes!(structured::hunks::row_hunks), &[&[NotFound, NotStructured]]))
        .routes(can_fail(routes!(structured::watch::watch), &[&[InvalidRequest, NotFound, NotStructured]]))
        // What is there.
        .routes(can_fail(routes!(agents::list), &[]))
        .routes(can_fail(routes!(health::get), &[]))
        .routes(can_fail(routes!(usage::get), &[&[InvalidRequest]]))
        .routes(can_fail(routes!(openapi::get), &[]))
}

/// The routes as the server mounts them.
pub(super) fn router(app: App) -> Router {
    let (router, _document) = table(OpenApi::default()).split_for_parts();
    router.fallback(unknown_path).method_not_allowed_fallback(unknown_method).with_state(app)
}

/// `document` with all routes in it.
pub(crate) fn documented(document: OpenApi) -> OpenApi {
    table(document).split_for_parts().1
}

async fn unknown_path() -> ApiError {
    let detail = "there is no such path: `/api/openapi.json` describes those that there are";
    ApiError::new(NotFound, detail)
}

async fn unknown_method() -> ApiError {
    ApiError::new(MethodNotAllowed, "the path has no such method: the `Allow` header names those it has")
}

/// Writes the codes that a route can answer into its document, by status.
fn can_fail(
    (schemas, mut paths, router): UtoipaMethodRouter<App>,
    codes: &[&[ProblemCode]],
) -> UtoipaMethodRouter<App> {
    let mut by_status = BTreeMap::<u16, Vec<String>>::new();
    for code in [&[ANY], codes].concat().concat() {
        by_status.entry(status(code).as_u16()).or_default().push(name(code));
    }
    for operation in paths.paths.values_mut().flat_map(operations).flatten() {
        for (status, names) in &by_status {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let response = ResponseBuilder::new().description(listed).content(PROBLEM_JSON, content).build();
            operation.responses.responses.insert(status.to_string(), RefOr::T(response));
        }
    }
    (schemas, paths, router)
}

/// The operations that a path of ours can have.
fn operations(item: &mut PathItem) -> [Option<&mut Operation>; 4] {
    [item.get.as_mut(), item.post.as_mut(), item.patch.as_mut(), item.delete.as_mut()]
}

/// The code as it stands in a problem document.
fn name(code: ProblemCode) -> String {
    let value = serde_json::to_value(code).unwrap_or_default();
    value.as_str().unwrap_or_default().into()
}
