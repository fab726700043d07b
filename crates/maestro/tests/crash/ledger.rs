//! What is known of one session from outside, and what follows from it for its files and its replay.

use crate::Failure;
use maestro_protocol::{Cursor, ReducedState, ReplayPage, RowId, TranscriptDelta, TranscriptRow};
use maestro_testkit::{Door, Watch};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::Path,
};

/// What a socket showed last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) cursor: Cursor,
    pub(crate) rows: Vec<TranscriptRow>,
    pub(crate) state: ReducedState,
}

/// What people were told of a session, and its log when it was last at rest.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) id: String,
    /// The texts of prompts that were answered `202`. Each prompt of a story has a text of its own.
    pub(crate) prompts: Vec<String>,
    /// Decisions that were answered `204` while no cancel was under way, by the row of their approval.
    pub(crate) decisions: BTreeMap<RowId, Value>,
    /// The title of the last rename that was answered `200`, and those that were tried after it.
    pub(crate) title: Option<String>,
    pub(crate) titles_tried: Vec<String>,
    /// How many renames were acknowledged.
    pub(crate) renames: usize,
    pub(crate) seen: Seen,
    /// Its log at rest.
    log: Vec<u8>,
    /// The lines that were cut short; they are the only ones that may be unreadable.
    torn: BTreeSet<usize>,
    /// How many lines were compared with what a socket had shown.
    pub(crate) compared: u64,
}

impl Ledger {
    pub(crate) fn of(id: String) -> Self {
        Self { id, ..Self::default() }
    }

    pub(crate) fn torn(&self) -> usize {
        self.torn.len()
    }

    pub(crate) fn see(&mut self, watch: &Watch) {
        let state = ReducedState { pending_approval: None, queue: None, ..watch.state.clone() };
        self.seen = Seen { cursor: watch.cursor, rows: watch.rows.clone(), state };
    }

    // === Its log at rest ===

    /// Reads the log of a daemon that does not run any more and holds it to everything known.
    pub(crate) fn look_at_log(&mut self, sessions: &Path) -> Result<(), Failure> {
        let path = sessions.join(format!("{}.events.jsonl", self.id));
        let log = match fs::read(&path) {
            // A session that was killed before its first line.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.log.is_empty() => Vec::new(),
            read => read?,
        };
        if !log.starts_with(&self.log) {
            return Err(format!("the log of {} is not what it was and more", self.id).into());
        }
        let mut lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        } else {
            self.torn.insert(lines.len() - 1);
        }
        let mut facts = Facts::default();
        for (number, line) in lines.iter().enumerate() {
            match serde_json::from_slice::<Value>(line) {
                Ok(line) => facts.take(&line).map_err(|what| format!("line {}: {what}", number + 1))?,
                Err(_) if self.torn.contains(&number) => {}
                Err(error) => {
                    let text = String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
                    return Err(format!("line {} of {}: {error}: {text}", number + 1, self.id).into());
                }
            }
        }
        self.hold(&facts)?;
        if self.seen.cursor > u64::try_from(lines.len())? {
            return Err(format!("line {} of {} was shown and is lost", self.seen.cursor, self.id).into());
        }
        self.log = log;
        Ok(())
    }

    /// Leaves half a line at the end of the log, as a daemon that is killed in the middle of a write.
    pub(crate) fn tear_log(&self, sessions: &Path) -> Result<(), Failure> {
        let path = sessions.join(format!("{}.events.jsonl", self.id));
        if let Ok(mut log) = fs::OpenOptions::new().append(true).open(path) {
            log.write_all(br#"{"sessionId":"acp-1","update":{"sessionUp"#)?;
        }
        Ok(())
    }

    fn hold(&self, facts: &Facts) -> Result<(), Failure> {
        for prompt in &self.prompts {
            if facts.prompts.get(prompt) != Some(&1) {
                let times = facts.prompts.get(prompt).copied().unwrap_or(0);
                return Err(
                    format!("the prompt {prompt:?} was acknowledged and is there {times} times").into()
                );
            }
        }
        for (row, decision) in &self.decisions {
            let outcome = facts.outcomes.get(row.as_str());
            if outcome.is_none_or(|outcome| outcome["decision"] != *decision) {
                return Err(
                    format!("{decision} on {row} was acknowledged, and its outcome is {outcome:?}").into()
                );
            }
        }
        let mut titles = facts.titles.iter().rev();
        let late = |title: &&String| self.titles_tried.iter().any(|tried| tried.as_str() == title.as_str());
        let newest = titles.find(|title| !late(title));
        match (&self.title, newest) {
            (Some(title), Some(newest)) if newest == title.as_str() => Ok(()),
            (None, None) => Ok(()),
            (title, newest) => Err(format!("{title:?} was acknowledged, the log has {newest:?}").into()),
        }
    }

    /// Whether the log at rest says that everything in it is over.
    pub(crate) fn is_closed(&self, sessions: &Path) -> bool {
        let log = fs::read(sessions.join(format!("{}.events.jsonl", self.id))).unwrap_or_default();
        let mut facts = Facts::default();
        let mut lines = log.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let read = lines.try_for_each(|line: Value| facts.take(&line));
        read.is_ok()
            && facts.open_turns == 0
            && facts.approvals.iter().all(|row| facts.outcomes.contains_key(row))
    }

    // === Its replay ===

    /// Holds the replay to what a socket had shown before the crash: the same rows and the same state at the same line.
    pub(crate) async fn look_at_replay(&mut self, door: &Door) -> Result<(), Failure> {
        let (mut rows, mut state) = (Vec::<TranscriptRow>::new(), ReducedState::default());
        let mut since = Some(0);
        'pages: while let Some(from) = since {
            let page: ReplayPage =
                door.replay(&self.id, &format!("since={from}&limit=500")).await?.expect(200).read();
            for event in page.events {
                if event.cursor > self.seen.cursor {
                    break 'pages;
                }
                event.transcript.into_iter().for_each(|delta| apply(&mut rows, delta));
                state = event.state;
            }
            since = page.next.filter(|next| *next < self.seen.cursor);
        }
        let Seen { cursor, rows: seen_rows, state: seen_state } = &self.seen;
        if rows != *seen_rows || (state != *seen_state && *cursor > 0) {
            return Err(format!(
                "{}: at line {cursor} a socket showed {seen_rows:#?} and {seen_state:#?}, \
                 after the crash the replay has {rows:#?} and {state:#?}",
                self.id
            )
            .into());
        }
        self.compared += cursor;
        Ok(())
    }

    /// Holds a new snapshot to the one that was seen before: the same rows first, in the same order.
    pub(crate) fn look_at_snapshot(&self, watch: &Watch) -> Result<(), Failure> {
        let ids = |rows: &[TranscriptRow]| rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        let (before, after) = (ids(&self.seen.rows), ids(&watch.rows));
        if !after.starts_with(&before) {
            return Err(format!("{}: rows {before:?} became {after:?}", self.id).into());
        }
        Ok(())
    }
}

fn apply(rows: &mut Vec<TranscriptRow>, delta: TranscriptDelta) {
    match delta {
        TranscriptDelta::Patch { row } => match rows.iter_mut().find(|known| known.id == row.id) {
            Some(known) => *known = row,
            None => rows.push(row),
        },
        TranscriptDelta::Append { row } => rows.push(row),
        // Replay has neither; a row that differs is told by the comparison.
        TranscriptDelta::Remove { .. } | TranscriptDelta::AppendText { .. } => {}
    }
}

/// What a log says.
#[derive(Debug, Default)]
struct Facts {
    /// The texts of user rows, and how often each is there.
    prompts: BTreeMap<String, u32>,
    approvals: Vec<String>,
    outcomes: BTreeMap<String, Value>,
    titles: Vec<String>,
    open_turns: u32,
    /// The number of the newest chunk of each process of the script.
    chunks: BTreeMap<String, u64>,
}

impl Facts {
    /// Takes in a line. The error says what cannot be.
    fn take(&mut self, line: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match line["maestroEvent"].as_str() {
            Some("approval") => self.approvals.push(text(&line["row"]["id"])),
            Some("approval_resolved") => {
                let row = text(&line["row_id"]);
                if self.outcomes.insert(row.clone(), line["outcome"].clone()).is_some() {
                    return Err(format!("{row} is settled twice"));
                }
            }
            Some("summary") => self.titles.push(text(&line["summary"])),
            Some("turn") if line["phase"] == "started" => self.open_turns += 1,
            Some("turn") => {
                let left = self.open_turns.checked_sub(1);
                self.open_turns = left.ok_or("a turn ends that had not begun")?;
            }
            Some(_) => {}
            None => self.take_update(&line["update"])?,
        }
        if self.open_turns > 1 { Err("two turns are open".into()) } else { Ok(()) }
    }

    fn take_update(&mut self, update: &Value) -> Result<(), String> {
        let text = update["content"]["text"].as_str().unwrap_or_default();
        match update["sessionUpdate"].as_str() {
            Some("user_message_chunk") => *self.prompts.entry(text.into()).or_default() += 1,
            Some("agent_message_chunk") => {
                let numbers = text.strip_suffix(';').and_then(|text| text.split_once('.'));
                let (process, number) = numbers.ok_or_else(|| format!("the chunk {text:?} is not whole"))?;
                let newest = self.chunks.entry(process.into()).or_default();
                if number.parse() != Ok(*newest + 1) {
                    return Err(format!("chunk {text:?} follows number {newest}"));
                }
                *newest += 1;
            }
            Some(_) => {}
            None => return Err("neither an envelope nor an update".into()),
        }
        Ok(())
    }
}
