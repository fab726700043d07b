use crate::stage::{AGENT, LIMIT, Outcome, Stage, builder, opened};
use maestro_testkit::wait_until;
use serde_json::json;
use std::{
    fs,
    process::{Command, Stdio},
};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corridor/peer.py");
/// Four changes are refused, a reading is not, and the nonce in it is `null`.
const LOOKS_ONLY: &str = "403 True\n403 True\n403 True\n403 True\n200\nnull\n";
/// The same of a session that is another agent's: neither it nor its socket is there.
const SEES_NOTHING: &str = "403 True\n403 True\n403 True\n403 True\n404\n404\n";

/// An agent that is a shell: it starts the peer as `$HOW` says and then reads its input to the end.
const INSIDER: &str = "$HOW python3 \"$PEER\" \"$SOCKET\" \"$TARGET\" >\"$OUT\" 2>&1; exec cat >/dev/null";

/// A session with an approval that waits, under a daemon that knows the agent `insider`, too.
async fn waiting() -> Result<Stage, Box<dyn std::error::Error>> {
    let script = opened().on_prompt(|turn| turn.permission(1, "t1", "ls").await_answer(1).end_turn());
    let insider = builder(script).agent_field("insider", "program", "/bin/sh").agent_field(
        "insider",
        "args",
        vec!["-c", INSIDER],
    );
    let mut stage = Stage::with(insider).await?;
    stage.begin("go").await?;
    stage.asked().await?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_an_agents_marker_may_look_at_its_session_and_change_nothing() -> Outcome {
    let stage = waiting().await?;
    let mut peer = Command::new("python3");
    peer.arg(PEER).arg(stage.daemon.socket()).arg(&stage.id);
    peer.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    peer.env("MAESTRO_SESSION", &stage.id).env("MAESTRO_SPAWN", "0e4c1f6e-3f0a-4f6e-9d55-0d3f4bb1a002");
    let output = tokio::task::spawn_blocking(move || peer.stdin(Stdio::null()).output()).await??;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told, LOOKS_ONLY, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stage.watch.nonce().is_some(), "the approval still waits");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_below_an_agent_sees_no_other_session_and_changes_nothing() -> Outcome {
    let stage = waiting().await?;
    // As it is; without the marker; without it, in a session of its own and nobody's child.
    for how in
        ["", "env -i PATH=/usr/local/bin:/usr/bin:/bin", "setsid -f env -i PATH=/usr/local/bin:/usr/bin:/bin"]
    {
        let out = stage.daemon.place().join(format!("peer-{}", how.len()));
        let env = json!({"HOW": how, "PEER": PEER, "SOCKET": stage.daemon.socket(), "TARGET": stage.id, "OUT": out});
        let insider = stage
            .door
            .create_session("insider", &stage.daemon.work(), json!({"env": env}))
            .await?
            .id
            .to_string();
        let told = || fs::read_to_string(&out).unwrap_or_default();
        // A peer that fails says so in fewer lines.
        drop(wait_until(LIMIT, "the peer", || told().lines().count() >= SEES_NOTHING.lines().count()).await);
        assert_eq!(told(), SEES_NOTHING, "started with {how:?}");
        stage.door.delete(&format!("/api/sessions/{insider}")).await?.expect(204);
    }
    assert_eq!(stage.record().answers(1).len(), 0, "the approval still waits");
    assert_eq!(stage.daemon.record(AGENT).calls("session/cancel").len(), 0);
    Ok(())
}
