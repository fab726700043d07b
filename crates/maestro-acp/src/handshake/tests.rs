use super::{HandshakeError, Opened, Phase, SessionOpen, open};
use crate::{
    AgentEntry, AgentTable, Connection, Frame, HANDSHAKE_TIMEOUT, Setting, SettingRefused, StderrTail,
};
use maestro_protocol::ConfigValue;
use serde_json::{Value, json};
use std::{error::Error as _, time::Duration};
use tokio::{
    io::{AsyncWriteExt as _, duplex},
    time::{Instant, sleep, timeout},
};

mod agent;
mod wishes;
use agent::{Agent, connect};

fn entry(key: &str) -> AgentEntry {
    AgentTable::built_in().get(&key.parse().unwrap()).unwrap().clone()
}

fn fresh() -> SessionOpen {
    SessionOpen::New { cwd: "/tmp".into() }
}

fn load() -> SessionOpen {
    SessionOpen::Load { id: "s".into(), cwd: "/tmp".into() }
}

/// What came of a handshake with an agent that a test plays.
struct Shaken {
    opened: Result<Opened, HandshakeError>,
    took: Duration,
    /// What was left in the connection, up to the agent's end.
    rest: Vec<String>,
}

/// Opens a session with an agent that plays `part`, and plays it to its end: a client that failed is gone, another
/// listens.
async fn shake<F: Future<Output = ()> + Send + 'static>(
    key: &str,
    wanted: SessionOpen,
    mode: Option<&str>,
    part: impl FnOnce(Agent) -> F,
) -> Shaken {
    let (mut connection, agent) = connect();
    let part = tokio::spawn(part(agent));
    let before = Instant::now();
    let (entry, wishes) = (entry(key), mode.map(|mode| Setting::Mode(mode.into())).into_iter().collect());
    let opening = async move { (open(&mut connection, &entry, wanted, wishes).await, connection) };
    let (opened, mut connection) = tokio::spawn(opening).await.unwrap();
    let took = before.elapsed();
    assert!(took <= HANDSHAKE_TIMEOUT);
    let rest = if opened.is_ok() { rest(&mut connection).await } else { Vec::new() };
    drop(connection);
    timeout(HANDSHAKE_TIMEOUT, part).await.expect("the part has an end").unwrap();
    Shaken { opened, took, rest }
}

/// The settings that are in force, or the first that is not.
fn settings(opened: &Opened) -> Result<Vec<Setting>, SettingRefused> {
    opened.settled.iter().cloned().map(|settled| settled.map(|settled| settled.setting)).collect()
}

fn mode(id: &str) -> Setting {
    Setting::Mode(id.into())
}

fn texts<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Vec<String> {
    frames
        .into_iter()
        .map(|frame| match frame {
            Frame::Update { params, .. } => {
                let value: Value = serde_json::from_slice(params).unwrap();
                value["update"]["text"].as_str().unwrap_or_default().to_owned()
            }
            Frame::Notice(notice) => notice.text.clone(),
            Frame::Response { id, .. } => format!("response {id}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// What is still in the connection after the handshake, up to its end.
async fn rest(connection: &mut Connection) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some(batch) = connection.next_batch().await {
        frames.extend(texts(&batch.frames));
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn a_fresh_session_opens_and_tells_what_the_agent_offers() {
    let models = json!({"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]});
    let modes = json!({"currentModeId": "default", "availableModes": []});
    let result = json!({"models": models, "modes": modes, "configOptions": null});
    let Shaken { opened, .. } =
        shake("claude-code-acp", fresh(), None, |mut agent| async move { agent.opened(result).await }).await;
    let opened = opened.unwrap();
    assert_eq!(opened.acp_session_id, "s");
    assert!(opened.load_supported && opened.kept.is_empty());
    assert_eq!(settings(&opened), Ok(vec![]));
    assert_eq!((opened.models, opened.modes, opened.config_options), (Some(models), Some(modes), None));
}

#[tokio::test(start_paused = true)]
async fn capabilities_of_any_shape_are_no_obstacle() {
    for (capabilities, load_supported) in [
        (json!({"loadSession": true, "sessionCapabilities": [7], "promptCapabilities": "all"}), true),
        (json!({"loadSession": "yes"}), false),
        (json!([]), false),
        (json!(null), false),
    ] {
        let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
            let (id, _) = agent.asked("initialize").await;
            let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": 3});
            agent.answer(id, result).await;
            let (id, params) = agent.asked("session/new").await;
            assert_eq!(params, json!({"cwd": "/tmp", "mcpServers": []}));
            agent.answer(id, json!({"sessionId": "s", "modes": "many"})).await;
        })
        .await;
        assert_eq!(opened.unwrap().load_supported, load_supported);
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_answer_is_kept_in_order_and_the_rest_stays() {
    let Shaken { opened, rest, .. } = shake("demo", fresh(), None, |mut agent| async move {
        agent.update("usage_update", "first").await;
        agent.initialized().await;
        let (id, _) = agent.asked("session/new").await;
        agent.update("agent_message_chunk", "second").await;
        agent.says.write_all(b"noise\n\n").await.unwrap();
        agent.say(&json!({"method": "_auth/status_update"})).await;
        agent.update("available_commands_update", "third").await;
        let answer = json!({"id": id, "result": {"sessionId": "s"}});
        let update = json!({"method": "session/update", "params": {"update": {"text": "fourth"}}});
        let response = json!({"id": 77, "result": null});
        // In one write, so that they come in one batch.
        agent.says.write_all(format!("{answer}\n{update}\n{response}\n").as_bytes()).await.unwrap();
        agent.update("plan", "fifth").await;
    })
    .await;
    assert_eq!(texts(&opened.unwrap().kept), ["first", "second", "noise", "third"]);
    assert_eq!(rest, ["fourth", "response 77", "fifth"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_is_given_up_after_60_s_in_all() {
    let check = |phase: Phase, shaken: Shaken| {
        assert_eq!(shaken.took, HANDSHAKE_TIMEOUT);
        let error = shaken.opened.unwrap_err();
        assert!(matches!(error, HandshakeError::TimedOut { phase: at } if at == phase), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&phase.to_string()) && text.contains("60 s"), "{text}");
    };
    check(Phase::Initialize, shake("demo", fresh(), None, Agent::wait).await);

    let slow = shake("demo", fresh(), None, |mut agent| async move {
        sleep(Duration::from_secs(40)).await;
        agent.initialized().await;
        // Signs of life do not lengthen it.
        while agent.update("usage_update", "alive").await {
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    check(Phase::New, slow);

    let endless = shake("gemini", load(), None, |mut agent| async move {
        let id = agent.loading().await;
        agent.answer(id, json!({})).await;
        while agent.update("agent_message_chunk", "endless history").await {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    check(Phase::Load, endless);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ends_is_told_with_its_phase_and_its_last_words() {
    let (mut agent_stderr, stderr) = duplex(4096);
    let tail = StderrTail::drain(stderr);
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        agent.initialized().await;
        agent_stderr.write_all(b"\x1b[31mInvalid API key\x1b[0m\n").await.unwrap();
    })
    .await;
    let error = opened.unwrap_err();
    assert!(matches!(error, HandshakeError::Ended { phase: Phase::New, .. }), "{error:?}");
    assert!(error.to_string().contains("session/new"));
    assert_eq!(error.source().unwrap().to_string(), "the agent closed its output");
    assert_eq!(tail.text().await, "Invalid API key\n");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_agent_keeps_code_message_and_data() {
    let error =
        json!({"code": -32000, "message": "Authentication required", "data": {"methods": ["claude-login"]}});
    let sent = error.clone();
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        agent.initialized().await;
        let (id, _) = agent.asked("session/new").await;
        agent.fail(id, sent).await;
    })
    .await;
    let failed = opened.unwrap_err();
    assert!(failed.needs_sign_in());
    let text = failed.to_string();
    assert!(text.contains("session/new") && text.contains("Authentication required"), "{text}");
    assert!(text.contains("claude-login"), "{text}");
    let HandshakeError::Rejected { phase: Phase::New, error: kept } = failed else { panic!("{failed:?}") };
    assert_eq!(serde_json::to_value(kept).unwrap(), error);
}

#[tokio::test(start_paused = true)]
async fn another_protocol_version_is_named() {
    for (version, named) in
        [(json!(2), "version 2"), (json!("1"), "version \"1\""), (Value::Null, "version null")]
    {
        let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
            let (id, _) = agent.asked("initialize").await;
            agent.answer(id, json!({"protocolVersion": version})).await;
        })
        .await;
        let error = opened.unwrap_err();
        assert!(matches!(error, HandshakeError::WrongVersion { .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        let (id, _) = agent.asked("initialize").await;
        agent.answer(id, Value::Null).await;
    })
    .await;
    assert!(opened.unwrap_err().to_string().contains("version none"));
}

#[tokio::test(start_paused = true)]
async fn answers_without_what_is_needed_are_refused() {
    for result in [json!({}), json!({"sessionId": ""}), json!({"sessionId": 7}), Value::Null] {
        let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
            agent.initialized().await;
            let (id, _) = agent.asked("session/new").await;
            agent.answer(id, result).await;
        })
        .await;
        assert!(matches!(opened, Err(HandshakeError::NoSessionId)), "{opened:?}");
    }
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        agent.initialized().await;
        let (id, _) = agent.asked("session/new").await;
        let answer = format!("{{\"id\":{id},\"result\":{{\"sessionId\":\"\\ud800\"}}}}\n");
        agent.says.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    assert!(opened.unwrap_err().to_string().contains("session/new with error -32603: unreadable answer"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_load_is_not_asked_to() {
    let Shaken { opened, .. } = shake("demo", load(), None, |mut agent| async move {
        let (id, _) = agent.asked("initialize").await;
        agent.answer(id, json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": false}})).await;
        assert_eq!(agent.heard.next_line().await.unwrap(), None);
    })
    .await;
    assert!(matches!(opened, Err(HandshakeError::CannotLoad)), "{opened:?}");

    let Shaken { opened, .. } = shake("demo", load(), None, |mut agent| async move {
        let id = agent.loading().await;
        agent.fail(id, json!({"code": -32002, "message": "Resource not found"})).await;
    })
    .await;
    let error = opened.unwrap_err();
    assert!(
        matches!(&error, HandshakeError::Rejected { phase: Phase::Load, error } if error.code == -32002),
        "{error:?}"
    );
    assert!(!error.needs_sign_in());
}

#[tokio::test(start_paused = true)]
async fn the_replay_of_a_load_is_dropped_and_state_is_kept() {
    let Shaken { opened, rest, .. } = shake("claude-code-acp", load(), None, |mut agent| async move {
        let id = agent.loading().await;
        for kind in ["user_message_chunk", "agent_message_chunk", "tool_call", "plan", "of_tomorrow"] {
            agent.update(kind, "history").await;
        }
        agent.update("usage_update", "usage").await;
        agent.update("current_mode_update", "mode").await;
        agent.answer(id, Value::Null).await;
        agent.update("agent_message_chunk", "live").await;
    })
    .await;
    let opened = opened.unwrap();
    assert_eq!(opened.acp_session_id, "s");
    assert_eq!(texts(&opened.kept), ["usage", "mode"]);
    assert_eq!(rest, ["live"]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_after_the_answer_is_dropped_until_it_is_quiet() {
    let Shaken { opened, took, rest } = shake("gemini", load(), None, |mut agent| async move {
        let id = agent.loading().await;
        agent.update("user_message_chunk", "early history").await;
        agent.answer(id, json!({"modes": {"currentModeId": "default"}})).await;
        for _ in 0..5 {
            sleep(Duration::from_millis(400)).await;
            agent.update("agent_message_chunk", "late history").await;
            agent.update("available_commands_update", "commands").await;
        }
        sleep(Duration::from_millis(600)).await;
        agent.update("agent_message_chunk", "live").await;
    })
    .await;
    assert_eq!(took, Duration::from_millis(5 * 400 + entry("gemini").load_drain_ms));
    assert_eq!(texts(&opened.unwrap().kept), ["commands"; 5]);
    assert_eq!(rest, ["live"]);
}

#[tokio::test(start_paused = true)]
async fn whatever_the_agent_asks_meanwhile_is_answered() {
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        let (first, _) = agent.asked("initialize").await;
        let permission = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []});
        agent
            .say(&json!({"id": "p\u{e9}", "method": "session/request_permission", "params": permission}))
            .await;
        assert_eq!(
            agent.hear().await,
            json!({"jsonrpc": "2.0", "id": "p\u{e9}", "result": {"outcome": {"outcome": "cancelled"}}})
        );
        // More than wait in the outbox, in one write.
        let asked: Vec<_> =
            (0..50).map(|id| format!("{{\"id\":{id}.50,\"method\":\"fs/read_text_file\"}}\n")).collect();
        agent.says.write_all(asked.concat().as_bytes()).await.unwrap();
        for id in 0..50 {
            let line = agent.heard.next_line().await.unwrap().unwrap();
            assert!(line.contains(&format!("\"id\":{id}.50,")) && line.contains("-32601"), "{line}");
        }
        agent.answer(first, json!({"protocolVersion": 1})).await;
        let (id, _) = agent.asked("session/new").await;
        agent.answer(id, json!({"sessionId": "s"})).await;
    })
    .await;
    assert!(opened.unwrap().kept.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flood_before_the_answer_ends_the_handshake() {
    let Shaken { opened, .. } = shake("demo", fresh(), None, |mut agent| async move {
        let text = "x".repeat(500_000);
        agent.initialized().await;
        loop {
            let params = json!({"update": {"sessionUpdate": "available_commands_update", "text": text}});
            let line = format!("{}\n", json!({"method": "session/update", "params": params}));
            if agent.says.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    assert!(matches!(opened, Err(HandshakeError::Flooded { phase: Phase::New })), "{opened:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_get_ids_of_their_own() {
    let (mut connection, mut agent) = connect();
    let first = connection.request(crate::outgoing::initialize).unwrap();
    let second = connection.request(crate::outgoing::initialize).unwrap();
    assert_ne!(first, second);
    assert_eq!(agent.hear().await["id"], first);
    assert_eq!(agent.hear().await["id"], second);
    drop(agent);
    assert!(connection.next_batch().await.is_none());
    assert_eq!(connection.reader_end().await.to_string(), "the agent closed its output");
    assert_eq!(connection.reader_end().await.to_string(), "the agent closed its output");
}
