//! The story of a run in lines: a pure function from events to text that is safe to show.

use cofferdam::agent::AgentEvent;
use cofferdam::sandbox::host;
use cofferdam::session::{Event, ModeReason, Notice};
use cofferdam::text::{printable_line, without_colours};

use super::from_here::from_here;
use super::human;
use super::opening;
use super::shell::shell_word;
use super::table::fit;

/// How much of the story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Warnings only.
    Quiet,
    Normal,
    /// Also each step, what no parser understood, and the output of hooks.
    Verbose,
}

/// What kind of line it is; the live view gives each its style and its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What is going to happen: strategy, sandbox, log.
    Head,
    /// A step; the status line shows it too.
    Step,
    Milestone,
    AgentText,
    ToolCall,
    AgentError,
    Detail,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Longest line of an agent that is shown, in columns. The run log has it whole.
const WIDEST: usize = 2000;
/// So many lines of a hook's output at its beginning, and as many at its end.
const SHOWN: usize = 100;

/// Milliseconds after which somebody wonders what is going on.
const LONG: u64 = 2_000;

/// An agent, as far as a status line tells.
#[derive(Debug, Default)]
struct AtWork {
    iteration: String,
    tokens: u64,
    call: String,
}

impl AtWork {
    /// Best known first: what does not fit is cut off.
    fn status(&self) -> String {
        let tokens = match self.tokens {
            0 => String::new(),
            tokens => format!("{} tokens", human::count(tokens)),
        };
        let parts = [self.iteration.as_str(), &tokens, &self.call];
        let told = parts.into_iter().filter(|part| !part.is_empty());
        told.collect::<Vec<_>>().join(" · ")
    }
}

/// Turns events into lines.
#[derive(Debug)]
pub(crate) struct Narrator {
    pub(crate) verbosity: Verbosity,
    /// The user named no strategy.
    pub(crate) strategy_by_default: bool,
    /// Whether there will be a sandbox and a log to look at.
    hints: bool,
    /// Whether the sandbox stays, so that its commits wait for `cofferdam merge`.
    stays: bool,
    /// What is going on, for a status line.
    pub(crate) status: String,
    /// What the agent of this iteration did last, and the tokens that it has told of.
    at_work: AtWork,
    /// The step that was said to take long.
    slow: Option<&'static str>,
}

impl Narrator {
    pub(crate) fn new(verbosity: Verbosity, strategy_by_default: bool) -> Self {
        Self {
            verbosity,
            strategy_by_default,
            hints: true,
            stays: false,
            status: "starting".to_owned(),
            at_work: AtWork::default(),
            slow: None,
        }
    }

    /// The story without the commands that belong to it, as nothing of the run stays.
    pub(crate) fn without_hints(self) -> Self {
        Self {
            hints: false,
            ..self
        }
    }

    /// The story of a run in a sandbox that stays.
    pub(crate) fn staying(self, stays: bool) -> Self {
        Self { stays, ..self }
    }

    /// The lines that `event` adds to the story.
    pub(crate) fn tell(&mut self, event: &Event) -> Vec<Line> {
        let (least, lines) = self.lines(event);
        if self.verbosity < least {
            Vec::new()
        } else {
            lines
        }
    }

    fn lines(&mut self, event: &Event) -> (Verbosity, Vec<Line>) {
        use Verbosity::{Normal, Quiet, Verbose};
        let one = |kind, text: String| vec![Line { kind, text }];
        match event {
            Event::Planned { .. } => (Normal, self.planned(event)),
            Event::Step { step } => {
                self.status = printable_line(step);
                (Verbose, one(Kind::Step, self.status.clone()))
            }
            Event::Progress {
                step,
                done,
                of,
                millis,
            } => (Normal, self.progress(step, [*done, *of, *millis])),
            Event::SandboxReady { millis } => (
                Normal,
                one(Kind::Milestone, format!("sandbox ready in {millis} ms")),
            ),
            Event::HookStarted { point, command } => {
                self.status = format!("{point}: {}", fit(command, 60));
                (
                    Normal,
                    one(
                        Kind::Milestone,
                        format!("hook {point}: {}", fit(command, WIDEST)),
                    ),
                )
            }
            Event::HookOutput { point, line, .. } => {
                let line = without_colours(line).replace('\t', " ");
                self.status = format!("{point}: {}", fit(&line, 80));
                (Verbose, Vec::new())
            }
            Event::HookFinished {
                point,
                exit,
                output,
                ..
            } => {
                let mut lines = Vec::new();
                // A hook that failed is worth its output whatever was asked for.
                let least = if exit.success() { Verbose } else { Quiet };
                lines.extend(ends(text_lines(Kind::Detail, output)));
                lines.push(Line {
                    kind: Kind::Detail,
                    text: format!("hook {point}: {exit}"),
                });
                (least, lines)
            }
            Event::IterationStarted { iteration, of, .. } => {
                self.at_work = AtWork {
                    iteration: format!("iteration {iteration} of {of}"),
                    ..AtWork::default()
                };
                self.status = self.at_work.status();
                (Normal, one(Kind::Milestone, self.status.clone()))
            }
            Event::Agent { item, .. } => {
                match item {
                    AgentEvent::ToolCall { name, arguments } => {
                        self.at_work.call = fit(&call(name, arguments), 80);
                    }
                    AgentEvent::Usage { usage } => self.at_work.tokens = usage.tokens(),
                    _ => return agent(item),
                }
                self.status = self.at_work.status();
                agent(item)
            }
            Event::AgentError { line, .. } => (Normal, text_lines(Kind::AgentError, line)),
            Event::Idle { iteration, minutes } => {
                let text = format!(
                    "iteration {iteration}: no output for {}",
                    human::plural(usize::try_from(*minutes).unwrap_or(usize::MAX), "minute")
                );
                (Normal, one(Kind::Warning, text))
            }
            Event::IterationFinished {
                iteration,
                started,
                exit,
                completed,
            } => {
                let how = match (completed, exit) {
                    (true, _) => "the agent signalled completion".to_owned(),
                    (false, Some(exit)) => exit.to_string(),
                    (false, None) if !started => "the agent did not start".to_owned(),
                    (false, None) => "cut short".to_owned(),
                };
                (
                    Normal,
                    one(Kind::Milestone, format!("iteration {iteration}: {how}")),
                )
            }
            Event::Refused {
                what,
                reason,
                opens,
            } => {
                let what = fit(&printable_line(what), 120);
                let reason = fit(&printable_line(reason), 200);
                let opens = opens.as_deref().filter(|_| self.hints);
                let text = format!("refused: {what}: {reason}{}", opened_by(opens));
                (Normal, one(Kind::Warning, text))
            }
            Event::Notice(notice @ Notice::ModelRefused { opens, .. }) => {
                let text = format!(
                    "{}{}",
                    printable_line(&notice.to_string()),
                    opened_by(opens.as_deref())
                );
                (Quiet, one(Kind::Warning, text))
            }
            Event::Notice(notice) => (Quiet, text_lines(Kind::Warning, &notice.to_string())),
            // The summary tells where the commits are.
            Event::Landed { .. } => (Verbose, Vec::new()),
        }
    }

    /// Always in the status line; where it takes long also once in a line of its own, for whom there is no status.
    fn progress(&mut self, step: &'static str, [done, of, millis]: [u64; 3]) -> Vec<Line> {
        let rate = human::count(done.saturating_mul(1000) / millis.max(1));
        let far = format!("{} of {} files", human::count(done), human::count(of));
        self.status = format!("{step}: {far}, {rate} a second");
        if millis < LONG || done == of || self.slow == Some(step) {
            return Vec::new();
        }
        self.slow = Some(step);
        let once = if step == "tree" {
            ", once for all sandboxes"
        } else {
            ""
        };
        vec![Line {
            kind: Kind::Milestone,
            text: format!("writing files{once}: {far}, {rate} a second"),
        }]
    }

    fn planned(&self, event: &Event) -> Vec<Line> {
        let Event::Planned {
            name,
            agent,
            provider,
            image,
            strategy,
            mode,
            why_mode,
            source_branch,
            target_branch,
            uncommitted,
            max_iterations,
            log,
            ..
        } = event
        else {
            return Vec::new();
        };
        let source = printable_line(source_branch);
        let target = printable_line(target_branch);
        let how = match *strategy {
            "head" => format!(
                "the agent works in this checkout, its commits land on {target}{}",
                within_reach(*uncommitted)
            ),
            "merge-to-head" if self.stays => {
                let merge = format!("cofferdam merge {name}");
                format!(
                    "the agent works on {source}, and `{}` brings its commits to {target}",
                    from_here(&merge)
                )
            }
            "merge-to-head" => {
                format!("the agent works on {source}, its commits are merged into {target}")
            }
            _ => format!("the agent's commits land on {source}"),
        };
        let on_host = provider == host::NAME;
        let chosen = match (self.strategy_by_default, why_mode) {
            (true, _) if on_host => format!("{strategy} (the default)"),
            (false, _) if on_host => (*strategy).to_owned(),
            (_, ModeReason::Head) => (*strategy).to_owned(),
            (true, ModeReason::Possible) => format!("{strategy}, mode {mode} (both the default)"),
            (by_default, why) => format!(
                "{strategy}{}, mode {mode} ({})",
                if by_default { " (the default)" } else { "" },
                printable_line(&why.to_string())
            ),
        };
        let of_image = image.as_ref().map(|image| format!(", image {image}"));
        let place = format!("{provider}{}", of_image.unwrap_or_default());
        let agent = printable_line(agent);
        let within = if on_host {
            format!("no sandbox, agent {agent}")
        } else {
            format!(
                "sandbox {name} ({}), agent {agent}, at most {}",
                printable_line(&place),
                human::plural(
                    usize::try_from(*max_iterations).unwrap_or(usize::MAX),
                    "iteration"
                )
            )
        };
        let mut texts = vec![format!("{chosen}: {how}"), within];
        if let Some(log) = log.as_ref().filter(|_| self.hints) {
            texts.push(format!("log: tail -f {}", shell_word(log)));
        }
        let head = |text| Line {
            kind: Kind::Head,
            text,
        };
        texts.into_iter().map(head).collect()
    }
}

fn opened_by(rule: Option<&str>) -> String {
    if let Some(agent) = rule.and_then(opening::not_needed) {
        return format!("; {agent} does not need it");
    }
    let command = rule.and_then(opening::offer);
    command.map_or_else(String::new, |command| format!("; open with: {command}"))
}

/// What the agent's commits may take along in the user's own checkout.
fn within_reach(uncommitted: usize) -> String {
    if uncommitted == 0 {
        return String::new();
    }
    let changes = human::plural(uncommitted, "uncommitted change");
    format!("; {changes} of yours may go into them")
}

fn call(name: &str, arguments: &str) -> String {
    let text = format!("{} {}", printable_line(name), printable_line(arguments));
    text.trim_end().to_owned()
}

fn agent(item: &AgentEvent) -> (Verbosity, Vec<Line>) {
    use Verbosity::{Normal, Verbose};
    match item {
        AgentEvent::Text { text } => (Normal, text_lines(Kind::AgentText, text)),
        AgentEvent::ToolCall { name, arguments } => (
            Normal,
            vec![Line {
                kind: Kind::ToolCall,
                text: fit(&call(name, arguments), 200),
            }],
        ),
        AgentEvent::Result {
            text,
            is_error: true,
        } => (Normal, text_lines(Kind::AgentError, text)),
        // The same words came as text before.
        AgentEvent::Result {
            text,
            is_error: false,
        } => (Verbose, text_lines(Kind::Detail, text)),
        AgentEvent::Session { id } => {
            let text = format!("agent session {}", printable_line(id));
            (
                Verbose,
                vec![Line {
                    kind: Kind::Detail,
                    text,
                }],
            )
        }
        AgentEvent::Usage { .. } => (Verbose, Vec::new()),
        AgentEvent::Raw { line } => (Verbose, text_lines(Kind::Detail, line)),
    }
}

/// The lines of an agent's text, each safe and bounded; an empty text has none.
/// The first lines and the last ones, where there are very many.
fn ends(mut lines: Vec<Line>) -> Vec<Line> {
    let left_out = lines.len().saturating_sub(2 * SHOWN);
    if left_out > 1 {
        let note = Line {
            kind: Kind::Detail,
            text: format!("… {left_out} lines are left out …"),
        };
        lines.splice(SHOWN..SHOWN + left_out, [note]);
    }
    lines
}

/// The first lines and the last ones of what a program printed.
pub(crate) fn around(text: &str) -> impl Iterator<Item = String> {
    let lines = ends(text_lines(Kind::Detail, text));
    lines.into_iter().map(|line| line.text)
}

fn text_lines(kind: Kind, text: &str) -> Vec<Line> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    let lines = text.split('\n').map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = without_colours(line).replace('\t', "    ");
        Line {
            kind,
            text: fit(&line, WIDEST),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam::process::Exit;
    use cofferdam::session::{HookPoint, Notice};

    fn tell(verbosity: Verbosity, event: &Event) -> Vec<String> {
        let lines = Narrator::new(verbosity, true).tell(event);
        lines.into_iter().map(|line| line.text).collect()
    }

    fn said(item: AgentEvent) -> Event {
        Event::Agent {
            iteration: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            item,
        }
    }

    #[test]
    fn agents_cannot_move_the_cursor() {
        let text = "one\u{1b}[2Jtwo\r\n\u{9b}31m\rthree\u{202e}";
        let got = tell(
            Verbosity::Normal,
            &said(AgentEvent::Text {
                text: text.to_owned(),
            }),
        );
        assert_eq!(got, ["one\\u{1b}[2Jtwo", "\\u{9b}31m\\u{d}three\\u{202e}"]);
        let call = AgentEvent::ToolCall {
            name: "Ba\nsh".into(),
            arguments: "a\u{7}".into(),
        };
        assert_eq!(tell(Verbosity::Normal, &said(call)), ["Ba\\nsh a\\u{7}"]);
    }

    #[test]
    fn the_status_has_the_last_call_and_the_tokens() {
        let mut narrator = Narrator::new(Verbosity::Normal, true);
        let mut status = |event| {
            narrator.tell(&event);
            narrator.status.clone()
        };
        let started = |iteration| Event::IterationStarted {
            iteration,
            of: 3,
            prompt_bytes: 1,
        };
        assert_eq!(status(started(1)), "iteration 1 of 3");
        let call = AgentEvent::ToolCall {
            name: "Bash".to_owned(),
            arguments: "cargo\u{1b} test".to_owned(),
        };
        assert_eq!(
            status(said(call)),
            "iteration 1 of 3 · Bash cargo\\u{1b} test"
        );
        let mut usage = cofferdam::agent::Usage::default();
        (usage.input_tokens, usage.output_tokens) = (12_000, 345);
        assert_eq!(
            status(said(AgentEvent::Usage { usage })),
            "iteration 1 of 3 · 12,345 tokens · Bash cargo\\u{1b} test"
        );
        let text = "and so on".to_owned();
        assert!(status(said(AgentEvent::Text { text })).ends_with("test"));
        assert_eq!(status(started(2)), "iteration 2 of 3");
    }

    /// A line of its own would be one for each word of a command.
    #[test]
    fn steps_and_what_hooks_print_are_the_status() {
        let mut narrator = Narrator::new(Verbosity::Normal, true);
        let mut tell = |event| (narrator.tell(&event).len(), narrator.status.clone());
        assert_eq!(tell(Event::Step { step: "sync" }), (0, "sync".to_owned()));
        let line = "\u{1b}[31mgot\u{1b}[0m\t10 of 20".to_owned();
        let output = Event::HookOutput {
            point: HookPoint::OnSync,
            command: "make".to_owned(),
            line,
        };
        let shown = "sandbox.onSync: got 10 of 20".to_owned();
        assert_eq!(tell(output), (0, shown));
    }

    #[test]
    fn what_takes_long_is_said_once_with_its_rate() {
        let mut narrator = Narrator::new(Verbosity::Normal, true);
        let mut tell = |step, done, millis| {
            let of = 100_000;
            let lines = narrator.tell(&Event::Progress {
                step,
                done,
                of,
                millis,
            });
            let texts = lines.into_iter().map(|line| line.text);
            (narrator.status.clone(), texts.collect::<Vec<_>>())
        };
        let none = Vec::<String>::new();
        let status = |text: &str| text.to_owned();
        assert_eq!(
            tell("tree", 1_000, 0),
            (
                status("tree: 1,000 of 100,000 files, 1,000,000 a second"),
                none.clone()
            )
        );
        assert_eq!(
            tell("tree", 30_000, 2_000),
            (
                status("tree: 30,000 of 100,000 files, 15,000 a second"),
                vec![status(
                    "writing files, once for all sandboxes: 30,000 of 100,000 files, 15,000 a second"
                )]
            )
        );
        assert_eq!(tell("tree", 60_000, 4_000).1, none);
        let worktree = tell("worktree", 10_000, 5_000).1;
        assert_eq!(
            worktree,
            ["writing files: 10,000 of 100,000 files, 2,000 a second"]
        );
        assert_eq!(tell("worktree", 100_000, 9_000).1, none);
    }

    #[test]
    fn enormous_lines_are_cut() {
        let got = tell(
            Verbosity::Normal,
            &said(AgentEvent::Text {
                text: "x".repeat(1 << 20),
            }),
        );
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].chars().count(), WIDEST);
    }

    #[test]
    fn quiet_tells_warnings_and_failed_hooks_only() {
        let text = said(AgentEvent::Text {
            text: "hello".into(),
        });
        assert!(tell(Verbosity::Quiet, &text).is_empty());
        let notice = Event::Notice(Notice::Other {
            text: "careful".into(),
        });
        assert_eq!(tell(Verbosity::Quiet, &notice), ["careful"]);
        let hook = |exit| Event::HookFinished {
            point: HookPoint::WorktreeReady,
            command: "make".into(),
            exit,
            output: "no rule\n".into(),
        };
        assert!(tell(Verbosity::Normal, &hook(Exit::Code(0))).is_empty());
        let failed = tell(Verbosity::Quiet, &hook(Exit::Code(2)));
        assert_eq!(
            failed,
            ["no rule", "hook host.onWorktreeReady: exit code 2"]
        );
    }
}
