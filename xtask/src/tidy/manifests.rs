//! Rules about `Cargo.toml` files and the list of dependencies.

use super::{Complaint, project::Project};
use anyhow::{Context as _, Result};
use cargo_metadata::Package;
use regex_lite::Regex;
use std::collections::BTreeSet;

const DEPENDENCIES: &str = "docs/DEPENDENCIES.md";
const LICENCE: &str = "MIT OR Apache-2.0";

/// Checks every manifest, and that `docs/DEPENDENCIES.md` explains exactly the crates that we depend on.
pub(super) fn check(project: &Project) -> Result<Vec<Complaint>> {
    let packages = project.metadata.workspace_packages();
    let mut complaints = Vec::new();
    for package in &packages {
        complaints.extend(check_package(project, package));
    }
    let direct: BTreeSet<String> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| dependency.path.is_none())
        .map(|dependency| dependency.name.clone())
        .collect();
    let text = project.text(DEPENDENCIES).with_context(|| format!("{DEPENDENCIES} is missing"))?;
    complaints.extend(check_explained(text, &direct));
    let root = project.text("Cargo.toml").context("the workspace's Cargo.toml is missing")?;
    complaints.extend(check_declared(root, &packages)?);
    Ok(complaints)
}

fn check_package(project: &Project, package: &Package) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut complain = |what: &str| complaints.push(format!("{}: {what}", package.name));
    if package.rust_version.is_none() {
        complain("its Cargo.toml has no rust-version");
    }
    if package.license.as_deref() != Some(LICENCE) {
        complain(&format!("its licence is not {LICENCE}"));
    }
    let folder = package.manifest_path.parent().map(|folder| folder.as_str().to_owned()).unwrap_or_default();
    let root = project.metadata.workspace_root.as_str();
    let folder = folder.strip_prefix(root).unwrap_or(&folder).trim_start_matches('/');
    let sources: String = project
        .files
        .iter()
        .filter(|file| file.path.starts_with(&format!("{folder}/")))
        .filter(|file| {
            std::path::Path::new(&file.path).extension().is_some_and(|extension| extension == "rs")
        })
        .map(|file| file.text.as_str())
        .collect();
    for dependency in
        package.dependencies.iter().filter(|dependency| dependency.name != package.name.as_str())
    {
        let ident = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
        let used = Regex::new(&format!(r"\b{ident}\b")).is_ok_and(|pattern| pattern.is_match(&sources));
        if !used {
            complain(&format!("does not use its dependency {}: remove it", dependency.name));
        }
    }
    complaints
}

/// Rows of the document's tables begin with the crate's name in backticks.
fn check_explained(text: &str, direct: &BTreeSet<String>) -> Vec<Complaint> {
    let explained: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|rest| rest.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    let missing =
        direct.difference(&explained).map(|name| format!("{DEPENDENCIES}: does not say why {name} is there"));
    let stale = explained
        .difference(direct)
        .map(|name| format!("{DEPENDENCIES}: explains {name}, which is not used"));
    missing.chain(stale).collect()
}

/// Every entry of `[workspace.dependencies]` is used by a crate.
fn check_declared(root: &str, packages: &[&Package]) -> Result<Vec<Complaint>> {
    let root: toml::Table = root.parse().context("the workspace's Cargo.toml is not TOML")?;
    let declared = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(toml::Value::as_table)
        .context("the workspace's Cargo.toml has no [workspace.dependencies]")?;
    let used: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let unused = declared.keys().filter(|name| !used.contains(name.as_str()));
    Ok(unused.map(|name| format!("Cargo.toml: no crate uses {name}: remove it")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_is_explained_and_nothing_else() {
        let check = |text: &str, direct: &[&str], expect: &[&str]| {
            let direct = direct.iter().map(ToString::to_string).collect();
            assert_eq!(check_explained(text, &direct), expect);
        };
        check("| crate | why |\n|---|---|\n| `a` | x |\n| `b-c` | `d` |\n", &["a", "b-c"], &[]);
        check("| `a` | x |\n", &["a", "b"], &["docs/DEPENDENCIES.md: does not say why b is there"]);
        check("| `a` | x |\n", &[], &["docs/DEPENDENCIES.md: explains a, which is not used"]);
    }

    #[test]
    fn an_unused_entry_of_the_workspace_is_named() {
        let root = "[workspace.dependencies]\nserde = \"1\"\n";
        let complaints = check_declared(root, &[]).expect("the text is TOML");
        assert_eq!(complaints, ["Cargo.toml: no crate uses serde: remove it"]);
    }
}
