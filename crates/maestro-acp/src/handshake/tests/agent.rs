use crate::Connection;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex,
    split,
};

/// An agent as a test plays it.
pub(super) struct Agent {
    pub(super) heard: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(super) says: WriteHalf<DuplexStream>,
}

impl Agent {
    /// Says it, and whether the client still listens.
    pub(super) async fn say(&mut self, message: &Value) -> bool {
        self.says.write_all(format!("{message}\n").as_bytes()).await.is_ok()
    }

    pub(super) async fn hear(&mut self) -> Value {
        let line = self.heard.next_line().await.unwrap().expect("the client says more");
        serde_json::from_str(&line).unwrap()
    }

    /// Hears a request and returns its id and params.
    pub(super) async fn asked(&mut self, method: &str) -> (Value, Value) {
        let mut message = self.hear().await;
        assert_eq!(message["method"], method);
        (message["id"].take(), message["params"].take())
    }

    pub(super) async fn answer(&mut self, id: Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    pub(super) async fn fail(&mut self, id: Value, error: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    pub(super) async fn update(&mut self, kind: &str, text: &str) -> bool {
        let params = json!({"sessionId": "s", "update": {"sessionUpdate": kind, "text": text}});
        self.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await
    }

    pub(super) async fn initialized(&mut self) {
        let (id, params) = self.asked("initialize").await;
        assert_eq!(params["protocolVersion"], 1);
        self.answer(id, json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}})).await;
    }

    /// Answers `initialize` and `session/new`.
    pub(super) async fn opened(&mut self, mut result: Value) {
        self.initialized().await;
        let (id, _) = self.asked("session/new").await;
        result["sessionId"] = "s".into();
        self.answer(id, result).await;
    }

    /// Answers `initialize` and takes `session/load`.
    pub(super) async fn loading(&mut self) -> Value {
        self.initialized().await;
        let (id, params) = self.asked("session/load").await;
        assert_eq!(params, json!({"sessionId": "s", "cwd": "/tmp", "mcpServers": []}));
        id
    }

    /// Listens until the client is gone.
    pub(super) async fn wait(mut self) {
        while let Ok(Some(_)) = self.heard.next_line().await {}
    }
}

/// A connection and the agent at its other end.
pub(super) fn connect() -> (Connection, Agent) {
    let (ours, theirs) = duplex(64 * 1024);
    let ((stdout, stdin), (heard, says)) = (split(ours), split(theirs));
    (Connection::new(stdin, stdout), Agent { heard: BufReader::new(heard).lines(), says })
}
