//! `cofferdam doctor`.

pub(super) mod agents;
mod engines;
mod finding;
mod sandbox;

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use cofferdam::config::{self, Config};
use cofferdam::fsx;
use cofferdam::home::Home;
use cofferdam::sandbox::native::{self, Check, Status};
use cofferdam::session::manage;
use cofferdam::text::{printable, printable_bytes_line, printable_line};
use cofferdam::wall::{self, Answer, Ask, Start, WallError};

use finding::{Finding, Standing};

use crate::environment::Environment;
use crate::error::{CliError, message};
use crate::interrupt::Interrupt;
use crate::ui::style::{self, paint};
use crate::ui::{human, json, output};

/// Check what this machine can give, and say what to install where it lacks something
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Look at this sandbox instead, which lives on: how it is kept apart from the machine now
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// A list of objects: `name`, `status` (ok, degraded, missing, malformed, absent), `detail`, `hint`; those of
    /// agents have `agent`: `path`, `visible`, `version`, `access`
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let findings = match &arguments.sandbox {
        Some(name) => sandbox::examine(name, environment, interrupt).await?,
        None => machine(environment, interrupt).await,
    };
    if arguments.json {
        output::data(&json::line(&findings)?)?;
    } else {
        output::data(&render(&findings, environment.colour.on_stdout()))?;
    }
    let bad = [Standing::Missing, Standing::Malformed];
    Ok(if findings.iter().any(|one| bad.contains(&one.status)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// What there is for sandboxes.
async fn machine(environment: &Environment, interrupt: &Interrupt) -> Vec<Finding> {
    let mut findings = vec![
        git(environment, interrupt).await,
        home(environment.home.path()),
    ];
    let network = native::probe_network(&interrupt.cancel).await;
    let layers = layers(environment.home.path(), interrupt).await;
    let checks = native::probe().into_iter().chain(network).chain(layers);
    findings.extend(checks.map(|check| Finding {
        name: check.name.to_owned(),
        status: check.status.into(),
        detail: check.detail,
        hint: check.hint,
        agent: None,
    }));
    findings.extend(engines::find(environment).await);
    findings.extend(trees(&environment.home));
    findings.push(config(environment));
    findings.push(gateway(environment).await);
    findings.push(leftovers(environment, interrupt).await);
    let own = agents::Variables::read(environment, interrupt).await;
    findings.extend(own.finding());
    findings.extend(agents::find(&own, environment, interrupt).await);
    findings
}

/// Whether they work where they would lie. A home that is not there yet is not made for it.
async fn layers(home: &Path, interrupt: &Interrupt) -> Option<Check> {
    if home.is_dir() {
        return Some(native::probe_layers(home, &interrupt.cancel).await);
    }
    // What is wrong with one that is no directory the line above says.
    if home.symlink_metadata().is_ok() {
        return None;
    }
    let mut above = home.ancestors().skip(1);
    let above = above
        .find(|above| above.is_dir())
        .filter(|it| writable(it))?;
    let place = above.join(format!(".cofferdam-doctor-{}", std::process::id()));
    let check = native::probe_layers(&place, &interrupt.cancel).await;
    match fsx::remove_tree(&place) {
        Ok(()) => Some(check),
        Err(error) => Some(Check {
            status: Status::Degraded,
            detail: message(&error),
            ..check
        }),
    }
}

/// Where the files of commits are that sandboxes stand on, and what they take.
fn trees(home: &Home) -> Option<Finding> {
    let place = home.all_trees();
    let taken = match cofferdam::git::trees::taken(home) {
        Ok(taken) if taken.layers == 0 => return None,
        Ok(taken) => taken,
        Err(error) => {
            let why = error.to_string();
            return Some(Finding::new("trees", Standing::Degraded, why, ""));
        }
    };
    let detail = format!(
        "files of {} commits, {} bytes, in {}; less with `cofferdam gc --keep-trees SIZE`",
        human::count(taken.layers),
        human::count(taken.bytes),
        printable_bytes_line(place.as_os_str().as_bytes())
    );
    Some(Finding::new("trees", Standing::Ok, detail, ""))
}

async fn git(environment: &Environment, interrupt: &Interrupt) -> Finding {
    const HINT: &str = "install git 2.39 or newer, for example with `apt-get install git`";
    let call = environment.git.anywhere(Path::new("/")).arg("--version");
    let version = match call.line(&interrupt.cancel).await {
        Ok(version) => version,
        Err(error) => return Finding::new("git", Standing::Missing, message(&error), HINT),
    };
    let program = environment.git.program().display();
    let detail = format!("{} ({program})", version.trim_start_matches("git version "));
    if new_enough(&version) {
        Finding::new("git", Standing::Ok, detail, "")
    } else {
        Finding::new(
            "git",
            Standing::Missing,
            format!("{detail} is too old"),
            HINT,
        )
    }
}

/// Whether `git version X.Y…` is 2.39 or newer.
fn new_enough(version: &str) -> bool {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (2, 39)
}

/// Cofferdam's own directory, or the nearest existing one above it.
fn home(path: &Path) -> Finding {
    const NAME: &str = "own files";
    let shown = path.display();
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = path.ancestors().skip(1).find(|above| above.exists());
            let writable = above.is_some_and(writable);
            return if writable {
                Finding::new(NAME, Standing::Ok, format!("{shown} (not made yet)"), "")
            } else {
                Finding::new(
                    NAME,
                    Standing::Missing,
                    format!("{shown} cannot be made"),
                    "set COFFERDAM_HOME to a directory that you can write",
                )
            };
        }
        Err(error) => {
            return Finding::new(NAME, Standing::Missing, format!("{shown}: {error}"), "");
        }
    };
    let mine = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_dir() || !mine || !writable(path) {
        let hint = "set COFFERDAM_HOME to a directory of your own";
        let detail = format!("{shown} is not a directory that you own and can write");
        return Finding::new(NAME, Standing::Missing, detail, hint);
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let hint = format!("chmod 700 {}", crate::ui::shell::shell_word(path));
        let detail = format!("{shown} has mode {mode:03o}: others can look into it");
        return Finding::new(NAME, Standing::Degraded, detail, hint);
    }
    Finding::new(NAME, Standing::Ok, format!("{shown}, mode {mode:03o}"), "")
}

fn writable(path: &Path) -> bool {
    use rustix::fs::Access;
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// The user's own rules. A file that cannot be used opens nothing, and neither does the built-in list then.
fn config(environment: &Environment) -> Finding {
    const NAME: &str = "config";
    match config::load(&environment.home) {
        Ok(Config {
            allow: Some(rules), ..
        }) => {
            let rules = human::plural(rules.len(), "rule");
            let shown = environment.home.config();
            let detail = format!("{}, {rules}", shown.display());
            Finding::new(NAME, Standing::Ok, detail, "")
        }
        Ok(Config { allow: None, .. }) => Finding::new(
            NAME,
            Standing::Ok,
            "no rules of your own: the built-in list",
            "",
        ),
        Err(error) => Finding::new(
            NAME,
            Standing::Malformed,
            message(&error),
            "mend it: until then none of its rules is in force, nor the built-in list (`cofferdam net rules`)",
        ),
    }
}

/// Whether a gateway runs; none is started for that.
async fn gateway(environment: &Environment) -> Finding {
    const NAME: &str = "gateway";
    let home = &environment.home;
    let answer = wall::ask(home, &Ask::Status, Start::Never).await;
    let process = wall::gateway_process(home).ok().flatten();
    let process = process.map_or_else(String::new, |id| format!("process {id}, "));
    match answer {
        Ok(Answer::Status(all)) => {
            let detail = format!("{process}{}", sandboxes(all.len()));
            Finding::new(NAME, Standing::Ok, detail, "")
        }
        Err(WallError::NotRunning) => {
            let detail = "none is running: a sandbox that needs one starts it";
            Finding::new(NAME, Standing::Ok, detail, "")
        }
        Ok(_) => Finding::new(NAME, Standing::Degraded, "it answers another question", ""),
        Err(error) => {
            let hint = crate::error::wall_hint(&error);
            Finding::new(NAME, Standing::Degraded, message(&error), hint)
        }
    }
}

async fn leftovers(environment: &Environment, interrupt: &Interrupt) -> Finding {
    const NAME: &str = "interrupted runs";
    let user_home = environment.user_home.as_deref();
    let found = manage::list(
        &environment.home,
        &environment.git,
        None,
        user_home,
        &interrupt.cancel,
    )
    .await;
    match found {
        Err(error) => Finding::new(NAME, Standing::Degraded, message(&error), "cofferdam gc"),
        Ok(found) => match found.iter().filter(|one| one.interrupted).count() {
            0 => Finding::new(NAME, Standing::Ok, "none", ""),
            count => Finding::new(NAME, Standing::Degraded, sandboxes(count), "cofferdam gc"),
        },
    }
}

fn sandboxes(count: usize) -> String {
    if count == 1 {
        "1 sandbox".to_owned()
    } else {
        format!("{count} sandboxes")
    }
}

fn render(findings: &[Finding], colour: bool) -> String {
    let width = findings
        .iter()
        .map(|finding| finding.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for finding in findings {
        let (word, style) = match finding.status {
            Standing::Ok => ("ok       ", style::GOOD),
            Standing::Degraded => ("degraded ", style::WARNING),
            Standing::Missing => ("missing  ", style::ERROR),
            Standing::Malformed => ("malformed", style::ERROR),
            Standing::Absent => ("absent   ", style::FAINT),
        };
        let word = paint(word, style, colour);
        let (name, detail) = (
            printable_line(&finding.name),
            printable_line(&finding.detail),
        );
        out.push_str(format!("{word} {name:width$}  {detail}").trim_end());
        out.push('\n');
        if !finding.hint.is_empty() && finding.status != Standing::Ok {
            for line in printable(&finding.hint).lines() {
                let _ = writeln!(out, "          {:width$}  hint: {line}", "");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_git() {
        assert!(new_enough("git version 2.39.5"));
        assert!(new_enough("git version 2.47.3 (Apple Git-1)"));
        assert!(new_enough("git version 3.0.0"));
        assert!(!new_enough("git version 2.38.1"));
        assert!(!new_enough("git version 1.99"));
        assert!(!new_enough("nonsense"));
    }

    #[test]
    fn own_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home");
        assert_eq!(home(&path.join("deep")).status, Standing::Ok);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(home(&path).status, Standing::Degraded);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(home(&path).status, Standing::Ok);
        let file = dir.path().join("file");
        std::fs::File::create(&file).unwrap();
        assert_eq!(home(&file).status, Standing::Missing);
    }
}
