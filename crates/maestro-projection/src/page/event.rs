use super::rows::{Rows, Touched};
use super::state_text::StateText;
use super::{History, PageError, Paged};
use crate::fold::StateFold;
use crate::line::Line;
use crate::projection::STATE_EVERY;
use crate::touch::DeltaForm;
use maestro_protocol::Cursor;

/// Makes the events of ascending lines.
pub(super) struct Events {
    fold: StateFold,
    state: StateText,
    rows: Rows,
    form: DeltaForm,
}

impl Events {
    /// For the events from `first` on.
    pub(super) fn starting_at<H: History>(history: &mut H, first: Cursor, form: DeltaForm) -> Paged<Self, H> {
        let mut fold = stored_before(history, first)?;
        fold_up_to(&mut fold, history, first)?;
        Ok(Self { state: StateText::of(&fold), rows: Rows::default(), fold, form })
    }

    /// The event of this line as JSON.
    pub(super) fn event<H: History>(&mut self, history: &mut H, cursor: Cursor) -> Paged<Vec<u8>, H> {
        fold_up_to(&mut self.fold, history, cursor)?;
        let bytes = history.line(cursor)?;
        let (line, line_len) = (Line::parse(bytes), bytes.len());
        let step = self.fold.apply(cursor, &line);
        self.state.refresh(&self.fold, &step.state);
        let mut json = format!("{{\"cursor\":{cursor},\"transcript\":[").into_bytes();
        for (place, touch) in (0..).zip(&step.touches) {
            if place > 0 {
                json.push(b',');
            }
            let touched = Touched { cursor, place, touch, line: &line, line_len };
            self.rows.write_delta(history, &touched, self.form, &mut json)?;
        }
        self.rows.shrink(&step.touches);
        json.extend(b"],\"state\":");
        self.state.write(&mut json);
        json.push(b'}');
        Ok(json)
    }
}

/// The fold at the newest stored state before `cursor`.
fn stored_before<H: History>(history: &mut H, cursor: Cursor) -> Paged<StateFold, H> {
    let mut at = (cursor - 1) / STATE_EVERY * STATE_EVERY;
    while at > 0 {
        if let Some(stored) = history.checkpoint(at)? {
            let earlier = |at: Cursor| {
                let named = if at <= history.last() { history.checkpoint(at)? } else { None };
                named.ok_or(PageError::Contradiction(at))
            };
            let fold = StateFold::resume(&stored, earlier)?;
            return fold.filter(|fold| fold.cursor() == at).ok_or(PageError::Contradiction(at));
        }
        at -= STATE_EVERY;
    }
    Ok(StateFold::new())
}

/// Folds the lines that are missing before `cursor`, but for those that change nothing.
fn fold_up_to<H: History>(fold: &mut StateFold, history: &mut H, cursor: Cursor) -> Paged<(), H> {
    for between in fold.cursor() + 1..cursor {
        if !history.is_quiet(between)? {
            fold.apply(between, &Line::parse(history.line(between)?));
        }
    }
    Ok(())
}
