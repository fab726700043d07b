//! Links in Markdown lead to files and headings that exist, and documents named in code are there.

use super::{Complaint, project::Project};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use regex_lite::Regex;
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
};

static DOCUMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bdocs/[A-Za-z_]+\.[a-z]+\b").expect("the pattern is written correctly"));

/// Complains about links and names that lead nowhere.
pub(super) fn check(project: &Project) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let exists =
        |path: &str| project.files.iter().any(|file| file.path == path || is_below(&file.path, path));
    for file in &project.files {
        let is_markdown = Path::new(&file.path).extension().is_some_and(|extension| extension == "md");
        for link in is_markdown.then(|| links(&file.text)).into_iter().flatten() {
            let Some((target, heading)) = resolve(&file.path, &link) else { continue };
            let text = project.text(&target);
            if !exists(&target) {
                complaints.push(format!("{}: the link to {link} leads nowhere", file.path));
            } else if let (Some(heading), Some(text)) = (heading, text)
                && !headings(text).contains(&heading)
            {
                complaints.push(format!("{}: {target} has no heading #{heading}", file.path));
            }
        }
        // Recordings name documents of others.
        let text =
            if file.path.starts_with("testdata/") || !file.text.contains("docs/") { "" } else { &file.text };
        for named in DOCUMENT.find_iter(text).map(|found| found.as_str()) {
            if !exists(named) {
                complaints.push(format!("{}: names {named}, which is not there", file.path));
            }
        }
    }
    complaints
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn links(markdown: &str) -> Vec<String> {
    Parser::new(markdown)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        })
        .collect()
}

/// The file that a link in `from` leads to and the heading in it; nothing for a link out of the project.
fn resolve(from: &str, link: &str) -> Option<(String, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let heading = heading.map(str::to_owned);
    if path.is_empty() {
        return Some((from.to_owned(), heading));
    }
    let mut full = PathBuf::new();
    for part in Path::new(from).parent().unwrap_or(Path::new("")).join(path).components() {
        match part {
            Component::ParentDir => {
                full.pop();
            }
            Component::Normal(name) => full.push(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    Some((full.to_string_lossy().into_owned(), heading))
}

/// The headings of a document as links name them: lower case, words joined by `-`, other signs left out.
fn headings(markdown: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Option<String> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => found.extend(open.take().map(|text| slug(&text))),
            Event::Text(text) | Event::Code(text) => {
                if let Some(open) = &mut open {
                    open.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_their_own_file() {
        let check = |from: &str, link: &str, expect: Option<(&str, Option<&str>)>| {
            let expect = expect.map(|(path, heading)| (path.to_owned(), heading.map(str::to_owned)));
            assert_eq!(resolve(from, link), expect, "{from} {link}");
        };
        check("notes/A.md", "../README.md", Some(("README.md", None)));
        check("notes/A.md", "B.md#a-b", Some(("notes/B.md", Some("a-b"))));
        check("notes/A.md", "#a", Some(("notes/A.md", Some("a"))));
        check("README.md", "./notes/", Some(("notes", None)));
        check("README.md", "https://example.com/x", None);
    }

    #[test]
    fn links_in_code_are_no_links() {
        assert_eq!(links("[a](b.md) `[c](d.md)`\n\n```\n[e](f.md)\n```\n"), ["b.md"]);
    }

    #[test]
    fn headings_become_anchors() {
        let found = headings("# 4.1 Row kinds, and `ids`\n\ntext\n");
        assert_eq!(found, BTreeSet::from(["41-row-kinds-and-ids".to_owned()]));
    }
}
