//! What is expected of an agent: one function for each scenario.

mod background;
mod cancels;
mod command_line;
mod decisions;
mod lives;
mod turns;

use crate::{agent::Agent, stage::Outcome};
use std::pin::Pin;

/// A scenario. Its name is that of the recording of the same conversation, where there is one.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a Agent) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>,
}

/// Runs a command that leaves a file, so that it can be seen whether it ran.
const TOUCH: &str = "Run it. [[bash touch made.txt && echo made-it]]";

macro_rules! scenarios {
    ($($name:literal => $run:path,)*) => {
        [$(Scenario { name: $name, run: |agent| Box::pin($run(agent)) },)*]
    };
}

/// Those without which a person cannot work with an agent.
pub(crate) const BASIC: [&str; 5] = ["hello", "bash-allow", "bash-deny", "cancel-stream", "load"];

/// All. The recordings `ask`, `bg-tasks`, `init-v2`, `steer` and `subagents` have no scenario here: they need what
/// maestro declines to the agent (CONTRACT §3.1).
pub(crate) const SCENARIOS: &[Scenario] = &scenarios! {
    "hello" => turns::a_prompt_is_answered,
    "think" => turns::thoughts_come_before_the_answer,
    "long" => turns::a_long_answer_arrives_whole,
    "todo" => turns::a_plan_is_one_row_that_moves_on,
    "parallel" => turns::calls_at_once_are_asked_for_one_after_the_other,
    "two-prompts" => turns::a_second_prompt_is_refused_while_a_turn_runs,
    "two-sessions" => turns::two_sessions_keep_their_words_apart,
    "llm-error" => turns::an_error_of_the_model_ends_the_turn_and_not_the_session,
    "modes" => turns::a_session_starts_in_the_mode_that_is_asked_for,
    "bad-calls" => turns::what_the_agent_does_not_know_is_told,
    "bash-allow" => decisions::a_command_runs_once_it_is_allowed,
    "bash-always" => decisions::what_is_allowed_for_the_session_is_not_asked_again,
    "bash-deny" => decisions::a_denied_command_does_not_run,
    "write" => decisions::a_new_file_and_a_change_are_diffs,
    "write-deny" => decisions::a_denied_file_is_not_written,
    "agent" => decisions::a_subagents_command_is_asked_for,
    "plan-mode" => decisions::a_plan_is_approved_by_an_option_of_the_agent,
    "cancel-stream" => cancels::a_turn_cancelled_in_mid_stream_settles,
    "cancel-permission" => cancels::a_cancel_withdraws_the_approval,
    "cancel-tool" => cancels::a_cancel_closes_the_running_call,
    "two-prompts-cancel" => cancels::a_prompt_right_behind_a_cancel_has_a_turn_of_its_own,
    "bg" => background::a_turn_ends_before_its_background_command,
    "bg-later" => background::what_follows_a_background_command_is_asked_for,
    "bg-cancel" => background::a_background_command_outlives_a_cancel_and_not_its_session,
    "load" => lives::a_session_comes_back_after_a_restart_of_the_daemon,
    "load-midturn" => lives::a_session_killed_in_a_call_can_be_restarted,
    "kill-busy" => lives::a_killed_agent_is_a_dead_session_and_nothing_else,
    "term-busy" => lives::a_terminated_agent_leaves_nothing_behind,
    "end-busy" => lives::a_session_ended_in_a_call_leaves_nothing_behind,
    "noauth" => lives::missing_credentials_are_told,
    "missing" => lives::a_missing_agent_says_how_to_install_it,
    "cli-run" => command_line::the_command_line_runs_it,
    "cli-approve" => command_line::the_command_line_allows_a_command,
};
