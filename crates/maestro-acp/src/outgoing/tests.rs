use super::*;
use crate::{Frame, decode};
use agent_client_protocol_schema::v1::{self, ClientNotification, ClientRequest, ContentBlock};
use serde_json::json;

/// What a message says, with its envelope checked.
#[track_caller]
fn check(message: &[u8], expect: &Value) {
    assert!(!message.contains(&b'\n'));
    assert_eq!(&serde_json::from_slice::<Value>(message).unwrap(), expect);
}

/// Whether an agent that uses the protocol's own types can read a request.
#[track_caller]
fn as_request(message: &[u8]) -> ClientRequest {
    let message: Value = serde_json::from_slice(message).unwrap();
    ClientRequest::from_method_and_params(message["method"].as_str().unwrap(), &message["params"]).unwrap()
}

fn raw_id(token: &str) -> RawId {
    let line = format!(r#"{{"id":{token},"method":"_x"}}"#);
    match decode(line.as_bytes()) {
        Frame::UnknownRequest { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn initialize_declares_none_of_the_three_capabilities() {
    let message = initialize(1);
    let parsed: Value = serde_json::from_slice(&message).unwrap();
    let params = &parsed["params"];
    assert_eq!(params["protocolVersion"], 1);
    assert_eq!(params["clientCapabilities"]["fs"], json!({"readTextFile": false, "writeTextFile": false}));
    assert_eq!(params["clientCapabilities"]["terminal"], json!(false));
    for other in ["session", "subagents", "plan", "elicitation", "_meta"] {
        assert!(params["clientCapabilities"].get(other).is_none(), "{other}");
    }
    assert_eq!(params["clientInfo"]["name"], "maestro");
    assert!(matches!(as_request(&message), ClientRequest::InitializeRequest(_)));
}

#[test]
fn requests_are_what_the_protocol_defines() {
    let new = session_new(2, "/home/dev/project");
    check(
        &new,
        &json!({"jsonrpc": "2.0", "id": 2, "method": "session/new",
            "params": {"cwd": "/home/dev/project", "mcpServers": []}}),
    );
    assert!(matches!(as_request(&new), ClientRequest::NewSessionRequest(_)));

    let load = session_load(3, "s", "/home/dev/project");
    check(
        &load,
        &json!({"jsonrpc": "2.0", "id": 3, "method": "session/load",
            "params": {"sessionId": "s", "cwd": "/home/dev/project", "mcpServers": []}}),
    );
    assert!(matches!(as_request(&load), ClientRequest::LoadSessionRequest(_)));

    let mode = set_mode(4, "s", "default");
    check(
        &mode,
        &json!({"jsonrpc": "2.0", "id": 4, "method": "session/set_mode",
            "params": {"sessionId": "s", "modeId": "default"}}),
    );
    assert!(matches!(as_request(&mode), ClientRequest::SetSessionModeRequest(_)));

    let option = set_config_option(5, "s", "mode", &ConfigValue::Id("plan".into()));
    check(
        &option,
        &json!({"jsonrpc": "2.0", "id": 5, "method": "session/set_config_option",
            "params": {"sessionId": "s", "configId": "mode", "value": "plan"}}),
    );
    assert!(matches!(as_request(&option), ClientRequest::SetSessionConfigOptionRequest(_)));

    let flag = set_config_option(6, "s", "fast", &ConfigValue::Flag(true));
    check(
        &flag,
        &json!({"jsonrpc": "2.0", "id": 6, "method": "session/set_config_option",
            "params": {"sessionId": "s", "configId": "fast", "type": "boolean", "value": true}}),
    );
    assert!(matches!(as_request(&flag), ClientRequest::SetSessionConfigOptionRequest(_)));

    check(
        &set_model(7, "s", "opus"),
        &json!({"jsonrpc": "2.0", "id": 7, "method": "session/set_model", "params": {"sessionId": "s", "modelId": "opus"}}),
    );
}

#[test]
fn a_prompt_carries_its_blocks_as_they_are() {
    let blocks = [
        json!({"type": "text", "text": "a\nb"}),
        json!({"type": "of_tomorrow", "x": [1.50, null], "_meta": {"k": 1}}),
    ];
    let message = session_prompt(6, "s", &blocks);
    check(
        &message,
        &json!({"jsonrpc": "2.0", "id": 6, "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": blocks}}),
    );
    let ClientRequest::PromptRequest(prompt) = as_request(&session_prompt(6, "s", &blocks[..1])) else {
        panic!("no prompt")
    };
    assert!(matches!(&prompt.prompt[..], [ContentBlock::Text(text)] if text.text == "a\nb"));
}

#[test]
fn a_cancel_is_a_notification() {
    let message = session_cancel("s");
    check(&message, &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}));
    let parsed =
        ClientNotification::from_method_and_params("session/cancel", &json!({"sessionId": "s"})).unwrap();
    assert!(matches!(parsed, ClientNotification::CancelNotification(_)));
}

#[test]
fn answers_echo_ids_as_they_were_spelt() {
    for token in ["0", "-7", "1.50", "123456789012345678901234567890", r#""a-b""#, r#""\u0041""#] {
        let id = raw_id(token);
        for answer in [permission_cancelled(&id), permission_selected(&id, "o"), method_not_found(&id)] {
            let text = String::from_utf8(answer).unwrap();
            assert!(text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{token},"#)), "{text}");
        }
    }
}

#[test]
fn answers_to_permission_requests_are_what_the_protocol_defines() {
    let check = |message: Vec<u8>, expect: &v1::RequestPermissionOutcome| {
        let message: Value = serde_json::from_slice(&message).unwrap();
        let result: v1::RequestPermissionResponse =
            serde_json::from_value(message["result"].clone()).unwrap();
        assert_eq!(&result.outcome, expect);
    };
    check(permission_cancelled(&raw_id("0")), &v1::RequestPermissionOutcome::Cancelled);
    let selected = v1::SelectedPermissionOutcome::new(v1::PermissionOptionId::new("allow"));
    check(permission_selected(&raw_id("0"), "allow"), &v1::RequestPermissionOutcome::Selected(selected));
}

#[test]
fn what_is_not_implemented_is_a_json_rpc_error() {
    let message: Value = serde_json::from_slice(&method_not_found(&raw_id("9"))).unwrap();
    assert_eq!(message["error"]["code"], -32601);
    assert!(message["error"]["message"].is_string());
    assert!(message.get("result").is_none());
}
