//! Who may use a route (CONTRACT §11.2). A route is mounted only together with its permission, which is asked before any
//! handler is, and the daemon does not start with a route that has none.

use super::{app::session_in, caller::Caller, peer::stranger, problem::ApiError};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use maestro_protocol::{ProblemCode, Scope, SessionId};
use serde_json::Value;
use utoipa::openapi::{OpenApi, extensions::Extensions, path::Operation};

/// Where the API's document has a route's permission.
const EXTENSION: &str = "x-maestro-permission";

/// What stands in a path for a session.
const SESSION_IN_PATH: &str = "{id}";

/// Whom a route serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// A person.
    Person,
    /// A person, and an agent where its own session is in the path. To an agent any other session is one that does not
    /// exist.
    Session,
    /// Everyone who has an account here, and their agents. The answer shows no more than the caller may see.
    Anyone,
}

impl Permission {
    /// As the API's document names it.
    fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Session => "session",
            Self::Anyone => "anyone",
        }
    }

    /// Whether a caller may make a request about `session`, where the path names one that could exist.
    fn judge(self, caller: &Caller, session: Option<SessionId>) -> Result<(), ApiError> {
        match (caller.scope(), self) {
            (Scope::Person, _) | (Scope::Agent, Self::Anyone) => Ok(()),
            (Scope::Agent, Self::Person) => {
                let detail = "this process runs below an agent, which may look at its own session and not act: ask the person to do it";
                Err(ApiError::new(ProblemCode::AgentPeer, detail))
            }
            (Scope::Agent, Self::Session) => match session {
                Some(id) if caller.may_see(id) => Ok(()),
                _ => Err(ApiError::not_found()),
            },
        }
    }

    /// Writes the permission into the document of a route.
    pub(super) fn document(self, operation: &mut Operation) {
        let named = Extensions::builder().add(EXTENSION, self.name()).build();
        operation.extensions.get_or_insert_default().merge(named);
    }
}

/// Asks the permission of a route before its handler.
pub(super) async fn check(
    State(permission): State<Permission>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = request.extensions().get::<Caller>().ok_or_else(stranger)?;
    permission.judge(caller, session_in(request.uri().path())).map_err(ApiError::of_caller)?;
    Ok(next.run(request).await)
}

/// A route that must not be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the route `{route}` {fault}; this is a fault of the program")]
pub(crate) struct Unguarded {
    route: String,
    fault: &'static str,
}

/// Whether every route of the document has a permission that fits its path.
pub(super) fn all_guarded(document: &OpenApi) -> Result<(), Unguarded> {
    let value = serde_json::to_value(document).unwrap_or_default();
    let none = serde_json::Map::new();
    let paths = value.get("paths").and_then(Value::as_object).unwrap_or(&none);
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap_or(&none) {
            let fault = match operation.get(EXTENSION).and_then(Value::as_str) {
                Some("person") => continue,
                Some("session") if path.contains(SESSION_IN_PATH) => continue,
                Some("anyone") if !path.contains(SESSION_IN_PATH) => continue,
                Some("session") => "is of a session that its path does not name",
                Some("anyone") => "names a session and would show it to any agent",
                _ => "has no permission",
            };
            return Err(Unguarded { route: format!("{} {path}", method.to_uppercase()), fault });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Permission, all_guarded};
    use crate::{
        account::AccountScope,
        server::{
            caller::{Caller, Via},
            problem::ApiError,
        },
    };
    use maestro_protocol::{ProblemCode, SessionId};
    use serde_json::json;
    use uuid::Uuid;

    #[test]
    fn a_caller_is_served_or_told_why_not() {
        let [own, other] = [1, 2].map(|n| SessionId::from_uuid(Uuid::from_u128(n)));
        let via = Via::UnixSocket { uid: 1 };
        let person = &Caller::person(AccountScope::owner(), via);
        let agent = &Caller::agent(AccountScope::owner(), Some(own), via);
        let nobody = &Caller::agent(AccountScope::owner(), None, via);
        let check = |permission: Permission, caller: &Caller, session, expect: Option<ProblemCode>| {
            let refused = permission.judge(caller, session).err();
            assert_eq!(refused.as_ref().map(ApiError::code), expect, "{permission:?} {caller:?} {session:?}");
        };
        for permission in [Permission::Person, Permission::Session, Permission::Anyone] {
            check(permission, person, Some(other), None);
        }
        check(Permission::Person, agent, Some(own), Some(ProblemCode::AgentPeer));
        check(Permission::Session, agent, Some(own), None);
        check(Permission::Session, agent, Some(other), Some(ProblemCode::NotFound));
        check(Permission::Session, agent, None, Some(ProblemCode::NotFound));
        check(Permission::Session, nobody, Some(own), Some(ProblemCode::NotFound));
        check(Permission::Session, nobody, None, Some(ProblemCode::NotFound));
        check(Permission::Anyone, nobody, None, None);
    }

    #[test]
    fn a_route_without_a_fitting_permission_is_found() {
        let check = |path: &str, permission: Option<&str>, expect: Option<&str>| {
            let mut operation = json!({"responses": {}});
            if let Some(permission) = permission {
                operation["x-maestro-permission"] = json!(permission);
            }
            let document = json!({
                "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {path: {"get": operation}}
            });
            let document = serde_json::from_value(document).expect("a document");
            let told = all_guarded(&document).err().map(|unguarded| unguarded.to_string());
            let is_as_expected = match (&told, expect) {
                (Some(told), Some(expect)) => told.contains(expect) && told.contains(path),
                (told, expect) => told.is_none() && expect.is_none(),
            };
            assert!(is_as_expected, "{path} {permission:?}: {told:?}");
        };
        check("/a", Some("person"), None);
        check("/a", Some("anyone"), None);
        check("/a/{id}", Some("person"), None);
        check("/a/{id}", Some("session"), None);
        check("/a", None, Some("has no permission"));
        check("/a", Some("everyone"), Some("has no permission"));
        check("/a", Some("session"), Some("does not name"));
        check("/a/{id}", Some("anyone"), Some("any agent"));
    }
}
