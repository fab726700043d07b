use crate::fold::StateFold;
use maestro_protocol::StateKey;

/// All keys of the state, in their order.
const KEYS: [(StateKey, &str); 10] = [
    (StateKey::Turn, "{\"turn\":"),
    (StateKey::PendingApproval, ",\"pending_approval\":"),
    (StateKey::Plan, ",\"plan\":"),
    (StateKey::Usage, ",\"usage\":"),
    (StateKey::Context, ",\"context\":"),
    (StateKey::Model, ",\"model\":"),
    (StateKey::Mode, ",\"mode\":"),
    (StateKey::ConfigOptions, ",\"config_options\":"),
    (StateKey::Commands, ",\"commands\":"),
    (StateKey::Title, ",\"title\":"),
];

/// The state as JSON, made anew only where it changed: most lines change nothing of it, and all have it.
pub(super) struct StateText {
    values: [Vec<u8>; KEYS.len()],
}

impl StateText {
    pub(super) fn of(fold: &StateFold) -> Self {
        Self { values: KEYS.map(|(key, _)| fold.key_json(key)) }
    }

    /// Takes over the keys that a line changed.
    pub(super) fn refresh(&mut self, fold: &StateFold, changed: &[StateKey]) {
        for (value, (key, _)) in self.values.iter_mut().zip(KEYS) {
            if changed.contains(&key) {
                *value = fold.key_json(key);
            }
        }
    }

    pub(super) fn write(&self, json: &mut Vec<u8>) {
        json.reserve(self.values.iter().map(|value| value.len() + 24).sum());
        for (value, (_, name)) in self.values.iter().zip(KEYS) {
            json.extend(name.as_bytes());
            json.extend(value);
        }
        json.push(b'}');
    }
}
