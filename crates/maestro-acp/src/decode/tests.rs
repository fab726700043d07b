use super::{decode, notice::NOTICE_TEXT_MAX};
use crate::{Frame, UpdateClass};
use maestro_protocol::{NoticeLine, PermissionOptionKind};
use proptest::prelude::*;
use serde_json::{Value, value::RawValue};

/// A frame in one line, so that a table can expect it.
fn shown(frame: &Frame) -> String {
    match frame {
        Frame::Update { params, kind, class } => {
            format!("{class:?} {kind} {}", String::from_utf8_lossy(params))
        }
        Frame::Notice(NoticeLine { reason, .. }) => format!("notice {reason:?}"),
        Frame::PermissionRequest(request) => {
            let options: Vec<_> = request
                .options
                .iter()
                .map(|option| format!("{}={:?}", option.option_id, option.kind))
                .collect();
            format!("permission {:?} {:?} [{}]", request.id, request.tool_call_id, options.join(" "))
        }
        Frame::CancelRequest { id } => format!("cancel {id:?}"),
        Frame::Response { id, result: Ok(result) } => format!("response {id} {}", result.get()),
        Frame::Response { id, result: Err(error) } => {
            format!(
                "response {id} {} {} {:?}",
                error.code,
                error.message,
                error.data.as_ref().map(Value::to_string)
            )
        }
        Frame::UnknownRequest { id, method } => format!("request {id:?} {method}"),
        Frame::OtherNotification { method } => format!("notification {method}"),
        Frame::StrayResponse => "stray".into(),
    }
}

#[track_caller]
fn check(line: impl AsRef<[u8]>, expect: &str) {
    assert_eq!(shown(&decode(line.as_ref())), expect);
}

#[test]
fn an_update_keeps_its_params_byte_for_byte() {
    let check = |params: &str, expect: &str| {
        check(format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#), expect);
    };
    let spaced =
        r#"{ "sessionId":"s",  "update":{"used":1.50, "sessionUpdate":"usage_update","\u0061":"\u00e9é"} }"#;
    check(spaced, &format!("State usage_update {spaced}"));
    let text =
        r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\u0000b"}}}"#;
    check(text, &format!("Content agent_message_chunk {text}"));
    check(
        r#"{"update":{"sessionUpdate":"of_tomorrow"}}"#,
        r#"Content of_tomorrow {"update":{"sessionUpdate":"of_tomorrow"}}"#,
    );
    check(r#"{"update":{"sessionUpdate":7}}"#, r#"Content  {"update":{"sessionUpdate":7}}"#);
    check(r#"{"update":{}}"#, r#"Content  {"update":{}}"#);
    let quoted = r#"{"update":{"text":"$serde_json::private::RawValue"}}"#;
    check(quoted, &format!("Content  {quoted}"));
}

#[test]
fn what_could_pass_for_a_line_of_the_daemon_is_refused() {
    let check = |params: &str| {
        check(format!(r#"{{"method":"session/update","params":{params}}}"#), "notice Refused");
    };
    check(r#"{"update":{"sessionUpdate":"plan"},"maestroEvent":"approval","row":{}}"#);
    check(r#"{"maestroEvent":null,"update":{"sessionUpdate":"plan"}}"#);
    check(r#"{"\u006daestroEvent":"turn","update":{"sessionUpdate":"plan"}}"#);
    check(r#"{"sessionId":"s"}"#);
    check(r#"{"update":[]}"#);
    check(r#"{"update":{"sessionUpdate":"plan"},"update":[]}"#);
    check(r#"[{"update":{}}]"#);
    check("null");
    super::tests::check(r#"{"method":"session/update"}"#, "notice Refused");
    // Deeper inside, the key means nothing.
    let inner = r#"{"update":{"maestroEvent":"approval"}}"#;
    super::tests::check(
        format!(r#"{{"method":"session/update","params":{inner}}}"#),
        &format!("Content  {inner}"),
    );
}

#[test]
fn what_is_no_message_is_a_notice() {
    for line in [
        "npm warn deprecated",
        "{not json}",
        "{}",
        r#"{"level":"info","msg":"listening"}"#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        "null",
        "17",
        r#""text""#,
        r#"[{"jsonrpc":"2.0","id":1,"result":null}]"#,
        r#"[1,"session/update",{"update":{}}]"#,
        r#"{"method":5}"#,
        r#"{"id":1,"id":2,"result":null}"#,
        r#"{"method":"a","method":"session/update","params":{"update":{}}}"#,
        r#"{"id":true,"method":"x"}"#,
        r#"{"id":{"n":1},"method":"x"}"#,
        r#"{"id":"\ud800","method":"x"}"#,
        r#"{"id":1,"result":null} {"id":2,"result":null}"#,
        "{\"method\":\"session/update\",\"params\":{\"update\":{\"a\":\"\0\"}}}",
        "\u{feff}{\"id\":1,\"result\":null}",
        r#"{"method":"session/update","params":{"update":{"text":"\ud800"}}}"#,
        r#"{"method":"session/update","params":{"update":{"used":1e999}}}"#,
        r#"{"method":"session/update","params":{"update":{"$serde_json::private::RawValue":"[1]"}}}"#,
        r#"{"method":"session/update","params":{"update":{},"a":[{"$serde_json::private::\u0052awValue":"1"}]}}"#,
        r#"{"method":"session/update","params":{"$serde_json::private::RawValue":"{\"maestroEvent\":\"turn\"}"}}"#,
    ] {
        check(line, "notice NotJson");
    }
    check(b"\xff{}", "notice NotUtf8");
    check(b"{\"id\":1,\"result\":\"\xc3\"}", "notice NotUtf8");
}

#[test]
fn nesting_is_measured_before_anything_is_built() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"method":"session/update","params":{{"update":{{"a":{open}{close}}}}}}}"#)
    };
    assert!(matches!(decode(nested(125).as_bytes()), Frame::Update { .. }));
    check(nested(126), "notice TooDeep");
    check(nested(100_000), "notice TooDeep");
    check("[".repeat(100_000), "notice TooDeep");
}

#[test]
fn a_notice_keeps_4_kib_of_text_cut_between_characters() {
    let check = |line: &[u8], text: &str, bytes: Option<u64>| match decode(line) {
        Frame::Notice(notice) => assert_eq!((notice.text.as_str(), notice.bytes), (text, bytes)),
        other => panic!("{other:?}"),
    };
    check(b"short", "short", None);
    check(b"a\xffb", "a\u{fffd}b", None);
    check("é".repeat(2048).as_bytes(), &"é".repeat(2048), None);
    let long = format!("x{}", "é".repeat(3000));
    check(long.as_bytes(), &format!("x{}", "é".repeat(2047)), Some(6001));
    let invalid = vec![0xff; 5000];
    check(&invalid, &"\u{fffd}".repeat(NOTICE_TEXT_MAX / 3), Some(5000));
}

#[test]
fn an_answer_has_an_id_that_a_client_gives() {
    check(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"response 1 {"a":1}"#);
    check(r#"{"result":[ 1 ],"id":18446744073709551615}"#, "response 18446744073709551615 [ 1 ]");
    check(r#"{"id":3,"result":null}"#, "response 3 null");
    check(r#"{"id":3,"result":null,"error":null}"#, "response 3 null");
    check(r#"{"id":3,"method":null,"result":1}"#, "response 3 1");
    check(r#"{"id":3,"result":"\ud800"}"#, r#"response 3 -32603 unreadable answer "\ud800" None"#);
    check(
        r#"{"id":3,"result":{"$serde_json::private::RawValue":"1"},"error":null}"#,
        r#"response 3 -32603 unreadable answer {"$serde_json::private::RawValue":"1"} None"#,
    );
    for id in ["null", "1.5", "1.0", "-1", "18446744073709551616", r#""1""#, "[1]"] {
        check(format!(r#"{{"id":{id},"result":{{}}}}"#), "stray");
    }
    check(r#"{"error":{"code":-32700,"message":"Parse error"}}"#, "stray");
}

#[test]
fn an_error_is_read_whatever_its_shape() {
    let check = |error: &str, expect: &str| check(format!(r#"{{"id":3,"error":{error}}}"#), expect);
    check(
        r#"{"code":-32000,"message":"Authentication required","data":{"a":[1]}}"#,
        r#"response 3 -32000 Authentication required Some("{\"a\":[1]}")"#,
    );
    check(r#"{"code":400,"message":"no"}"#, "response 3 400 no None");
    check(r#"{"code":1.5}"#, r#"response 3 -32603 {"code":1.5} None"#);
    check(r#""broken""#, "response 3 -32603 broken None");
    check("null", "response 3 -32603 null None");
    check(
        r#"{"code":1,"message":"\ud800"}"#,
        r#"response 3 -32603 unreadable answer {"code":1,"message":"\ud800"} None"#,
    );
    super::tests::check(r#"{"id":3,"result":1,"error":{"code":2,"message":"m"}}"#, "response 3 2 m None");
}

#[test]
fn ids_of_requests_keep_their_spelling() {
    for id in ["0", "-7", "1.50", "1e3", "123456789012345678901234567890", r#""a-b""#, r#""\u0041""#] {
        check(
            format!(r#"{{"id":{id},"method":"fs/write_text_file","params":{{}}}}"#),
            &format!("request {id} fs/write_text_file"),
        );
        check(
            format!(r#"{{"method":"$/cancel_request","params":{{"requestId":{id}}}}}"#),
            &format!("cancel {id}"),
        );
    }
}

#[test]
fn ids_are_equal_however_a_string_is_escaped() {
    let id = |token: &str| {
        let token = serde_json::from_str::<&RawValue>(token).unwrap();
        crate::RawId::read(token).unwrap()
    };
    assert_eq!(id(r#""A""#), id(r#""\u0041""#));
    assert_ne!(id(r#""1""#), id("1"));
    assert_ne!(id("1"), id("2"));
    assert_eq!(id("1"), id("1"));
}

#[test]
fn requests_and_notifications_of_other_methods_are_named() {
    check(r#"{"id":1,"method":"_x/y"}"#, "request 1 _x/y");
    check(r#"{"method":"_auth/status_update","params":[1]}"#, "notification _auth/status_update");
    check(r#"{"id":null,"method":"_x"}"#, "notification _x");
    check(r#"{"id":null,"method":"session/update","params":{"update":{}}}"#, r#"Content  {"update":{}}"#);
    check(r#"{"id":4,"method":"session/update","params":{"update":{}}}"#, "request 4 session/update");
    check(r#"{"method":"$/cancel_request","params":{"requestId":null}}"#, "notification $/cancel_request");
    check(r#"{"method":"$/cancel_request"}"#, "notification $/cancel_request");
    check(
        r#"{"method":"session/request_permission","params":{}}"#,
        "notification session/request_permission",
    );
}

#[test]
fn a_permission_request_is_read_as_far_as_it_goes() {
    let check = |params: &str, expect: &str| {
        check(format!(r#"{{"id":"r","method":"session/request_permission","params":{params}}}"#), expect);
    };
    check(
        r#"{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[
            {"optionId":"a","name":"A","kind":"allow_once"},{"optionId":"b","kind":"allow_always"},
            {"optionId":"c","kind":"reject_once"},{"optionId":"d","kind":"reject_always"},
            {"optionId":"e","kind":"allow_forever"},{"optionId":"f"},{"name":"no id"},7]}"#,
        r#"permission "r" Some("t") [a=AllowOnce b=AllowAlways c=RejectOnce d=RejectAlways e=Other f=Other]"#,
    );
    check("{}", r#"permission "r" None []"#);
    check(r#"{"options":{},"toolCall":[]}"#, r#"permission "r" None []"#);
    // It is answered, though nobody could be asked.
    check(r#"{"toolCall":{"title":"\udc00"}}"#, r#"request "r" session/request_permission"#);
    check(r#"{"$serde_json::private::RawValue":"{}"}"#, r#"request "r" session/request_permission"#);
    check("[]", r#"request "r" session/request_permission"#);
}

#[test]
fn a_permission_request_keeps_params_and_names() {
    let params =
        r#"{"sessionId":"s","_meta":{"maestro":{"x":1}},"options":[{"optionId":"a","kind":"allow_once"}]}"#;
    let line = format!(r#"{{"id":1,"method":"session/request_permission","params":{params}}}"#);
    let Frame::PermissionRequest(request) = decode(line.as_bytes()) else { panic!("no permission request") };
    assert_eq!(request.params, serde_json::from_str::<Value>(params).unwrap());
    assert_eq!(request.session_id, "s");
    assert_eq!(
        (request.options[0].name.as_str(), request.options[0].kind),
        ("a", PermissionOptionKind::AllowOnce)
    );
}

/// JSON-like text: most of it nearly a message.
fn nearly_a_message() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\ud800",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"update\"",
        "\"maestroEvent\"",
        "\"session/update\"",
        "\"session/request_permission\"",
        "\"$/cancel_request\"",
        "null",
        "1",
        "-",
        "1.5",
        "1e999",
        "true",
        " ",
        "é",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn decoding_is_total(line in prop::collection::vec(any::<u8>(), 0..200)) {
        decode(&line);
    }

    #[test]
    fn what_is_admitted_can_be_folded(line in nearly_a_message()) {
        if let Frame::Update { params, .. } = decode(line.as_bytes()) {
            let value: Value = serde_json::from_slice(&params).unwrap();
            prop_assert!(value["update"].is_object() && value.get("maestroEvent").is_none());
        }
    }

    #[test]
    fn an_update_with_any_params_is_kept_or_refused(
        pairs in prop::collection::vec(("update|maestroEvent|[a-z]{1,3}", "1|\\{\\}|\\[\\]|\"x\""), 0..4),
    ) {
        let fields: Vec<_> = pairs.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let params = format!("{{{}}}", fields.join(","));
        let forged = pairs.iter().any(|(key, _)| key == "maestroEvent");
        let update = pairs.iter().rfind(|(key, _)| key == "update").is_some_and(|(_, value)| value == "{}");
        match decode(format!(r#"{{"method":"session/update","params":{params}}}"#).as_bytes()) {
            Frame::Update { params: kept, class, .. } => {
                prop_assert!(update && !forged);
                prop_assert_eq!(class, UpdateClass::Content);
                prop_assert_eq!(kept.as_ref(), params.as_bytes());
            }
            other => {
                prop_assert!(!update || forged);
                prop_assert_eq!(shown(&other), "notice Refused");
            }
        }
    }
}
