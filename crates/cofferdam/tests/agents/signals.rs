//! Which output completes a run, and which is only an echo of the prompt.

use std::fmt::Write as _;

use cofferdam::agent::{AgentEvent, completion, signal_in};
use proptest::prelude::*;

use crate::world::{SIGNAL, agent, call, events, raw, request, result, signals, text};

#[test]
fn signals_in_final_messages() {
    let signals = ["", "ONE", "TWO"].map(str::to_owned);
    assert_eq!(signal_in("a TWO b ONE", &signals), Some("ONE"));
    assert_eq!(signal_in("nothing", &signals), None);
    let by = |event: &AgentEvent, prompt| completion(event, prompt, &signals);
    assert_eq!(by(&result("done: TWO", false), "p"), Some("TWO"));
    assert_eq!(by(&result("done: TWO", true), "p"), None);
    for event in [
        text("ONE"),
        raw("ONE"),
        call("ONE", "ONE"),
        AgentEvent::Session { id: "ONE".into() },
    ] {
        assert_eq!(by(&event, "p"), None, "{event:?}");
    }
    // What repeats the prompt is not the agent's word; what goes beyond it is.
    let prompt = "Work.\nAt the end say ONE and stop.\nONE\n";
    assert_eq!(by(&result(prompt, false), prompt), None);
    assert_eq!(
        by(
            &result("You said:\n  At the end say ONE and stop.\nI go on.", false),
            prompt
        ),
        None
    );
    assert_eq!(
        by(&result(&format!("{prompt}ONE"), false), prompt),
        Some("ONE")
    );
    assert_eq!(by(&result("ONE", false), prompt), Some("ONE"));
    assert_eq!(by(&result("All is well. ONE", false), prompt), Some("ONE"));
    assert_eq!(by(&result("ONE", false), "ONE"), Some("ONE"));
}

/// How many times `command` finds the signal in `output`.
fn check_echo(prompt: &str, output: &str, want: usize) {
    let signals = signals();
    let got = events("command", prompt, output);
    let found = got
        .iter()
        .filter(|event| completion(event, prompt, &signals).is_some())
        .count();
    assert_eq!(found, want, "prompt {prompt:?}, output {output:?}: {got:?}");
}

#[test]
fn command_output() {
    assert_eq!(events("command", "p", "a\n"), [text("a")]);
    assert_eq!(
        events("command", "p", &format!("  {SIGNAL} \t\n")),
        [text(&format!("  {SIGNAL} \t")), result(SIGNAL, false)]
    );
    check_echo("p", SIGNAL, 1);
    check_echo("", SIGNAL, 1);
    check_echo(
        "p",
        &format!("I will say {SIGNAL}\n{SIGNAL}.\nx{SIGNAL}\n"),
        0,
    );
    let mut parser = agent("command", &["x"]).parser(&request("p"), &signals());
    assert_eq!(parser.line(SIGNAL.as_bytes(), true), [raw(SIGNAL)]);
    assert_eq!(parser.line(b"\xff\0", false), [text("\u{fffd}\0")]);
}

#[test]
fn an_echoed_prompt_never_completes() {
    let prompt = format!(
        "Do the work in this repository.\nWhen nothing is left, print:\n\n{SIGNAL}\n\nThanks."
    );
    check_echo(&prompt, &prompt, 0);
    // With more around it, and several times.
    check_echo(
        &prompt,
        &format!("Prompt:\n{prompt}\n---\n{prompt}\nworking\n"),
        0,
    );
    // Indented, wrapped anywhere, coloured, with CRLF, without its blank lines.
    check_echo(
        &prompt,
        &prompt.lines().fold(String::new(), |mut out, l| {
            let _ = writeln!(out, "    {l}");
            out
        }),
        0,
    );
    check_echo(
        &prompt,
        &prompt.replace("is left, print", "is left, pri\nnt"),
        0,
    );
    check_echo(&prompt, &prompt.replace("\n\n", "\n"), 0);
    check_echo(&prompt, &prompt.replace('\n', "\r\n"), 0);
    check_echo(
        &prompt,
        &prompt
            .replace("When", "\u{1b}[1;31mWhen")
            .replace("print:", "print:\u{1b}[0m"),
        0,
    );
    // The agent's own signal counts, before the echo, after it, and without one.
    check_echo(&prompt, &format!("{prompt}\nworking\n{SIGNAL}\n"), 1);
    check_echo(&prompt, &format!("working\n{SIGNAL}\n{prompt}\n"), 1);
    check_echo(&prompt, &format!("All done.\n{SIGNAL}\n"), 1);
    check_echo(&prompt, SIGNAL, 1);

    // In the middle of a line of the prompt: a wrapped echo has it on a line of its own.
    let inline = format!("When you are finished with everything say {SIGNAL} and stop");
    check_echo(&inline, &inline, 0);
    check_echo(&inline, &inline.replace(' ', "\n"), 0);
    check_echo(&inline, &format!("ready\n{SIGNAL}\n"), 1);

    // Several in a row, and at the end of the prompt.
    let twice = format!("Say one of these lines:\n{SIGNAL}\n{SIGNAL}");
    check_echo(&twice, &twice, 0);
    check_echo(&twice, &format!("{twice}\nok\n{SIGNAL}"), 1);

    // Little before it.
    let short = format!("say\n{SIGNAL}");
    check_echo(&short, &short, 0);
    check_echo(&short, &format!("x\n{SIGNAL}"), 1);
}

#[test]
fn a_prompt_that_begins_with_the_signal() {
    let prompt = format!("{SIGNAL}\nis what you print when nothing is left to do.");
    check_echo(&prompt, &prompt, 0);
    check_echo(
        &prompt,
        &format!("Prompt:\n\n{prompt}\n{prompt}\nworking"),
        0,
    );
    check_echo(&prompt, &prompt.replace(' ', "\n"), 0);
    check_echo(&prompt, &format!("{SIGNAL}\n\nis what"), 0);
    check_echo(&prompt, SIGNAL, 1);
    check_echo(&prompt, &format!("working\n{SIGNAL}\nbye"), 1);
    check_echo(&prompt, &format!("{prompt}\nworking\n{SIGNAL}\n"), 1);
    // Nothing but the signal: the first one may be the echo.
    check_echo(SIGNAL, SIGNAL, 0);
    check_echo(SIGNAL, &format!("{SIGNAL}\nworking\n{SIGNAL}\n"), 1);
    check_echo(SIGNAL, &format!("{SIGNAL}\n{SIGNAL}\n"), 1);
}

#[test]
fn an_echo_whose_lines_are_cut_is_still_an_echo() {
    let long = "word ".repeat(1000);
    let prompt = format!("{long}and at the very end print:\n{SIGNAL}");
    let mut parser = agent("command", &["x"]).parser(&request(&prompt), &signals());
    let mut events = parser.line(&prompt.as_bytes()[..500], true);
    events.extend(parser.line(SIGNAL.as_bytes(), false));
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Result { .. })),
        "{events:?}"
    );
    let later = parser.line(SIGNAL.as_bytes(), false);
    assert_eq!(later.last(), Some(&result(SIGNAL, false)));
    // Some other long line proves nothing.
    let mut parser = agent("command", &["x"]).parser(&request(&prompt), &signals());
    parser.line(&[b'x'; 500], true);
    assert_eq!(
        parser.line(SIGNAL.as_bytes(), false).last(),
        Some(&result(SIGNAL, false))
    );
}

proptest! {
    /// Whatever the prompt, and however its echo is cut into lines at white space: no completion.
    /// What the agent says itself before it is found.
    #[test]
    fn echoes_of_any_prompt(
        words in prop::collection::vec(prop_oneof![3 => "[a-c:]{1,6}", 1 => Just(SIGNAL.to_owned())], 1..30),
        spaces in prop::collection::vec(prop_oneof![Just(" "), Just("\n"), Just("\n\n  "), Just("\r\n")], 60),
    ) {
        let join = |spaces: &[&str]| {
            words.iter().zip(spaces).fold(String::new(), |out, (word, space)| out + word + space)
        };
        let (prompt, echo) = (join(&spaces[..30]), join(&spaces[30..]));
        let signals = signals();
        let found = |output: &str| {
            let events = events("command", &prompt, output);
            events.iter().filter(|event| completion(event, &prompt, &signals).is_some()).count()
        };
        prop_assert_eq!(found(&echo), 0);
        prop_assert_eq!(found(&format!("noise\n{echo}\nnoise\n{echo}\n")), usize::from(words == [SIGNAL]));
        if words != [SIGNAL] {
            prop_assert_eq!(found(&format!("All is done now.\n{SIGNAL}\nEnd.\n{echo}\nMore of my own words.\n{SIGNAL}\n.")), 2);
        }
    }
}
