//! Every line that real agents were recorded to send is decoded, judged by plain JSON reading that shares nothing
//! with the decoder.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use agent_client_protocol_schema::v1::{SessionNotification, SessionUpdate};
use maestro_acp::{Frame, UpdateClass, decode, outgoing};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, fs, path::Path};

#[derive(Deserialize)]
struct Record {
    dir: String,
    line: String,
}

/// Every line that an agent sent, with the name of its trace.
fn lines() -> Vec<(String, String)> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut lines = Vec::new();
    for file in fs::read_dir(traces).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ndjson") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let record: Record = serde_json::from_str(line).unwrap();
            if record.dir == "in" {
                lines.push((name.clone(), record.line));
            }
        }
    }
    assert!(lines.len() > 5_000, "the recordings are there");
    lines
}

/// The raw text of each top-level part of a message.
fn parts(line: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(line).unwrap()
}

/// What kinds carry state and not content.
const STATE_KINDS: [&str; 5] = [
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

/// Checks one line and says what it was.
fn check(trace: &str, line: &str) -> &'static str {
    let parts = parts(line);
    let value: Value = serde_json::from_str(line).unwrap();
    let method = value["method"].as_str();
    match decode(line.as_bytes()) {
        Frame::Update { params, kind, class } => {
            assert_eq!(method, Some("session/update"), "{trace}");
            assert_eq!(params.as_ref(), parts["params"].get().as_bytes(), "{trace}");
            assert_eq!(kind, value["params"]["update"]["sessionUpdate"].as_str().unwrap(), "{trace}");
            assert_eq!(class == UpdateClass::State, STATE_KINDS.contains(&kind.as_str()), "{trace}: {kind}");
            "update"
        }
        Frame::PermissionRequest(request) => {
            assert_eq!(method, Some("session/request_permission"), "{trace}");
            assert_eq!(request.params, value["params"], "{trace}");
            assert_eq!(request.session_id, value["params"]["sessionId"], "{trace}");
            assert_eq!(
                request.tool_call_id.as_deref(),
                value["params"]["toolCall"]["toolCallId"].as_str(),
                "{trace}"
            );
            let ids: Vec<_> =
                request.options.iter().map(|option| Value::from(option.option_id.as_str())).collect();
            let sent = value["params"]["options"].as_array().unwrap();
            assert_eq!(
                ids,
                sent.iter().map(|option| option["optionId"].clone()).collect::<Vec<_>>(),
                "{trace}"
            );
            assert_echo(&outgoing::permission_cancelled(&request.id), parts["id"]);
            "permission request"
        }
        Frame::UnknownRequest { id, method: named } => {
            assert_eq!(method, Some(named.as_str()), "{trace}");
            assert_ne!(named, "session/request_permission", "{trace}");
            assert_echo(&outgoing::method_not_found(&id), parts["id"]);
            "other request"
        }
        Frame::CancelRequest { id } => {
            assert_eq!(method, Some("$/cancel_request"), "{trace}");
            assert_eq!(id.as_raw().get(), value["params"]["requestId"].to_string(), "{trace}");
            "cancel request"
        }
        Frame::OtherNotification { method: named } => {
            assert_eq!(method, Some(named.as_str()), "{trace}");
            assert!(!parts.contains_key("id") && named != "session/update", "{trace}");
            "other notification"
        }
        Frame::Response { id, result } => {
            assert_eq!((method, value["id"].as_u64()), (None, Some(id)), "{trace}");
            match result {
                Ok(result) => assert_eq!(result.get(), parts["result"].get(), "{trace}"),
                Err(error) => assert_eq!(serde_json::to_value(error).unwrap(), value["error"], "{trace}"),
            }
            "response"
        }
        Frame::StrayResponse => {
            assert!(method.is_none() && value["id"].as_u64().is_none(), "{trace}");
            "stray response"
        }
        Frame::Notice(notice) => panic!("{trace}: a real agent's line became {notice:?}"),
    }
}

#[track_caller]
fn assert_echo(answer: &[u8], id: &RawValue) {
    let answer: BTreeMap<String, &RawValue> = serde_json::from_slice(answer).unwrap();
    assert_eq!(answer["id"].get(), id.get());
}

#[test]
fn no_line_of_a_real_agent_is_lost() {
    let mut found = BTreeMap::new();
    let mut counted = BTreeMap::new();
    for (trace, line) in lines() {
        *found.entry(check(&trace, &line)).or_insert(0_usize) += 1;
        let value: Value = serde_json::from_str(&line).unwrap();
        let expect = match (value["method"].as_str(), value["id"].is_null()) {
            (Some("session/update"), true) => "update",
            (Some("$/cancel_request"), true) => "cancel request",
            (Some(_), true) => "other notification",
            (Some("session/request_permission"), false) => "permission request",
            (Some(_), false) => "other request",
            (None, true) => "stray response",
            (None, false) => "response",
        };
        *counted.entry(expect).or_insert(0) += 1;
    }
    assert_eq!(found, counted);
    assert_eq!(found.len(), 7, "the recordings hold a line of every sort: {found:?}");
}

/// Known kinds are known to the protocol's own types, so that our reading of their tags and theirs agree.
#[test]
fn the_protocols_own_types_agree_on_state_and_content() {
    let mut read = 0;
    for (trace, line) in lines() {
        let Frame::Update { params, kind, class } = decode(line.as_bytes()) else { continue };
        let Ok(typed) = serde_json::from_slice::<SessionNotification>(&params) else {
            let unknown = ["async_task_", "state_update", "terminal_update", "user_message"];
            assert!(unknown.iter().any(|start| kind.starts_with(start)), "{trace}: {kind}");
            continue;
        };
        let is_state = matches!(
            typed.update,
            SessionUpdate::AvailableCommandsUpdate(_)
                | SessionUpdate::ConfigOptionUpdate(_)
                | SessionUpdate::CurrentModeUpdate(_)
                | SessionUpdate::SessionInfoUpdate(_)
                | SessionUpdate::UsageUpdate(_)
        );
        assert_eq!(class == UpdateClass::State, is_state, "{trace}: {kind}");
        read += 1;
    }
    assert!(read > 5_000);
}
