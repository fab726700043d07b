use super::kept::Kept;
use maestro_protocol::{ModeState, ModelState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A choice among what an agent offers: its modes or its models.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    current: Option<String>,
    /// `None` instead of null.
    pub(super) available: Kept<Value>,
    /// Whether `available` is from a handshake's `modes` or `models`, which a config option does not replace.
    from_handshake: bool,
}

impl Offer {
    pub(super) fn mode(&self) -> Option<ModeState> {
        let available = self.available.get();
        let known = self.current.is_some() || available.is_some();
        known.then(|| ModeState {
            current: self.current.clone(),
            available: available.cloned().unwrap_or_default(),
        })
    }

    pub(super) fn model(&self) -> Option<ModelState> {
        self.mode().map(|ModeState { current, available }| ModelState { current, available })
    }

    /// Whether both show the same.
    pub(super) fn shows(&self, other: &Self) -> bool {
        self.current == other.current && self.available.get() == other.available.get()
    }

    /// Takes a handshake's `{<current_key>, <available_key>}`.
    pub(super) fn see_handshake(&mut self, offer: &Value, current_key: &str, available_key: &str) {
        self.choose(offer.get(current_key));
        if let Some(available) = offer.get(available_key).filter(|available| !available.is_null()) {
            self.offer(available);
            self.from_handshake = true;
        }
    }

    /// Takes a config option of this choice's category.
    pub(super) fn see_option(&mut self, option: &Value) {
        self.choose(option.get("currentValue"));
        if let Some(available) = option.get("options").filter(|_| !self.from_handshake) {
            self.offer(available);
        }
    }

    /// Takes what is in use now, if `current` names something.
    pub(super) fn choose(&mut self, current: Option<&Value>) {
        if let Some(current) = current.and_then(Value::as_str) {
            self.current = Some(current.to_owned());
        }
    }

    fn offer(&mut self, available: &Value) {
        self.available.set(Some(available.clone()).filter(|available| !available.is_null()));
    }
}
