use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened, turns};
use maestro_protocol::{EndReason, QueueHold, QueueState};
use maestro_testkit::{Answer, Door, Script, Step, Steps, Watch, wait_until};
use serde_json::{Value, json};
use std::{error::Error, fs, path::Path, time::Duration};

/// A script for a session that dies and comes back: each process opens it, new or loaded, then plays `turn` for each
/// prompt.
pub(crate) fn comes_back(turn: impl FnOnce(Steps) -> Steps) -> Script {
    let methods = vec!["session/new".into(), "session/load".into()];
    let open = Step::Expect { methods, name: "open".into() };
    let opening = |steps: Steps| steps.step(open).reply("open", json!({"sessionId": "acp-1"}));
    Script::new().initialize().then(opening).on_every_prompt(turn)
}

impl Stage {
    pub(crate) fn queue_path(&self) -> String {
        format!("/api/sessions/{}/queue", self.id)
    }

    async fn add(&self, text: &str) -> Result<String, Box<dyn Error>> {
        let added = self.door.post(&self.queue_path(), &json!({"text": text})).await?.expect(201);
        Ok(added.json()["id"].as_str().ok_or("no id")?.to_owned())
    }

    pub(crate) async fn go_on(&self) -> Outcome {
        self.door.post(&format!("{}/resume", self.queue_path()), &json!({})).await?.expect(202);
        Ok(())
    }

    pub(crate) async fn queue(&self) -> Result<Value, Box<dyn Error>> {
        Ok(self.door.get(&self.queue_path()).await?.expect(200).json())
    }

    /// The texts that wait.
    pub(crate) async fn waiting(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let queue = self.queue().await?;
        let items = queue["items"].as_array().ok_or("no items")?.iter();
        Ok(items.filter_map(|item| item["content"][0]["text"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until the live state shows the queue so.
    async fn shows(&mut self, texts: &[&str], held: Option<QueueHold>) -> Outcome {
        let shows = |watch: &Watch| {
            watch.state.queue.as_ref().is_some_and(|queue: &QueueState| {
                queue.held == held
                    && queue.items.iter().map(|item| item.text.as_str()).eq(texts.iter().copied())
            })
        };
        self.watch.until(LIMIT, &format!("the queue {texts:?}, held {held:?}"), shows).await?;
        Ok(())
    }

    /// The texts of the prompts that the agent received, in order.
    pub(crate) fn received(&self) -> Vec<String> {
        let prompts = self.record().calls("session/prompt");
        let text = |call: &Value| call["params"]["prompt"][0]["text"].as_str().map(str::to_owned);
        prompts.iter().filter_map(text).collect()
    }

    async fn receives(&self, texts: &[&str]) -> Outcome {
        wait_until(LIMIT, &format!("the prompts {texts:?}"), || self.received().len() >= texts.len()).await?;
        assert_eq!(self.received(), texts);
        Ok(())
    }

    pub(crate) async fn restart(&mut self) -> Outcome {
        let path = format!("/api/sessions/{}/restart", self.id);
        self.door.post(&path, &json!({})).await?.expect(202);
        self.door.running(&self.id, LIMIT).await?;
        self.watch = Watch::open(&self.door, &self.id).await?;
        Ok(())
    }
}

/// A turn that ends when the test makes the file.
fn gated(gate: &Path) -> impl FnOnce(Steps) -> Steps {
    let gate = gate.to_owned();
    move |turn| turn.chunk("working").await_file(&gate).end_turn()
}

/// A stage whose first turn is active and ends when the file is made; further ones end at once.
async fn busy() -> Result<(Stage, tempfile::TempDir), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let script = opened().on_prompt(gated(&place.path().join("gate"))).on_every_prompt(Steps::end_turn);
    let mut stage = Stage::open(script).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    Ok((stage, place))
}

async fn keyed(door: &Door, path: &str, body: &Value) -> Result<Answer, Box<dyn Error>> {
    Ok(door.post_with_key(path, body, "k").await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_for_the_turn_and_go_one_by_one_in_order() -> Outcome {
    let (mut stage, place) = busy().await?;
    let ids = [stage.add("one").await?, stage.add("two").await?, stage.add("three").await?];
    stage.shows(&["one", "two", "three"], None).await?;
    stage.receives(&["zero"]).await?;
    let refused = stage.door.prompt(&stage.id, "a prompt never waits").await?.expect(409);
    assert_eq!(refused.json()["code"], "turn_in_flight");
    fs::write(place.path().join("gate"), "")?;
    stage.receives(&["zero", "one", "two", "three"]).await?;
    stage.shows(&[], None).await?;
    let named: Vec<Value> = stage
        .log()?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| line.get("queue_item").cloned())
        .collect();
    assert_eq!(named, ids, "each turn names its message");
    let page = stage.door.replay(&stage.id, "limit=500").await?.expect(200).json();
    assert!(page["events"].as_array().is_some_and(|events| {
        !events.is_empty() && events.iter().all(|event| event["state"].get("queue").is_none())
    }));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_an_idle_session_goes_at_once() -> Outcome {
    let stage = Stage::open(turns(Steps::end_turn)).await?;
    stage.add("now").await?;
    stage.receives(&["now"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_can_be_edited_moved_and_taken_out() -> Outcome {
    let (mut stage, place) = busy().await?;
    let (one, two, three) = (stage.add("one").await?, stage.add("two").await?, stage.add("three").await?);
    let item = |id: &str| format!("{}/{id}", stage.queue_path());
    stage.door.patch(&item(&three), &json!({"position": 0})).await?.expect(200);
    stage.door.patch(&item(&two), &json!({"text": "two, better"})).await?.expect(200);
    stage.door.delete(&item(&one)).await?.expect(204);
    stage.shows(&["three", "two, better"], None).await?;
    fs::write(place.path().join("gate"), "")?;
    stage.receives(&["zero", "three", "two, better"]).await?;
    let item = format!("{}/{three}", stage.queue_path());
    stage.door.patch(&item, &json!({"text": "too late"})).await?.expect(404);
    stage.door.delete(&item).await?.expect(404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_holds_what_waits_until_a_person_says_go() -> Outcome {
    let cancellable = |turn: Steps| turn.chunk("working").await_cancel().stop("cancelled");
    let script = opened().on_prompt(cancellable).on_every_prompt(Steps::end_turn);
    let mut stage = Stage::open(script).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    stage.add("one").await?;
    stage.door.cancel(&stage.id).await?.expect(202);
    stage.shows(&["one"], Some(QueueHold::Cancelled)).await?;
    assert_eq!(stage.queue().await?["held"], "cancelled");
    assert_eq!(stage.turn("a prompt goes before").await?, "end_turn");
    stage.add("two").await?;
    stage.shows(&["one", "two"], Some(QueueHold::Cancelled)).await?;
    stage.receives(&["zero", "a prompt goes before"]).await?;
    stage.go_on().await?;
    stage.receives(&["zero", "a prompt goes before", "one", "two"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_holds_what_waits() -> Outcome {
    let place = tempfile::tempdir()?;
    let gate = place.path().join("gate");
    let fails = |turn: Steps| turn.chunk("working").await_file(&gate).fail_turn(-32603, "no");
    let mut stage = Stage::open(opened().on_prompt(fails).on_every_prompt(Steps::end_turn)).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    stage.add("one").await?;
    fs::write(&gate, "")?;
    stage.shows(&["one"], Some(QueueHold::Failed)).await?;
    stage.go_on().await?;
    stage.receives(&["zero", "one"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_held_while_an_approval_waits() -> Outcome {
    let asks_later = |turn: Steps| turn.end_turn().permission(1, "t1", "ls").await_answer(1);
    let mut stage = Stage::open(opened().on_prompt(asks_later).on_every_prompt(Steps::end_turn)).await?;
    stage.begin("zero").await?;
    let nonce = stage.asked().await?;
    stage.add("one").await?;
    stage.shows(&["one"], Some(QueueHold::Approval)).await?;
    stage.decide(&nonce, json!("AllowOnce"), 204).await?;
    stage.receives(&["zero", "one"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_the_agents_own_is_waited_for() -> Outcome {
    let place = tempfile::tempdir()?;
    let go = place.path().join("go");
    let script = opened()
        .on_prompt(Steps::end_turn)
        .then(|steps| steps.await_file(&go).chunk_of("m2", "by itself"))
        .on_every_prompt(Steps::end_turn);
    let own =
        builder(script).agent_field(AGENT, "own_turns", true).agent_field(AGENT, "own_turn_quiet_ms", 600);
    let mut stage = Stage::with(own).await?;
    stage.turn("zero").await?;
    fs::write(&go, "")?;
    stage.says("by itself").await?;
    assert!(stage.watch.state.turn.active);
    stage.add("one").await?;
    stage.shows(&["one"], None).await?;
    stage.receives(&["zero", "one"]).await?;
    let log = stage.log()?;
    let (ended, sent) = (log.find(r#""reason":"quiet""#), log.find(r#""queue_item""#));
    assert!(ended.is_some() && ended < sent, "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_daemon_holds_what_waits_and_doubles_nothing() -> Outcome {
    let place = tempfile::tempdir()?;
    let gate = place.path().join("gate");
    let mut stage = Stage::open(comes_back(gated(&gate))).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    stage.add("one").await?;
    stage.add("two").await?;
    stage.daemon.stop()?;
    fs::write(&gate, "")?;
    stage.daemon.start()?;
    stage.door.running(&stage.id, LIMIT).await?;
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    stage.shows(&["one", "two"], Some(QueueHold::Ended)).await?;
    stage.go_on().await?;
    stage.receives(&["zero", "one", "two"]).await?;
    stage.shows(&[], None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_session_keeps_what_waits_for_its_restart() -> Outcome {
    let place = tempfile::tempdir()?;
    let gate = place.path().join("gate");
    let mut stage = Stage::open(comes_back(gated(&gate))).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    stage.add("one").await?;
    stage.kill().await?;
    fs::write(&gate, "")?;
    assert_eq!(
        (stage.waiting().await?, &stage.queue().await?["held"]),
        (vec!["one".into()], &json!("ended"))
    );
    let resume = format!("{}/resume", stage.queue_path());
    let refused = stage.door.post(&resume, &json!({})).await?.expect(409);
    assert_eq!(refused.json()["code"], "not_structured");
    stage.add("two").await?;
    stage.restart().await?;
    stage.shows(&["one", "two"], Some(QueueHold::Ended)).await?;
    stage.go_on().await?;
    stage.receives(&["zero", "one", "two"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_with_its_prompt() -> Outcome {
    let mut stage = Stage::open(turns(|turn| turn.chunk("hello").end_turn())).await?;
    let more = json!({"prompt": {"text": "the first words"}});
    stage.id = stage.door.create_session(AGENT, &stage.daemon.work(), more).await?.id.to_string();
    stage.add("the second").await?;
    stage.receives(&["the first words", "the second"]).await?;
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    stage.says("hellohello").await?;
    assert_eq!(stage.door.session(&stage.id).await?.title, "the first words");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_loses_no_text() -> Outcome {
    let good = comes_back(Steps::end_turn);
    let script = Script { processes: vec![Script::new().then(|steps| steps.exit(3)).processes[0].clone()] };
    let script = Script { processes: [script.processes, good.processes].concat() };
    let daemon = builder(script).start()?;
    let door = daemon.door();
    let more = json!({"prompt": {"text": "the first words"}});
    let id = door.create_session(AGENT, &daemon.work(), more).await?.id.to_string();
    assert_eq!(door.dead(&id, LIMIT).await?.end_reason, Some(EndReason::HandshakeFailed));
    let queue = door.get(&format!("/api/sessions/{id}/queue")).await?.expect(200).json();
    assert_eq!(queue["items"][0]["content"][0]["text"], "the first words");
    door.post(&format!("/api/sessions/{id}/restart"), &json!({})).await?.expect(202);
    let watch = {
        door.running(&id, LIMIT).await?;
        Watch::open(&door, &id).await?
    };
    let mut stage = Stage { daemon, door, id, watch };
    stage.shows(&["the first words"], Some(QueueHold::Ended)).await?;
    stage.go_on().await?;
    stage.receives(&["the first words"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_hold_over_a_kill_of_the_daemon() -> Outcome {
    let mut stage = Stage::open(comes_back(Steps::end_turn)).await?;
    let wish = json!({
        "view": "Structured", "agent": AGENT, "cwd": stage.daemon.work().to_string_lossy(),
        "prompt": {"text": "created with it"}
    });
    let created = keyed(&stage.door, "/api/sessions", &wish).await?.expect(201);
    stage.id = created.json()["id"].as_str().ok_or("no id")?.to_owned();
    stage.receives(&["created with it"]).await?;
    stage.watch = Watch::open(&stage.door, &stage.id).await?;
    let queue = stage.queue_path();
    let prompt = format!("/api/sessions/{}/structured/prompt", stage.id);
    let queued = keyed(&stage.door, &queue, &json!({"text": "queued"})).await?.expect(201);
    stage.receives(&["created with it", "queued"]).await?;
    let idle = |watch: &Watch| !watch.state.turn.active && watch.rows.len() == 2;
    stage.watch.until(LIMIT, "the end of both turns", idle).await?;
    keyed(&stage.door, &prompt, &json!({"text": "prompted"})).await?.expect(202);

    for _ in 0..2 {
        let again = keyed(&stage.door, "/api/sessions", &wish).await?.expect(201);
        assert_eq!(again.body, created.body);
        let again = keyed(&stage.door, &queue, &json!({"text": "queued"})).await?.expect(201);
        assert_eq!(again.body, queued.body);
        keyed(&stage.door, &prompt, &json!({"text": "prompted"})).await?.expect(202);
        let other = keyed(&stage.door, &prompt, &json!({"text": "another"})).await?.expect(422);
        assert_eq!(other.json()["code"], "idempotency_key_reused");
        stage.daemon.kill()?;
        stage.daemon.start()?;
    }
    let sessions = stage.door.get("/api/sessions").await?.json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2));
    stage.restart().await?;
    assert_eq!(stage.turn("after all").await?, "end_turn");
    stage.receives(&["created with it", "queued", "prompted", "after all"]).await
}

/// What a command of the daemon's own program printed, and its exit code.
async fn maestro(stage: &Stage, args: &[&str]) -> Result<(Option<i32>, String), Box<dyn Error>> {
    let mut command = stage.daemon.command();
    command.args(args).stdin(std::process::Stdio::null());
    let limit = Duration::from_mins(1);
    let output =
        tokio::time::timeout(limit, tokio::task::spawn_blocking(move || command.output())).await???;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_queues_shows_and_goes_on() -> Outcome {
    let cancellable = |turn: Steps| turn.chunk("working").await_cancel().stop("cancelled");
    let script = opened().on_prompt(cancellable).on_every_prompt(Steps::end_turn);
    let mut stage = Stage::open(script).await?;
    stage.begin("zero").await?;
    stage.says("working").await?;
    let id = stage.id.clone();
    let (code, said) = maestro(&stage, &["prompt", &id, "too early"]).await?;
    assert_eq!(code, Some(1));
    assert!(said.contains("--queue"), "{said}");
    let (code, said) = maestro(&stage, &["prompt", &id, "--queue", "one"]).await?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it is the next"), "{said}");
    maestro(&stage, &["cancel", &id]).await?;
    let (_, said) = maestro(&stage, &["show", &id]).await?;
    let words = format!(
        "1 message waits, held because a turn was cancelled; send with: maestro prompt {id} --resume"
    );
    assert!(said.contains(&words) && said.contains("  1  one"), "{said}");
    let (code, said) = maestro(&stage, &["prompt", &id, "--resume"]).await?;
    assert_eq!(code, Some(0), "{said}");
    stage.receives(&["zero", "one"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_agent_cannot_start_says_that_the_prompt_is_kept() -> Outcome {
    let bad = Script::new().then(|steps| steps.exit(3));
    let good = comes_back(|turn| turn.chunk("at last").end_turn());
    let script = Script { processes: [opened().processes, bad.processes, good.processes].concat() };
    let mut stage = Stage::open(script).await?;
    let work = stage.daemon.work().to_string_lossy().into_owned();
    let (code, said) = maestro(&stage, &["run", "--agent", AGENT, "--cwd", &work, "keep this"]).await?;
    assert_eq!(code, Some(13), "{said}");
    let list = stage.door.get("/api/sessions").await?.json();
    stage.id = list["sessions"][0]["id"].as_str().ok_or("no id")?.to_owned();
    let words = format!("when it runs, send with: maestro prompt {} --resume", stage.id);
    assert!(said.contains("1 message waits") && said.contains(&words), "{said}");
    let (_, said) = maestro(&stage, &["restart", &stage.id]).await?;
    assert!(said.contains(&words), "{said}");
    maestro(&stage, &["prompt", &stage.id, "--resume"]).await?;
    stage.receives(&["keep this"]).await?;
    let (code, said) = maestro(&stage, &["run", "--agent", AGENT, "--cwd", &work, "hello"]).await?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("at last"), "{said}");
    Ok(())
}
