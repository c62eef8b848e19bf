//! From a turn of the script to what goes over the wire. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::request::Request;
use super::script::{Fault, Turn};
use super::{anthropic, chat, google, openai};

/// How the tools of a server begin that the program was told of; OpenCode says the server's name alone.
const SERVED: [&str; 2] = ["mcp__", "cofferdam_"];

/// What the server does with a request.
#[derive(Debug)]
pub(super) enum Answer {
    Whole {
        status: u16,
        /// Seconds.
        retry_after: Option<u64>,
        body: Value,
    },
    Stream {
        events: Vec<Value>,
        pause: Duration,
        end: End,
    },
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Proper,
    Cut,
    Hang,
}

/// Which language a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Anthropic,
    OpenAi,
    Chat,
    Google,
}

impl Language {
    /// `None`: the request asks for no answer of the model.
    pub(super) fn of(request: &Request) -> Option<Self> {
        if request.method != "POST" {
            return None;
        }
        match request.route().rsplit('/').next() {
            Some("messages") => Some(Self::Anthropic),
            Some("responses") => Some(Self::OpenAi),
            Some("completions") => Some(Self::Chat),
            _ => match google::asked(request.route()) {
                Some(google::STREAM | google::WHOLE) => Some(Self::Google),
                _ => None,
            },
        }
    }

    /// Whether the agent itself asks, not one of its small questions (a title, a summary).
    pub(super) fn asks_for_work(self, request: &Request) -> bool {
        let shells: &[&str] = match self {
            Self::Anthropic => anthropic::SHELLS,
            Self::OpenAi => openai::SHELLS,
            Self::Chat | Self::Google => chat::SHELLS,
        };
        let is_work = |tool: &&str| shells.contains(tool) || is_served(tool);
        request.tools().iter().any(is_work)
    }

    fn streams(self, request: &Request) -> bool {
        match self {
            Self::Google => google::asked(request.route()) == Some(google::STREAM),
            _ => request.body.get("stream").and_then(Value::as_bool) == Some(true),
        }
    }

    fn error(self, code: u16, message: &str) -> Value {
        let kind = match code {
            400 => "invalid_request_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let error = json!({"type": kind, "message": message});
        match self {
            Self::Anthropic => json!({"type": "error", "error": error}),
            Self::OpenAi | Self::Chat => json!({"error": error}),
            Self::Google => {
                json!({"error": {"code": code, "message": message, "status": kind.to_uppercase()}})
            }
        }
    }
}

fn is_served(tool: &str) -> bool {
    SERVED.iter().any(|start| tool.starts_with(start))
}

/// The answer to a request of the agent. `number` makes ids.
pub(super) fn answer(language: Language, request: &Request, turn: &Turn, number: usize) -> Answer {
    if let Some(Fault::Status { code, retry_after }) = turn.fault {
        let message = if turn.say.is_empty() {
            "the scripted model refuses"
        } else {
            &turn.say
        };
        return Answer::Whole {
            status: code,
            retry_after,
            body: language.error(code, message),
        };
    }
    let (pause, end) = match turn.fault {
        Some(Fault::Slow { millis }) => (Duration::from_millis(millis), End::Proper),
        Some(Fault::Cut) => (Duration::ZERO, End::Cut),
        Some(Fault::Hang) => (Duration::ZERO, End::Hang),
        Some(Fault::Status { .. }) | None => (Duration::ZERO, End::Proper),
    };
    let streams = language.streams(request);
    let mut events = match (language, streams) {
        (Language::Anthropic, true) => anthropic::events(request, turn, number),
        (Language::OpenAi, true) => openai::events(request, turn, number),
        (Language::Chat, true) => chat::events(request, turn, number),
        (Language::Google, true) => google::events(request, turn, number),
        // Nothing of an answer in one piece comes before its fault.
        (_, false) if end != End::Proper => Vec::new(),
        (Language::Anthropic, false) => return whole(anthropic::message(request, turn, number)),
        (Language::OpenAi, false) => return whole(openai::response(request, turn, number)),
        (Language::Chat, false) => return whole(chat::completion(request, turn, number)),
        (Language::Google, false) => return whole(google::response(request, turn, number)),
    };
    if end != End::Proper {
        events.truncate(events.len() / 2);
    }
    Answer::Stream { events, pause, end }
}

/// The answer to a request that does not fit the script.
pub(super) fn refusal(language: Language, message: &str) -> Answer {
    Answer::Whole {
        status: 400,
        retry_after: None,
        body: language.error(400, message),
    }
}

/// What else programs ask: the number of tokens, the list of models, whether anybody is there.
pub(super) fn other(request: &Request) -> Answer {
    let body = match (request.method.as_str(), request.route()) {
        ("POST", path) if path.ends_with("/count_tokens") => json!({"input_tokens": 10}),
        ("POST", path) if path.ends_with(":countTokens") => json!({"totalTokens": 10}),
        ("GET", path) if path.ends_with("/models") => json!({"object": "list", "data": []}),
        ("HEAD", _) | ("GET", "/") => json!({}),
        // A WebSocket is wanted: this answer tells Codex to do without.
        ("GET", path) if path.ends_with("/responses") => return failed(426, "no WebSocket here"),
        _ => return failed(404, "no such path"),
    };
    whole(body)
}

fn failed(status: u16, message: &str) -> Answer {
    Answer::Whole {
        status,
        retry_after: None,
        body: json!({"error": {"type": "not_found_error", "message": message}}),
    }
}

fn whole(body: Value) -> Answer {
    Answer::Whole {
        status: 200,
        retry_after: None,
        body,
    }
}
