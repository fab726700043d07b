use crate::{
    Command, ContextWindow, ModeState, ModelState, PendingApproval, QueueState, ReducedState, StateKey,
    TurnState, Usage,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The top-level keys of a [`ReducedState`] that changed, in the text form of frames (CONTRACT §6.3). A key that is
/// absent is as it was; one that is `null` was cleared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StatePatch {
    /// The turn and its indicators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub turn: Option<TurnState>,
    /// The one approval that can be answered now.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<PendingApproval>))]
    pub pending_approval: Option<Option<PendingApproval>>,
    /// The newest plan, as its row holds it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Value>))]
    pub plan: Option<Option<Value>>,
    /// What was used so far.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Usage>))]
    pub usage: Option<Option<Usage>>,
    /// How full the agent's context is.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<ContextWindow>))]
    pub context: Option<Option<ContextWindow>>,
    /// The model in use and those offered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<ModelState>))]
    pub model: Option<Option<ModelState>>,
    /// The mode in use and those offered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<ModeState>))]
    pub mode: Option<Option<ModeState>>,
    /// The agent's configuration options, verbatim.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Value>))]
    pub config_options: Option<Option<Value>>,
    /// The agent's commands.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<Command>>))]
    pub commands: Option<Option<Vec<Command>>>,
    /// The session's title.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub title: Option<Option<String>>,
    /// The messages that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub queue: Option<QueueState>,
}

impl StatePatch {
    /// The patch that brings these keys of a state to what they are in `state`.
    pub fn of(state: ReducedState, keys: &[StateKey]) -> Self {
        let has = |key: StateKey| keys.contains(&key);
        Self {
            turn: has(StateKey::Turn).then_some(state.turn),
            pending_approval: has(StateKey::PendingApproval).then_some(state.pending_approval),
            plan: has(StateKey::Plan).then_some(state.plan),
            usage: has(StateKey::Usage).then_some(state.usage),
            context: has(StateKey::Context).then_some(state.context),
            model: has(StateKey::Model).then_some(state.model),
            mode: has(StateKey::Mode).then_some(state.mode),
            config_options: has(StateKey::ConfigOptions).then_some(state.config_options),
            commands: has(StateKey::Commands).then_some(state.commands),
            title: has(StateKey::Title).then_some(state.title),
            queue: state.queue.filter(|_| has(StateKey::Queue)),
        }
    }

    /// Lays the keys that are present over `state`.
    pub fn apply(self, state: &mut ReducedState) {
        lay(&mut state.turn, self.turn);
        lay(&mut state.pending_approval, self.pending_approval);
        lay(&mut state.plan, self.plan);
        lay(&mut state.usage, self.usage);
        lay(&mut state.context, self.context);
        lay(&mut state.model, self.model);
        lay(&mut state.mode, self.mode);
        lay(&mut state.config_options, self.config_options);
        lay(&mut state.commands, self.commands);
        lay(&mut state.title, self.title);
        // A live state always has one, so it is never cleared.
        lay(&mut state.queue, self.queue.map(Some));
    }
}

fn lay<T>(place: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *place = new;
    }
}

/// A key that is there, even if it is `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::StatePatch;
    use crate::{QueueState, ReducedState, StateKey};
    use serde_json::{Map, Value, json};

    const ALL: [StateKey; 11] = [
        StateKey::Turn,
        StateKey::PendingApproval,
        StateKey::Plan,
        StateKey::Usage,
        StateKey::Context,
        StateKey::Model,
        StateKey::Mode,
        StateKey::ConfigOptions,
        StateKey::Commands,
        StateKey::Title,
        StateKey::Queue,
    ];

    /// Every key with something in it.
    fn full() -> ReducedState {
        let option = json!({"option_id": "a", "name": "A", "kind": "allow_once"});
        serde_json::from_value(json!({
            "turn": {"active": true, "origin": "person", "responding": true, "thinking": false,
                "active_tool_calls": ["t"], "turn_id": "turn:1", "started_at": null, "last_end": null},
            "pending_approval": {"nonce": null, "row_id": "approval:1", "options": [option], "decisions": ["Deny"]},
            "plan": {"entries": []},
            "usage": {"cost": null, "last_turn": null},
            "context": {"used": 1, "size": 2},
            "model": {"current": "m", "available": null},
            "mode": {"current": "n", "available": null},
            "config_options": [],
            "commands": [{"name": "c", "description": "d", "hint": null}],
            "title": "t",
            "queue": {"items": [], "held": "failed"},
        }))
        .expect("a state")
    }

    /// A patch holds its keys and no other, on the wire too, and brings a state there.
    #[track_caller]
    fn check(keys: &[StateKey], from: &ReducedState, to: &ReducedState) {
        let patch = StatePatch::of(to.clone(), keys);
        let wire = serde_json::to_value(&patch).expect("JSON");
        let (of_to, of_from) =
            (serde_json::to_value(to).expect("JSON"), serde_json::to_value(from).expect("JSON"));
        let name =
            |key: &StateKey| serde_json::to_value(key).expect("JSON").as_str().expect("a text").to_owned();
        let names = keys.iter().map(name).collect::<Vec<_>>();
        let expect: Map<String, Value> =
            names.iter().map(|name| (name.clone(), of_to[name.as_str()].clone())).collect();
        assert_eq!(wire, Value::Object(expect), "{keys:?}");

        let mut state = from.clone();
        serde_json::from_value::<StatePatch>(wire).expect("a patch").apply(&mut state);
        let mut expect = of_from;
        for name in names {
            expect[name.as_str()] = of_to[name.as_str()].clone();
        }
        assert_eq!(serde_json::to_value(state).expect("JSON"), expect, "{keys:?}");
    }

    #[test]
    fn a_patch_sets_and_clears_its_keys_and_no_other() {
        let empty = ReducedState { queue: Some(QueueState::default()), ..ReducedState::default() };
        let full = full();
        let keys = serde_json::to_value(&full).expect("JSON").as_object().expect("keys").len();
        assert_eq!(ALL.len(), keys, "a key of the state is missing here");
        for key in ALL {
            check(&[key], &empty, &full);
            check(&[key], &full, &empty);
        }
        check(&ALL, &empty, &full);
        check(&ALL, &full, &empty);
        check(&[], &empty, &full);
    }
}
