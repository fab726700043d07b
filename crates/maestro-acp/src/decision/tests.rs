use super::{Choice, choose, offered};
use maestro_protocol::{Decision, PermissionOption, PermissionOptionKind as Kind};
use proptest::prelude::*;

/// Options as `id=kind`, kinds by their initials.
fn options(text: &str) -> Vec<PermissionOption> {
    text.split_whitespace()
        .map(|option| {
            let (id, kind) = option.split_once('=').unwrap();
            let kind = match kind {
                "ao" => Kind::AllowOnce,
                "aa" => Kind::AllowAlways,
                "ro" => Kind::RejectOnce,
                "ra" => Kind::RejectAlways,
                _ => Kind::Other,
            };
            PermissionOption { option_id: id.into(), name: id.into(), kind }
        })
        .collect()
}

fn shown(choice: &Choice) -> &str {
    match choice {
        Choice::Select(id) => id,
        Choice::Cancelled => "(cancelled)",
        Choice::NotOffered => "(not offered)",
    }
}

/// `expect`: what `AllowOnce`, `AllowForSession` and `Deny` choose.
#[track_caller]
fn check(text: &str, expect: [&str; 3]) {
    let options = options(text);
    let all = [Decision::AllowOnce, Decision::AllowForSession, Decision::Deny];
    let chosen = all.clone().map(|decision| choose(&options, &decision));
    assert_eq!(chosen.each_ref().map(shown), expect, "{text}");
    let can: Vec<_> = all
        .into_iter()
        .zip(&chosen)
        .filter(|(_, choice)| **choice != Choice::NotOffered)
        .map(|(d, _)| d)
        .collect();
    assert_eq!(offered(&options), can, "{text}");
    for option in &options {
        let by_id = choose(&options, &Decision::Option(option.option_id.clone()));
        assert_eq!(by_id, Choice::Select(option.option_id.clone()), "{text}");
    }
    assert_eq!(choose(&options, &Decision::Option("elsewhere".into())), Choice::NotOffered);
}

/// The option sets that real agents were seen to send.
#[test]
fn sets_of_real_agents() {
    const NO: &str = "(not offered)";
    // claude-code-acp: a tool, and the end of plan mode.
    check("allow_always=aa allow=ao reject=ro", ["allow", "allow_always", "reject"]);
    check("acceptEdits=aa default=ao plan=ro", ["default", "acceptEdits", "plan"]);
    // claude-agent-acp: a tool with and without a permanent form, and the end of plan mode.
    check("allow-once=ao allow-with-updates=aa reject=ro", ["allow-once", "allow-with-updates", "reject"]);
    check("allow-once=ao reject=ro", ["allow-once", NO, "reject"]);
    check(
        "exit-plan-auto=aa exit-plan-default=ao reject=ro",
        ["exit-plan-default", "exit-plan-auto", "reject"],
    );
    check(
        "exit-plan-auto=aa exit-plan-accept-edits=aa exit-plan-default=ao reject=ro",
        ["exit-plan-default", NO, "reject"],
    );
    // codex-acp, by both adapters.
    check(
        "approved=ao approved-execpolicy-amendment=aa abort=ro",
        ["approved", "approved-execpolicy-amendment", "abort"],
    );
    check("allow_once=ao allow_for_session=aa cancel=ro", ["allow_once", "allow_for_session", "cancel"]);
    check(
        "allow_once=ao allow_for_session=aa accept_execpolicy_amendment=aa cancel=ro",
        ["allow_once", NO, "cancel"],
    );
    // opencode, gemini, kimi.
    check("once=ao always=aa reject=ro", ["once", "always", "reject"]);
    check("proceed_always=aa proceed_once=ao cancel=ro", ["proceed_once", "proceed_always", "cancel"]);
    check("approve_once=ao approve_always=aa reject=ro", ["approve_once", "approve_always", "reject"]);
    // qwen: a command has two permanent forms, the end of plan mode two that allow once.
    check(
        "proceed_always_project=aa proceed_always_user=aa proceed_once=ao cancel=ro",
        ["proceed_once", NO, "cancel"],
    );
    check("proceed_always=aa proceed_once=ao cancel=ro", ["proceed_once", "proceed_always", "cancel"]);
    check(
        "restore_previous=ao proceed_always=aa proceed_once=ao cancel=ro",
        [NO, "proceed_always", "cancel"],
    );
    check("proceed_once=ao cancel=ro", ["proceed_once", NO, "cancel"]);
    // vibe: "for this session" and "for ever" have one kind.
    check(
        "allow_once=ao allow_always=aa allow_always_permanent=aa reject_once=ro",
        ["allow_once", NO, "reject_once"],
    );
}

#[test]
fn deny_falls_back_only_to_a_sole_refusal() {
    const NO: &str = "(not offered)";
    check("never=ra", [NO, NO, "never"]);
    check("never=ra no=ro", [NO, NO, "no"]);
    check("never=ra never-ever=ra", [NO, NO, "(cancelled)"]);
    check("no=ro nope=ro", [NO, NO, "(cancelled)"]);
    check("no=ro nope=ro never=ra", [NO, NO, "(cancelled)"]);
    check("yes=ao", ["yes", NO, "(cancelled)"]);
    check("", [NO, NO, "(cancelled)"]);
    check("what=?", [NO, NO, "(cancelled)"]);
}

#[test]
fn an_id_that_several_options_have_is_never_chosen() {
    let options = options("x=ao x=aa no=ro");
    assert_eq!(offered(&options), [Decision::Deny]);
    assert_eq!(choose(&options, &Decision::Option("x".into())), Choice::NotOffered);
}

proptest! {
    /// Whatever is offered in whatever order: a decision chooses the one option of its kind or none, and the order of
    /// the options decides nothing.
    #[test]
    fn never_wider_never_by_position(kinds in prop::collection::vec(0_usize..5, 0..7), seed in any::<prop::sample::Index>()) {
        let names = ["ao", "aa", "ro", "ra", "?"];
        let text: Vec<_> = kinds.iter().enumerate().map(|(i, kind)| format!("o{i}={}", names[*kind])).collect();
        let options = options(&text.join(" "));
        let mut turned = options.clone();
        if !turned.is_empty() {
            let by = seed.index(turned.len());
            turned.rotate_left(by);
        }
        for (decision, allowed) in [
            (Decision::AllowOnce, &[Kind::AllowOnce][..]),
            (Decision::AllowForSession, &[Kind::AllowAlways]),
            (Decision::Deny, &[Kind::RejectOnce, Kind::RejectAlways]),
        ] {
            let choice = choose(&options, &decision);
            prop_assert_eq!(&choice, &choose(&turned, &decision));
            if let Choice::Select(id) = choice {
                let option = options.iter().find(|option| option.option_id == id).unwrap();
                prop_assert!(allowed.contains(&option.kind));
                prop_assert_eq!(options.iter().filter(|other| other.kind == option.kind).count(), 1);
            }
        }
    }
}
