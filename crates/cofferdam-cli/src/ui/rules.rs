//! What is said of rules: where each stands, what is wrong with their sources, in which sandboxes they are in force.

use cofferdam::wall::change::{Effect, Reached};
use cofferdam::wall::rules::{Problem, WrittenAt};

use super::shell::shell_word;
use super::{human, output, style};

/// What is wrong with the sources, on standard error.
pub(crate) fn warn(problems: &[Problem], colour: bool) {
    for problem in problems {
        // Without a whole source there may be no rule at all; without a line of it there is one less.
        let label = if problem.is_whole_source() {
            style::paint("error:", style::ERROR, colour)
        } else {
            style::paint("warning:", style::WARNING, colour)
        };
        output::note(&format!("{label} {}\n", problem.message()));
    }
}

/// What comes before any rule: a source that cannot be read is mended first.
pub(crate) fn spoiled(problems: &[Problem]) -> Option<String> {
    let spoiled = problems.iter().any(Problem::is_whole_source);
    spoiled.then(|| {
        "mend what is wrong first (see above): until then none of its rules is in force".to_owned()
    })
}

/// Where a rule stands, for a table.
pub(crate) fn place(place: &WrittenAt) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line}", shell_word(file.as_os_str())),
        (Some(file), None) => shell_word(file.as_os_str()),
        (None, _) => "-".to_owned(),
    }
}

/// For which sandboxes at work a change counts now. Gives whether it does for all of them.
pub(crate) fn tell(reached: &Reached, colour: bool) -> bool {
    let mut good = true;
    for one in &reached.sandboxes {
        let name = &one.name;
        match &one.effect {
            Effect::InForce { closed: 0 } => {
                output::note(&format!("in force in sandbox {name}\n"));
            }
            Effect::InForce { closed } => {
                let closed =
                    human::plural(usize::try_from(*closed).unwrap_or(usize::MAX), "connection");
                output::note(&format!(
                    "in force in sandbox {name}; {closed} ended by it\n"
                ));
            }
            Effect::Starting => {
                output::note(&format!("sandbox {name} starts with it\n"));
            }
            Effect::Kept(problems) => {
                good = false;
                warn(problems, colour);
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had; correct the file, then: cofferdam net reload\n"
                ));
            }
            Effect::Unreachable => {
                good = false;
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had: it was started by another version of \
                     cofferdam; change them with that one, or end the sandbox\n"
                ));
            }
            Effect::Failed(error) => {
                good = false;
                let said = cofferdam::text::printable_line(&error.to_string());
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had: {said}\n"
                ));
            }
        }
    }
    for record in &reached.unreadable {
        good = false;
        let said = cofferdam::text::printable_line(&record.to_string());
        output::note(&format!(
            "{} its sandbox keeps the rules that it had: {said}\n",
            style::paint("warning:", style::WARNING, colour)
        ));
    }
    if reached.sandboxes.is_empty() && reached.unreadable.is_empty() {
        output::note("no sandbox that it concerns is running: it counts from the next start\n");
    }
    good
}
