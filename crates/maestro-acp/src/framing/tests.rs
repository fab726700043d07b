use super::{Framer, Line};
use crate::{MAX_LINE_BYTES, decode::notice::NOTICE_HEAD_MAX};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Whole(Vec<u8>),
    TooLong(usize, u64),
    Partial(Vec<u8>),
}

fn found(line: &Line<'_>) -> Found {
    match line {
        Line::Whole(line) => Found::Whole(line.to_vec()),
        Line::TooLong { head, bytes } => Found::TooLong(head.len(), *bytes),
        Line::Partial(line) => Found::Partial(line.to_vec()),
    }
}

fn lines<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Found> {
    let mut framer = Framer::default();
    let mut lines = Vec::new();
    for mut chunk in chunks {
        while let Some(line) = framer.next(&mut chunk) {
            lines.push(found(&line));
        }
    }
    lines.extend(framer.finish().as_ref().map(found));
    lines
}

#[track_caller]
fn check(stream: &[u8], expect: &[Found]) {
    assert_eq!(lines([stream]), expect, "in one chunk");
    assert_eq!(lines(stream.chunks(1)), expect, "byte by byte");
}

#[test]
fn lines_end_at_newlines_only() {
    let whole = |line: &str| Found::Whole(line.as_bytes().to_vec());
    let partial = |line: &str| Found::Partial(line.as_bytes().to_vec());
    check(b"", &[]);
    check(b"a\nb\n", &[whole("a"), whole("b")]);
    check("a\u{2028}\u{85}b\r\n".as_bytes(), &[whole("a\u{2028}\u{85}b\r")]);
    check(b"\n \n\t\r\na\n\n", &[whole("a")]);
    check(b"a\nb", &[whole("a"), partial("b")]);
    check(b"{}", &[partial("{}")]);
    check(b"a\n \t", &[whole("a")]);
}

#[test]
fn a_line_may_be_8_mib_and_no_longer() {
    let check = |len: usize, chunk: usize, expect: &Found| {
        let mut stream = vec![b'x'; len];
        stream.extend_from_slice(b"\nafter\n");
        let found = lines(stream.chunks(chunk));
        assert!(found[0] == *expect, "{len} bytes in chunks of {chunk}");
        assert_eq!(found[1..], [Found::Whole(b"after".to_vec())]);
    };
    for chunk in [65_536, 1_000_003, usize::MAX] {
        check(MAX_LINE_BYTES - 1, chunk, &Found::Whole(vec![b'x'; MAX_LINE_BYTES - 1]));
        check(MAX_LINE_BYTES, chunk, &Found::Whole(vec![b'x'; MAX_LINE_BYTES]));
        for more in [1, 2, 300_000] {
            let too_long = Found::TooLong(NOTICE_HEAD_MAX, (MAX_LINE_BYTES + more) as u64);
            check(MAX_LINE_BYTES + more, chunk, &too_long);
        }
    }
}

#[test]
fn memory_is_given_back_after_a_long_line() {
    let mut framer = Framer::default();
    let long = vec![b'x'; MAX_LINE_BYTES];
    for mut chunk in [&long[..], &long[..], b"\nshort\n"] {
        while framer.next(&mut chunk).is_some() {}
        assert!(framer.line.capacity() <= MAX_LINE_BYTES);
    }
    assert!(framer.line.capacity() <= super::KEPT_CAPACITY);
}

#[test]
fn an_output_may_end_in_a_line_that_is_too_long() {
    let stream = vec![b'x'; MAX_LINE_BYTES + 5];
    assert_eq!(lines([&stream[..]]), [Found::TooLong(NOTICE_HEAD_MAX, (MAX_LINE_BYTES + 5) as u64)]);
}

proptest! {
    #[test]
    fn chunks_do_not_matter(
        stream in prop::collection::vec(prop::sample::select(b"\n\n \r{}ab\xc3\xa9".to_vec()), 0..200),
        cuts in prop::collection::vec(0_usize..200, 0..20),
    ) {
        let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut <= stream.len()).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
        prop_assert_eq!(lines(chunks), lines([&stream[..]]));
    }

    #[test]
    fn nothing_is_lost(stream in prop::collection::vec(prop::sample::select(b"\n \tab".to_vec()), 0..200)) {
        let solid = |bytes: &[u8]| -> Vec<u8> {
            bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
        };
        let kept: Vec<u8> = lines([&stream[..]])
            .into_iter()
            .flat_map(|line| match line {
                Found::Whole(line) | Found::Partial(line) => solid(&line),
                Found::TooLong(..) => Vec::new(),
            })
            .collect();
        prop_assert_eq!(kept, solid(&stream));
    }
}
