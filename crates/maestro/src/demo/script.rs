//! What the demo agent does, as data. Pure: words in, steps out.

use std::time::Duration;

/// One thing that the demo agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The chunks that follow belong to a new message.
    Message,
    /// A piece of visible text.
    Text(String),
    /// A piece of visible text of an answer that takes its time.
    SlowText(String),
    /// A piece of reasoning.
    Thought(String),
    /// The title of the session.
    Title(String),
    /// The plan, of which so many entries are done and one is under way.
    Plan {
        /// Entries that are completed.
        done: usize,
        /// Whether the next one is in progress.
        working: bool,
    },
    /// A tool call, with what happens when it is allowed and when it is refused.
    Call {
        /// The tool.
        tool: Tool,
        /// Played when it may run.
        allowed: Vec<Step>,
        /// Played when it was refused.
        refused: Vec<Step>,
    },
    /// A line of output of the open tool call.
    Output(&'static str),
    /// Writes the note, and ends the open tool call with its diff.
    WriteNote,
    /// Ends the open tool call.
    Done,
    /// Ends the turn with an error.
    Fail,
}

/// A tool of the demo agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// Looks around; needs no permission.
    Look,
    /// Pretends to run a command; asks.
    Run,
    /// Writes the note; asks.
    Edit,
}

/// What went before a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Nothing.
    First,
    /// Nothing in this process; the session was loaded.
    Resumed,
    /// Other prompts.
    Later,
}

/// The entries of the plan.
pub(super) const PLAN: [&str; 3] = ["Look at what is there", "Do the work", "Check the result"];

/// A word that a prompt may hold, what it does, and which other words mean the same.
pub(super) struct Word {
    pub(super) word: &'static str,
    pub(super) does: &'static str,
    like: &'static [&'static str],
    part: fn() -> Vec<Step>,
}

/// The words, in the order in which they are told.
pub(super) const WORDS: [Word; 7] = [
    Word { word: "think", does: "reasoning before the answer", like: &["thought", "reason"], part: think },
    Word { word: "plan", does: "a plan that moves", like: &["plans", "todo"], part: plan },
    Word {
        word: "run",
        does: "a command that needs your permission (it only pretends to run)",
        like: &["command", "execute"],
        part: run,
    },
    Word {
        word: "edit",
        does: "a small file, written once you allow it, with its diff",
        like: &["write", "diff"],
        part: edit,
    },
    Word { word: "slow", does: "a long answer, to try cancelling", like: &["long"], part: slow },
    Word { word: "fail", does: "a turn that ends in an error", like: &["error"], part: fail },
    Word {
        word: "tour",
        does: "think, plan, run and edit, one after the other",
        like: &["everything"],
        part: tour,
    },
];

/// What the demo agent does for this prompt.
pub(super) fn answer(prompt: &str, opening: Opening) -> Vec<Step> {
    let parts = parts_of(prompt);
    let mut steps = Vec::new();
    if opening == Opening::First {
        steps.push(Step::Title(title_of(prompt)));
    }
    steps.extend(say(match (opening, parts.is_empty()) {
        (Opening::First, true) => {
            "Hello. I am maestro's demo agent: a script, without a model, a key or a network. "
        }
        (Opening::First, false) => {
            "Hello. I am maestro's demo agent, a script. The words of your prompt choose what I do.\n\n"
        }
        (Opening::Resumed, _) => {
            "I was started anew and remember nothing: what you see above is kept by maestro, not by me.\n\n"
        }
        (Opening::Later, true) => "I am a script and know only a few words. ",
        (Opening::Later, false) => "",
    }));
    for part in &parts {
        steps.extend((part.part)());
    }
    if parts.is_empty() {
        steps.extend(say(&format!("Send me one of these words to see what it looks like:\n\n{}", list())));
    } else if opening == Opening::First {
        steps.push(Step::Message);
        steps.extend(say(&format!("I know these words:\n\n{}", list())));
    }
    steps
}

/// The words of a prompt that mean something, each once, in the order of the prompt.
fn parts_of(prompt: &str) -> Vec<&'static Word> {
    let mut found: Vec<&'static Word> = Vec::new();
    for said in prompt.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase) {
        let known = WORDS.iter().find(|word| word.word == said || word.like.contains(&said.as_str()));
        found.extend(known.filter(|word| !found.iter().any(|earlier| earlier.word == word.word)));
    }
    found
}

fn list() -> String {
    WORDS.map(|word| format!("- **{}**: {}\n", word.word, word.does)).concat()
}

fn title_of(prompt: &str) -> String {
    let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let start: String = words.chars().take(60).collect();
    if start.is_empty() { "Demo".into() } else { format!("Demo: {start}") }
}

// === The parts ===

fn think() -> Vec<Step> {
    let mut steps = vec![Step::Message];
    let thought =
        "A person wants to see me think. A model would weigh its options here; I have none, so I say so.";
    steps.extend(pieces(thought).map(Step::Thought));
    steps.push(Step::Message);
    steps.extend(say("That was a thought: it has a row of its own and can be folded away.\n\n"));
    steps
}

fn plan() -> Vec<Step> {
    let step = |done, working| Step::Plan { done, working };
    let look = Step::Call {
        tool: Tool::Look,
        allowed: vec![Step::Output("nothing was opened: this is a demo"), Step::Done],
        refused: Vec::new(),
    };
    let mut steps = vec![step(0, false), step(0, true), look, step(1, true), step(2, true), step(3, false)];
    steps.push(Step::Message);
    steps.extend(say("The plan is one row that changed as I went along.\n\n"));
    steps
}

fn run() -> Vec<Step> {
    let mut allowed =
        vec![Step::Output("one"), Step::Output("two"), Step::Output("three"), Step::Done, Step::Message];
    allowed.extend(say("The command is done. Nothing was executed: its output is part of my script.\n\n"));
    let mut refused = vec![Step::Message];
    refused.extend(say("You refused, so nothing ran, and I go on.\n\n"));
    vec![Step::Call { tool: Tool::Run, allowed, refused }]
}

fn edit() -> Vec<Step> {
    let mut allowed = vec![Step::WriteNote, Step::Message];
    allowed.extend(say(
        "The file is written; the diff shows what changed in it. You may delete its directory.\n\n",
    ));
    let mut refused = vec![Step::Message];
    refused.extend(say("You refused, so nothing was written.\n\n"));
    vec![Step::Call { tool: Tool::Edit, allowed, refused }]
}

fn slow() -> Vec<Step> {
    let mut steps = vec![Step::Message];
    steps.extend(say("I count to forty. Cancel me at any time.\n\n"));
    steps.extend((1..=40).map(|number| Step::SlowText(format!("{number} "))));
    steps
}

fn fail() -> Vec<Step> {
    let mut steps = vec![Step::Message];
    steps.extend(say("I end this turn with an error now, as you asked.\n\n"));
    steps.push(Step::Fail);
    steps
}

fn tour() -> Vec<Step> {
    [think, plan, run, edit].into_iter().flat_map(|part| part()).collect()
}

// === Pace ===

fn say(text: &str) -> impl Iterator<Item = Step> {
    pieces(text).map(Step::Text).collect::<Vec<_>>().into_iter()
}

/// Cuts a text after words, into pieces of about two dozen bytes. Joined they are the text.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split_inclusive(' ') {
        piece.push_str(word);
        if piece.len() >= 24 {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.extend(Some(piece).filter(|rest| !rest.is_empty()));
    pieces.into_iter()
}

/// How long to rest before a step, so that a person can follow.
pub(super) fn rest_before(step: &Step) -> Duration {
    Duration::from_millis(match step {
        Step::Message | Step::Title(_) | Step::Fail => 0,
        Step::Text(_) | Step::Thought(_) => 15,
        Step::Done | Step::WriteNote | Step::Call { .. } => 60,
        Step::Output(_) => 100,
        Step::Plan { .. } => 120,
        Step::SlowText(_) => 500,
    })
}

#[cfg(test)]
mod tests;
