//! The folds against recordings of real agents, against laws, and rule by rule.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod build;
mod client;
mod facts;
mod golden;
mod history;
mod laws;
mod lines;
mod long;
mod pages;
mod render;
mod rules;
mod split;
mod trace;
