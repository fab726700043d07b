//! `/api/sessions`: which sessions there are, and their lives.

pub(super) mod create;
pub(super) mod get;
pub(super) mod kill;
pub(super) mod list;
pub(super) mod rename;
pub(super) mod restart;
