//! Which crate may depend on which. The table is the architecture; ARCHITECTURE.md explains it.

use super::{
    Complaint,
    project::{Graph, Scope},
};
use std::collections::{BTreeMap, BTreeSet};

/// What one crate of ours may see.
struct Rule {
    name: &'static str,
    /// Crates of ours it may depend on.
    may: &'static [&'static str],
    /// Further crates of ours that its tests may depend on.
    tests_may: &'static [&'static str],
    /// Crates of others that it may not reach, directly or through others.
    never: &'static [&'static str],
}

const PROTOCOL: &str = "maestro-protocol";
const TESTKIT: &str = "maestro-testkit";
const BENCH: &str = "maestro-bench";
const ACP_TYPES: &str = "agent-client-protocol-schema";
const WEB: [&str; 2] = ["axum", "hyper"];

/// Crates that touch the world, out of reach of those that only decide.
const WORLD: &[&str] =
    &["tokio", "tokio-util", "axum", "hyper", "rustix", "tempfile", "tracing", "rand", ACP_TYPES];

const RULES: &[Rule] = &[
    Rule { name: PROTOCOL, may: &[], tests_may: &[], never: WORLD },
    Rule { name: "maestro-projection", may: &[PROTOCOL], tests_may: &[], never: WORLD },
    Rule { name: "maestro-acp", may: &[PROTOCOL], tests_may: &[TESTKIT], never: &WEB },
    Rule {
        name: "maestro-process",
        may: &[PROTOCOL],
        tests_may: &[TESTKIT],
        never: &["axum", "hyper", ACP_TYPES],
    },
    Rule {
        name: "maestro-log",
        may: &[PROTOCOL],
        tests_may: &[TESTKIT],
        never: &["axum", "hyper", ACP_TYPES],
    },
    Rule {
        name: "maestro-daemon",
        may: &[PROTOCOL, "maestro-projection", "maestro-acp", "maestro-process", "maestro-log"],
        tests_may: &[TESTKIT, "maestro-client"],
        never: &["clap"],
    },
    Rule { name: "maestro-client", may: &[PROTOCOL], tests_may: &[TESTKIT], never: &["axum", ACP_TYPES] },
    Rule {
        name: "maestro",
        may: &["maestro-daemon", "maestro-client", "maestro-process", "maestro-acp", PROTOCOL],
        tests_may: &[TESTKIT],
        never: &[],
    },
    Rule { name: TESTKIT, may: &[PROTOCOL], tests_may: &[], never: &["axum"] },
    Rule {
        name: BENCH,
        may: &[PROTOCOL, "maestro-projection", "maestro-process", "maestro-log", TESTKIT],
        tests_may: &[],
        never: &["axum", ACP_TYPES],
    },
    Rule { name: "xtask", may: &[], tests_may: &[], never: &["tokio", "axum", ACP_TYPES] },
];

/// Crates of others that only the named crates of ours may import.
const ONLY: &[(&str, &[&str])] = &[
    (ACP_TYPES, &["maestro-acp"]),
    ("axum", &["maestro-daemon"]),
    ("libc", &["maestro-process"]),
    ("anyhow", &["maestro", "xtask", BENCH]),
    ("clap", &["maestro", "xtask", TESTKIT, BENCH]),
];

/// Complains about every arrow that the table does not allow, and about crates the table does not know.
pub(super) fn check(graph: &Graph) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for member in &graph.members {
        let Some(rule) = RULES.iter().find(|rule| rule.name == member) else {
            complaints
                .push(format!("{member}: has no rule: add it to the table in xtask/src/tidy/arrows.rs"));
            continue;
        };
        complaints.extend(check_member(graph, rule));
    }
    complaints
}

fn check_member(graph: &Graph, rule: &Rule) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for arrow in graph.arrows.iter().filter(|arrow| arrow.from == rule.name) {
        let to = arrow.to.as_str();
        let allowed = if graph.members.contains(to) {
            // A crate whose tests are programs of their own names itself.
            let in_tests = rule.tests_may.contains(&to) || to == rule.name;
            rule.may.contains(&to) || (arrow.scope == Scope::Tests && in_tests)
        } else {
            let only = ONLY.iter().find(|(name, _)| *name == to);
            arrow.scope == Scope::Tests || only.is_none_or(|(_, importers)| importers.contains(&rule.name))
        };
        if !allowed {
            let place = if arrow.scope == Scope::Tests { " in tests" } else { "" };
            complaints.push(format!("{}: may not depend on {to}{place}", rule.name));
        }
    }
    let reached = reach(graph, rule.name);
    for never in rule.never {
        if let Some(via) = reached.get(never) {
            complaints.push(format!("{}: may not reach {never}, but does through {via}", rule.name));
        }
    }
    complaints
}

/// Everything that `from` depends on in the product, each with the crate before it on a way there.
fn reach<'a>(graph: &'a Graph, from: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut reached = BTreeMap::new();
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(here) = open.pop() {
        for arrow in graph.arrows.iter().filter(|arrow| arrow.from == here && arrow.scope == Scope::Product) {
            if seen.insert(&arrow.to) {
                reached.insert(arrow.to.as_str(), here);
                open.push(&arrow.to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::project::Arrow;

    #[track_caller]
    fn check_arrows(arrows: &[(&str, &str, Scope)], expect: &[&str]) {
        let ours = |name: &str| name.starts_with("maestro") || name == "xtask";
        let mut graph = Graph::default();
        for &(from, to, scope) in arrows {
            graph.members.extend([from, to].into_iter().filter(|name| ours(name)).map(str::to_owned));
            graph.arrows.insert(Arrow { from: from.to_owned(), to: to.to_owned(), scope });
        }
        assert_eq!(check(&graph), expect);
    }

    #[test]
    fn the_corridor_is_allowed() {
        check_arrows(
            &[
                ("maestro-daemon", "maestro-acp", Scope::Product),
                ("maestro-acp", ACP_TYPES, Scope::Product),
                ("maestro-acp", "tokio", Scope::Product),
                ("maestro", TESTKIT, Scope::Tests),
            ],
            &[],
        );
    }

    #[test]
    fn an_arrow_against_the_corridor_is_refused() {
        check_arrows(
            &[("maestro-acp", "maestro-daemon", Scope::Product)],
            &["maestro-acp: may not depend on maestro-daemon"],
        );
        check_arrows(
            &[("maestro-log", "maestro-daemon", Scope::Tests)],
            &["maestro-log: may not depend on maestro-daemon in tests"],
        );
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        check_arrows(
            &[("maestro", TESTKIT, Scope::Product)],
            &["maestro: may not depend on maestro-testkit"],
        );
    }

    #[test]
    fn a_forbidden_crate_is_found_behind_another() {
        check_arrows(
            &[
                ("maestro-projection", "innocent", Scope::Product),
                ("innocent", "deeper", Scope::Product),
                ("deeper", "tokio", Scope::Product),
            ],
            &["maestro-projection: may not reach tokio, but does through deeper"],
        );
        check_arrows(
            &[("maestro-projection", "innocent", Scope::Product), ("innocent", "tokio", Scope::Tests)],
            &[],
        );
    }

    #[test]
    fn a_crate_of_one_importer() {
        check_arrows(
            &[("maestro-log", "anyhow", Scope::Product)],
            &["maestro-log: may not depend on anyhow"],
        );
    }

    #[test]
    fn a_crate_without_a_rule_is_named() {
        check_arrows(
            &[("maestro-new", "serde", Scope::Product)],
            &["maestro-new: has no rule: add it to the table in xtask/src/tidy/arrows.rs"],
        );
    }
}
