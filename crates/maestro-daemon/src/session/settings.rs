//! Modes, models and options: asked of the agent, and in force and in the log once it accepted them (CONTRACT §3.5).

use crate::session::{
    actor::{AfterFlush, Phase, SessionActor, answer},
    handle::{Reply, SessionError},
    start::Wish,
};
use maestro_acp::{
    AgentEntry, Ask, Offers, Plan, RpcError, SETTING_TIMEOUT, Setting, SettingRefused, Settled, plan,
};
use maestro_log::AppendError;
use maestro_protocol::{Envelope, SessionLine, SessionLineEvent, Timestamp, json};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Settings that an agent may owe an answer to. A person changes one at a time; more means that the agent answers none.
const OPEN_MAX: usize = 8;

/// A setting that the agent was asked for.
struct Asked {
    wish: Setting,
    ask: Ask,
    /// Whoever waits, and until when. Nobody does once that is over; an answer that comes later counts all the same.
    waits: Option<(Reply<()>, Instant)>,
}

/// The settings that the agent was asked for and did not answer, by request id.
#[derive(Default)]
pub(super) struct Settings {
    open: BTreeMap<u64, Asked>,
}

impl Settings {
    /// When the next who waits is told that no answer came.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.values().filter_map(|asked| asked.waits.as_ref()).map(|(_, until)| *until).min()
    }

    pub(super) fn contains(&self, request: u64) -> bool {
        self.open.contains_key(&request)
    }

    /// The agent is gone.
    pub(super) fn give_up(&mut self) {
        for asked in std::mem::take(&mut self.open).into_values() {
            if let Some((reply, _)) = asked.waits {
                answer(reply, Err(SessionError::NotStructured));
            }
        }
    }
}

impl SessionActor {
    /// Asks the agent for a setting, if it offers it. The person is answered when it took it and the log has it.
    pub(super) fn on_setting(&mut self, wish: Setting, reply: Reply<()>) {
        let options = self.journal.projection().state().config_options;
        let Phase::Running(agent) = &mut self.phase else {
            let dead = matches!(self.phase, Phase::Dead);
            return answer(
                reply,
                Err(if dead { SessionError::NotStructured } else { SessionError::Starting }),
            );
        };
        let offers = Offers {
            modes: agent.modes.as_ref(),
            models: agent.models.as_ref(),
            config_options: options.as_ref(),
        };
        let ask = match plan(&wish, offers) {
            // What is in force is asked for too: an agent need not tell every change of its own.
            Plan::InForce(ask) | Plan::Ask(ask) => ask,
            Plan::NotOffered(offered) => {
                return answer(reply, Err(SettingRefused::NotOffered { wish, offered }.into()));
            }
        };
        if self.settings.open.len() >= OPEN_MAX {
            return answer(reply, Err(SessionError::Busy));
        }
        let session = &agent.acp_session_id;
        let (request, message) = agent.connection.prepare(|id| ask.message(id, session));
        let waits = Some((reply, Instant::now() + SETTING_TIMEOUT));
        self.settings.open.insert(request, Asked { wish, ask, waits });
        self.send(message);
    }

    /// The agent answered. When the line does not fit nothing has happened, so that it can be tried again.
    pub(super) fn on_setting_answered(
        &mut self,
        request: u64,
        result: &Result<Box<RawValue>, RpcError>,
    ) -> Result<(), AppendError> {
        let Some(asked) = self.settings.open.get(&request) else { return Ok(()) };
        if let Ok(told) = result {
            let told = json::from_slice(told.get().as_bytes()).unwrap_or_default();
            let settled =
                Settled { setting: asked.wish.clone(), config_options: asked.ask.config_options(&told) };
            let line = self.setting_line(settled);
            self.journal.append_envelope(&line)?;
        }
        let Some(Asked { wish, waits, .. }) = self.settings.open.remove(&request) else { return Ok(()) };
        match (result, waits) {
            (Ok(_), Some((reply, _))) => self.after_flush(AfterFlush::Tell(reply)),
            (Ok(_), None) => self.after_flush_quietly(),
            (Err(error), Some((reply, _))) => {
                answer(reply, Err(SettingRefused::Rejected { wish, error: Box::new(error.clone()) }.into()));
            }
            (Err(error), None) => {
                tracing::debug!(session.id = %self.stored.id(), "The agent refused a setting late, with code {}", error.code);
            }
        }
        Ok(())
    }

    /// Tells those who have waited for long enough. While the log waits for space, the answer may be here unheard.
    pub(super) fn on_settings_over(&mut self) {
        let (now, stalled) = (Instant::now(), self.is_stalled());
        for asked in self.settings.open.values_mut() {
            if let Some((reply, _)) = asked.waits.take_if(|(_, until)| *until <= now) {
                answer(
                    reply,
                    Err(if stalled {
                        SessionError::LogUnwritable
                    } else {
                        SettingRefused::NoAnswer { wish: asked.wish.clone() }.into()
                    }),
                );
            }
        }
    }

    /// The line that says that a setting is in force.
    pub(super) fn setting_line(&self, settled: Settled) -> Envelope {
        let acp_session_id = self.stored.session.acp_session_id.as_deref().unwrap_or_default();
        Envelope::Session(line(settled, acp_session_id, self.around.sources.clock.now()))
    }

    /// What the agent is asked for at its start: for a new session what the request wished, else what was last in
    /// force or chosen.
    pub(super) fn wishes(&self, wish: Wish, entry: &AgentEntry) -> Vec<Setting> {
        let projection = self.journal.projection();
        let again = wish != Wish::First;
        let last_mode = projection.state().mode.and_then(|mode| mode.current).filter(|_| again);
        let mode = last_mode.or_else(|| self.stored.mode.clone()).or_else(|| entry.asking_mode.clone());
        let chosen = projection.chosen();
        let model = chosen.model.clone().or_else(|| self.stored.model.clone());
        let options = chosen.options.iter();
        let options = options.map(|(id, value)| Setting::Option { id: id.clone(), value: value.clone() });
        mode.map(Setting::Mode).into_iter().chain(model.map(Setting::Model)).chain(options).collect()
    }
}

fn line(settled: Settled, acp_session_id: &str, at: Timestamp) -> SessionLine {
    let Settled { setting, config_options } = settled;
    let line = |event| SessionLine { config_options, ..SessionLine::new(event, acp_session_id.into(), at) };
    match setting {
        Setting::Mode(id) => SessionLine { mode_id: Some(id), ..line(SessionLineEvent::ModeSet) },
        Setting::Model(id) => SessionLine { model_id: Some(id), ..line(SessionLineEvent::ModelSet) },
        Setting::Option { id, value } => {
            SessionLine { config_id: Some(id), value: Some(value), ..line(SessionLineEvent::ConfigSet) }
        }
    }
}

impl From<SettingRefused> for SessionError {
    fn from(refused: SettingRefused) -> Self {
        let told = refused.to_string();
        match &refused {
            SettingRefused::NotOffered { wish, .. } => {
                let field = match wish {
                    Setting::Mode(_) => "mode_id",
                    Setting::Model(_) => "model_id",
                    Setting::Option { .. } => "value",
                };
                Self::NotOffered { field, told }
            }
            SettingRefused::Rejected { .. } => Self::AgentRefused { told },
            SettingRefused::NoAnswer { .. } => Self::AgentSilent { told },
        }
    }
}
