use super::StateFold;
use maestro_protocol::{ConfigValue, SessionLine, SessionLineEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What people chose of what the agent offers, to be asked for again of its next process (CONTRACT §3.5). The mode is
/// not among it: agents change that themselves, and the one last in force counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The model.
    pub model: Option<String>,
    /// Values of options that are neither the mode nor the model, by the option's id.
    pub options: BTreeMap<String, ConfigValue>,
}

impl StateFold {
    /// Takes a choice that the agent accepted.
    pub(super) fn see_choice(&mut self, line: &SessionLine) {
        match (line.event, &line.config_id, &line.value) {
            (SessionLineEvent::ModelSet, ..) => self.chosen.model.clone_from(&line.model_id),
            (SessionLineEvent::ConfigSet, Some(id), Some(value)) => match (self.category(id), value) {
                (Some("mode"), _) => {}
                (Some("model"), ConfigValue::Id(model)) => self.chosen.model = Some(model.clone()),
                _ => {
                    self.chosen.options.insert(id.clone(), value.clone());
                }
            },
            _ => {}
        }
    }

    fn category(&self, id: &str) -> Option<&str> {
        let options = self.config_options.get()?.as_array()?;
        options.iter().find(|option| option["id"] == id)?.get("category")?.as_str()
    }

    /// The set of options with a choice that the agent accepted without telling the new set.
    pub(super) fn with_choice(&self, line: &SessionLine) -> Option<Value> {
        let (Some(id), Some(value), None) = (&line.config_id, &line.value, &line.config_options) else {
            return None;
        };
        let mut options = self.config_options.get().cloned()?;
        let option = options.as_array_mut()?.iter_mut().find(|option| option["id"] == *id)?;
        option.as_object_mut()?.insert("currentValue".into(), json!(value));
        Some(options)
    }
}
