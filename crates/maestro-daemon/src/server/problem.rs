//! The one place where errors become problem documents (CONTRACT §11.3).

use crate::{registry::CreateError, session::SessionError};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use maestro_protocol::{Problem, ProblemCode};
use std::{error::Error, io, iter, sync::Arc};
use uuid::Uuid;

/// The media type of RFC 9457.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// The longest `detail`, in characters: it may quote what a caller or an agent wrote.
const DETAIL_MAX_CHARS: usize = 500;

/// Why a request failed. It becomes a problem document once the request's id is known.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    code: ProblemCode,
    detail: String,
    field: Option<String>,
    /// For the log only.
    cause: Option<Arc<dyn Error + Send + Sync>>,
    blames: Blames,
}

/// What a request was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blames {
    Request,
    Caller,
}

impl ApiError {
    pub(super) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None, cause: None, blames: Blames::Request }
    }

    pub(super) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::InvalidRequest, detail).at(field)
    }

    pub(super) fn at(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// The same of a value inside of a field.
    pub(super) fn within(self, outer: &str) -> Self {
        let field = self.field.map_or_else(|| outer.to_owned(), |inner| format!("{outer}.{inner}"));
        Self { field: Some(field), ..self }
    }

    pub(super) fn not_found() -> Self {
        Self::new(ProblemCode::NotFound, "there is no such thing here, or it is not yours")
    }

    /// A defect. What it was goes to the log, not to the caller.
    pub(super) fn internal(cause: impl Error + Send + Sync + 'static) -> Self {
        let detail = "the daemon failed at this request: its log has more under the request's id";
        Self { cause: Some(Arc::new(cause)), ..Self::new(ProblemCode::Internal, detail) }
    }

    /// The same, as a refusal of whoever asked: the audit log tells of it.
    pub(super) fn of_caller(self) -> Self {
        Self { blames: Blames::Caller, ..self }
    }

    pub(super) fn is_of_caller(&self) -> bool {
        self.blames == Blames::Caller
    }

    pub(super) fn code(&self) -> ProblemCode {
        self.code
    }

    pub(super) fn cause(&self) -> Option<&(dyn Error + Send + Sync)> {
        self.cause.as_deref()
    }

    fn document(&self, request_id: Uuid) -> Problem {
        let status = status(self.code);
        Problem {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or_default().into(),
            code: self.code,
            detail: showable(&self.detail),
            field: self.field.as_deref().map(showable),
            request_id: request_id.to_string(),
        }
    }

    /// Puts the document into the answer that stands for this error.
    pub(super) fn fill(&self, response: &mut Response, request_id: Uuid) {
        let text = serde_json::to_vec(&self.document(request_id)).expect("a problem has only plain fields");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
        *response.body_mut() = Body::from(text);
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(self.code);
        if self.code == ProblemCode::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The status of each code.
pub(crate) fn status(code: ProblemCode) -> StatusCode {
    match code {
        ProblemCode::InvalidRequest
        | ProblemCode::DecisionNotOffered
        | ProblemCode::NotOffered
        | ProblemCode::UnknownAgent
        | ProblemCode::InvalidCwd => StatusCode::BAD_REQUEST,
        ProblemCode::AgentPeer | ProblemCode::UnknownPeer => StatusCode::FORBIDDEN,
        ProblemCode::NotFound => StatusCode::NOT_FOUND,
        ProblemCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::NotStructured
        | ProblemCode::TurnInFlight
        | ProblemCode::Starting
        | ProblemCode::AlreadyRunning
        | ProblemCode::CwdMissing
        | ProblemCode::CannotResume
        | ProblemCode::AgentRefused
        | ProblemCode::LogFailed
        | ProblemCode::QueueFull => StatusCode::CONFLICT,
        ProblemCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ProblemCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ProblemCode::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        ProblemCode::Busy => StatusCode::SERVICE_UNAVAILABLE,
        ProblemCode::AgentSilent => StatusCode::GATEWAY_TIMEOUT,
        ProblemCode::LogUnwritable => StatusCode::INSUFFICIENT_STORAGE,
        ProblemCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::NotStructured => ProblemCode::NotStructured,
            SessionError::TurnInFlight => ProblemCode::TurnInFlight,
            SessionError::Starting => ProblemCode::Starting,
            SessionError::AlreadyRunning => ProblemCode::AlreadyRunning,
            SessionError::CwdMissing { .. } => ProblemCode::CwdMissing,
            SessionError::CannotResume { .. } => ProblemCode::CannotResume,
            SessionError::DecisionNotOffered => {
                return Self::new(ProblemCode::DecisionNotOffered, error.to_string()).at("decision");
            }
            SessionError::NotOffered { field, .. } => {
                return Self::new(ProblemCode::NotOffered, error.to_string()).at(*field);
            }
            SessionError::AgentRefused { .. } => ProblemCode::AgentRefused,
            SessionError::AgentSilent { .. } => ProblemCode::AgentSilent,
            SessionError::LogFailed { .. } => ProblemCode::LogFailed,
            SessionError::LogUnwritable | SessionError::QueueUnwritable => ProblemCode::LogUnwritable,
            SessionError::NoSuchItem => ProblemCode::NotFound,
            SessionError::QueueFull { .. } => ProblemCode::QueueFull,
            SessionError::QueueUnreadable => ProblemCode::Internal,
            SessionError::KeyReused => ProblemCode::IdempotencyKeyReused,
            SessionError::Busy | SessionError::Gone => ProblemCode::Busy,
        };
        Self::new(code, error.to_string())
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        let detail = error.to_string();
        match &error {
            CreateError::UnknownAgent { .. } => Self::new(ProblemCode::UnknownAgent, detail).at("agent"),
            CreateError::InvalidCwd { .. } => Self::new(ProblemCode::InvalidCwd, detail).at("cwd"),
            CreateError::KeyReused => SessionError::KeyReused.into(),
            CreateError::ShuttingDown => Self::new(ProblemCode::Busy, detail),
            CreateError::Store { .. } if is_full(&error) => {
                let detail = "the disk is full: free some space, then try again";
                Self { cause: Some(Arc::new(error)), ..Self::new(ProblemCode::LogUnwritable, detail) }
            }
            CreateError::Store { .. } => Self::internal(error),
        }
    }
}

/// Whether a full disk is at the bottom of an error.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    iter::successors(Some(error), |&error| error.source()).filter_map(|error| error.downcast_ref()).any(full)
}

/// Bounded, on one line, and without characters that a terminal would obey.
pub(super) fn showable(text: &str) -> String {
    let mut shown = String::new();
    for (position, c) in text.chars().enumerate() {
        match c {
            _ if position == DETAIL_MAX_CHARS => {
                shown.push('…');
                break;
            }
            c if c.is_control() || is_bidi_control(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that reorder or hide what stands beside them.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{DETAIL_MAX_CHARS, showable};

    #[test]
    fn details_show_hostile_text_harmlessly() {
        let check = |text: &str, expect: &str| assert_eq!(showable(text), expect);
        check("plain «text»", "plain «text»");
        check("a\u{1b}[2Jb\n", "a\\u{1b}[2Jb\\u{a}");
        check("\u{202e}txt.exe", "\\u{202e}txt.exe");
        let long = "x".repeat(DETAIL_MAX_CHARS + 10);
        check(&long, &format!("{}…", "x".repeat(DETAIL_MAX_CHARS)));
    }
}
