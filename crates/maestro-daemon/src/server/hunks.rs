//! The changes of a row as unified hunks (CONTRACT §6.6). Pure, but for the limit on how long comparing may take.

use maestro_protocol::{
    Cursor, DiffBlock, Hunk, HunkLine, HunkLineKind, Omitted, RowHunks, TranscriptRow, TranscriptRowKind,
};
use serde_json::Value;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};
use std::time::{Duration, Instant};

/// How many lines are shown around a change.
const CONTEXT_LINES: usize = 3;

/// The longest texts of one block, before and after together. Enough for any source file; a longer one is the row's.
const BLOCK_MAX_BYTES: usize = 2 * 1024 * 1024;

/// How long the comparisons of one row may take in all. After that the rest is compared more coarsely: every line that
/// changed is still there, with others that did not.
const COMPARE_LIMIT: Duration = Duration::from_millis(500);

/// The hunks of a row; `None` if it is no row with a diff.
pub(super) fn of_row(row: &TranscriptRow, cursor: Cursor) -> Option<RowHunks> {
    if row.kind != TranscriptRowKind::ToolDiff {
        return None;
    }
    let deadline = Instant::now() + COMPARE_LIMIT;
    let blocks = row.data.get("content").and_then(Value::as_array).into_iter().flatten();
    let diffs = blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("diff"));
    let diffs = diffs.map(|block| of_block(block, deadline)).collect();
    Some(RowHunks { row_id: row.id.clone(), cursor, diffs })
}

fn of_block(block: &Value, deadline: Instant) -> DiffBlock {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let (path, old) = (text("path").unwrap_or_default().to_owned(), text("oldText"));
    let (is_new, old, new) = (old.is_none(), old.unwrap_or_default(), text("newText").unwrap_or_default());
    let omitted = if old.len() + new.len() > BLOCK_MAX_BYTES {
        Some(Omitted::TooLong)
    } else if old.contains('\0') || new.contains('\0') {
        Some(Omitted::Binary)
    } else {
        None
    };
    let hunks = if omitted.is_none() { compare(old, new, deadline) } else { Vec::new() };
    DiffBlock { path, is_new, omitted, hunks }
}

fn compare(old: &str, new: &str, deadline: Instant) -> Vec<Hunk> {
    // Lines end at a newline and nowhere else, so that a carriage return that came or went is a change.
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    group_diff_ops(in_place(&ops), CONTEXT_LINES).iter().filter_map(|ops| hunk(&old, &new, ops)).collect()
}

/// The same edits, each with its place counted from the lengths of those before it: where the library has moved edits
/// it may name a place of the other text that is not the edit's.
fn in_place(ops: &[DiffOp]) -> Vec<DiffOp> {
    let (mut old_index, mut new_index) = (0, 0);
    let placed = ops.iter().map(|op| {
        let (old_len, new_len) = (op.old_range().len(), op.new_range().len());
        let placed = match op {
            DiffOp::Equal { len, .. } => DiffOp::Equal { old_index, new_index, len: *len },
            DiffOp::Delete { .. } => DiffOp::Delete { old_index, old_len, new_index },
            DiffOp::Insert { .. } => DiffOp::Insert { old_index, new_index, new_len },
            DiffOp::Replace { .. } => DiffOp::Replace { old_index, old_len, new_index, new_len },
        };
        (old_index, new_index) = (old_index + old_len, new_index + new_len);
        placed
    });
    placed.collect()
}

fn hunk(old: &[&str], new: &[&str], ops: &[DiffOp]) -> Option<Hunk> {
    let (first, last) = (ops.first()?, ops.last()?);
    let old_range = first.old_range().start..last.old_range().end;
    let new_range = first.new_range().start..last.new_range().end;
    let mut lines = Vec::new();
    for op in ops {
        let is_equal = op.tag() == DiffTag::Equal;
        let of_old = if is_equal { HunkLineKind::Context } else { HunkLineKind::Delete };
        lines.extend(old.get(op.old_range()).into_iter().flatten().map(|text| line(of_old, text)));
        if !is_equal {
            let inserted = new.get(op.new_range()).into_iter().flatten();
            lines.extend(inserted.map(|text| line(HunkLineKind::Insert, text)));
        }
    }
    Some(Hunk {
        old_start: start(&old_range),
        old_lines: old_range.len() as u64,
        new_start: start(&new_range),
        new_lines: new_range.len() as u64,
        lines,
    })
}

fn line(kind: HunkLineKind, text: &str) -> HunkLine {
    let (line, no_newline) = text.strip_suffix('\n').map_or((text, true), |line| (line, false));
    HunkLine { kind, text: line.to_owned(), no_newline }
}

/// Counted from 1; an empty range stands after the line it names.
fn start(range: &std::ops::Range<usize>) -> u64 {
    (range.start + usize::from(!range.is_empty())) as u64
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_MAX_BYTES, of_row};
    use maestro_protocol::{DiffBlock, Hunk, HunkLineKind, Omitted, RowId, TranscriptRow, TranscriptRowKind};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::time::{Duration, Instant};

    fn row(content: Value) -> TranscriptRow {
        let mut data = json!({"toolCallId": "t"});
        data["content"] = content;
        TranscriptRow { id: RowId::tool("t"), kind: TranscriptRowKind::ToolDiff, data }
    }

    fn block(old: Option<&str>, new: &str) -> DiffBlock {
        let content = json!([{"type": "diff", "path": "/f", "oldText": old, "newText": new}]);
        let mut hunks = of_row(&row(content), 7).expect("a row with a diff");
        assert_eq!((hunks.row_id.as_str(), hunks.cursor, hunks.diffs.len()), ("tool:t", 7, 1));
        hunks.diffs.remove(0)
    }

    /// So many lines, each its own number.
    fn lines(from: u32, n: u32) -> String {
        (from..from + n).fold(String::new(), |text, n| text + &n.to_string() + "\n")
    }

    /// A hunk as `diff -u` prints it.
    fn printed(hunk: &Hunk) -> String {
        let Hunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
        let mut text = format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@\n");
        for line in lines {
            text.push(match line.kind {
                HunkLineKind::Context => ' ',
                HunkLineKind::Delete => '-',
                HunkLineKind::Insert => '+',
            });
            text += &line.text;
            text += if line.no_newline { "\n\\ No newline\n" } else { "\n" };
        }
        text
    }

    #[track_caller]
    fn check(old: Option<&str>, new: &str, expect: &str) {
        let block = block(old, new);
        assert_eq!((block.path.as_str(), block.is_new, block.omitted), ("/f", old.is_none(), None));
        assert_eq!(block.hunks.iter().map(printed).collect::<String>(), expect);
    }

    #[test]
    fn changes_are_told_as_diff_tells_them() {
        check(Some("a\nb\nc\n"), "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        check(None, "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
        check(Some("a\n"), "", "@@ -1,1 +0,0 @@\n-a\n");
        check(Some("a\n"), "a\n", "");
        check(Some(""), "", "");
        check(Some("a"), "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline\n+a\n");
        check(Some("a\r\nb\n"), "a\nb\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n");
        check(Some("a\rb"), "a\rb\n", "@@ -1,1 +1,1 @@\n-a\rb\n\\ No newline\n+a\rb\n");
        check(
            Some("\u{1F980}\u{202e}\n"),
            "\u{1b}[2J\n",
            "@@ -1,1 +1,1 @@\n-\u{1F980}\u{202e}\n+\u{1b}[2J\n",
        );
        check(
            Some(&lines(0, 30)),
            &format!("x\n{}y\n", lines(0, 30)),
            "@@ -1,3 +1,4 @@\n+x\n 0\n 1\n 2\n@@ -28,3 +29,4 @@\n 27\n 28\n 29\n+y\n",
        );
    }

    #[test]
    fn what_is_no_text_or_too_long_is_left_out_by_name() {
        let check = |old: &str, new: &str, expect: Omitted| {
            let block = block(Some(old), new);
            assert_eq!((block.omitted, block.hunks.len()), (Some(expect), 0));
        };
        check("a\0b", "a", Omitted::Binary);
        check("a", "\0", Omitted::Binary);
        check("", &"x".repeat(BLOCK_MAX_BYTES + 1), Omitted::TooLong);
        assert_eq!(block(None, &"x".repeat(BLOCK_MAX_BYTES)).omitted, None);
    }

    #[test]
    fn only_a_row_with_a_diff_has_hunks_and_odd_blocks_have_none() {
        let call = TranscriptRow { kind: TranscriptRowKind::ToolCall, ..row(json!([])) };
        assert_eq!(of_row(&call, 1), None);
        let odd = json!([{"type": "content"}, {"type": "diff"}, {"type": "diff", "path": 7, "oldText": [], "newText": {}}, 5]);
        let hunks = of_row(&row(odd), 1).expect("a row with a diff");
        let nothing = DiffBlock { path: String::new(), is_new: true, omitted: None, hunks: Vec::new() };
        assert_eq!(hunks.diffs, [nothing.clone(), nothing]);
    }

    #[test]
    fn texts_that_have_nothing_in_common_are_compared_in_bounded_time() {
        let (old, new) = (lines(0, 100_000), lines(1_000_000, 100_000));
        let start = Instant::now();
        let block = block(Some(&old), &new);
        // The limit is half a second; the rest is for a machine that does other things.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(patched(&old, &block.hunks), new);
    }

    /// `old` with the hunks applied.
    fn patched(old: &str, hunks: &[Hunk]) -> String {
        let lines = old.split_inclusive('\n').collect::<Vec<_>>();
        let (mut at, mut new) = (0, String::new());
        for hunk in hunks {
            let from = usize::try_from(hunk.old_start).unwrap() - usize::from(hunk.old_lines > 0);
            lines[at..from].iter().for_each(|line| new.push_str(line));
            at = from;
            let written = new.split_inclusive('\n').count();
            assert_eq!(hunk.new_start, (written + usize::from(hunk.new_lines > 0)) as u64);
            for line in &hunk.lines {
                let text = if line.no_newline { line.text.clone() } else { format!("{}\n", line.text) };
                if line.kind != HunkLineKind::Insert {
                    assert_eq!(lines[at], text);
                    at += 1;
                }
                if line.kind != HunkLineKind::Delete {
                    new.push_str(&text);
                }
            }
        }
        lines[at..].iter().for_each(|line| new.push_str(line));
        new
    }

    proptest! {
        #[test]
        fn hunks_make_the_new_text_of_the_old(old in "[ab\r\n]{0,60}", new in "[ab\r\n]{0,60}") {
            let block = block(Some(&old), &new);
            prop_assert_eq!(patched(&old, &block.hunks), new);
        }
    }
}
