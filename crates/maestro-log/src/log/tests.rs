use super::{
    AppendError, OpenReport, Paths, SessionLog, Storage,
    faulty::{Faulty, Plan},
    open,
};
use crate::{
    committer::{Committer, Poisoned, Ticket},
    index::{IndexLine, IndexPaths},
};
use std::{
    fs::{self, File, OpenOptions},
    path::PathBuf,
    sync::{Arc, atomic::Ordering::SeqCst},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A log on a file that fails as told.
struct Bench {
    dir: TempDir,
    plan: Arc<Plan>,
    log: SessionLog,
    report: OpenReport,
}

fn load(file: Box<dyn Storage>, len: u64, dir: &TempDir, committer: &Committer) -> (SessionLog, OpenReport) {
    let index = IndexPaths { entries: dir.path().join("index"), sides: dir.path().join("checkpoints") };
    let paths = Paths { log: dir.path().join("log"), index };
    open::load(file, len, paths, committer.clone(), |_, _| IndexLine::default()).unwrap()
}

impl Bench {
    /// A log that holds `content`, opened on a file that has space for `capacity` bytes.
    fn open(content: &[u8], capacity: u64) -> Self {
        Self::on(content, capacity, &Committer::start().unwrap())
    }

    fn on(content: &[u8], capacity: u64, committer: &Committer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log"), content).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(dir.path().join("log")).unwrap();
        let plan = Arc::new(Plan::default());
        plan.capacity.store(capacity, SeqCst);
        let faulty = Box::new(Faulty { file, plan: Arc::clone(&plan) });
        let (log, report) = load(faulty, content.len() as u64, &dir, committer);
        Self { dir, plan, log, report }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn content(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        self.log.reader().lines().map(|line| String::from_utf8(line.unwrap()).unwrap()).collect()
    }

    /// Appends and indexes.
    fn append(&mut self, line: &str) -> Result<u64, AppendError> {
        let cursor = self.log.append(line.as_bytes())?;
        self.log.index(cursor, &IndexLine::default()).unwrap();
        Ok(cursor)
    }
}

fn wait(ticket: Ticket) -> Result<(), Poisoned> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answer = async { tokio::time::timeout(Duration::from_secs(20), ticket).await };
    runtime.block_on(answer).expect("a flush is answered")
}

#[test]
fn a_line_that_does_not_fit_is_undone_whole_and_can_be_appended_later() {
    let check = |space: u64| {
        let mut bench = Bench::open(b"one\ntwo\n", 8 + space);
        assert!(matches!(bench.append("third"), Err(AppendError::Full { .. })), "{space}");
        assert_eq!(bench.content(), "one\ntwo\n", "{space}");
        assert_eq!(bench.lines(), ["one", "two"], "{space}");
        bench.plan.capacity.store(u64::MAX, SeqCst);
        assert_eq!(bench.append("3").unwrap(), 3, "{space}");
        assert_eq!(bench.append("third").unwrap(), 4, "{space}");
        assert_eq!(bench.content(), "one\ntwo\n3\nthird\n", "{space}");
    };
    (0.."third\n".len() as u64).for_each(check);
}

#[test]
fn lines_that_belong_together_are_all_there_or_none() {
    let check = |space: u64| {
        let mut bench = Bench::open(b"one\ntor", 7);
        bench.plan.capacity.store(7 + space, SeqCst);
        let pair: [&[u8]; 2] = [b"start", b"prompt"];
        assert!(matches!(bench.log.append_all(&pair), Err(AppendError::Full { .. })), "{space}");
        assert_eq!(bench.content(), "one\ntor", "{space}");
        assert_eq!(bench.lines(), ["one"], "{space}");
        bench.plan.capacity.store(u64::MAX, SeqCst);
        assert_eq!(bench.log.append_all(&pair).unwrap(), 4, "{space}");
        bench.log.index(3, &IndexLine::default()).unwrap();
        bench.log.index(4, &IndexLine::default()).unwrap();
        assert_eq!(bench.append("last").unwrap(), 5, "{space}");
        assert_eq!(bench.lines(), ["one", "tor", "start", "prompt", "last"], "{space}");
    };
    (0.."\nstart\nprompt\n".len() as u64).for_each(check);
    let mut bench = Bench::open(b"one\n", u64::MAX);
    assert!(matches!(bench.log.append_all(&[b"two", b"a\nb"]), Err(AppendError::NotOneLine { .. })));
    assert_eq!(bench.log.append_all(&[]).unwrap(), 1);
    assert_eq!(bench.content(), "one\n");
}

#[test]
fn a_write_in_parts_is_one_line() {
    let mut bench = Bench::open(b"one\n", u64::MAX);
    bench.plan.at_once.store(2, SeqCst);
    assert_eq!(bench.append("second").unwrap(), 2);
    assert_eq!(bench.content(), "one\nsecond\n");
}

#[test]
fn a_line_with_a_newline_inside_is_refused() {
    let mut bench = Bench::open(b"", u64::MAX);
    assert!(matches!(bench.append("a\nb"), Err(AppendError::NotOneLine { .. })));
    assert_eq!(bench.append("").unwrap(), 1);
    assert_eq!(bench.content(), "\n");
}

#[test]
fn a_write_that_cannot_be_undone_closes_the_log_for_writing_only() {
    let mut bench = Bench::open(b"one\n", 6);
    bench.plan.set_len_fails.store(true, SeqCst);
    assert!(matches!(bench.append("second"), Err(AppendError::Lost(_))));
    bench.plan.set_len_fails.store(false, SeqCst);
    bench.plan.capacity.store(u64::MAX, SeqCst);
    assert!(matches!(bench.append("third"), Err(AppendError::Lost(_))));
    assert!(bench.log.poisoned().is_some());
    assert!(wait(bench.log.flush()).is_err());
    assert_eq!(bench.lines(), ["one"]);
    assert_eq!(bench.content(), "one\nse");
}

#[test]
fn a_full_device_that_cannot_be_cut_loses_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let (mut log, _) = load(Box::<File>::new(full), 0, &dir, &Committer::start().unwrap());
    let Err(AppendError::Lost(poisoned)) = log.append(b"line") else { panic!("it was appended") };
    assert!(poisoned.to_string().contains("could not be undone"), "{poisoned}");
}

#[test]
fn a_torn_line_on_a_full_disk_waits_for_the_next_append() {
    let mut bench = Bench::open(b"one\ntor", 7);
    assert!(bench.report.torn);
    assert_eq!((bench.report.lines, bench.log.cursor()), (2, 2));
    assert_eq!(bench.lines(), ["one"], "no reader sees part of a line");
    assert!(matches!(bench.append("three"), Err(AppendError::Full { .. })));
    bench.plan.capacity.store(9, SeqCst);
    assert!(matches!(bench.append("three"), Err(AppendError::Full { .. })));
    assert_eq!(bench.content(), "one\ntor");
    bench.plan.capacity.store(u64::MAX, SeqCst);
    assert_eq!(bench.append("three").unwrap(), 3);
    assert_eq!(bench.append("four").unwrap(), 4);
    assert_eq!(bench.lines(), ["one", "tor", "three", "four"]);
}

#[test]
fn a_flush_answers_after_a_sync_of_all_that_was_appended() {
    let mut bench = Bench::open(b"left by another process\n", u64::MAX);
    wait(bench.log.flush()).unwrap();
    assert_eq!(bench.plan.syncs.load(SeqCst), 1, "what another process wrote is not known to be on disk");
    for line in ["one", "two", "three"] {
        bench.append(line).unwrap();
        wait(bench.log.flush()).unwrap();
        assert_eq!(bench.plan.synced.load(SeqCst), bench.content().len() as u64);
    }
    wait(bench.log.flush()).unwrap();
    assert_eq!(bench.plan.syncs.load(SeqCst), 4, "nothing was left to sync");
}

#[test]
fn a_failed_sync_is_never_made_good() {
    let mut bench = Bench::open(b"one\n", u64::MAX);
    bench.append("two").unwrap();
    bench.plan.sync_fails.store(true, SeqCst);
    let tickets = [bench.log.flush(), bench.log.flush()];
    assert!(tickets.map(wait).iter().all(Result::is_err));
    bench.plan.sync_fails.store(false, SeqCst);
    assert!(wait(bench.log.flush()).is_err());
    assert!(matches!(bench.append("three"), Err(AppendError::Lost(_))));
    assert_eq!(bench.plan.syncs.load(SeqCst), 1, "it is not tried again");
    assert_eq!(bench.lines(), ["one", "two"], "reads go on");
}

#[test]
fn flushes_during_a_sync_share_the_next_one() {
    let mut bench = Bench::open(b"one\n", u64::MAX);
    bench.plan.gated.store(true, SeqCst);
    let mut tickets = vec![bench.log.flush()];
    bench.plan.gate.wait();
    for line in ["two", "three"] {
        bench.append(line).unwrap();
        tickets.push(bench.log.flush());
    }
    bench.plan.gate.wait();
    bench.plan.gate.wait();
    bench.append("four, which nobody asked to be flushed").unwrap();
    bench.plan.gated.store(false, SeqCst);
    bench.plan.gate.wait();
    tickets.into_iter().try_for_each(wait).unwrap();
    assert_eq!(bench.plan.synced.load(SeqCst), "one\ntwo\nthree\n".len() as u64);
    assert_eq!(bench.plan.syncs.load(SeqCst), 2);
}

#[test]
fn flushes_of_a_hundred_logs_share_syncs_by_log() {
    let committer = Committer::start().unwrap();
    let mut plug = Bench::on(b"plug\n", u64::MAX, &committer);
    plug.plan.gated.store(true, SeqCst);
    let first = plug.log.flush();
    plug.plan.gate.wait();
    let mut benches: Vec<_> = (0..100).map(|_| Bench::on(b"", u64::MAX, &committer)).collect();
    let mut tickets = vec![first];
    for _ in 0..10 {
        for bench in &mut benches {
            bench.append("line").unwrap();
            tickets.push(bench.log.flush());
        }
    }
    plug.append("more").unwrap();
    plug.plan.gated.store(false, SeqCst);
    plug.plan.gate.wait();
    tickets.into_iter().try_for_each(wait).unwrap();
    for bench in &benches {
        assert_eq!(bench.plan.syncs.load(SeqCst), 1);
        assert_eq!(bench.plan.synced.load(SeqCst), bench.content().len() as u64);
    }
    assert_eq!(plug.plan.syncs.load(SeqCst), 1);
}

#[test]
fn one_bad_disk_fails_only_its_own_log() {
    let committer = Committer::start().unwrap();
    let bad = Bench::on(b"one\n", u64::MAX, &committer);
    let good = Bench::on(b"one\n", u64::MAX, &committer);
    bad.plan.sync_fails.store(true, SeqCst);
    let tickets = [bad.log.flush(), good.log.flush()];
    assert_eq!(tickets.map(|ticket| wait(ticket).is_ok()), [false, true]);
}

#[test]
fn the_last_handle_waits_for_what_was_asked() {
    let mut bench = Bench::open(b"", u64::MAX);
    bench.append("one").unwrap();
    bench.plan.gated.store(true, SeqCst);
    let plan = Arc::clone(&bench.plan);
    drop(bench.log.flush());
    let ticket = bench.log.flush();
    let slow_disk = thread::spawn({
        let plan = Arc::clone(&plan);
        move || {
            plan.gate.wait();
            // Time in which a drop that does not wait would end.
            thread::sleep(Duration::from_millis(50));
            plan.gate.wait();
        }
    });
    drop(bench);
    assert_eq!(plan.synced.load(SeqCst), "one\n".len() as u64, "synced before the drop ended");
    wait(ticket).unwrap();
    slow_disk.join().unwrap();
}
