//! What the agents of a story do.

use crate::dice::Dice;
use maestro_testkit::{Descent, Script, Step, Steps};
use serde_json::json;

/// How the text of a chunk begins: which process of the script wrote it, and its number in that process. So a lost, a
/// doubled and a fused one are seen.
const NUMBERED: &str = "{{process}}.{{next}};";

/// An agent that opens or loads, then answers prompts with numbered chunks, tool calls and a permission request.
pub(crate) fn agent(dice: &mut Dice) -> Script {
    let breeds_early = dice.one_in(3);
    let open =
        Step::Expect { methods: vec!["session/new".into(), "session/load".into()], name: "open".into() };
    let script = Script::new()
        .then(|steps| if breeds_early { breed(steps, dice) } else { steps })
        .initialize()
        .then(|steps| steps.wait(dice.number(0..15)).step(open).reply("open", json!({"sessionId": "acp-1"})));
    script.on_prompt(|turn| answer(breed(turn, dice), dice)).on_every_prompt(|turn| answer(turn, dice))
}

/// Leaves a process behind that is out of reach of signals to the agent or its group.
fn breed(steps: Steps, dice: &mut Dice) -> Steps {
    let stubborn = dice.one_in(4);
    steps.descend(Descent {
        setsid: true,
        double_fork: dice.one_in(2),
        ignore_signals: stubborn,
        hold_stdout: dice.one_in(2),
    })
}

fn answer(turn: Steps, dice: &mut Dice) -> Steps {
    let turn = stream(turn, dice).tool_call("t1", "make").thought("hm");
    let turn = if dice.one_in(2) { large(turn, dice) } else { turn };
    let turn = stream(turn.permission(1, "t1", "make"), dice).await_answer(1);
    let turn = stream(turn.tool_status("t1", "completed"), dice);
    let turn = if dice.one_in(3) { large(turn, dice) } else { turn };
    stream(turn.plan(&["one", "two"]), dice).end_turn()
}

/// Some chunks, at full speed or with pauses.
fn stream(steps: Steps, dice: &mut Dice) -> Steps {
    let (times, pause) = (dice.number(1..12), dice.number(0..3));
    steps.repeat(Some(times), |steps| {
        let steps = steps.chunk(NUMBERED);
        if pause == 0 { steps } else { steps.wait(pause) }
    })
}

/// A line of many pages, which a kill can cut in the middle.
fn large(steps: Steps, dice: &mut Dice) -> Steps {
    let text = "0123456789abcdef".repeat(usize::try_from(dice.number(1_000..4_000)).unwrap_or_default());
    steps.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "rawOutput": text}))
}
