//! An agent of your own: how its program is started and read. Beside it what most programs want sooner or later: hooks, an answer
//! with a type, and an end that somebody else sets.
//!
//! In a clone of Cofferdam: `cargo run --example own_agent -- DIRECTORY`, with a git repository that has a commit. The program is a
//! line of the shell, so it takes no key and no network.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program reads its environment and prints; the library does neither"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::agent::{
    AgentCommand, AgentError, AgentEvent, AgentProvider, AgentRequest, StreamParser,
};
use cofferdam::home::Home;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::{
    Caller, Hook, NetworkOptions, Output, PromptSource, RunOptions, SessionOptions, Task,
};

const PROGRAM: &str = "cat >> NOTES.md; git add NOTES.md; git commit -qm 'note it down'; \
     echo 'I count the words.'; echo \"final: <note>{\\\"words\\\": $(wc -w < NOTES.md)}</note>\"";

/// What it gives back.
#[derive(Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Note {
    pub(crate) words: u32,
}

#[derive(Debug)]
struct Scribe;

impl AgentProvider for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn environment(&self) -> &[&str] {
        &[]
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        Ok(AgentCommand {
            arguments: ["sh", "-c", PROGRAM].map(Into::into).to_vec(),
            stdin: Some(request.prompt.clone().into_bytes()),
            environment: BTreeMap::new(),
        })
    }

    fn parser(&self, _request: &AgentRequest, _signals: &[String]) -> Box<dyn StreamParser> {
        Box::new(Lines)
    }
}

/// Its last message begins with a word that nothing else begins with.
#[derive(Debug)]
struct Lines;

impl StreamParser for Lines {
    fn line(&mut self, line: &[u8], _truncated: bool) -> Vec<AgentEvent> {
        let text = String::from_utf8_lossy(line).into_owned();
        vec![match text.strip_prefix("final: ") {
            Some(text) => AgentEvent::Result {
                text: text.to_owned(),
                is_error: false,
            },
            None => AgentEvent::Text { text },
        }]
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let repository = std::env::args_os().nth(1).ok_or("name a git repository")?;
    let user = std::env::home_dir().ok_or("there is no home directory")?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.environment = std::env::vars_os().collect();
    caller.user_home = Some(user);
    let note = own_agent(caller, repository.as_ref(), Duration::from_mins(10)).await?;
    println!("{} words", note.words);
    Ok(())
}

/// `limit`: how long all of it may take.
pub(crate) async fn own_agent(
    caller: Caller,
    repository: &Path,
    limit: Duration,
) -> Result<Note, Box<dyn Error>> {
    let sandbox = BindMount::or_layers(Native::default(), BranchStrategy::MergeToHead);
    let mut options = RunOptions {
        caller,
        session: SessionOptions::new(repository, sandbox),
        task: Task::new(Arc::new(Scribe)),
    };
    options.session.network = NetworkOptions::None;
    // In the sandbox, before the agent.
    options.session.hooks.sandbox_ready = vec![Hook::new("printf 'Notes:\\n' > NOTES.md")];
    options.task.prompt = PromptSource::Inline("Write this down.\n".to_owned());
    options.task.output = Some(Output::of::<Note>("note")?);

    // Whoever cancels it ends the agent; what that has committed comes home all the same.
    let cancel = options.caller.cancel.clone();
    let clock = tokio::spawn(async move {
        tokio::time::sleep(limit).await;
        cancel.cancel();
    });
    let ended = cofferdam::run(options).await;
    clock.abort();
    let report = ended?;
    println!("{}", report.landing);
    Ok(report.output_as().ok_or("it gave nothing back")??)
}
