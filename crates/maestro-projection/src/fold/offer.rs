use maestro_protocol::{ModeState, ModelState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A choice among what an agent offers: its modes or its models.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    current: Option<String>,
    available: Arc<Value>,
    /// Whether `available` is from a handshake's `modes` or `models`, which a config option does not replace.
    from_handshake: bool,
}

impl Offer {
    pub(super) fn mode(&self) -> Option<ModeState> {
        let known = self.current.is_some() || !self.available.is_null();
        known.then(|| ModeState { current: self.current.clone(), available: (*self.available).clone() })
    }

    pub(super) fn model(&self) -> Option<ModelState> {
        self.mode().map(|ModeState { current, available }| ModelState { current, available })
    }

    /// Whether both show the same.
    pub(super) fn shows(&self, other: &Self) -> bool {
        self.current == other.current && self.available == other.available
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
        if *self.available != *available {
            self.available = Arc::new(available.clone());
        }
    }
}
