use crate::{RpcError, outgoing};
use maestro_protocol::ConfigValue;
use serde_json::Value;
use std::fmt;

/// Something of a session that a person can choose among what its agent offers (CONTRACT §3.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The mode of this id.
    Mode(String),
    /// The model of this id.
    Model(String),
    /// This value for the configuration option of this id.
    Option {
        /// The option.
        id: String,
        /// Its value.
        value: ConfigValue,
    },
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(id) => write!(f, "the mode `{id}`"),
            Self::Model(id) => write!(f, "the model `{id}`"),
            Self::Option { id, value } => write!(f, "`{value}` for the option `{id}`"),
        }
    }
}

/// Why a setting is not in force. The session goes on as it was (CONTRACT §3.5).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingRefused {
    /// The agent has no such thing.
    #[error("the agent does not offer {wish}; it has {}", list(offered, wish))]
    NotOffered {
        /// What was wished for.
        wish: Setting,
        /// What it offers instead.
        offered: Vec<String>,
    },
    /// The agent said no.
    #[error("the agent refused {wish} with {error}")]
    Rejected {
        /// What was wished for.
        wish: Setting,
        /// The error as the agent sent it.
        error: Box<RpcError>,
    },
    /// The agent said nothing.
    #[error("the agent did not answer whether it took {wish}")]
    NoAnswer {
        /// What was wished for.
        wish: Setting,
    },
}

impl SettingRefused {
    /// What was wished for.
    pub fn wish(&self) -> &Setting {
        match self {
            Self::NotOffered { wish, .. } | Self::Rejected { wish, .. } | Self::NoAnswer { wish } => wish,
        }
    }
}

fn list(offered: &[String], wish: &Setting) -> String {
    if !offered.is_empty() {
        return offered.join(", ");
    }
    match wish {
        Setting::Mode(_) => "no modes".into(),
        Setting::Model(_) => "no models".into(),
        Setting::Option { .. } => "no options".into(),
    }
}

/// What an agent offers, as far as it told: `modes` and `models` at the opening, its options at any time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offers<'a> {
    /// `modes` of the opening.
    pub modes: Option<&'a Value>,
    /// `models` of the opening.
    pub models: Option<&'a Value>,
    /// The newest set of `configOptions`.
    pub config_options: Option<&'a Value>,
}

/// How a setting is brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Not at all: it is in force as far as the agent told.
    InForce(Ask),
    /// By asking the agent.
    Ask(Ask),
    /// Not at all: the agent has these and no such one.
    NotOffered(Vec<String>),
}

/// The request that asks for a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// `session/set_mode`.
    SetMode(String),
    /// `session/set_model`.
    SetModel(String),
    /// `session/set_config_option` of this option.
    SetOption {
        /// The option.
        id: String,
        /// Its value.
        value: ConfigValue,
    },
}

impl Ask {
    /// The request as a line.
    pub fn message(&self, id: u64, session: &str) -> Vec<u8> {
        match self {
            Self::SetMode(mode) => outgoing::set_mode(id, session, mode),
            Self::SetModel(model) => outgoing::set_model(id, session, model),
            Self::SetOption { id: option, value } => outgoing::set_config_option(id, session, option, value),
        }
    }

    /// The full set of options that an answer to this request holds, if it is of that kind.
    pub fn config_options(&self, answer: &Value) -> Option<Value> {
        match self {
            Self::SetMode(_) | Self::SetModel(_) => None,
            Self::SetOption { .. } => {
                answer.get("configOptions").filter(|options| options.is_array()).cloned()
            }
        }
    }
}

/// Decides by what the agent told. A mode or a model is asked for by its own request where the opening named such, else
/// by the select option of that category.
pub fn plan(wish: &Setting, offers: Offers<'_>) -> Plan {
    match wish {
        Setting::Mode(mode) => {
            let told = offers.modes.map(|modes| (modes, "currentModeId", "availableModes", "id"));
            choice(told, offers, "mode", mode, Ask::SetMode(mode.clone()))
        }
        Setting::Model(model) => {
            let told = offers.models.map(|models| (models, "currentModelId", "availableModels", "modelId"));
            choice(told, offers, "model", model, Ask::SetModel(model.clone()))
        }
        Setting::Option { id, value } => {
            let option = options(offers).find(|option| text(option, "id") == Some(id));
            let Some(option) = option else { return Plan::NotOffered(ids_of(offers)) };
            let ask = Ask::SetOption { id: id.clone(), value: value.clone() };
            match value {
                ConfigValue::Id(value) if text(option, "type") != Some("boolean") => {
                    decide(text(option, "currentValue"), option_values(option), value, ask)
                }
                ConfigValue::Flag(flag) if text(option, "type") == Some("boolean") => {
                    let current = option.get("currentValue").and_then(Value::as_bool);
                    if current == Some(*flag) { Plan::InForce(ask) } else { Plan::Ask(ask) }
                }
                ConfigValue::Id(_) => Plan::NotOffered(vec!["true".into(), "false".into()]),
                ConfigValue::Flag(_) => Plan::NotOffered(option_values(option)),
            }
        }
    }
}

fn choice(
    told: Option<(&Value, &str, &str, &str)>,
    offers: Offers<'_>,
    category: &str,
    wish: &str,
    ask: Ask,
) -> Plan {
    if let Some((offer, current, available, key)) = told {
        return decide(text(offer, current), ids(offer.get(available), key), wish, ask);
    }
    let is_select = |option: &&Value| {
        text(option, "category") == Some(category) && text(option, "type") == Some("select")
    };
    let option = options(offers).filter(is_select).find_map(|option| Some((option, text(option, "id")?)));
    let Some((option, id)) = option else { return Plan::NotOffered(Vec::new()) };
    let ask = Ask::SetOption { id: id.to_owned(), value: ConfigValue::Id(wish.to_owned()) };
    decide(text(option, "currentValue"), option_values(option), wish, ask)
}

/// A list that is empty tells nothing, so the agent is asked.
fn decide(current: Option<&str>, offered: Vec<String>, wish: &str, ask: Ask) -> Plan {
    if current == Some(wish) {
        Plan::InForce(ask)
    } else if offered.is_empty() || offered.iter().any(|one| one == wish) {
        Plan::Ask(ask)
    } else {
        Plan::NotOffered(offered)
    }
}

fn options(offers: Offers<'_>) -> impl Iterator<Item = &Value> {
    offers.config_options.and_then(Value::as_array).into_iter().flatten()
}

fn ids_of(offers: Offers<'_>) -> Vec<String> {
    ids(offers.config_options, "id")
}

/// The values of a select option, flat or in groups.
fn option_values(option: &Value) -> Vec<String> {
    let entries = option.get("options").and_then(Value::as_array).into_iter().flatten();
    entries
        .flat_map(|entry| match entry.get("options") {
            Some(group) => ids(Some(group), "value"),
            None => text(entry, "value").map(str::to_owned).into_iter().collect(),
        })
        .collect()
}

fn ids(list: Option<&Value>, key: &str) -> Vec<String> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| text(entry, key).map(str::to_owned)).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
