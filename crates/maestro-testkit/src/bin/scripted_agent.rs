//! Plays the script file named by its first argument, or by `MAESTRO_SCRIPT`, as an ACP agent on stdio.
fn main() -> std::process::ExitCode {
    maestro_testkit::scripted_agent_main()
}
