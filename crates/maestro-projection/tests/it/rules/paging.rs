use super::{AGENT, bare, chunk};
use maestro_projection::{DeltaForm, MAX_EVENTS, PAGE_BYTES, Page, Window, replay};
use maestro_protocol::ReplayPage;

fn page(lines: &[String], page: Page, limit: u64) -> ReplayPage {
    replay(lines.iter(), Window { page, limit, form: DeltaForm::Plain })
}

/// The page holds these cursors and leads on to these.
#[track_caller]
fn check(lines: &[String], at: (Page, u64), expect: (&[u64], Option<u64>, Option<u64>)) {
    let page = page(lines, at.0, at.1);
    let cursors = page.events.iter().map(|event| event.cursor).collect::<Vec<_>>();
    assert_eq!((&cursors[..], page.prev, page.next), expect);
}

/// Five lines of which the third and the last are malformed.
fn five() -> Vec<String> {
    ["a", "b", "", "d", ""].map(|id| if id.is_empty() { "junk".into() } else { chunk(AGENT, id, id) }).into()
}

#[test]
fn pages_lead_to_each_other() {
    use Page::{Before, Since};
    check(&five(), (Since(0), 10), (&[1, 2, 4], None, None));
    check(&five(), (Since(0), 2), (&[1, 2], None, Some(2)));
    check(&five(), (Since(0), 3), (&[1, 2, 4], None, None));
    check(&five(), (Since(2), 10), (&[4], Some(4), None));
    check(&five(), (Since(3), 1), (&[4], Some(4), None));
    check(&five(), (Since(4), 1), (&[], Some(5), None));
    check(&five(), (Since(99), 1), (&[], Some(5), None));
    check(&five(), (Before(99), 10), (&[1, 2, 4], None, None));
    check(&five(), (Before(99), 2), (&[2, 4], Some(2), None));
    check(&five(), (Before(4), 1), (&[2], Some(2), Some(2)));
    check(&five(), (Before(2), 1), (&[1], None, Some(1)));
    check(&five(), (Before(1), 1), (&[], None, Some(0)));
    check(&five(), (Before(0), 1), (&[], None, Some(0)));
    check(&[], (Since(0), 1), (&[], None, None));
    check(&[], (Before(5), 1), (&[], None, None));
}

#[test]
fn the_limit_is_clamped() {
    let lines = vec![bare(AGENT, "a"); 600];
    let events = |limit| page(&lines, Page::Since(0), limit).events.len() as u64;
    assert_eq!(events(0), 1);
    assert_eq!(events(1), 1);
    assert_eq!(events(u64::MAX), MAX_EVENTS);
    assert_eq!(page(&lines, Page::Before(601), u64::MAX).events.len() as u64, MAX_EVENTS);
}

#[test]
fn a_page_ends_before_it_is_too_large() {
    let lines =
        (0..5).map(|id| chunk(AGENT, &id.to_string(), &"x".repeat(PAGE_BYTES * 2 / 5))).collect::<Vec<_>>();
    check(&lines, (Page::Since(0), 10), (&[1, 2], None, Some(2)));
    check(&lines, (Page::Since(2), 10), (&[3, 4], Some(3), Some(4)));
    check(&lines, (Page::Before(6), 10), (&[4, 5], Some(4), None));
    check(&lines, (Page::Before(4), 10), (&[2, 3], Some(2), Some(3)));
    let huge = vec![chunk(AGENT, "a", &"x".repeat(PAGE_BYTES + 1)); 2];
    check(&huge, (Page::Since(0), 10), (&[1], None, Some(1)));
    check(&huge, (Page::Before(3), 10), (&[2], Some(2), None));
}

#[test]
fn a_log_is_read_no_further_than_the_page_needs() {
    let mut read = 0;
    let lines = std::iter::repeat_with(|| {
        read += 1;
        bare(AGENT, "a")
    });
    let window = Window { page: Page::Since(3), limit: 2, form: DeltaForm::Text };
    assert_eq!(replay(lines.take(1000), window).events.len(), 2);
    assert_eq!(read, 6);
}
