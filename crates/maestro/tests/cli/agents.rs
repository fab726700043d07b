//! Agents that are missing, misplaced, or to be installed.

use crate::home::Home;
use serde_json::Value;
use std::fs;

/// An agent whose install command makes a program and its manifest in the home directory, as npm does.
const NEW: &str = r#"
[agents.new]
name = "New"
program = "new-agent"
sign_in = "new-agent login"
install = """
mkdir -p ~/.local/lib/new ~/.local/bin; echo making it;
echo '{"name": "new", "version": "1.2.3"}' > ~/.local/lib/new/package.json;
printf '#!/bin/sh\\n' > ~/.local/lib/new/main; chmod +x ~/.local/lib/new/main; ln -sf ../lib/new/main ~/.local/bin/new-agent"""

[agents.broken]
program = "broken-agent"
install = "echo no luck; exit 7"

[agents.npm]
program = "npm-agent"
install = "npm install -g npm-agent"

[agents.unknown]
program = "unknown-agent"

[agents.gemini]
program = "/nowhere/gemini"
"#;

#[test]
fn an_agent_is_installed_in_sight() {
    let home = Home::without_daemon();
    home.configure(NEW);
    let install = ["agent", "install", "new"];
    // It was installed, and where, but nothing will find it there.
    let ended = home.run(&install);
    ended.check(1, "", "making it\n");
    ended.check(
        1,
        "",
        &format!("is in {}, which is not on your PATH\n", home.path().join(".local/bin").display()),
    );
    let path = format!("{}:/usr/bin:/bin", home.path().join(".local/bin").display());
    let path = [("PATH", path.as_str())];
    home.run_with(&install, &path).check(0, "", "New 1.2.3 is installed already: ");
    let ended = home.run_with(&["agent", "install", "new", "--update"], &path);
    ended.check(0, "", "making it\n");
    ended.check(0, "", "New 1.2.3 is installed: ");
    ended.check(0, "", "sign in, unless you have: new-agent login\nthen: maestro run --agent new \"…\"\n");
    let ended = home.run_with(&["agent", "install", "new", "--update", "--json"], &path);
    let told: Value = serde_json::from_str(&ended.stdout).expect("one value of JSON");
    assert_eq!((&told["version"], &told["sign_in"]), (&"1.2.3".into(), &"new-agent login".into()));
    assert!(ended.stderr.contains("making it\n"), "{ended:?}");
}

#[test]
fn an_agent_that_cannot_be_installed_says_why() {
    let home = Home::without_daemon();
    home.configure(NEW);
    let check = |agent: &str, code: i32, words: &str| {
        home.run_with(&["agent", "install", agent], &[("PATH", "/nowhere:/bin")]).check(code, "", words);
    };
    check("broken", 1, "no luck\nerror: the install command failed: exit status: 7\n");
    check("unknown", 1, "error: no command is known that installs unknown\n");
    check("gemini", 1, "error: config.toml says that gemini is `/nowhere/gemini`\n");
    check("demo", 0, "is built in: there is nothing to install\n");
    check("unheard-of", 1, "hint: `maestro agent ls` lists the agents\n");
    assert!(!fs::exists(home.data().join("run")).expect("looked"), "no daemon is needed to install an agent");
    let nothing = home.path().join("empty").display().to_string();
    let ended = home.run_with(&["agent", "install", "npm"], &[("PATH", &nothing)]);
    ended.check(
        1,
        "",
        "error: npm is missing, which `npm install -g npm-agent` needs\nhint: get Node 22 or later",
    );
}

#[test]
fn a_program_in_a_wrong_place_is_told_as_such() {
    let home = Home::with_config(NEW);
    home.run(&["run", "hello", "--agent", "gemini"]).check(
        13,
        "",
        "`/nowhere/gemini` is not a program that can be run; correct `program` of `[agents.gemini]` in config.toml",
    );
    let listed = home.json(&["agent", "ls", "--json"]);
    let agents = listed["agents"].as_array().expect("agents");
    let gemini = agents.iter().find(|agent| agent["key"] == "gemini").expect("gemini");
    assert_eq!((&gemini["program"], &gemini["install"]), (&Value::Null, &Value::Null));
    assert!(gemini["missing"].as_str().is_some_and(|missing| missing.contains("/nowhere/gemini")));
    home.run(&["agent", "ls"]).check(0, "missing; install it with: maestro agent install qwen", "");
}
