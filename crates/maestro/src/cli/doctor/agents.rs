use super::Finding;
use crate::cli::{Context, serve};
use maestro_acp::{AgentEntry, Program};
use maestro_client::Client;
use maestro_daemon::package_version;
use maestro_process::resolve_program;
use maestro_protocol::AgentInfo;
use std::{
    env,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

/// An agent as this shell and as the daemon see it.
struct Seen<'a> {
    entry: &'a AgentEntry,
    program: &'a str,
    here: Option<PathBuf>,
    /// `None` where no daemon runs.
    daemon: Option<&'a AgentInfo>,
}

pub(super) async fn look(context: &Context, client: Option<&Client>) -> Vec<Finding> {
    let table = match serve::agent_table(context) {
        Ok(table) => table,
        Err(error) => return vec![Finding::wrong("config.toml", error.sentence()).mend("correct it")],
    };
    let mut findings = Vec::new();
    let listed = match client {
        Some(client) => match client.agents().await {
            Ok(list) => list.agents,
            Err(error) => {
                findings.push(Finding::wrong("agents", format!("the daemon does not list them: {error}")));
                Vec::new()
            }
        },
        None => Vec::new(),
    };
    let path = env::var_os("PATH");
    let find = |program: &str| resolve_program(program, path.as_deref());
    let mut needs_node = false;
    for entry in table.iter() {
        let Program::Path(program) = &entry.program else { continue };
        let daemon = listed.iter().find(|info| info.key == entry.key);
        let seen = Seen { entry, program, here: find(program), daemon };
        needs_node |= seen.here.as_deref().is_some_and(is_node_script);
        findings.push(seen.finding());
    }
    findings.push(node(find("node"), needs_node));
    findings.push(match find("git") {
        Some(git) => Finding::ok("git", git.display().to_string()),
        None => Finding::note("git", "not found; most agents work better with it")
            .mend("sudo apt-get install git"),
    });
    findings
}

impl Seen<'_> {
    fn finding(&self) -> Finding {
        let key = self.entry.key.as_str();
        let found_by_daemon = self.daemon.and_then(|info| info.program.as_deref());
        match (&self.here, self.daemon, found_by_daemon) {
            (Some(here), Some(_), None) => {
                Finding::wrong(key, format!("{} is here, but not on the daemon's PATH", here.display())).mend(
                    "restart the daemon from this shell: end it with SIGTERM; the next command starts it",
                )
            }
            (Some(here), _, _) => Finding::ok(key, self.facts(here)),
            (None, _, Some(program)) => Finding::ok(key, self.facts(Path::new(program))),
            (None, _, None) => self.missing(key),
        }
    }

    fn facts(&self, program: &Path) -> String {
        let version = package_version(program).map(|version| format!("{version}, ")).unwrap_or_default();
        let sign_in = self.entry.sign_in.as_ref();
        let sign_in = sign_in.map(|sign_in| format!("; signs in with `{sign_in}`")).unwrap_or_default();
        format!("{version}{}{sign_in}", program.display())
    }

    fn missing(&self, key: &str) -> Finding {
        if self.program.contains('/') {
            let found = format!("`{}` is not a program that can be run", self.program);
            return Finding::wrong(key, found)
                .mend(format!("correct `program` of `[agents.{key}]` in config.toml"));
        }
        let finding = Finding::note(key, "not installed");
        match self.entry.install {
            Some(_) => finding.mend(format!("maestro agent install {key}")),
            None => finding.mend(format!("put `{}` on PATH, or set its path in config.toml", self.program)),
        }
    }
}

fn node(found: Option<PathBuf>, is_needed: bool) -> Finding {
    let mend = "get Node 22 or later: https://nodejs.org/en/download, or sudo apt-get install nodejs npm";
    match (found, is_needed) {
        (Some(node), _) => Finding::ok("node", node.display().to_string()),
        (None, true) => Finding::wrong("node", "not found, but installed agents need it").mend(mend),
        (None, false) => Finding::note("node", "not found; most agents need it").mend(mend),
    }
}

/// Whether a program's first line asks for node.
fn is_node_script(program: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(program).and_then(|file| file.take(128).read_to_end(&mut start));
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.is_ok() && first.starts_with(b"#!") && String::from_utf8_lossy(first).contains("node")
}
