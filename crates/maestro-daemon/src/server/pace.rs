//! When a socket gets its next frame (CONTRACT §6.3). Pure: the moments come from outside.

use crate::session::{Held, Pulse};
use maestro_projection::DeltaForm;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest pause between two frames that nothing urgent hurries: about thirty frames a second.
const SHORTEST: Duration = Duration::from_millis(33);

/// Frames are rows replaced as a whole, so a long row that grows would be sent over and over. Long frames pause longer,
/// so that no socket costs more than this.
const BYTES_PER_SECOND: u64 = 4 * 1024 * 1024;

/// A frame that only lengthens a text waits until the text is longer by this part. So all such frames of a text are
/// together at most 17 times as long as it is in the end, however small the pieces are in which it comes, and but for
/// those of [`LONGEST_WAIT`].
const GROWN_BY: u64 = 16;

/// But not longer than this after the frame before.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// When what was last sent as a change went out, and how long the next one rests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    form: DeltaForm,
    last_at: Instant,
    pause: Duration,
}

impl Pace {
    /// Nothing was sent yet; the snapshot does not count.
    pub(super) fn start(form: DeltaForm, now: Instant) -> Self {
        Self { form, last_at: now, pause: Duration::ZERO }
    }

    /// Frames of `bytes` together went out at `now`.
    #[must_use]
    pub(super) fn sent(self, now: Instant, bytes: usize) -> Self {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND);
        let shortest = if self.form == DeltaForm::Plain { SHORTEST } else { Duration::ZERO };
        Self { last_at: now, pause: pause.max(shortest), ..self }
    }

    /// From when on the next frame may go to a socket that holds `held`; `None` when it lacks nothing. A moment that is
    /// past means at once. What is only added in the text form costs what is new and never waits: what comes while a
    /// frame is under way is in the next. Rows as a whole are bounded in that form too.
    pub(super) fn due(&self, held: &Held, pulse: &Pulse) -> Option<Instant> {
        let has_news_beside = pulse.overlay > held.overlay;
        if pulse.cursor <= held.cursor && !has_news_beside {
            return None;
        }
        let hurries = pulse.urgent > held.cursor || has_news_beside || pulse.ended.is_some();
        let grows = pulse.reshaped <= held.cursor;
        let pause = match self.form {
            _ if hurries => Duration::ZERO,
            DeltaForm::Text if grows => Duration::ZERO,
            DeltaForm::Plain if grows && !has_grown_enough(held, pulse) => self.pause.max(LONGEST_WAIT),
            DeltaForm::Plain | DeltaForm::Text => self.pause,
        };
        Some(self.last_at + pause)
    }
}

/// Whether a text that grew is longer by the part that is worth a frame.
fn has_grown_enough(held: &Held, pulse: &Pulse) -> bool {
    let added = pulse.streamed - held.streamed;
    let before = pulse.growing.saturating_sub(added);
    added.saturating_mul(GROWN_BY) >= before
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::session::{Held, Pulse};
    use maestro_projection::DeltaForm::{self, Plain, Text};
    use maestro_protocol::EndReason;
    use proptest::prelude::*;
    use std::time::Duration;
    use tokio::time::Instant;

    /// `sent_bytes`: what the last change took, `None` if there was none. `expect`: milliseconds after it.
    #[track_caller]
    fn check_held(
        form: DeltaForm,
        sent_bytes: Option<usize>,
        held: &Held,
        pulse: Pulse,
        expect: Option<u64>,
    ) {
        let now = Instant::now();
        let pace = Pace::start(form, now);
        let pace = sent_bytes.map_or(pace, |bytes| pace.sent(now, bytes));
        assert_eq!(pace.due(held, &pulse), expect.map(|ms| now + Duration::from_millis(ms)));
    }

    #[track_caller]
    fn check(sent_bytes: Option<usize>, sent: u64, pulse: Pulse, expect: Option<u64>) {
        check_held(Plain, sent_bytes, &Held { cursor: sent, ..Held::default() }, pulse, expect);
    }

    fn at(cursor: u64, urgent: u64) -> Pulse {
        Pulse { cursor, urgent, reshaped: cursor, ..Pulse::default() }
    }

    #[test]
    fn the_first_change_and_urgent_ones_go_at_once() {
        check(None, 5, at(6, 0), Some(0));
        check(Some(100_000_000), 5, at(7, 6), Some(0));
        check(Some(100_000_000), 5, Pulse { ended: Some(EndReason::Exited), ..at(6, 0) }, Some(0));
    }

    #[test]
    fn a_change_without_a_line_goes_at_once() {
        check(Some(100_000_000), 6, Pulse { overlay: 1, ..at(6, 6) }, Some(0));
        check(Some(100_000_000), 6, Pulse { overlay: 1, ..at(7, 6) }, Some(0));
    }

    #[test]
    fn other_changes_wait_by_what_the_last_one_took() {
        check(Some(100), 5, at(6, 5), Some(33));
        check(Some(4 * 1024 * 1024), 5, at(6, 5), Some(1000));
        check(Some(1024 * 1024), 5, at(6, 0), Some(250));
    }

    #[test]
    fn in_the_text_form_only_long_frames_of_whole_rows_wait() {
        let held = Held { cursor: 5, ..Held::default() };
        let grown = Pulse { cursor: 6, streamed: 1, growing: 1 << 20, reshaped: 5, ..Pulse::default() };
        check_held(Text, Some(1024 * 1024), &held, grown, Some(0));
        check_held(Text, None, &held, at(6, 0), Some(0));
        check_held(Text, Some(1000), &held, at(6, 0), Some(0));
        check_held(Text, Some(1024 * 1024), &held, at(6, 0), Some(250));
        check_held(Text, Some(1024 * 1024), &held, at(6, 6), Some(0));
    }

    #[test]
    fn nothing_new_is_never_due() {
        check(Some(100), 6, at(6, 6), None);
        check(None, 6, Pulse { ended: Some(EndReason::Exited), ..at(6, 6) }, None);
    }

    /// A text of `before` units, as the socket has it, that grew by `added`.
    #[track_caller]
    fn check_growth(before: u64, added: u64, more: Pulse, expect: u64) {
        let held = Held { cursor: 5, streamed: 70, ..Held::default() };
        let pulse = Pulse { cursor: 9, streamed: 70 + added, growing: before + added, ..more };
        check_held(Plain, Some(100), &held, pulse, Some(expect));
        check_held(Text, Some(100), &held, pulse, Some(0));
    }

    #[test]
    fn a_text_that_only_grows_waits_until_it_grew_enough() {
        let quiet = Pulse { reshaped: 5, urgent: 5, ..Pulse::default() };
        check_growth(1600, 99, quiet, 1000);
        check_growth(1600, 100, quiet, 33);
        check_growth(15, 1, quiet, 33);
        check_growth(0, 1, quiet, 33);
        check_growth(1600, 1, Pulse { reshaped: 6, ..quiet }, 33);
        check_growth(1600, 1, Pulse { urgent: 6, ..quiet }, 0);
        check_growth(1600, 1, Pulse { ended: Some(EndReason::Exited), ..quiet }, 0);
        // A frame so long that its own pause is longer.
        let held = Held { cursor: 5, ..Held::default() };
        let pulse = Pulse { cursor: 6, streamed: 1, growing: 1 << 23, ..quiet };
        check_held(Plain, Some(8 << 20), &held, pulse, Some(2000));
    }

    /// What a plain socket is sent while a text comes in `chunks` pieces of `piece` bytes, one every `every_ms`: each
    /// frame has the text that is there then and a kilobyte around it.
    fn sent_for(chunks: u64, piece: u64, every_ms: u64) -> u64 {
        const AROUND: u64 = 1024;
        let start = Instant::now();
        let mut pace = Pace::start(Plain, start);
        let (mut held, mut sent) = (Held::default(), 0);
        for n in 1..=chunks {
            let text = n * piece;
            let pulse = Pulse {
                cursor: n,
                streamed: text,
                growing: text,
                reshaped: 0,
                urgent: 0,
                overlay: 0,
                ended: None,
            };
            let (now, next) = (n * every_ms, (n + 1) * every_ms);
            let due =
                pace.due(&held, &pulse).expect("something is new").max(start + Duration::from_millis(now));
            if due < start + Duration::from_millis(next) || n == chunks {
                sent += text + AROUND;
                pace = pace.sent(due, usize::try_from(text + AROUND).expect("small"));
                held = Held { cursor: n, streamed: text, ..Held::default() };
            }
        }
        sent
    }

    #[test]
    fn a_growing_text_costs_a_small_multiple_of_itself() {
        const TEXT: u64 = 256 * 1024;
        let wholesale: u64 = (1..=256).map(|n| n * 1024).sum();
        assert!(wholesale > 30 * 1024 * 1024, "what a frame for each chunk would cost");
        let check = |chunks: u64, every_ms: u64| {
            let sent = sent_for(chunks, TEXT / chunks, every_ms);
            // 17 times the text, once more at its end, and the whole once a second while it trickles.
            let budget = 18 * TEXT + TEXT * (chunks * every_ms / 1000);
            assert!(sent <= budget, "{sent} bytes for {chunks} chunks each {every_ms} ms");
        };
        for every_ms in [0, 1, 5, 20] {
            check(256, every_ms);
            check(1024, every_ms);
            check(4096, every_ms);
        }
        assert!(sent_for(256, 1024, 3) <= 18 * TEXT, "a fast one in 256 pieces");
    }

    proptest! {
        /// No socket is sent more than 4 MiB in a second by more than the one frame that is under way.
        #[test]
        fn a_socket_costs_a_bounded_rate(bytes in 0_usize..64 << 20) {
            let now = Instant::now();
            let due = |form| Pace::start(form, now).sent(now, bytes).due(&Held::default(), &at(1, 0));
            let of_text = due(Text).expect("there is a change");
            let due = due(Plain).expect("there is a change");
            prop_assert_eq!(due, of_text.max(now + Duration::from_millis(33)));
            let seconds = (due - now).as_secs_f64() + 0.001;
            #[expect(clippy::cast_precision_loss, reason = "a few bytes more or less do not matter here")]
            let rate = bytes as f64 / seconds;
            prop_assert!(rate <= 4.0 * 1024.0 * 1024.0);
            prop_assert!(due - now >= Duration::from_millis(33));
        }
    }
}
