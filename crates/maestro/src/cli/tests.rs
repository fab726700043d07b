use super::*;
use clap::CommandFactory as _;

#[test]
fn the_arguments_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn help_is_what_people_read() {
    let mut command = Cli::command().term_width(100);
    let mut pages = vec![command.render_long_help().to_string()];
    command.build();
    for subcommand in command.get_subcommands_mut() {
        if subcommand.get_name() != "help" {
            pages.push(subcommand.clone().term_width(100).render_long_help().to_string());
        }
    }
    insta::assert_snapshot!(pages.join("\n========\n"));
}

#[test]
fn command_lines_are_read_or_refused() {
    let check = |line: &str, ok: bool| {
        let parsed = Cli::try_parse_from(line.split(' '));
        assert_eq!(parsed.is_ok(), ok, "{line}: {parsed:?}");
    };
    check("maestro run hello --agent demo --env A=1 --env B=2=3 --mode ask --title x --cwd /", true);
    check("maestro --json --data-path /d --no-start ls", true);
    check("maestro ls --json --data-path /d --no-start", true);
    check("maestro prompt 8f14 -", true);
    check("maestro approve 8f14 --option x", true);
    check("maestro approve 8f14 --session --option x", false);
    check("maestro replay 8f14 --since 1 --before 2", false);
    check("maestro run hello --agent Bad/Key", false);
    check("maestro run hello --env A", false);
    check("maestro run hello --env =1", false);
    check("maestro agent ls", true);
    check("maestro serve --background", true);
    check("maestro", false);
}
