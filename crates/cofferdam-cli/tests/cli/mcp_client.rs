//! A client of `cofferdam mcp`, as tests drive it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A client with a server of its own. The server ends with it.
pub(crate) struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    #[track_caller]
    pub(crate) fn with(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self {
            child,
            to,
            from,
            asked: 0,
        };
        let who = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
        let told = this.ask("initialize", &hello);
        assert_eq!(told["serverInfo"]["name"], "cofferdam");
        this.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        this
    }

    pub(crate) fn say(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{message}").unwrap();
        to.flush().unwrap();
    }

    /// Whatever it is.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let to = self.to.as_mut().unwrap();
        to.write_all(bytes).unwrap();
        to.flush().unwrap();
    }

    #[track_caller]
    pub(crate) fn hear(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The next message as it is; nothing where its server has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let heard = self.hear();
            if heard["id"] == id {
                assert!(heard["error"].is_null(), "{method} {params}: {heard}");
                return heard["result"].clone();
            }
        }
    }

    /// The text of what a tool answers, and whether it is an error.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let called = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let text = called["content"][0]["text"].as_str().unwrap();
        (text.to_owned(), called["isError"] == true)
    }

    /// The text of what a tool answers that does what it is called for.
    #[track_caller]
    pub(crate) fn tool(&mut self, tool: &str, arguments: &Value) -> String {
        let (text, is_error) = self.call(tool, arguments);
        assert!(!is_error, "{tool} {arguments}: {text}");
        text
    }

    /// That of one that does not.
    #[track_caller]
    pub(crate) fn error(&mut self, tool: &str, arguments: &Value) -> String {
        let (text, is_error) = self.call(tool, arguments);
        assert!(is_error, "{tool} {arguments}: {text}");
        text
    }

    /// A line for the shell of the sandbox `one`, and what it printed.
    #[track_caller]
    pub(crate) fn run(&mut self, command: &str) -> String {
        let exec = json!({"sandbox": "one", "command": command});
        self.tool("sandbox-exec", &exec)
    }

    /// Calls a tool whose answer comes later, by this id.
    pub(crate) fn begin(&mut self, id: &str, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// Its server's process.
    pub(crate) fn server(&self) -> u32 {
        self.child.id()
    }

    /// Its server is killed.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}
