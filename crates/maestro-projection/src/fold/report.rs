//! What an agent reports about itself: state and no rows (CONTRACT §4.6).

use super::{StateFold, Step};
use maestro_protocol::{Command, Cost, StateKey};
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// How many commands are kept, and how many bytes of their names, descriptions and hints.
const MAX_COMMANDS: usize = 512;
const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// Clients read numbers as doubles: integers from here on are not exact there.
const NOT_EXACT: u64 = 1 << 53;

impl StateFold {
    pub(super) fn usage_update(&mut self, data: &Object, step: &mut Step) {
        let before = self.context.window();
        self.context.used = tokens(data.get("used")).or(self.context.used);
        self.context.size = tokens(data.get("size")).or(self.context.size);
        step.mark(StateKey::Context, self.context.window() != before);
        if let Some(cost) = data.get("cost").and_then(cost) {
            let usage = self.usage.get_or_insert_default();
            step.mark(StateKey::Usage, usage.cost.as_ref() != Some(&cost));
            step.spent = super::spent::cost(usage.cost.as_ref(), &cost);
            usage.cost = Some(cost);
        }
    }

    pub(super) fn current_mode(&mut self, data: &Object, step: &mut Step) {
        self.offers(step, |fold, _| fold.mode.choose(data.get("currentModeId")));
    }

    pub(super) fn config_options_update(&mut self, data: &Object, step: &mut Step) {
        self.offers(step, |fold, step| fold.new_config_options(data.get("configOptions"), step));
    }

    /// Takes a full set of options. Those of the categories `mode` and `model` also tell the mode and the model.
    pub(super) fn new_config_options(&mut self, options: Option<&Value>, step: &mut Step) {
        let Some(options) = options.filter(|options| options.is_array()) else { return };
        step.mark(StateKey::ConfigOptions, self.config_options.set(Some(options.clone())));
        for option in options.as_array().into_iter().flatten() {
            let text = |key| option.get(key).and_then(Value::as_str);
            match (text("type"), text("category")) {
                (Some("select"), Some("mode")) => self.mode.see_option(option),
                (Some("select"), Some("model")) => self.model.see_option(option),
                _ => {}
            }
        }
    }

    /// Makes a change of mode or model, and marks what shows otherwise after it.
    pub(super) fn offers(&mut self, step: &mut Step, change: impl FnOnce(&mut Self, &mut Step)) {
        let (mode, model) = (self.mode.clone(), self.model.clone());
        change(self, step);
        step.mark(StateKey::Mode, !self.mode.shows(&mode));
        step.mark(StateKey::Model, !self.model.shows(&model));
    }

    pub(super) fn new_commands(&mut self, data: &Object, step: &mut Step) {
        let Some(commands) = data.get("availableCommands").and_then(Value::as_array) else { return };
        let mut bytes = 0;
        let fits = |command: &Command| {
            let hint = command.hint.as_deref().unwrap_or_default();
            bytes += command.name.len() + command.description.len() + hint.len();
            bytes <= MAX_COMMAND_BYTES
        };
        let commands = commands.iter().filter_map(command).take(MAX_COMMANDS).take_while(fits).collect();
        step.mark(StateKey::Commands, self.commands.set(Some(commands)));
    }

    /// An absent title leaves the title, `null` clears it.
    pub(super) fn agent_title(&mut self, data: &Object, step: &mut Step) {
        match data.get("title") {
            Some(Value::String(title)) => step.mark(StateKey::Title, self.title.see_agent(Some(title))),
            Some(Value::Null) => step.mark(StateKey::Title, self.title.see_agent(None)),
            _ => {}
        }
    }
}

fn tokens(value: Option<&Value>) -> Option<u64> {
    value?.as_u64().filter(|tokens| *tokens < NOT_EXACT)
}

fn cost(value: &Value) -> Option<Cost> {
    let amount = value.get("amount")?.as_f64().filter(|amount| amount.is_finite())?;
    Some(Cost { amount, currency: value.get("currency")?.as_str()?.to_owned() })
}

fn command(value: &Value) -> Option<Command> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    Some(Command {
        name: text(value.get("name"))?,
        description: text(value.get("description")).unwrap_or_default(),
        hint: text(value.get("input").and_then(|input| input.get("hint"))),
    })
}
