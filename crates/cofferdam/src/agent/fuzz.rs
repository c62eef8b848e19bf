//! What agents print, and the logins that they leave, under changed inputs: see `cofferdam_lab::fuzz`.

use cofferdam_lab::fuzz::mutate;
use serde_json::{Value, json};

use super::login::LoginFormat;
use super::login::tests::token;
use super::{AGENTS, AgentEvent, AgentKind, AgentOptions, AgentRequest, by_name, completion, json};
use crate::text::LineFramer;

const SIGNAL: &str = "<promise>COMPLETE</promise>";
/// Short, so that changed inputs have lines that are longer.
const LIMIT: usize = 4096;

/// The events of one iteration whose output arrives in pieces of at most `most` bytes, and the lines.
fn read(agent: &str, prompt: &str, output: &[u8], most: usize) -> (Vec<AgentEvent>, usize) {
    let options = AgentOptions {
        arguments: vec!["program".into()],
        ..AgentOptions::default()
    };
    let mut request = AgentRequest::new(prompt);
    request.skip_permissions = true;
    let provider = by_name(agent, options).unwrap();
    let mut parser = provider.parser(&request, &[SIGNAL.to_owned()]);
    let (mut events, mut lines) = (Vec::new(), 0);
    let mut framer = LineFramer::new(LIMIT);
    let mut each = |line: crate::text::Line<'_>| {
        lines += 1;
        events.extend(parser.line(line.bytes, line.truncated));
    };
    for piece in output.chunks(most) {
        framer.push(piece, &mut each);
    }
    framer.finish(&mut each);
    events.extend(parser.end());
    (events, lines)
}

/// Every line is told of, what is said of a line is not longer than it can explain, a session can stand on a
/// command line, and the size of the pieces changes nothing.
#[test]
fn fuzz_agent_streams() {
    let worked: [(&str, &[u8]); 7] = [
        (
            "claude-code",
            include_bytes!("../../tests/recorded/claude-work.jsonl"),
        ),
        (
            "codex",
            include_bytes!("../../tests/recorded/codex-work.jsonl"),
        ),
        (
            "opencode",
            include_bytes!("../../tests/recorded/opencode-work.jsonl"),
        ),
        ("pi", include_bytes!("../../tests/recorded/pi-work.jsonl")),
        (
            "copilot",
            include_bytes!("../../tests/recorded/copilot-work.jsonl"),
        ),
        (
            "gemini",
            include_bytes!("../../tests/recorded/gemini-work.jsonl"),
        ),
        (
            "qwen",
            include_bytes!("../../tests/recorded/qwen-work.jsonl"),
        ),
    ];
    let others: [&[u8]; 9] = [
        include_bytes!("../../tests/recorded/claude-error.jsonl"),
        include_bytes!("../../tests/recorded/codex-error.jsonl"),
        include_bytes!("../../tests/recorded/opencode-error.jsonl"),
        include_bytes!("../../tests/recorded/pi-error.jsonl"),
        include_bytes!("../../tests/recorded/copilot-error.jsonl"),
        include_bytes!("../../tests/recorded/gemini-error.jsonl"),
        include_bytes!("../../tests/recorded/qwen-error.jsonl"),
        include_bytes!("../../tests/recorded/claude-resume.jsonl"),
        include_bytes!("../../tests/recorded/codex-resume.jsonl"),
    ];
    let prompt = format!("Look at greeting.txt, then print\n{SIGNAL}\n");
    let words = format!("\u{1b}[1m{prompt}\u{1b}[0mdone\r\n{SIGNAL}\r\n");
    let nested = br#"{"type":"error","message":"{\"error\":{\"data\":{\"message\":\"no\"}}}"}"#;
    let recorded = worked.iter().map(|(_, output)| *output).chain(others);
    let seeds: Vec<Vec<u8>> = recorded
        .flat_map(|whole| [whole, whole.split(|&byte| byte == b'\n').next().unwrap()])
        .chain([words.as_bytes(), &nested[..]])
        .map(<[u8]>::to_vec)
        .collect();
    // The seeds are what they look like: the agent that printed one reads a completion there, and none in the prompt
    // alone.
    let completes = |output: &[u8]| {
        let signals = [SIGNAL.to_owned()];
        let reads = |kind: &&AgentKind| {
            let events = read(kind.name, &prompt, output, usize::MAX).0;
            events
                .iter()
                .any(|event| completion(event, &prompt, &signals).is_some())
        };
        let kinds = AGENTS.iter().filter(reads);
        kinds.map(|kind| kind.name).collect::<Vec<_>>()
    };
    for (name, output) in worked {
        assert!(completes(output).contains(&name), "{name}");
    }
    assert_eq!(completes(words.as_bytes()), ["command"]);
    assert!(completes(prompt.as_bytes()).is_empty());
    mutate("agent streams", &seeds, |output| {
        for agent in AGENTS.iter().map(|kind| kind.name) {
            let (whole, lines) = read(agent, &prompt, output, usize::MAX);
            let pieces = read(agent, &prompt, output, 7);
            assert_eq!(
                (&whole, lines),
                (&pieces.0, pieces.1),
                "{agent}: by the size of its pieces"
            );
            assert!(whole.len() >= lines, "{agent}: a line is not told of");
            // Bytes that are no text take three each.
            let most = 3 * LIMIT + SIGNAL.len();
            // Words may come in pieces, over several lines.
            let words = most.max(super::gemini::WORDS);
            for event in &whole {
                match event {
                    AgentEvent::Session { id } => _ = json::session_id(agent, id).unwrap(),
                    AgentEvent::Text { text } | AgentEvent::Result { text, .. } => {
                        assert!(text.len() <= words, "{agent}");
                    }
                    AgentEvent::ToolCall { name, arguments } => {
                        assert!(name.len() <= most && arguments.len() <= most, "{agent}");
                    }
                    AgentEvent::Raw { line } => assert!(line.len() <= most, "{agent}"),
                    AgentEvent::Usage { .. } => {}
                }
            }
        }
    });
}

/// A file that a sandbox left where its login was is at most the same login, renewed: what no renewal changes is
/// as it was, for the same account.
#[test]
fn fuzz_renewed_logins() {
    const FORMAT: LoginFormat = LoginFormat {
        path: ".own/login.json",
        fields: &[],
        renewed: &["tokens.id", "tokens.access", "until"],
        later: &["until"],
        times: &["/until"],
        account: &["/sub"],
        volume: None,
        marks: &[],
    };
    let login = |id: &str, access: &str, until: u32| {
        let id = token(&json!({"sub": id, "n": access}));
        json!({"plan": "x", "tokens": {"id": id, "access": access, "account": "mine"}, "until": until})
    };
    let before = login("me", "a", 1);
    let after = login("me", "b", 2);
    assert!(FORMAT.renews(&before, &after) && FORMAT.is_newer(&before, &after));
    assert!(!FORMAT.renews(&before, &login("you", "b", 2)));
    let own = json!({"tokens": {"id": "", "access": "opaque"}, "until": "2026-01-01T00:00:00Z"});
    let seeds = [before.clone(), after, login("you", "b", 2), own]
        .map(|value: Value| value.to_string().into_bytes());
    mutate("renewed logins", &seeds, |bytes| {
        let Ok(after) = LoginFormat::parse(bytes) else {
            return;
        };
        FORMAT.is_newer(&before, &after);
        if FORMAT.renews(&before, &after) {
            for place in ["/plan", "/tokens/account"] {
                assert_eq!(before.pointer(place), after.pointer(place), "{after}");
            }
            assert_eq!(after.as_object().unwrap().len(), 3, "{after}");
            assert_eq!(after["tokens"].as_object().unwrap().len(), 3, "{after}");
            assert!(after["tokens"]["access"].is_string() && after["until"].is_number());
        }
    });
}
