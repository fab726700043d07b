//! Request bodies: read within bounds, then read as JSON with the offending field named.

use super::problem::ApiError;
use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use maestro_protocol::{
    ApprovalAnswer, CreateSession, EditQueueItem, ProblemCode, PromptBody, RenameSession, SetConfig, SetMode,
    SetModel, json,
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::time::Duration;

/// The longest body of most requests.
pub(super) const BODY_MAX_BYTES: usize = 1024 * 1024;

/// The longest body of a prompt, which may hold pictures.
pub(super) const PROMPT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// What is read and thrown away of a body that is refused. A socket that is closed with bytes unread takes the answer
/// with it, and the caller would see a broken connection instead of the reason.
const DISCARD_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The deepest nesting of a request. Deeper values could not be relayed in frames that clients can read.
const DEPTH_MAX: usize = 64;

/// A type that a request's body holds.
pub(super) trait RequestBody: DeserializeOwned {
    /// The longest body, in bytes.
    const MAX_BYTES: usize = BODY_MAX_BYTES;
    /// The field that may nest, for a body that nests too deep.
    const NESTING_FIELD: Option<&'static str> = None;
    /// Fields of the API that this version refuses, with the reason.
    const REFUSED: &'static [(&'static str, &'static str)] = &[];
}

impl RequestBody for CreateSession {
    const MAX_BYTES: usize = PROMPT_MAX_BYTES;
    const NESTING_FIELD: Option<&'static str> = Some("prompt");
    const REFUSED: &'static [(&'static str, &'static str)] = &[
        ("worktree", "this build has no worktrees: leave `worktree` out and give a `cwd`"),
        ("commander", "this build has no commanders: leave `commander` out"),
        ("trust", "this build has no trust setting: leave `trust` out"),
    ];
}
impl RequestBody for RenameSession {}
impl RequestBody for SetMode {}
impl RequestBody for SetModel {}
impl RequestBody for SetConfig {}
impl RequestBody for ApprovalAnswer {}
impl RequestBody for EditQueueItem {
    const MAX_BYTES: usize = PROMPT_MAX_BYTES;
    const NESTING_FIELD: Option<&'static str> = Some("content");
}
impl RequestBody for PromptBody {
    const MAX_BYTES: usize = PROMPT_MAX_BYTES;
    const NESTING_FIELD: Option<&'static str> = Some("content");
}

/// The body of a request that needs none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
impl RequestBody for Nothing {}

/// A body, read as JSON. An empty one counts as `{}`.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: RequestBody, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let body = read(request.into_body(), T::MAX_BYTES).await?;
        parse(&body).map(Self)
    }
}

/// Reads a body of at most `max` bytes.
pub(super) async fn read(body: Body, max: usize) -> Result<Bytes, ApiError> {
    let late = |_| ApiError::new(ProblemCode::InvalidRequest, "the body did not arrive within 30 seconds");
    tokio::time::timeout(BODY_TIMEOUT, gather(body, max)).await.map_err(late)?
}

async fn gather(mut body: Body, max: usize) -> Result<Bytes, ApiError> {
    let mut kept = BytesMut::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| ApiError::new(ProblemCode::InvalidRequest, "the body broke off before its end");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen <= max {
            kept.extend_from_slice(&data);
        } else if seen > DISCARD_MAX_BYTES {
            break;
        } else {
            kept = BytesMut::new();
        }
    }
    if seen <= max { Ok(kept.freeze()) } else { Err(too_large(max)) }
}

/// Reads a refused request's body to its end, within bounds, and forgets it.
pub(super) async fn discard(body: Body) {
    if let Err(problem) = read(body, 0).await {
        tracing::trace!(code = ?problem.code(), "a refused request had a body");
    }
}

fn too_large(max: usize) -> ApiError {
    let detail = format!("the body is longer than the {} MiB that this route takes", max / (1024 * 1024));
    ApiError::new(ProblemCode::BodyTooLarge, detail)
}

/// Reads JSON as `T`, or says which field is wrong and why.
pub(super) fn parse<T: RequestBody>(body: &[u8]) -> Result<T, ApiError> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    if json::depth(body) > DEPTH_MAX {
        let error = ApiError::new(ProblemCode::InvalidRequest, "the body nests deeper than 64 levels");
        return Err(match T::NESTING_FIELD {
            Some(field) => error.at(field),
            None => error,
        });
    }
    // A structure would also be read from an array, by position.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(not_json(body).unwrap_or_else(|| {
            ApiError::new(ProblemCode::InvalidRequest, "the body must be a JSON object")
        }));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| (error.path().to_string(), error.into_inner()))
        .and_then(|value| deserializer.end().map(|()| value).map_err(|error| (String::new(), error)))
        .map_err(|(path, error)| not_json(body).unwrap_or_else(|| explain::<T>(&path, &error)))
}

/// The complaint about a text that is no JSON at all.
fn not_json(body: &[u8]) -> Option<ApiError> {
    let error = serde_json::from_slice::<IgnoredAny>(body).err()?;
    Some(ApiError::new(ProblemCode::InvalidRequest, format!("the body is not JSON: {error}")))
}

/// The complaint about JSON that is not a `T`.
fn explain<T: RequestBody>(path: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let wrong = Wrong::read(path, reason);
    let field = wrong.field;
    if let Some((_, sentence)) = T::REFUSED.iter().find(|(name, _)| *name == field) {
        return ApiError::invalid(field, *sentence);
    }
    match field.as_str() {
        "view" if reason.starts_with("unknown variant `Terminal`") => {
            ApiError::invalid(field, "this build has no terminal sessions: give `view` as `Structured`")
        }
        "agent" if reason.starts_with("no valid ") => ApiError::new(
            ProblemCode::UnknownAgent,
            "`agent` is not the key of any agent: `GET /api/agents` lists them",
        )
        .at(field),
        "" | "." => ApiError::new(ProblemCode::InvalidRequest, format!("the body: {reason}")),
        _ => ApiError::invalid(field, wrong.sentence),
    }
}

/// The field that serde complains about, and what about it.
struct Wrong {
    field: String,
    sentence: String,
}

impl Wrong {
    /// For a missing or doubled field the path names what should hold it, and the reason names the field itself.
    fn read(path: &str, reason: &str) -> Self {
        let within = |name: &str| match path {
            "" | "." => name.to_owned(),
            path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
            path => format!("{path}.{name}"),
        };
        let named = |start: &str| reason.strip_prefix(start).and_then(|rest| rest.split_once('`'));
        if let Some((name, _)) = named("missing field `") {
            let field = within(name);
            return Self { sentence: format!("`{field}` is missing"), field };
        }
        if let Some((name, _)) = named("duplicate field `") {
            let field = within(name);
            return Self { sentence: format!("`{field}` is given twice"), field };
        }
        let field = path.to_owned();
        let last = path.rsplit('.').next().unwrap_or_default();
        let sentence = if let Some(known) = reason.strip_prefix(&format!("unknown field `{last}`, ")) {
            format!("there is no field `{field}`: {known}")
        } else if reason == "expected value" {
            format!("`{field}` has a wrong type")
        } else {
            format!("`{field}`: {reason}")
        };
        Self { field, sentence }
    }
}
