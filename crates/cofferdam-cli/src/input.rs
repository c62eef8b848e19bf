//! What is piped to standard input, and how long it is waited for.

use std::io::{ErrorKind, Read, stderr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use cofferdam::prompt::TEMPLATE_LIMIT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::isatty;

use crate::ui::output;

/// Whether the person at the terminal says yes; everything else is no.
pub(crate) fn is_yes() -> bool {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Which of these the person at the terminal chooses, by its name or its number from 1; Enter alone is number `usual`, from 0. `None`:
/// nobody answers.
pub(crate) fn choice(question: &str, names: &[&str], usual: usize) -> Option<usize> {
    let numbered = names.iter().enumerate();
    let numbered: Vec<_> = numbered
        .map(|(number, name)| format!("{}) {name}", number + 1))
        .collect();
    loop {
        let text = format!("{question}: {} [{}] ", numbered.join("  "), names[usual]);
        output::note(&text);
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            return Some(usual);
        }
        let number = line.parse::<usize>().ok();
        let number = number.and_then(|number| number.checked_sub(1));
        let found = names.iter().position(|name| *name == line).or(number);
        if let Some(found) = found.filter(|found| *found < names.len()) {
            return Some(found);
        }
    }
}

/// How long standard input may keep silent where a prompt must come from it.
const PATIENCE: Duration = Duration::from_mins(10);
/// The same where a prompt may come from it: scripts start commands with a pipe that nobody writes.
const GLANCE: Duration = Duration::from_secs(3);
/// A wait that is longer is explained.
const SILENT: Duration = Duration::from_secs(1);

/// There is no prompt to begin with. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptInputError {
    #[error("`--prompt` is empty")]
    Empty,
    #[error("standard input holds no prompt")]
    NothingPiped,
    #[error("standard input is a terminal: there is no prompt to read from it")]
    Terminal,
    #[error("nothing came on standard input for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the prompt on standard input is larger than {} MiB", TEMPLATE_LIMIT >> 20)]
    TooLarge,
    #[error("the prompt on standard input is not UTF-8 text (at byte {0})")]
    NotText(usize),
    #[error("cannot read standard input: {0}")]
    Read(std::io::Error),
}

impl PromptInputError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Empty => "say what the agent is to do: `--prompt 'make the tests pass'`",
            Self::NotText(_) => "convert it, for example with `iconv -f latin1 -t utf-8`",
            Self::TooLarge => "put the material into the repository, and its place into the prompt",
            Self::NothingPiped | Self::Terminal | Self::Silent(_) | Self::Read(_) => {
                "give one with `--prompt TEXT` or `--prompt-file FILE`, or pipe it in: \
                 `echo 'make the tests pass' | cofferdam run …`"
            }
        }
        .to_owned()
    }
}

/// How much a prompt on standard input is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The user said that it is there.
    Certain,
    /// The agent needs one, and no option gave it.
    Wanted,
    /// The agent does without.
    Possible,
    /// An option gave one, and this would be added to it.
    Beside,
}

impl Need {
    /// What is said where nobody writes, if that is no error.
    fn without(self) -> Option<&'static str> {
        match self {
            Self::Certain | Self::Wanted => None,
            Self::Possible => Some(
                "nothing came on standard input, so the agent gets no prompt (`--prompt -` waits for one)",
            ),
            Self::Beside => Some(
                "nothing came on standard input, so nothing is added to the prompt (`</dev/null` saves the wait)",
            ),
        }
    }
}

/// What is piped to standard input; `None`: nothing.
pub(crate) fn read(need: Need) -> Result<Option<String>, PromptInputError> {
    let stdin = std::io::stdin();
    if isatty(stdin.as_fd()) {
        return match need {
            Need::Certain => Err(PromptInputError::Terminal),
            Need::Wanted | Need::Possible | Need::Beside => Ok(None),
        };
    }
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let mut input = stdin.lock();
    loop {
        if !wait(input.as_fd(), need, bytes.is_empty())? {
            return Ok(None);
        }
        let got = match input.read(&mut chunk) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(PromptInputError::Read(error)),
        };
        if got == 0 {
            break;
        }
        bytes.extend_from_slice(&chunk[..got]);
        if bytes.len() as u64 > TEMPLATE_LIMIT {
            return Err(PromptInputError::TooLarge);
        }
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| PromptInputError::NotText(error.utf8_error().valid_up_to()))?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Waits until there is something to read, or the end. `false`: nobody writes, and that is fine.
fn wait(input: BorrowedFd<'_>, need: Need, first: bool) -> Result<bool, PromptInputError> {
    let without = need.without().filter(|_| first);
    let limit = if without.is_some() { GLANCE } else { PATIENCE };
    let began = Instant::now();
    let mut told = without.is_some();
    while let Some(left) = limit.checked_sub(began.elapsed()) {
        let left = if told { left } else { left.min(SILENT) };
        let timeout = Timespec::try_from(left).map_err(|_| PromptInputError::Silent(limit))?;
        match poll(
            &mut [PollFd::from_borrowed_fd(input, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(0) if !told => {
                told = true;
                if isatty(stderr().as_fd()) {
                    output::note("reading the prompt from standard input; Ctrl-C ends it\n");
                }
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(PromptInputError::Read(error.into())),
        }
    }
    if let Some(without) = without {
        output::note(&format!("note: {without}\n"));
        return Ok(false);
    }
    Err(PromptInputError::Silent(limit))
}

/// Standard input, where whoever started this process gave it a socket.
pub(crate) fn socket() -> std::io::Result<std::os::unix::net::UnixStream> {
    use std::os::fd::AsFd;
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok(input.into())
}
