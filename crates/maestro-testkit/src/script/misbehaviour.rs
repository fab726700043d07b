//! What no agent should do, and some do.

use super::{Descent, Payload, Step, Steps, Stream};
use serde_json::json;

const MIB: u64 = 1024 * 1024;

impl Steps {
    /// Answers nothing any more, reading on until stdin closes.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    /// Ignores SIGTERM and SIGINT from here on.
    #[must_use]
    pub fn ignore_signals(self) -> Self {
        self.step(Step::IgnoreSignals)
    }

    /// Stops reading stdin.
    #[must_use]
    pub fn stop_reading(self) -> Self {
        self.step(Step::StopReading)
    }

    /// Closes stdout and lives on.
    #[must_use]
    pub fn close_stdout(self) -> Self {
        self.step(Step::CloseStdout)
    }

    /// Leaves a process behind.
    #[must_use]
    pub fn descend(self, descent: Descent) -> Self {
        self.step(Step::Descend(descent))
    }

    /// One line of so many MiB that is a JSON string up to its newline.
    #[must_use]
    pub fn long_line(self, mebibytes: u64) -> Self {
        self.raw("\"").bytes(Stream::Stdout, &[b'x'; 1024], mebibytes * 1024).raw("\"\n")
    }

    /// An update whose text holds bytes that are no UTF-8.
    #[must_use]
    pub fn invalid_utf8(self) -> Self {
        self.update_around(b"a\xff\xfe\xc3(b")
    }

    /// An update whose text holds a raw NUL, which JSON forbids.
    #[must_use]
    pub fn nul(self) -> Self {
        self.update_around(b"a\0b")
    }

    /// An update whose text holds an escaped half of a surrogate pair.
    #[must_use]
    pub fn lone_surrogate(self) -> Self {
        self.update_around(br"a\ud800b")
    }

    /// A well-formed update after a byte order mark.
    #[must_use]
    pub fn byte_order_mark(self) -> Self {
        self.bytes(Stream::Stdout, b"\xef\xbb\xbf", 1).chunk("after a mark")
    }

    /// An update that nests so many arrays.
    #[must_use]
    pub fn nested(self, depth: u64) -> Self {
        self.raw(UPDATE_HEAD)
            .bytes(Stream::Stdout, b"[", depth)
            .bytes(Stream::Stdout, b"]", depth)
            .raw("}}}\n")
    }

    /// The start of an update, without its end. What follows must be an end of the process or of stdout.
    #[must_use]
    pub fn partial_line(self) -> Self {
        self.raw(UPDATE_HEAD)
    }

    /// JSON that is no message.
    #[must_use]
    pub fn wrong_shapes(self) -> Self {
        let shapes =
            ["null", "17", "[]", "{}", r#"{"method":5}"#, r#"{"jsonrpc":"2.0","method":"session/update"}"#];
        shapes.iter().fold(self, |steps, shape| steps.raw(&format!("{shape}\n")))
    }

    /// A request that no client implements.
    #[must_use]
    pub fn unknown_request(self, id: impl Into<serde_json::Value>) -> Self {
        self.request(id, "no/such_method", json!({}))
    }

    /// An answer to a request that nobody made.
    #[must_use]
    pub fn stray_answer(self) -> Self {
        self.send(json!({"jsonrpc": "2.0", "id": 987_654_321, "result": {}}))
    }

    /// So many MiB of well-formed updates at full speed, each one of 1 KiB of text.
    #[must_use]
    pub fn flood_stdout(self, mebibytes: u64) -> Self {
        let line = format!("{UPDATE_TEXT_HEAD}{}{UPDATE_TEXT_TAIL}\n", "x".repeat(1024));
        self.step(Step::Write {
            stream: Stream::Stdout,
            payload: Payload::Text(line),
            times: mebibytes * 1024,
        })
    }

    /// So many MiB of log lines at full speed.
    #[must_use]
    pub fn flood_stderr(self, mebibytes: u64) -> Self {
        let mut line = [b'e'; 1024];
        line[1023] = b'\n';
        self.bytes(Stream::Stderr, &line, mebibytes * MIB / 1024)
    }

    fn update_around(self, text: &[u8]) -> Self {
        self.raw(UPDATE_TEXT_HEAD).bytes(Stream::Stdout, text, 1).raw(UPDATE_TEXT_TAIL).raw("\n")
    }
}

const UPDATE_HEAD: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{{session}}","update":{"sessionUpdate":"odd","data":"#;
const UPDATE_TEXT_HEAD: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{{session}}","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""#;
const UPDATE_TEXT_TAIL: &str = r#""}}}}"#;
