//! What the rules are about, read once.

use crate::{layout, shell};
use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::{collections::BTreeSet, fs};

/// The project as its files and its dependency graph.
pub(super) struct Project {
    /// Every text file that is or would be tracked.
    pub(super) files: Vec<File>,
    /// Who depends on whom.
    pub(super) graph: Graph,
    /// What cargo knows.
    pub(super) metadata: Metadata,
}

/// A text file.
pub(super) struct File {
    /// From the root of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// Crates by name, and the arrows between them. Versions of one crate are one.
#[derive(Default)]
pub(super) struct Graph {
    /// The crates of this workspace.
    pub(super) members: BTreeSet<String>,
    pub(super) arrows: BTreeSet<Arrow>,
}

/// `from` depends on `to`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) scope: Scope,
}

/// Where a dependency ends up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// In the product, or in its build.
    Product,
    /// In tests only.
    Tests,
}

impl Project {
    pub(super) fn read() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .cargo_path(layout::cargo())
            .manifest_path(layout::root().join("Cargo.toml"))
            .other_options(["--locked".to_owned()])
            .exec()
            .context("could not read the workspace with `cargo metadata`")?;
        Ok(Self { files: read_files()?, graph: read_graph(&metadata)?, metadata })
    }

    /// The text of a file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn read_files() -> Result<Vec<File>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = shell::read(&mut shell::command("git", args))?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let full = layout::root().join(path);
        // A file that is deleted but still in the index is no file of the project any more.
        if full.is_file() {
            let bytes = fs::read(&full).with_context(|| format!("could not read {path}"))?;
            files.extend(String::from_utf8(bytes).ok().map(|text| File { path: path.to_owned(), text }));
        }
    }
    Ok(files)
}

fn read_graph(metadata: &Metadata) -> Result<Graph> {
    let mut graph = Graph::default();
    graph.members.extend(metadata.workspace_packages().iter().map(|package| package.name.to_string()));
    let resolve = metadata.resolve.as_ref().context("`cargo metadata` resolved nothing")?;
    for node in &resolve.nodes {
        for dep in &node.deps {
            for kind in &dep.dep_kinds {
                let scope = match kind.kind {
                    DependencyKind::Development => Scope::Tests,
                    _ => Scope::Product,
                };
                let (from, to) = (metadata[&node.id].name.to_string(), metadata[&dep.pkg].name.to_string());
                graph.arrows.insert(Arrow { from, to, scope });
            }
        }
    }
    Ok(graph)
}
