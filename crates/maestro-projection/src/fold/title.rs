use serde::{Deserialize, Serialize};

/// The longest title taken from a prompt, in characters.
const PROMPT_TITLE_CHARS: usize = 80;

/// The three sources of a title (CONTRACT §9).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Title {
    summary: Option<String>,
    agent: Option<String>,
    prompt: Option<String>,
}

impl Title {
    pub(super) fn shown(&self) -> Option<&str> {
        self.summary.as_deref().or(self.agent.as_deref()).or(self.prompt.as_deref())
    }

    /// A rename; an empty one removes the rename. Like the other two: whether the shown title changed.
    pub(super) fn rename(&mut self, summary: &str) -> bool {
        self.change(|title| title.summary = present(summary))
    }

    pub(super) fn see_agent(&mut self, title: Option<&str>) -> bool {
        self.change(|all| all.agent = title.and_then(present))
    }

    /// Only the first prompt with text counts.
    pub(super) fn see_prompt(&mut self, text: &str) -> bool {
        self.change(|title| {
            if title.prompt.is_none() {
                title.prompt = present(&start_of(text));
            }
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let before = self.shown().map(str::to_owned);
        change(self);
        before.as_deref() != self.shown()
    }
}

fn present(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.trim().is_empty())
}

/// The first characters of `text` on one line.
fn start_of(text: &str) -> String {
    let words = text.split_whitespace().flat_map(|word| [" ", word]);
    let line = words.skip(1).flat_map(str::chars).take(PROMPT_TITLE_CHARS).collect::<String>();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_becomes_one_short_line() {
        let check = |text: &str, expect: &str| assert_eq!(start_of(text), expect, "{text:?}");
        check("", "");
        check(" \n\t", "");
        check("  fix\n\n the\tbug ", "fix the bug");
        check(&"é".repeat(100), &"é".repeat(80));
        check(&format!("{} b", "a".repeat(79)), &"a".repeat(79));
        check(&format!("{} b", "a".repeat(78)), &format!("{} b", "a".repeat(78)));
    }

    #[test]
    fn a_rename_wins_over_the_agent_and_the_agent_over_the_prompt() {
        let mut title = Title::default();
        let mut check = |change: &dyn Fn(&mut Title) -> bool, changed: bool, expect: Option<&str>| {
            assert_eq!(change(&mut title), changed);
            assert_eq!(title.shown(), expect);
        };
        check(&|title| title.see_prompt(" "), false, None);
        check(&|title| title.see_prompt("first"), true, Some("first"));
        check(&|title| title.see_prompt("second"), false, Some("first"));
        check(&|title| title.see_agent(Some("agent's")), true, Some("agent's"));
        check(&|title| title.rename("mine"), true, Some("mine"));
        check(&|title| title.see_agent(Some("newer")), false, Some("mine"));
        check(&|title| title.rename(""), true, Some("newer"));
        check(&|title| title.see_agent(None), true, Some("first"));
        check(&|title| title.see_agent(Some("")), false, Some("first"));
    }
}
