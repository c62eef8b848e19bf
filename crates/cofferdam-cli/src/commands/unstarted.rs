//! What to do where a program could not be started in a sandbox that stays: what is there counts, not what is here.

use std::path::{Component, Path, PathBuf};

use cofferdam::agent::{self, AGENTS, AgentOptions};
use cofferdam::image;
use cofferdam::registry::Record;
use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::native::{self, Found, Host};
use cofferdam::sandbox::{HostProgram, ProgramFault};

use super::dev_sandboxes;
use super::doctor::agents::elsewhere;
use crate::environment::Environment;
use crate::ui::shell::shell_word;

/// The next step for `program`, as its sandbox names it.
pub(super) fn hint(
    program: &str,
    fault: ProgramFault,
    record: &Record,
    environment: &Environment,
) -> String {
    let name = &record.name;
    match fault {
        ProgramFault::Directory => format!(
            "see which directories there are with `cofferdam exec {name} -- ls`; a relative one counts from the top \
             of the repository"
        ),
        ProgramFault::Forbidden => format!(
            "it must be a file that may be executed: `cofferdam exec {name} -- chmod +x {}`",
            shell_word(program)
        ),
        ProgramFault::Missing if !program.contains('/') => {
            let again = Again {
                start: format!("`cofferdam stop {name} && cofferdam start {name}`"),
                make: "cofferdam create NAME".to_owned(),
            };
            by_name(program, record, environment, &again)
        }
        ProgramFault::Missing => by_path(Path::new(program), record, environment),
        _ => format!("look with `cofferdam shell {name}`"),
    }
}

fn by_path(program: &Path, record: &Record, environment: &Environment) -> String {
    let name = &record.name;
    let word = shell_word(program);
    if program.is_absolute() {
        return match program.strip_prefix(environment.top()) {
            Ok(below) => format!(
                "the repository is at another path in the sandbox: write {}",
                shell_word(Path::new(".").join(below))
            ),
            Err(_) => format!(
                "{word} is not in sandbox {name}: see what is with `cofferdam shell {name}`"
            ),
        };
    }
    let parts = program.components();
    let below: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
    // Only whether it is there: what it is an agent may have chosen.
    let workspace = record.workspace(&environment.home);
    if workspace.join(&below).symlink_metadata().is_ok() {
        return "it is there: check its first line, the program after `#!` must exist in the sandbox, and the line \
                must not end in CR LF"
            .to_owned();
    }
    let missing = format!("{word} is not in sandbox {name}");
    if !environment.directory.join(program).is_file() {
        return format!("{missing}: see what is with `cofferdam exec {name} -- ls`");
    }
    let parent = below.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.map_or_else(String::new, |parent| {
        format!("mkdir -p {} && ", shell_word(parent))
    });
    let script = format!("{parent}cat > {word} && chmod +x {word}");
    format!(
        "{missing}: take the one of this checkout there with `cofferdam exec -i {name} -- sh -c {} < {word}`",
        shell_word(script)
    )
}

/// The same for a sandbox that a command made for `program` alone, where it need not stay. `options`: where it was made, as they were
/// given. `None`: this machine has the program, and what it lacks is to be looked for inside.
pub(super) fn hint_without_it(
    program: &str,
    (command, options): (&str, &str),
    record: &Record,
    environment: &Environment,
) -> Option<String> {
    let again = Again {
        start: format!("`{command}{options}`"),
        make: command.to_owned(),
    };
    let is_native = Kind::named(&record.provider).is_none();
    let (_, found) = located(program, environment);
    if is_native && found.is_some_and(|found| found.unshown.is_none()) {
        return None;
    }
    Some(by_name(program, record, environment, &again))
}

/// What is typed when the program is there.
#[derive(Debug)]
struct Again {
    /// A whole command, in its marks.
    start: String,
    /// One that options are added to.
    make: String,
}

/// How an agent's program is installed, and where this machine has it.
fn located(program: &str, environment: &Environment) -> (Option<&'static str>, Option<Found>) {
    let agents = AGENTS.iter().filter(|kind| !kind.install.is_empty());
    let known = agents.filter_map(|kind| {
        let agent = agent::by_name(kind.name, AgentOptions::default()).ok()?;
        let known = agent.program().filter(|known| known.name == program)?;
        let directories = known.directories.iter().map(PathBuf::from).collect();
        Some((kind.install, directories))
    });
    let (install, directories) = known.into_iter().next().unzip();
    let wanted = HostProgram {
        name: program.into(),
        directories: directories.unwrap_or_default(),
    };
    let unseen = environment.unseen();
    let host = Host {
        search_path: environment.variable("PATH"),
        home: environment.user_home.as_deref(),
        programs: &[],
        unseen: &unseen,
    };
    (install, native::locate(&wanted, &host))
}

/// They are no programs.
const WORDS_OF_SHELLS: [&str; 8] = [
    "alias", "cd", "eval", "export", "set", "source", "ulimit", "unset",
];

/// What a sandbox shows of this machine's programs is looked up when it starts.
fn by_name(program: &str, record: &Record, environment: &Environment, again: &Again) -> String {
    let name = &record.name;
    if let Some(hint) = of_a_shell(program) {
        return hint;
    }
    if Kind::named(&record.provider).is_some() {
        let instead = match record.dev {
            Some(_) => in_a_dev_sandbox(record, environment),
            None => format!(
                "make one with another, `{} --sandbox {} --image IMAGE`",
                again.make, record.provider
            ),
        };
        return format!(
            "the image of sandbox {name} does not have `{program}`, or not what starts it (its interpreter, its loader): {instead}"
        );
    }
    let (install, found) = located(program, environment);
    let again = &again.start;
    match found {
        None if environment.directory.join(program).is_file() => {
            format!("for the file of that name write `./{program}`")
        }
        None => {
            let with = install.map_or_else(String::new, |install| {
                format!(", for example with `{install}`")
            });
            format!(
                "`{program}` is not in sandbox {name}, nor in your PATH: install it{with}, then {again}"
            )
        }
        Some(found) => match &found.unshown {
            Some(why) => format!(
                "this machine has {}, which no sandbox shows because {why}: {}, then {again}",
                shell_word(&found.path),
                elsewhere(why)
            ),
            // It would not be there afterwards either.
            None if !found.for_all && install.is_none() => format!(
                "this machine has {}, but a sandbox that stays shows only the directories of PATH that are the system's or a known \
                 tool's: put it into one of those, such as ~/.local/bin or /usr/local/bin, then {again}",
                shell_word(&found.path)
            ),
            None => format!(
                "sandbox {name} shows the programs that this machine had at its start: {again} shows {}",
                shell_word(&found.path)
            ),
        },
    }
}

/// How the image of one that people live in gets a program: by the repository's recipe, or as another image.
fn in_a_dev_sandbox(record: &Record, environment: &Environment) -> String {
    let recipe = if image::has_dockerfile(&record.repository) {
        "add it to .cofferdam/Dockerfile".to_owned()
    } else if record.repository == environment.top() {
        "add it to .cofferdam/Dockerfile, which `cofferdam init .` writes".to_owned()
    } else {
        let checkout = shell_word(&record.repository);
        format!("add it to .cofferdam/Dockerfile, which `cofferdam init {checkout}` writes")
    };
    let build = dev_sandboxes::command("restart --build", record, environment);
    let start = format!("start --sandbox {} --image IMAGE", record.provider);
    let start = dev_sandboxes::command(&start, record, environment);
    format!(
        "{recipe}, then `{build}`; or make it anew from another image: `cofferdam delete {} && {start}`",
        record.name
    )
}

/// What somebody wrote who had a shell in mind.
fn of_a_shell(program: &str) -> Option<String> {
    let is_line = program.contains(char::is_whitespace);
    if !is_line && !WORDS_OF_SHELLS.contains(&program) {
        return None;
    }
    let line = if is_line {
        shell_word(program)
    } else {
        format!("'{program} …'")
    };
    let apart = if is_line {
        "write its words apart, or "
    } else {
        "that is a shell's own word, so "
    };
    Some(format!("{apart}have a shell read it: `-- sh -c {line}`"))
}
