use super::CommandError;
use maestro_client::Client;
use maestro_protocol::{Session, SessionId};
use std::{convert::Infallible, str::FromStr};

/// How many characters a part of an id must have: fewer would soon fit several sessions.
const PREFIX_CHARS_MIN: usize = 4;

/// A session as a person names it: a whole id, or the start of one that fits no other session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionRef(String);

impl FromStr for SessionRef {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_ascii_lowercase()))
    }
}

impl SessionRef {
    /// The session that is meant.
    pub(super) async fn resolve(&self, client: &Client) -> Result<Session, CommandError> {
        match self.0.parse::<SessionId>() {
            Ok(id) => Ok(client.session(id).await?),
            Err(_a_part) => pick(&self.0, client.sessions().await?.sessions),
        }
    }
}

fn pick(prefix: &str, sessions: Vec<Session>) -> Result<Session, CommandError> {
    if prefix.len() < PREFIX_CHARS_MIN {
        let message = format!(
            "`{prefix}` is too short: give a session's id or at least {PREFIX_CHARS_MIN} characters of it"
        );
        return Err(CommandError::user(message).hint("`maestro ls` lists your sessions"));
    }
    let mut fitting: Vec<Session> =
        sessions.into_iter().filter(|session| session.id.to_string().starts_with(prefix)).collect();
    match fitting.len() {
        0 => {
            let message = format!("no session's id starts with `{prefix}`");
            Err(CommandError::user(message).hint("`maestro ls` lists your sessions"))
        }
        1 => Ok(fitting.remove(0)),
        n_fitting => {
            let error = CommandError::user(format!(
                "{n_fitting} sessions' ids start with `{prefix}`; give more of it"
            ));
            Err(fitting.iter().fold(error, |error, session| {
                error.hint(format!("{} {}", session.id, session.title).trim_end().to_owned())
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::session;

    const IDS: [&str; 3] = [
        "8f14e45f-ceea-467f-a8f3-1d6d0e3b2c11",
        "8f14aaaa-ceea-467f-a8f3-1d6d0e3b2c12",
        "0a14e45f-ceea-467f-a8f3-1d6d0e3b2c13",
    ];

    #[track_caller]
    fn check(prefix: &str, expect: Result<&str, &[&str]>) {
        let sessions = IDS.iter().map(|id| session(id)).collect();
        match (pick(prefix, sessions), expect) {
            (Ok(picked), Ok(id)) => assert_eq!(picked.id.to_string(), id),
            (Err(error), Err(words)) => {
                let text = format!("{error:?}");
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
            }
            (picked, _) => panic!("{prefix}: {picked:?}"),
        }
    }

    #[test]
    fn a_part_of_an_id_must_fit_one_session() {
        check("8f14e", Ok(IDS[0]));
        check("0a14", Ok(IDS[2]));
        check("8f14", Err(&[IDS[0], IDS[1], "2 sessions"]));
        check("0a1", Err(&["too short"]));
        check("ffff", Err(&["no session"]));
    }
}
