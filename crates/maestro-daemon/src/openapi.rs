//! The API's description: OpenAPI 3.1, made of the handlers and the wire types themselves.

use crate::server::routes;
use maestro_protocol::{
    ApprovalOutcome, Frame, NoticeReason, Problem, ProblemCode, ReplayEvent, TextFrame, TranscriptDelta,
    TranscriptSnapshot,
};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "maestro",
        description = "The daemon's API, over its Unix socket. Errors are `application/problem+json` with a closed `code`.",
        license(name = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "sessions", description = "Which sessions there are, and their lives."),
        (name = "structured", description = "Prompts, approvals, history, and the socket of a session."),
        (name = "queue", description = "The messages that wait for a session's turn."),
        (name = "agents", description = "The agents that a session can have."),
        (name = "health", description = "How the daemon is."),
        (name = "usage", description = "What the agents have used."),
        (name = "audit", description = "What was done for whom."),
        (name = "openapi", description = "This document.")
    ),
    components(schemas(
        ApprovalOutcome,
        Frame,
        NoticeReason,
        Problem,
        ProblemCode,
        ReplayEvent,
        TextFrame,
        TranscriptDelta,
        TranscriptSnapshot
    ))
)]
struct Base;

/// The document, the same text for the same version.
pub fn openapi_json() -> String {
    let document = routes::documented(Base::openapi());
    let mut text = document.to_pretty_json().expect("an OpenAPI document has only plain fields");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::openapi_json;
    use maestro_protocol::{
        Frame, LastEnd, Problem, ProblemCode, ReducedState, ReplayPage, RowTimes, Session, SessionId,
        StateKey, StatePatch, Status, TextFrame, Times, Timestamp, TranscriptDelta, TurnState, Usage, View,
        json as deep,
    };
    use maestro_protocol::{RowId, TranscriptRow, TranscriptRowKind};
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json};
    use std::{collections::BTreeSet, fmt::Debug, fs, path::Path};

    fn document() -> Value {
        serde_json::from_str(&openapi_json()).expect("JSON")
    }

    /// The checked-in document. `UPDATE_OPENAPI=1` writes it anew.
    #[test]
    fn the_checked_in_document_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            fs::write(&path, openapi_json()).expect("written");
        }
        let stored = fs::read_to_string(&path).expect("docs/openapi.json");
        assert!(stored == openapi_json(), "docs/openapi.json is old: run this test with UPDATE_OPENAPI=1");
    }

    #[test]
    fn the_document_is_openapi_3_1_and_every_reference_leads_somewhere() {
        let document = document();
        assert!(document["openapi"].as_str().expect("a version").starts_with("3.1"));
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        for frames in ["Frame", "TextFrame"] {
            assert!(
                references.contains(&format!("#/components/schemas/{frames}")),
                "the socket names its frames"
            );
        }
        for reference in references {
            let target = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(target).is_some(), "{reference}");
        }
    }

    fn collect(value: &Value, references: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    references.insert(reference.clone());
                }
                fields.values().for_each(|value| collect(value, references));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }

    /// Method and path of all operations.
    #[test]
    fn these_are_the_routes() {
        let document = document();
        let paths = document["paths"].as_object().expect("paths");
        let routes = paths.iter().flat_map(|(path, item)| {
            item.as_object().expect("operations").iter().map(move |(method, operation)| {
                let responses = operation["responses"].as_object().expect("responses");
                let answers = responses.iter().map(|(status, answer)| {
                    let problem = answer["content"].get("application/problem+json").is_some();
                    let told = if problem { answer["description"].as_str().unwrap_or_default() } else { "" };
                    format!("{status} {told}").trim().replace('`', "")
                });
                json!({"route": format!("{} {path}", method.to_uppercase()), "answers": answers.collect::<Vec<_>>()})
            })
        });
        insta::assert_json_snapshot!(routes.collect::<Vec<_>>());
    }

    #[test]
    fn every_problem_code_is_told_of_a_route() {
        let told = document()["paths"].to_string();
        let codes = document();
        let codes =
            codes["components"]["schemas"]["ProblemCode"]["enum"].as_array().expect("the codes").clone();
        for code in codes {
            let name = code.as_str().expect("a text");
            // A method that is not there belongs to no operation.
            assert!(name == "method_not_allowed" || told.contains(&format!("`{name}`")), "{name}");
            serde_json::from_value::<ProblemCode>(code.clone()).expect("a code of the wire type");
        }
    }

    #[test]
    fn every_frame_reads_back_and_its_kind_is_documented() {
        let row = |kind| TranscriptRow { id: RowId::plan(), kind, data: json!({"entries": []}) };
        let at = Timestamp::from_millisecond(1);
        let times: Times = std::iter::once((RowId::plan(), RowTimes([at, at]))).collect();
        let transcript = vec![
            TranscriptDelta::Append { row: row(TranscriptRowKind::Plan) },
            TranscriptDelta::Patch { row: row(TranscriptRowKind::Plan) },
            TranscriptDelta::Remove { id: RowId::plan() },
            TranscriptDelta::AppendText { id: RowId::plan(), offset: 3, text: "x".into() },
        ];
        let state = ReducedState::default();
        let rows = vec![row(TranscriptRowKind::Plan)];
        let patch = StatePatch::of(state.clone(), &[StateKey::Turn, StateKey::Title]);
        check_frames(
            "Frame",
            &[
                Frame::TranscriptSnapshot {
                    cursor: 7,
                    rows: rows.clone(),
                    times: times.clone(),
                    older: true,
                },
                Frame::ReducedState { state: state.clone() },
                Frame::ProjectionUpdate {
                    cursor: 8,
                    transcript: transcript.clone(),
                    state: state.clone(),
                    times: Times::new(),
                },
            ],
        );
        check_frames(
            "TextFrame",
            &[
                TextFrame::TranscriptSnapshot { cursor: 7, rows, times, older: false },
                TextFrame::ReducedState { state },
                TextFrame::ProjectionUpdate { cursor: 8, transcript, state: patch, times: Times::new() },
            ],
        );
    }

    /// One sample of each kind of a union of frames.
    #[track_caller]
    fn check_frames<T: Serialize + DeserializeOwned + PartialEq + Debug>(union: &str, frames: &[T]) {
        let document = document();
        let kinds = kinds(&document["components"]["schemas"][union]);
        for frame in frames {
            let text = serde_json::to_vec(frame).expect("JSON");
            assert_eq!(deep::from_slice::<T>(&text).expect("a frame"), *frame);
            let value: Value = serde_json::from_slice(&text).expect("JSON");
            assert!(kinds.contains(value["type"].as_str().expect("a kind")), "{value}");
        }
        assert_eq!(kinds.len(), frames.len(), "a frame kind has no sample here: {kinds:?}");
    }

    /// The values of `type` in a tagged union.
    fn kinds(union: &Value) -> BTreeSet<String> {
        let mut kinds = BTreeSet::new();
        for variant in union["oneOf"].as_array().expect("a union") {
            let parts = variant["allOf"].as_array().cloned().unwrap_or_else(|| vec![variant.clone()]);
            let tags = parts.iter().filter_map(|part| part["properties"]["type"]["enum"][0].as_str());
            kinds.extend(tags.map(str::to_owned));
        }
        kinds
    }

    /// A field that is always sent, as `null` too, is required: a client's generated type has it.
    #[test]
    fn what_is_always_sent_is_required() {
        let document = document();
        let check = |schema: &str, sample: Value| {
            let listed = &document["components"]["schemas"][schema]["required"];
            let required: BTreeSet<_> =
                listed.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            let sent: BTreeSet<_> =
                sample.as_object().expect("an object").keys().map(String::as_str).collect();
            assert_eq!(required, sent, "{schema}");
        };
        let at = Timestamp::from_millisecond(1);
        let end = LastEnd { turn_id: None, reason: "error".into(), error: None, at };
        let page = ReplayPage { events: Vec::new(), next: None, prev: None };
        let session = Session {
            id: SessionId::from_uuid(uuid::Uuid::nil()),
            owner: String::new(),
            view: View::Structured,
            agent: "demo".parse().expect("a key"),
            title: String::new(),
            cwd: String::new(),
            status: Status::Dead,
            activity: None,
            activity_detail: None,
            end_reason: None,
            acp_session_id: None,
            created_at: at,
            updated_at: at,
            usage: None,
        };
        check("ReducedState", json!(ReducedState::default()));
        check("TurnState", json!(TurnState::default()));
        check("LastEnd", json!(end));
        check("Usage", json!(Usage::default()));
        check("Session", json!(session));
        check("ReplayPage", json!(page));
    }

    #[test]
    fn a_problem_has_the_fields_of_rfc_9457_that_it_needs() {
        let schema = document()["components"]["schemas"]["Problem"].clone();
        for field in ["status", "title", "detail", "code", "request_id"] {
            assert!(schema["properties"].get(field).is_some(), "{field}");
        }
        let problem = json!({"status": 400, "title": "Bad Request", "code": "invalid_request", "detail": "x", "request_id": "y"});
        serde_json::from_value::<Problem>(problem).expect("a problem without a field");
    }
}
