use super::*;

/// What a script shows, in one line: words for steps, `+`/`-` for what follows an allowed or refused call.
fn shape(steps: &[Step]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for step in steps {
        let word = match step {
            Step::Message => continue,
            Step::Text(_) => "text".into(),
            Step::SlowText(_) => "slow".into(),
            Step::Thought(_) => "thought".into(),
            Step::Title(title) => format!("title({title})"),
            Step::Plan { done, working } => format!("plan{done}{}", if *working { "w" } else { "" }),
            Step::Call { tool, allowed, refused } => {
                format!("{tool:?}[+ {} - {}]", shape(allowed), shape(refused))
            }
            Step::Output(_) => "output".into(),
            Step::WriteNote => "write".into(),
            Step::Done => "done".into(),
            Step::Fail => "fail".into(),
        };
        if shown.last() != Some(&word) {
            shown.push(word);
        }
    }
    shown.join(" ")
}

fn text(steps: &[Step]) -> String {
    let said = |step: &Step| match step {
        Step::Text(text) | Step::SlowText(text) => Some(text.clone()),
        _ => None,
    };
    steps.iter().filter_map(said).collect()
}

#[test]
fn words_choose_what_happens() {
    let check =
        |prompt: &str, expect: &str| assert_eq!(shape(&answer(prompt, Opening::Later)), expect, "{prompt}");
    check("think", "thought text");
    check("Please THINK!", "thought text");
    check("plan", "plan0 plan0w Look[+ output done - ] plan1w plan2w plan3 text");
    check("/run", "Run[+ output done text - text]");
    check("edit a file", "Edit[+ write text - text]");
    check("slow", "text slow");
    check("fail", "text fail");
    check("edit, then think", "Edit[+ write text - text] thought text");
    check("think think reason", "thought text");
    check("", "text");
    check("planet", "text");
    check(
        "tour",
        "thought text plan0 plan0w Look[+ output done - ] plan1w plan2w plan3 text Run[+ output done text - text] \
         Edit[+ write text - text]",
    );
}

#[test]
fn the_first_answer_says_what_it_is_and_every_word() {
    for prompt in ["hello", "think"] {
        let steps = answer(prompt, Opening::First);
        assert_eq!(steps[0], Step::Title(format!("Demo: {prompt}")));
        let text = text(&steps);
        assert!(text.starts_with("Hello. I am maestro's demo agent"), "{text}");
        for word in &WORDS {
            assert!(text.contains(&format!("**{}**: {}", word.word, word.does)), "{} in {text}", word.word);
        }
    }
}

#[test]
fn no_message_has_two_empty_lines_in_a_row() {
    let prompts = WORDS.iter().map(|word| word.word).chain(["hello"]);
    for steps in
        prompts.flat_map(|prompt| [Opening::First, Opening::Later].map(|opening| answer(prompt, opening)))
    {
        for message in steps.split(|step| *step == Step::Message) {
            assert!(!text(message).contains("\n\n\n"), "{:?}", text(message));
        }
    }
}

#[test]
fn later_answers_tell_the_words_only_when_asked_for_none() {
    assert!(!text(&answer("think", Opening::Later)).contains("**plan**"));
    assert!(text(&answer("hm", Opening::Later)).contains("**plan**"));
    assert!(text(&answer("think", Opening::Resumed)).starts_with("I was started anew"));
}

#[test]
fn a_title_is_one_short_line() {
    let check = |prompt: &str, expect: &str| assert_eq!(title_of(prompt), expect);
    check("  plan\n  this ", "Demo: plan this");
    check("", "Demo");
    check(&"ä".repeat(100), &format!("Demo: {}", "ä".repeat(60)));
}

#[test]
fn pieces_are_short_and_lose_nothing() {
    let text = "One two, three. Four-and-twenty blackbirds\n\nbaked in a pie, übermorgen even. ";
    assert_eq!(pieces(text).collect::<String>(), text);
    assert!(pieces(text).count() > 2);
    assert_eq!(pieces("").count(), 0);
}

/// The longest way through the steps, without the time a person takes to answer.
fn duration(steps: &[Step]) -> Duration {
    let longest = |step: &Step| match step {
        Step::Call { allowed, refused, .. } => duration(allowed).max(duration(refused)),
        _ => Duration::ZERO,
    };
    steps.iter().map(|step| rest_before(step) + longest(step)).sum()
}

#[test]
fn every_answer_but_the_slow_one_takes_less_than_three_seconds() {
    for word in &WORDS {
        let duration = duration(&answer(word.word, Opening::First));
        assert_eq!(duration > Duration::from_secs(3), word.word == "slow", "{}: {duration:?}", word.word);
        assert!(duration > Duration::from_millis(100), "{}: too quick to be seen", word.word);
    }
}
