//! On whose behalf something is asked.

/// The account whose things a call may see. Every lookup takes one; there is no lookup without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountScope {
    account: String,
}

/// The account of the daemon's own Unix user.
pub(crate) const OWNER: &str = "owner@localhost";

impl AccountScope {
    /// The daemon's own user.
    pub(crate) fn owner() -> Self {
        Self { account: OWNER.into() }
    }
    /// The account's e-mail.
    pub(crate) fn email(&self) -> &str {
        &self.account
    }
}
