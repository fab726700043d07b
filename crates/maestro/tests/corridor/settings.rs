//! Modes, models and options (CONTRACT §3.5).

use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_protocol::{EndReason, TranscriptRow, TranscriptRowKind};
use maestro_testkit::{Answer, Script, Steps, Watch};
use serde_json::{Value, json};
use std::{error::Error, fs, time::Duration};

/// What an agent tells at its opening: modes and models of their own, and an option.
fn offers(mode: &str, model: &str, effort: &str) -> Value {
    json!({
        "sessionId": "acp-1",
        "modes": {"currentModeId": mode, "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "auto", "name": "Auto"}]},
        "models": {"currentModelId": model, "availableModels": [{"modelId": "small", "name": "S"}, {"modelId": "large", "name": "L"}]},
        "configOptions": effort_of(effort),
    })
}

fn effort_of(effort: &str) -> Value {
    json!([{"id": "effort", "name": "Effort", "type": "select", "category": "thought_level", "currentValue": effort,
        "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]}])
}

fn offering() -> Script {
    Script::new().initialize().new_session_with(offers("ask", "small", "low"))
}

const MODE: (&str, &str) = ("mode", r#"{"mode_id": "auto"}"#);
const MODEL: (&str, &str) = ("model", r#"{"model_id": "large"}"#);
const EFFORT: (&str, &str) = ("config", r#"{"config_id": "effort", "value": "high"}"#);

impl Stage {
    async fn set(&self, (what, body): (&str, &str)) -> Result<Answer, Box<dyn Error>> {
        let body: Value = serde_json::from_str(body)?;
        Ok(self.door.post(&format!("/api/sessions/{}/structured/{what}", self.id), &body).await?)
    }

    async fn in_force(&mut self, mode: &str, model: &str, effort: &str) -> Outcome {
        let expect = (Some(mode.to_owned()), Some(model.to_owned()), json!(effort));
        self.watch.until(LIMIT, &format!("{expect:?}"), |watch| settings(watch) == expect).await?;
        Ok(())
    }

    fn told(&self, method: &str) -> Vec<Value> {
        self.record().calls(method).into_iter().map(|call| call["params"].clone()).collect()
    }
}

fn settings(watch: &Watch) -> (Option<String>, Option<String>, Value) {
    let mode = watch.state.mode.as_ref().and_then(|mode| mode.current.clone());
    let model = watch.state.model.as_ref().and_then(|model| model.current.clone());
    let effort = watch.state.config_options.as_ref().map(|options| options[0]["currentValue"].clone());
    (mode, model, effort.unwrap_or_default())
}

/// Accepts one change of each kind.
fn accepts(steps: Steps) -> Steps {
    let mode = steps.expect("session/set_mode", "mode").reply("mode", json!({}));
    let model = mode.expect("session/set_model", "model").reply("model", json!({}));
    model
        .expect("session/set_config_option", "option")
        .reply("option", json!({"configOptions": effort_of("high")}))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_accepts_is_in_force_and_in_the_log() -> Outcome {
    let mut stage = Stage::open(offering().then(accepts).on_every_prompt(Steps::end_turn)).await?;
    assert_eq!(settings(&stage.watch), (Some("ask".into()), Some("small".into()), json!("low")));
    for change in [MODE, MODEL, EFFORT] {
        stage.set(change).await?.expect(204);
    }
    stage.in_force("auto", "large", "high").await?;
    assert_eq!(stage.told("session/set_mode"), [json!({"sessionId": "acp-1", "modeId": "auto"})]);
    assert_eq!(stage.told("session/set_model"), [json!({"sessionId": "acp-1", "modelId": "large"})]);
    let option = json!({"sessionId": "acp-1", "configId": "effort", "value": "high"});
    assert_eq!(stage.told("session/set_config_option"), [option]);
    let log = stage.log()?;
    for line in [r#""event":"mode_set""#, r#""event":"model_set""#, r#""event":"config_set""#] {
        assert_eq!(log.matches(line).count(), 1, "{line}");
    }
    assert_eq!(stage.turn("go").await?, "end_turn");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_changes_during_a_turn() -> Outcome {
    let script = offering().on_prompt(|turn| accepts(turn.chunk("working")).chunk(" on").end_turn());
    let mut stage = Stage::open(script).await?;
    stage.begin("go").await?;
    stage.says("working").await?;
    for change in [MODE, MODEL, EFFORT] {
        stage.set(change).await?.expect(204);
    }
    assert_eq!(stage.watch.turn_end(LIMIT).await?, "end_turn");
    stage.in_force("auto", "large", "high").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_is_refused_by_name_and_never_asked_for() -> Outcome {
    let stage = Stage::open(offering()).await?;
    let check = async |what: &str, body: &str, field: &str, offered: &str| -> Outcome {
        let problem = stage.set((what, body)).await?.expect(400).json();
        assert_eq!((&problem["code"], &problem["field"]), (&json!("not_offered"), &json!(field)), "{body}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(offered), "{detail}");
        Ok(())
    };
    check("mode", r#"{"mode_id": "yolo"}"#, "mode_id", "ask, auto").await?;
    check("model", r#"{"model_id": "huge"}"#, "model_id", "small, large").await?;
    check("config", r#"{"config_id": "effort", "value": "none"}"#, "value", "low, high").await?;
    check("config", r#"{"config_id": "effort", "value": true}"#, "value", "low, high").await?;
    check("config", r#"{"config_id": "colour", "value": "red"}"#, "value", "effort").await?;
    let bare = Stage::open(opened()).await?;
    let problem = bare.set(MODE).await?.expect(400).json();
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("no modes")), "{problem}");
    for method in ["session/set_mode", "session/set_model", "session/set_config_option"] {
        assert_eq!(stage.told(method), Vec::<Value>::new());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_refuses_stays_as_it_was_and_is_told() -> Outcome {
    let refuses = |steps: Steps| {
        let mode = steps.expect("session/set_mode", "mode").fail("mode", -32602, "not in this project");
        mode.expect("session/set_model", "model").exit(3)
    };
    let mut stage = Stage::open(offering().then(refuses)).await?;
    let problem = stage.set(MODE).await?.expect(409).json();
    assert_eq!(problem["code"], "agent_refused");
    assert!(
        problem["detail"].as_str().is_some_and(|detail| detail.contains("not in this project")),
        "{problem}"
    );
    assert_eq!(settings(&stage.watch).0.as_deref(), Some("ask"));
    let problem = stage.set(MODEL).await?.expect(409).json();
    assert_eq!(problem["code"], "not_structured", "an agent that ends keeps nobody waiting");
    assert_eq!(stage.watch.closed(LIMIT).await?, Some(4410));
    assert_eq!(stage.dead().await?.end_reason, Some(EndReason::Exited));
    let dead = stage.set(MODE).await?.expect(409).json();
    assert_eq!(dead["code"], "not_structured");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_says_nothing_is_waited_for_10_s_and_its_late_answer_counts() -> Outcome {
    let place = tempfile::tempdir()?;
    let release = place.path().join("release");
    let late =
        |steps: Steps| steps.expect("session/set_mode", "mode").await_file(&release).reply("mode", json!({}));
    let mut stage = Stage::open(offering().then(late)).await?;
    let asked = std::time::Instant::now();
    let problem = stage.set(MODE).await?.expect(504).json();
    assert_eq!(problem["code"], "agent_silent");
    assert!(asked.elapsed() >= Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(settings(&stage.watch).0.as_deref(), Some("ask"));
    fs::write(&release, "")?;
    stage.in_force("auto", "small", "low").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_chosen_is_asked_for_again_of_the_next_process() -> Outcome {
    let talks = |turn: Steps| turn.chunk_of("m1", "hi").end_turn();
    let script = offering().then(accepts).on_prompt(talks);
    // The next process keeps nothing but the effort.
    let next =
        script.next_process().initialize().load_session_with(offers("ask", "small", "high"), |steps| steps);
    let next = next.then(|steps| {
        let mode = steps.expect("session/set_mode", "mode").reply("mode", json!({}));
        mode.expect("session/set_model", "model").fail("model", -32603, "no such model any more")
    });
    let mut stage = Stage::open(next.on_every_prompt(talks)).await?;
    for change in [MODE, MODEL, EFFORT] {
        stage.set(change).await?.expect(204);
    }
    stage.turn("hello").await?;
    stage.daemon.stop()?;
    stage.daemon.start()?;
    stage.door.running(&stage.id, LIMIT).await?;
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    let twice = |params: Value| [params.clone(), params];
    assert_eq!(stage.told("session/set_mode"), twice(json!({"sessionId": "acp-1", "modeId": "auto"})));
    assert_eq!(stage.told("session/set_model"), twice(json!({"sessionId": "acp-1", "modelId": "large"})));
    assert_eq!(stage.told("session/set_config_option").len(), 1, "what the agent kept is not asked for");
    assert_eq!(settings(&stage.watch), (Some("auto".into()), Some("small".into()), json!("high")));
    let notices = stage.rows(TranscriptRowKind::Notice);
    let told: Vec<_> = notices.iter().map(|row: &&TranscriptRow| row.data["reason"].clone()).collect();
    assert_eq!(told, ["setting_refused"]);
    let detail = stage.door.session(&stage.id).await?.activity_detail.unwrap_or_default();
    assert!(detail.contains("the model `large`") && detail.contains("no such model any more"), "{detail}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_starts_with_the_mode_and_the_model_of_its_request() -> Outcome {
    let wish = json!({"mode": "auto", "model": "large"});
    let takes = |steps: Steps| {
        let mode = steps.expect("session/set_mode", "mode").reply("mode", json!({}));
        mode.expect("session/set_model", "model").reply("model", json!({}))
    };
    let mut stage = Stage::of(AGENT, builder(offering().then(takes)), wish.clone()).await?;
    stage.in_force("auto", "large", "low").await?;
    let refused = Stage::of(AGENT, builder(opened()), wish).await?;
    let reasons: Vec<_> =
        refused.rows(TranscriptRowKind::Notice).iter().map(|row| row.data["reason"].clone()).collect();
    assert_eq!(reasons, ["mode_refused", "setting_refused"]);
    let detail = refused.door.session(&refused.id).await?.activity_detail.unwrap_or_default();
    assert!(detail.contains("no modes") && detail.contains("no models"), "{detail}");
    Ok(())
}
