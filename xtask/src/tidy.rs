//! `cargo xtask tidy`: the rules that no compiler checks. Each rule is a pure function from what the project is to a list
//! of complaints; [`run`] reads the project and prints them.

mod arrows;
mod contract;
mod links;
mod manifests;
mod project;
mod proofs;
mod sources;
mod words;

use crate::shell::say;
use anyhow::{Result, bail};
use project::Project;

/// A broken rule: where, and what to do.
type Complaint = String;

/// Checks all rules.
///
/// # Errors
/// If the project cannot be read or a rule is broken.
pub(crate) fn run() -> Result<()> {
    let project = Project::read()?;
    let mut complaints = Vec::new();
    complaints.extend(arrows::check(&project.graph));
    complaints.extend(manifests::check(&project)?);
    complaints.extend(links::check(&project));
    complaints.extend(contract::check(&project));
    complaints.extend(proofs::check(&project));
    for file in &project.files {
        complaints.extend(sources::check(file));
        complaints.extend(words::check(file));
    }
    complaints.extend(sources::check_exceptions(&project.files));
    complaints.sort();
    complaints.iter().try_for_each(say)?;
    if complaints.is_empty() {
        return say(format_args!(
            "tidy: {} files, {} arrows",
            project.files.len(),
            project.graph.arrows.len()
        ));
    }
    bail!("{} rules broken", complaints.len())
}
