use crate::{
    AgentEntry, Ask, Connection, Frame, HANDSHAKE_TIMEOUT, Offers, Plan, RpcError, SETTING_TIMEOUT, Setting,
    SettingRefused, UpdateClass, outgoing, setting,
};
use maestro_protocol::json;
use serde_json::{Value, value::RawValue};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

mod error;

pub use error::{HandshakeError, Phase};

/// Bytes of updates that may come before the session is open. Full sets of commands of half a megabyte were seen,
/// several times; an agent that sends much more before it is asked anything is broken.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a kept frame counts besides its bytes.
const FRAME_BYTES: usize = 256;

/// Which session to open with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionOpen {
    /// A fresh one.
    New {
        /// The absolute directory it works in.
        cwd: String,
    },
    /// One that the agent made before.
    Load {
        /// The agent's id of it.
        id: String,
        /// The absolute directory it works in.
        cwd: String,
    },
}

/// A setting that is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The setting.
    pub setting: Setting,
    /// The full set of options that the agent told with its answer, if it did.
    pub config_options: Option<Value>,
}

/// What came of a handshake.
#[derive(Debug)]
pub struct Opened {
    /// The agent's id of the session.
    pub acp_session_id: String,
    /// `modes` of the answer, verbatim.
    pub modes: Option<Value>,
    /// `models` of the answer, verbatim: older agents tell their models so, outside today's protocol.
    pub models: Option<Value>,
    /// `configOptions` of the answer, verbatim.
    pub config_options: Option<Value>,
    /// Whether the agent can load the session later.
    pub load_supported: bool,
    /// Updates and notices that came during the handshake, in their order, for the log.
    pub kept: Vec<Frame>,
    /// What came of each wish, in the order of the wishes.
    pub settled: Vec<Result<Settled, SettingRefused>>,
}

/// Opens a session with an agent: `initialize`, `session/new` or `session/load`, and the wished settings one after the
/// other, together within [`HANDSHAKE_TIMEOUT`] (CONTRACT §3). Whatever the agent asks meanwhile is answered: a permission is cancelled, the
/// rest is not implemented. What the agent sends after the last answer stays in the connection.
///
/// During a load, updates of class [`UpdateClass::Content`] are dropped, for the log has them already; after it, until
/// nothing came for the entry's `load_drain_ms`.
///
/// # Errors
/// The session is not open; the process, which is the caller's, still runs. A refused setting is no error.
pub async fn open(
    connection: &mut Connection,
    entry: &AgentEntry,
    open: SessionOpen,
    wishes: Vec<Setting>,
) -> Result<Opened, HandshakeError> {
    let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
    let replaying = matches!(open, SessionOpen::Load { .. });
    let mut run =
        Handshake { connection, phase: Phase::Initialize, kept: Vec::new(), kept_bytes: 0, replaying };
    let drain = Duration::from_millis(entry.load_drain_ms);
    let mut opened = match timeout_at(deadline, run.open_session(&open, drain)).await {
        Ok(opened) => opened?,
        Err(_elapsed) => return Err(HandshakeError::TimedOut { phase: run.phase }),
    };
    for wish in wishes {
        let settled = run.settle(&opened, wish, deadline).await?;
        opened.settled.push(settled);
    }
    opened.kept = run.kept;
    Ok(opened)
}

struct Handshake<'a> {
    connection: &'a mut Connection,
    phase: Phase,
    kept: Vec<Frame>,
    kept_bytes: usize,
    /// Whether content is history that the log has already.
    replaying: bool,
}

type Answer = Result<Box<RawValue>, RpcError>;

impl Handshake<'_> {
    async fn open_session(&mut self, open: &SessionOpen, drain: Duration) -> Result<Opened, HandshakeError> {
        let initialized = self.ask(outgoing::initialize).await?;
        let load_supported = self.read_capabilities(&initialized)?;
        match open {
            SessionOpen::New { cwd } => {
                self.phase = Phase::New;
                let result = self.ask(|id| outgoing::session_new(id, cwd)).await?;
                let session = result.get("sessionId").and_then(Value::as_str).filter(|id| !id.is_empty());
                let session = session.ok_or(HandshakeError::NoSessionId)?.to_owned();
                Ok(opened(session, result, load_supported))
            }
            SessionOpen::Load { .. } if !load_supported => Err(HandshakeError::CannotLoad),
            SessionOpen::Load { id: session, cwd } => {
                self.phase = Phase::Load;
                let result = self.ask(|id| outgoing::session_load(id, session, cwd)).await?;
                self.drain(drain).await?;
                self.replaying = false;
                Ok(opened(session.clone(), result, load_supported))
            }
        }
    }

    /// Whether the agent can load sessions. Everything else that it says of itself may have any shape.
    fn read_capabilities(&self, initialized: &Value) -> Result<bool, HandshakeError> {
        match initialized.get("protocolVersion") {
            Some(version) if version.as_u64() == Some(1) => {}
            Some(version) => return Err(HandshakeError::WrongVersion { version: version.to_string() }),
            None => return Err(HandshakeError::WrongVersion { version: "none".into() }),
        }
        debug_assert_eq!(self.phase, Phase::Initialize);
        Ok(initialized.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true))
    }

    /// Waits until nothing came for `quiet`; not at all if `quiet` is zero.
    async fn drain(&mut self, quiet: Duration) -> Result<(), HandshakeError> {
        while !quiet.is_zero() {
            match timeout(quiet, self.next()).await {
                Ok(frame) => self.set_aside(frame?).await?,
                Err(_elapsed) => break,
            }
        }
        Ok(())
    }

    async fn settle(
        &mut self,
        opened: &Opened,
        wish: Setting,
        deadline: Instant,
    ) -> Result<Result<Settled, SettingRefused>, HandshakeError> {
        self.phase = Phase::Settings;
        // The newest set of options, if an earlier wish brought one.
        let told = opened.settled.iter().rev().flatten().find_map(|settled| settled.config_options.as_ref());
        let offers = Offers {
            modes: opened.modes.as_ref(),
            models: opened.models.as_ref(),
            config_options: told.or(opened.config_options.as_ref()),
        };
        let ask = match setting::plan(&wish, offers) {
            Plan::InForce(_) => return Ok(Ok(Settled { setting: wish, config_options: None })),
            Plan::NotOffered(offered) => return Ok(Err(SettingRefused::NotOffered { wish, offered })),
            Plan::Ask(ask) => ask,
        };
        let deadline = deadline.min(Instant::now() + SETTING_TIMEOUT);
        let message = |id| Ask::message(&ask, id, &opened.acp_session_id);
        match timeout_at(deadline, self.request(message)).await {
            Ok(answer) => Ok(match answer? {
                Ok(result) => {
                    Ok(Settled { setting: wish, config_options: ask.config_options(&value_of(&result)) })
                }
                Err(error) => Err(SettingRefused::Rejected { wish, error: Box::new(error) }),
            }),
            Err(_elapsed) => Ok(Err(SettingRefused::NoAnswer { wish })),
        }
    }

    /// Sends a request of the current phase and returns its result, which may be `null`.
    async fn ask(&mut self, message: impl FnOnce(u64) -> Vec<u8>) -> Result<Value, HandshakeError> {
        let phase = self.phase;
        let result = self.request(message).await?;
        let result = result.map_err(|error| HandshakeError::Rejected { phase, error })?;
        Ok(value_of(&result))
    }

    async fn request(&mut self, message: impl FnOnce(u64) -> Vec<u8>) -> Result<Answer, HandshakeError> {
        let phase = self.phase;
        let asked = self.connection.request(message);
        let asked = asked.map_err(|source| HandshakeError::Unsent { phase, source })?;
        loop {
            match self.next().await? {
                Frame::Response { id, result } if id == asked => return Ok(result),
                other => self.set_aside(other).await?,
            }
        }
    }

    async fn next(&mut self) -> Result<Frame, HandshakeError> {
        if let Some(frame) = self.connection.next_frame().await {
            return Ok(frame);
        }
        let source = self.connection.reader_end().await;
        Err(HandshakeError::Ended { phase: self.phase, source })
    }

    /// Deals with a frame that is not what is waited for.
    async fn set_aside(&mut self, frame: Frame) -> Result<(), HandshakeError> {
        let answer = match frame {
            Frame::Update { class: UpdateClass::Content, .. } if self.replaying => return Ok(()),
            Frame::Update { ref params, .. } => {
                let bytes = params.len();
                return self.keep(frame, bytes);
            }
            Frame::Notice(ref notice) => {
                let bytes = notice.text.len();
                return self.keep(frame, bytes);
            }
            Frame::PermissionRequest(request) => outgoing::permission_cancelled(&request.id),
            Frame::UnknownRequest { id, .. } => outgoing::method_not_found(&id),
            Frame::CancelRequest { .. }
            | Frame::Response { .. }
            | Frame::OtherNotification { .. }
            | Frame::StrayResponse => return Ok(()),
        };
        let sent = self.connection.outbox().send_when_free(answer).await;
        sent.map_err(|source| HandshakeError::Unsent { phase: self.phase, source })
    }

    fn keep(&mut self, frame: Frame, bytes: usize) -> Result<(), HandshakeError> {
        self.kept_bytes += bytes + FRAME_BYTES;
        if self.kept_bytes > KEPT_BYTES_MAX {
            return Err(HandshakeError::Flooded { phase: self.phase });
        }
        self.kept.push(frame);
        Ok(())
    }
}

fn opened(acp_session_id: String, mut result: Value, load_supported: bool) -> Opened {
    Opened {
        acp_session_id,
        modes: take(&mut result, "modes"),
        models: take(&mut result, "models"),
        config_options: take(&mut result, "configOptions"),
        load_supported,
        kept: Vec::new(),
        settled: Vec::new(),
    }
}

/// What stands under `key`; `null` is nothing.
fn take(value: &mut Value, key: &str) -> Option<Value> {
    value.get_mut(key).map(Value::take).filter(|value| !value.is_null())
}

/// What a decoded answer holds can be read.
fn value_of(raw: &RawValue) -> Value {
    json::from_slice(raw.get().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
