//! The table of routes. Each line mounts one path and writes it into the API's document; there is no other way in.

mod agents;
mod audit;
mod health;
mod openapi;
mod queue;
mod sessions;
mod structured;
mod usage;

use super::{
    app::App,
    permission::{
        self,
        Permission::{self, Anyone, Person, Session},
        Unguarded, check,
    },
    problem::{ApiError, PROBLEM_JSON, status},
};
use axum::{Router, middleware::from_fn_with_state};
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
const CHANGE: &[ProblemCode] = &[UnsupportedMediaType];

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
    let router = OpenApiRouter::with_openapi(document);
    of_the_daemon(of_structured(of_the_queue(of_sessions(router))))
}

fn of_sessions(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(mount(
            Person,
            routes!(sessions::create::create),
            &[CHANGE, BODY, &[UnknownAgent, InvalidCwd, IdempotencyKeyReused, LogUnwritable]],
        ))
        .routes(mount(Anyone, routes!(sessions::list::list), &[]))
        .routes(mount(Session, routes!(sessions::get::get), &[&[NotFound]]))
        .routes(mount(
            Person,
            routes!(sessions::rename::rename),
            &[CHANGE, BODY, &[NotFound, LogFailed, LogUnwritable]],
        ))
        .routes(mount(Person, routes!(sessions::kill::kill), &[CHANGE, &[NotFound]]))
        .routes(mount(
            Person,
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
}

/// The messages that wait for a session's turn.
fn of_the_queue(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(mount(Session, routes!(queue::read::read), &[&[NotFound, LogFailed]]))
        .routes(mount(
            Person,
            routes!(queue::add::add),
            &[CHANGE, BODY, &[NotFound, QueueFull, IdempotencyKeyReused, LogFailed, LogUnwritable]],
        ))
        .routes(mount(
            Person,
            routes!(queue::edit::edit),
            &[CHANGE, BODY, &[NotFound, QueueFull, LogFailed, LogUnwritable]],
        ))
        .routes(mount(
            Person,
            routes!(queue::remove::remove),
            &[CHANGE, &[NotFound, LogFailed, LogUnwritable]],
        ))
        .routes(mount(
            Person,
            routes!(queue::resume::resume),
            &[CHANGE, BODY, &[NotFound, NotStructured, LogFailed]],
        ))
}

/// The structured side of a session.
fn of_structured(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(mount(
            Person,
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
        .routes(mount(
            Person,
            routes!(structured::cancel::cancel),
            &[CHANGE, BODY, &[NotFound, NotStructured, LogFailed, LogUnwritable]],
        ))
        .routes(mount(
            Person,
            routes!(structured::decide::decide),
            &[CHANGE, BODY, &[DecisionNotOffered, NotFound, NotStructured, LogFailed, LogUnwritable]],
        ))
        .routes(mount(Person, routes!(structured::settings::mode), SETTING))
        .routes(mount(Person, routes!(structured::settings::model), SETTING))
        .routes(mount(Person, routes!(structured::settings::config), SETTING))
        .routes(mount(
            Session,
            routes!(structured::replay::replay),
            &[&[InvalidRequest, NotFound, NotStructured]],
        ))
        .routes(mount(Session, routes!(structured::hunks::row_hunks), &[&[NotFound, NotStructured]]))
        .routes(mount(
            Session,
            routes!(structured::watch::watch),
            &[&[InvalidRequest, NotFound, NotStructured]],
        ))
}

/// What is there.
fn of_the_daemon(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(mount(Anyone, routes!(agents::list), &[]))
        .routes(mount(Person, routes!(health::get), &[]))
        .routes(mount(Person, routes!(usage::get), &[&[InvalidRequest]]))
        .routes(mount(Person, routes!(audit::read), &[&[InvalidRequest]]))
        .routes(mount(Anyone, routes!(openapi::get), &[]))
}

/// The routes as the server mounts them.
pub(super) fn router(app: App) -> Router {
    let (router, _document) = table(OpenApi::default()).split_for_parts();
    router.fallback(unknown_path).method_not_allowed_fallback(unknown_method).with_state(app)
}

/// Whether every route that is mounted has a permission. The daemon asks before it serves any.
pub(crate) fn all_guarded() -> Result<(), Unguarded> {
    permission::all_guarded(&documented(OpenApi::default()))
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

/// A route with its permission, which is asked before its handler. Writes both the permission and the codes that the
/// route can answer, by status, into its document.
fn mount(
    permission: Permission,
    (schemas, mut paths, router): UtoipaMethodRouter<App>,
    codes: &[&[ProblemCode]],
) -> UtoipaMethodRouter<App> {
    let mut by_status = BTreeMap::<u16, Vec<String>>::new();
    let refuses_agents: &[ProblemCode] = if permission == Person { &[AgentPeer] } else { &[] };
    for code in [&[ANY, refuses_agents], codes].concat().concat() {
        by_status.entry(status(code).as_u16()).or_default().push(name(code));
    }
    for operation in paths.paths.values_mut().flat_map(operations).flatten() {
        permission.document(operation);
        for (status, names) in &by_status {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let response = ResponseBuilder::new().description(listed).content(PROBLEM_JSON, content).build();
            operation.responses.responses.insert(status.to_string(), RefOr::T(response));
        }
    }
    (schemas, paths, router.route_layer(from_fn_with_state(permission, check)))
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
