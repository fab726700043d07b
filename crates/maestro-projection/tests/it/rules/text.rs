use super::{AGENT, CLOCK, ENDED, STARTED, THOUGHT, USER, approval, bare, check, chunk, tool, update};
use serde_json::json;

#[test]
fn chunks_of_a_message_make_one_row() {
    check(
        &[chunk(AGENT, "m", "a"), chunk(AGENT, "m", "b"), chunk(AGENT, "n", "c"), chunk(AGENT, "m", "d")],
        &[
            r#"agent:m AgentText {"content":{"type":"text","text":"abd"},"messageId":"m"}"#,
            r#"agent:n AgentText {"content":{"type":"text","text":"c"},"messageId":"n"}"#,
        ],
    );
}

#[test]
fn a_message_id_makes_a_row_per_voice() {
    check(
        &[chunk(THOUGHT, "m", "a"), chunk(AGENT, "m", "b"), chunk(USER, "m", "c")],
        &[
            r#"thought:m AgentThought {"content":{"type":"text","text":"a"},"messageId":"m"}"#,
            r#"agent:m AgentText {"content":{"type":"text","text":"b"},"messageId":"m"}"#,
            r#"user:m User {"content":{"type":"text","text":"c"},"messageId":"m"}"#,
        ],
    );
}

#[test]
fn chunks_without_id_continue_the_last_row_of_their_voice() {
    check(
        &[bare(AGENT, "a"), bare(AGENT, "b"), bare(THOUGHT, "c"), bare(AGENT, "d")],
        &[
            r#"agent:1 AgentText {"content":{"type":"text","text":"ab"}}"#,
            r#"thought:3 AgentThought {"content":{"type":"text","text":"c"}}"#,
            r#"agent:4 AgentText {"content":{"type":"text","text":"d"}}"#,
        ],
    );
    check(
        &[chunk(AGENT, "m", "a"), bare(AGENT, "b")],
        &[r#"agent:m AgentText {"content":{"type":"text","text":"ab"},"messageId":"m"}"#],
    );
}

/// The texts of the rows whose ids begin with `agent:`.
#[track_caller]
fn check_agent_texts(lines: &[String], expect: &[&str]) {
    let rows = super::folded(lines).snapshot().rows;
    let rows = rows.iter().filter(|row| row.id.as_str().starts_with("agent:"));
    let texts = rows.map(|row| row.data["content"]["text"].as_str().unwrap_or("-")).collect::<Vec<_>>();
    assert_eq!(texts, expect);
}

#[test]
fn what_comes_between_decides_whether_a_row_goes_on() {
    let known = vec![
        tool("tool_call", json!({"title": "T"})),
        update(json!({"sessionUpdate": "plan", "entries": []})),
        approval(&json!({"toolCallId": "t"})),
    ];
    let check = |between: String, goes_on: bool| {
        let mut lines = known.clone();
        lines.extend([bare(AGENT, "a"), between.clone(), bare(AGENT, "b")]);
        check_agent_texts(&lines, if goes_on { &["ab"] } else { &["a", "b"] });
    };
    check(CLOCK.into(), true);
    check("not json".into(), true);
    check(update(json!({"sessionUpdate": "usage_update", "used": 1})), true);
    check(r#"{"maestroEvent":"later kind"}"#.into(), true);
    check(super::RESOLVED.into(), true);
    check(tool("tool_call_update", json!({"title": "U"})), true);
    check(tool("tool_call_update", json!({"status": "completed"})), true);
    check(update(json!({"sessionUpdate": "plan", "entries": [1]})), true);

    check(update(json!({"sessionUpdate": "tool_call", "toolCallId": "new"})), false);
    check(update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "new"})), false);
    check(approval(&json!({"toolCallId": "t"})), false);
    check(update(json!({"sessionUpdate": "later_kind"})), false);
    check(bare(USER, "c"), false);
    check(STARTED.into(), false);
    check(ENDED.into(), false);
    check(super::LOADED.into(), false);
}

#[test]
fn a_chunk_without_text_and_id_makes_no_row_and_ends_the_message() {
    check::<String>(&[bare(AGENT, ""), bare(THOUGHT, "")], &[]);
    check_agent_texts(&[bare(AGENT, ""), bare(AGENT, "a"), bare(AGENT, ""), bare(AGENT, "b")], &["a", "b"]);
    check_agent_texts(&[chunk(AGENT, "m", "a"), chunk(AGENT, "m", ""), chunk(AGENT, "m", "b")], &["ab"]);
    check_agent_texts(&[chunk(AGENT, "m", "")], &[""]);
}

#[test]
fn speakers_told_apart_only_in_meta_do_not_share_a_row() {
    let of = |text: &str, meta: serde_json::Value| {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text},
            "_meta": meta}))
    };
    check_agent_texts(
        &[
            of("a", json!({"parentToolCallId": "t1"})),
            of("b", json!({"parentToolCallId": "t1", "other": 1})),
            bare(AGENT, "c"),
            of("d", json!({"claudeCode": {"parentToolUseId": "t2"}})),
            of("e", json!({"source": "x"})),
            of("f", json!({"source": "x"})),
            of("g", json!({"source": "y"})),
        ],
        &["ab", "c", "d", "ef", "g"],
    );
}

#[test]
fn a_block_that_is_not_text_is_a_row_of_its_own() {
    let image = |id: Option<&str>| {
        let image =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}});
        let mut image = image;
        if let Some(id) = id {
            image["messageId"] = id.into();
        }
        update(image)
    };
    check(
        &[chunk(AGENT, "m", "a"), image(Some("m")), image(None), bare(AGENT, "b"), chunk(AGENT, "m", "c")],
        &[
            r#"agent:m AgentText {"content":{"type":"text","text":"ac"},"messageId":"m"}"#,
            r#"agent:2 AgentText {"content":{"type":"image","data":"x"},"messageId":"m"}"#,
            r#"agent:3 AgentText {"content":{"type":"image","data":"x"}}"#,
            r#"agent:4 AgentText {"content":{"type":"text","text":"b"}}"#,
        ],
    );
}

const PROMPT: &str = r#"{"update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"do it"},"messageId":"p","_meta":{"maestro":{"blocks":[{"type":"text","text":"and that"},{"type":"image","data":"x"}]}}}}"#;
const PROMPT_ROW: &str = r#"user:p User {"content":{"type":"text","text":"do it"},"messageId":"p","_meta":{"maestro":{"blocks":[{"type":"text","text":"and that"},{"type":"image","data":"x"}]}}}"#;

#[test]
fn an_echo_of_the_open_prompt_makes_no_row() {
    let image =
        update(json!({"sessionUpdate": "user_message_chunk", "content": {"type": "image", "data": "x"}}));
    check(
        &[
            STARTED.to_owned(),
            PROMPT.to_owned(),
            bare(USER, "do it"),
            chunk(USER, "e", "and that"),
            chunk(USER, "p", "do it"),
            image,
            PROMPT.to_owned(),
        ],
        &[PROMPT_ROW],
    );
}

#[test]
fn what_is_no_echo_makes_a_row_and_never_lengthens_the_prompt() {
    check(
        &[
            STARTED.to_owned(),
            PROMPT.to_owned(),
            bare(USER, "do"),
            chunk(USER, "p", " it"),
            chunk(USER, "q", "x"),
        ],
        &[
            PROMPT_ROW,
            r#"user:3 User {"content":{"type":"text","text":"do it"}}"#,
            r#"user:q User {"content":{"type":"text","text":"x"},"messageId":"q"}"#,
        ],
    );
    check(
        &[STARTED.to_owned(), PROMPT.to_owned(), ENDED.to_owned(), bare(USER, "do it")],
        &[PROMPT_ROW, r#"user:4 User {"content":{"type":"text","text":"do it"}}"#],
    );
    check(
        &[STARTED.to_owned(), PROMPT.to_owned(), bare(AGENT, "do it")],
        &[PROMPT_ROW, r#"agent:3 AgentText {"content":{"type":"text","text":"do it"}}"#],
    );
}

#[test]
fn a_chunk_before_the_daemons_own_is_no_echo() {
    check(
        &[STARTED.to_owned(), bare(USER, "do it"), PROMPT.to_owned()],
        &[r#"user:2 User {"content":{"type":"text","text":"do it"}}"#, PROMPT_ROW],
    );
}
