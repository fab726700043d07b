use super::{approval, session as sessions, stream::RowStream, usage};
use crate::terminal::Paint;
use maestro_protocol::{
    Activity, AgentInfo, ContextWindow, Cost, Decision, EndReason, LastEnd, PendingApproval,
    PermissionOption, PermissionOptionKind, ReducedState, RowId, Session, Status, Timestamp, TranscriptRow,
    TranscriptRowKind, Usage, View,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A session that runs, with this id.
pub(crate) fn session(id: &str) -> Session {
    let at = Timestamp::from_millisecond(1_700_000_000_000);
    Session {
        id: id.parse().expect("a session id"),
        owner: "owner@localhost".into(),
        view: View::Structured,
        agent: "demo".parse().expect("an agent key"),
        title: "A title".into(),
        cwd: "/project".into(),
        status: Status::Running,
        activity: Some(Activity::Active),
        activity_detail: None,
        end_reason: None,
        acp_session_id: None,
        created_at: at,
        updated_at: at,
        usage: None,
    }
}

fn row(id: &str, kind: TranscriptRowKind, data: Value) -> TranscriptRow {
    TranscriptRow { id: RowId::from(id.to_owned()), kind, data }
}

fn text(id: &str, kind: TranscriptRowKind, text: &str) -> TranscriptRow {
    row(id, kind, json!({"content": {"type": "text", "text": text}}))
}

fn options() -> Vec<PermissionOption> {
    let option = |option_id: &str, name: &str, kind| PermissionOption {
        option_id: option_id.into(),
        name: name.into(),
        kind,
    };
    vec![
        option("once", "Yes", PermissionOptionKind::AllowOnce),
        option("it's always", "Yes, and \u{202e}don't ask again", PermissionOptionKind::AllowAlways),
        option("no", "No", PermissionOptionKind::RejectOnce),
    ]
}

fn pending(decisions: Vec<Decision>) -> PendingApproval {
    PendingApproval {
        nonce: None,
        row_id: RowId::from("approval:a".to_owned()),
        options: options(),
        decisions,
    }
}

/// One row of each kind, and of each form that matters.
fn rows() -> Vec<TranscriptRow> {
    use TranscriptRowKind::{AgentText, AgentThought, Approval, Notice, Plan, ToolCall, ToolDiff, User};
    let tool = |id: &str, data: Value| row(id, ToolCall, data);
    let long_output = super::lines_of((1..=14).map(|n| format!("line {n}")));
    let blocks = json!([{"type": "image", "mimeType": "image/png", "data": "…"}, {"type": "resource_link", "uri": "file:///a"}]);
    vec![
        row(
            "user:1",
            User,
            json!({
                "content": {"type": "text", "text": "Do it\nnow"}, "_meta": {"maestro": {"blocks": blocks}},
            }),
        ),
        text("thought:1", AgentThought, "I should\nlook"),
        text("agent:1", AgentText, "\u{1b}[31mSure\u{1b}[0m, **I will**.\n\n- one\n"),
        row(
            "agent:2",
            AgentText,
            json!({"content": {"type": "image", "mimeType": "image/png", "data": "…"}}),
        ),
        row(
            "plan",
            Plan,
            json!({"entries": [
                {"content": "first", "priority": "high", "status": "completed"},
                {"content": "second\nline", "priority": "low", "status": "in_progress"},
                {"content": "third", "status": "pending"},
            ]}),
        ),
        tool(
            "tool:1",
            json!({
                "toolCallId": "1", "title": "`ls`", "kind": "execute", "status": "completed",
                "content": [{"type": "content", "content": {"type": "text", "text": long_output}}],
            }),
        ),
        tool(
            "tool:2",
            json!({"toolCallId": "2", "kind": "read", "status": "failed", "rawOutput": "no such file"}),
        ),
        tool(
            "tool:3",
            json!({
                "toolCallId": "3", "title": "make", "status": "in_progress",
                "_meta": {"terminal_output_delta": {"data": "cc -c a.c\n"}, "maestro": {"settled": "interrupted"}},
            }),
        ),
        row(
            "tool:4",
            ToolDiff,
            json!({"toolCallId": "4", "title": "Edit a.txt", "status": "pending", "content": [
                {"type": "diff", "path": "/p/a.txt", "oldText": "1\n2\n3\n4\n5\n6\n7\n", "newText": "1\n2\n3\nfour\n5\n6\n7\n"},
                {"type": "diff", "path": "/p/new.txt", "oldText": null, "newText": "hello\n"},
            ]}),
        ),
        row(
            "approval:1",
            Approval,
            json!({"toolCall": {"title": "rm -rf x"}, "options": [
            {"optionId": "o", "name": "Yes", "kind": "allow_once"}]}),
        ),
        row(
            "approval:2",
            Approval,
            json!({"toolCall": {"title": "ls"}, "options": [
            {"optionId": "o", "name": "Yes", "kind": "allow_once"}],
            "_meta": {"maestro": {"outcome": {"what": "selected", "option_id": "o", "decision": "AllowOnce",
                "when": "2026-01-01T00:00:00Z", "account": "owner@localhost", "client": "cli"}}}}),
        ),
        row(
            "approval:3",
            Approval,
            json!({"toolCall": {"title": "ls"}, "options": [],
            "_meta": {"maestro": {"outcome": {"what": "cancelled", "because": "turn_cancelled",
                "when": "2026-01-01T00:00:00Z"}}}}),
        ),
        row("notice:1", Notice, json!({"reason": "too_long", "text": "a line of 9 MiB", "bytes": 9_437_184})),
        row("notice:2", Notice, json!({"sessionUpdate": "new_thing", "x": ["y"]})),
    ]
}

#[test]
fn a_transcript_is_read_from_top_to_bottom() {
    insta::assert_snapshot!(super::transcript(&rows(), Paint::Plain));
}

#[test]
fn colour_adds_nothing_to_the_words() {
    let coloured = super::transcript(&rows(), Paint::Coloured);
    assert_eq!(crate::terminal::clean(&coloured), super::transcript(&rows(), Paint::Plain));
    assert!(coloured.contains("\u{1b}["));
}

#[test]
fn rows_without_anything_to_see_are_empty() {
    let check = |kind, data: Value| assert_eq!(super::row(&row("x:1", kind, data), Paint::Plain), "");
    check(TranscriptRowKind::AgentText, json!({"content": {"type": "text", "text": "\n\n"}}));
    check(TranscriptRowKind::AgentText, json!({}));
    check(TranscriptRowKind::User, json!(null));
    check(TranscriptRowKind::Plan, json!({"entries": []}));
}

/// What a stream prints for the same row in several forms, one after the other.
#[track_caller]
fn check_stream(forms: &[TranscriptRow], expect: &str) {
    let mut stream = RowStream::new(Paint::Plain);
    let printed: String = forms.iter().map(|form| stream.row(form)).collect();
    assert_eq!(printed + &stream.end_line(), expect);
}

#[test]
fn of_a_growing_text_only_the_new_is_printed() {
    use TranscriptRowKind::{AgentText, AgentThought};
    let agent = |words: &str| text("agent:1", AgentText, words);
    check_stream(
        &[agent("Hel"), agent("Hello"), agent("Hello"), agent("Hello\n\nyou\n\n")],
        "Hello\n\nyou\n",
    );
    check_stream(&[agent("a\u{1b}"), agent("a\u{1b}[3"), agent("a\u{1b}[31mb")], "ab\n");
    check_stream(&[agent("\n\na")], "a\n");
    let thought = |words: &str| text("thought:1", AgentThought, words);
    check_stream(&[thought("I"), thought("I think"), agent("So.")], "(thinking) I think\n\nSo.\n");
    check_stream(&[agent("one"), thought("hm"), agent("one two")], "one\n\n(thinking) hm\n\n two\n");
}

#[test]
fn of_a_tool_call_each_state_is_printed_once() {
    let tool = |status: &str, output: &str| {
        let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
        row(
            "tool:1",
            TranscriptRowKind::ToolCall,
            json!({"title": "ls", "status": status, "content": content}),
        )
    };
    check_stream(
        &[
            tool("pending", ""),
            tool("in_progress", "a"),
            tool("in_progress", "a\nb"),
            tool("completed", "a\nb"),
        ],
        "● ls [pending]\n● ls [running]\n● ls [done]\n  │ a\n  │ b\n",
    );
    check_stream(&[tool("completed", "a"), tool("completed", "a")], "● ls [done]\n  │ a\n");
}

#[test]
fn an_approval_is_streamed_when_it_is_settled_and_a_prompt_never() {
    let approval = |data| row("approval:1", TranscriptRowKind::Approval, data);
    let outcome = json!({"what": "cancelled", "because": "denied", "when": "2026-01-01T00:00:00Z"});
    check_stream(
        &[
            text("user:1", TranscriptRowKind::User, "hello"),
            approval(json!({"toolCall": {"title": "ls"}})),
            approval(json!({"toolCall": {"title": "ls"}, "_meta": {"maestro": {"outcome": outcome}}})),
        ],
        "? permission for ls: denied\n",
    );
}

#[test]
fn rows_that_were_skipped_print_only_what_changes() {
    let mut stream = RowStream::new(Paint::Plain);
    for each in rows() {
        stream.skip(&each);
    }
    let again: String = rows().iter().map(|each| stream.row(each)).collect();
    assert_eq!(again, "");
    let grown =
        text("agent:1", TranscriptRowKind::AgentText, "\u{1b}[31mSure\u{1b}[0m, **I will**.\n\n- one\n- two");
    assert_eq!(stream.row(&grown), "- two");
}

#[test]
fn a_question_shows_everything_and_hides_nothing() {
    let tool_row = json!({
        "toolCallId": "1", "status": "pending", "title": "old title", "kind": "execute",
        "locations": [{"path": "/p/a", "line": 3}], "_meta": {"maestro": {"settled": "interrupted"}},
    });
    let script = format!("cd /tmp\nrm -rf ./x  \n{}", "\n".repeat(20));
    let request = json!({
        "sessionId": "s", "options": [],
        "toolCall": {"toolCallId": "1", "title": "Run \u{1b}[2Jsomething", "kind": null, "rawInput": {
            "command": script, "argv": ["rm ", "--", "a\u{202e}b\u{200b}c"], "a \"key\"\n": "x\\n", "nested": {"deep": [[1, true, null]]},
            "empty": {}, "tags": "\u{e0041}\u{e0042}", "tab": "a\tb",
        }},
    });
    let all = pending(vec![Decision::AllowOnce, Decision::AllowForSession, Decision::Deny]);
    let question = approval::question(&request, Some(&tool_row), "/project\n/evil", &all, Paint::Plain);
    let keys = approval::keys(&all, Paint::Plain);
    let commands = approval::commands("8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11".parse().expect("an id"), &all);
    insta::assert_snapshot!(format!("{question}{keys}\n\n{commands}"));
}

#[test]
fn a_long_command_is_not_cut() {
    let command = "x".repeat(100_000);
    let request = json!({"toolCall": {"rawInput": {"command": command}}});
    let question = approval::question(&request, None, "/", &pending(vec![Decision::Deny]), Paint::Plain);
    assert!(question.contains(&command));
}

#[test]
fn a_key_is_a_decision_that_is_offered() {
    use Decision::{AllowForSession, AllowOnce, Deny};
    let check = |decisions: &[Decision], typed: &str, expect: Option<Decision>| {
        assert_eq!(approval::read_answer(typed, &pending(decisions.to_vec())).ok(), expect, "{typed:?}");
    };
    check(&[AllowOnce, AllowForSession, Deny], "a", Some(AllowOnce));
    check(&[AllowOnce, AllowForSession, Deny], " s ", Some(AllowForSession));
    check(&[AllowOnce, Deny], "s", None);
    check(&[AllowForSession, Deny], "a", None);
    check(&[Deny], "d", Some(Deny));
    check(&[Deny], "2", Some(Decision::Option("it's always".into())));
    for typed in ["0", "4", "-1", "", "y", "yes", "A", "aa"] {
        check(&[AllowOnce, AllowForSession, Deny], typed, None);
    }
    assert_eq!(approval::keys(&pending(vec![Deny]), Paint::Plain), "d = deny, or an option's number: ");
}

#[test]
fn sessions_and_agents_are_tables() {
    let mut list = vec![
        session("8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11"),
        session("8f14e45f-ceeb-467f-a8f3-1d6d0e3b2c12"),
        session("0a14e45f-ceea-467f-a8f3-1d6d0e3b2c13"),
    ];
    list[1].activity = Some(Activity::Waiting);
    list[1].title =
        "漢字 \u{1b}[2J and a title that is much longer than a column of a table may ever become".into();
    list[2].status = Status::Dead;
    list[2].activity = None;
    list[2].end_reason = Some(EndReason::AdapterMissing);
    list[2].activity_detail = Some("install it with: npm install".into());
    let now = Timestamp::from_millisecond(1_700_000_000_000 + 7_300_000);
    let agent = |key: &str, program: Option<&str>, install: Option<&str>, default| AgentInfo {
        key: key.parse().expect("an agent key"),
        name: key.to_uppercase(),
        default,
        program: program.map(str::to_owned),
        version: program.map(|_| "1.2.3".to_owned()),
        missing: program.is_none().then(|| "it is nowhere\u{1b}[2J".to_owned()),
        install: install.map(str::to_owned),
        sign_in: None,
    };
    let agents = [
        agent("a", None, Some("npm install x"), true),
        agent("b", None, None, false),
        agent("long-name", Some("/bin/l"), None, false),
    ];
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}\n{}",
        sessions::table(&list, now, Paint::Plain),
        sessions::facts(&list[0], now, Paint::Plain),
        sessions::facts(&list[2], now, Paint::Plain),
        sessions::agents(&agents, Paint::Plain),
    ));
}

#[test]
fn usage_is_one_line() {
    let check = |state: &ReducedState, expect: Option<&str>| {
        assert_eq!(usage::line(state, Paint::Plain).as_deref(), expect);
    };
    check(&ReducedState::default(), None);
    let context = Some(ContextWindow { used: 12_345, size: 200_000 });
    check(
        &ReducedState { context, ..ReducedState::default() },
        Some("context 12,345 of 200,000 tokens (6%)\n"),
    );
    let last_turn = Some(json!({"usage": {"inputTokens": 1500, "outputTokens": 20}}));
    let cost = Some(Cost { amount: 0.0123, currency: "USD".into() });
    let usage = Some(Usage { cost, last_turn });
    let context = Some(ContextWindow { used: 1, size: 0 });
    check(
        &ReducedState { context, usage, ..ReducedState::default() },
        Some("context 1 of 0 tokens · turn 1,500 tokens in, 20 out · cost so far 0.0123 USD\n"),
    );
}

#[test]
fn a_turns_end_names_its_error() {
    let at = Timestamp::from_millisecond(0);
    let error = Some(json!({"code": -32000, "message": "sign in\u{7} first"}));
    let end = LastEnd { turn_id: None, reason: "error".into(), error, at };
    assert_eq!(usage::turn_end(&end, Paint::Plain), "turn ended: error: sign in first\n");
}

fn any_json() -> impl Strategy<Value = Value> {
    let words =
        prop_oneof!["\\PC{0,8}", any::<String>().prop_map(|text| text.chars().take(8).collect::<String>())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("content"),
        Just("type"),
        Just("text"),
        Just("title"),
        Just("status"),
        Just("entries"),
        Just("toolCall"),
        Just("rawInput"),
        Just("_meta"),
        Just("maestro"),
        Just("outcome"),
        Just("options"),
        Just("path"),
        Just("newText"),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name.clone(), inner), 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn any_kind() -> impl Strategy<Value = TranscriptRowKind> {
    use TranscriptRowKind::{AgentText, AgentThought, Approval, Notice, Plan, ToolCall, ToolDiff, User};
    prop_oneof![
        Just(User),
        Just(AgentText),
        Just(AgentThought),
        Just(ToolCall),
        Just(ToolDiff),
        Just(Approval),
        Just(Plan),
        Just(Notice),
    ]
}

proptest! {
    /// Whatever an agent sends, nothing but words reaches the terminal, and nothing panics.
    #[test]
    fn no_row_commands_the_terminal(kind in any_kind(), data in any_json(), request in any_json()) {
        let any_row = row("x:1", kind, data.clone());
        let mut stream = RowStream::new(Paint::Plain);
        let question = approval::question(&request, Some(&data), "/", &pending(vec![Decision::Deny]), Paint::Plain);
        let shown = [super::row(&any_row, Paint::Plain), stream.row(&any_row), question];
        for text in shown {
            prop_assert_eq!(crate::terminal::clean(&text), text);
        }
    }
}
