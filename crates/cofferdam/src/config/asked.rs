//! What of a repository's file widens something, and so waits for its user (invariant 4): an agent may have written it, and whoever the
//! repository came from has.

use std::collections::{BTreeMap, BTreeSet};

use super::content::{Config, Variable};
use super::harmless::may_be_the_repositorys;

/// One thing that a repository's file asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// All that it says, in one line of visible characters: what is shown is what is approved.
    pub text: String,
    /// In the file, from 1.
    pub line: u64,
    /// The same command was approved, with other files that it names or by another name.
    pub was_another: bool,
}

impl Asked {
    /// Whether commits would be merged without a command that is asked for.
    pub fn is_check(&self) -> bool {
        self.text.starts_with(CHECKS)
    }
}

/// How a line for a check begins.
const CHECKS: &str = "gate.checks: ";

/// A repository's file without what nobody has approved, and what it asks for so in vain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sifted {
    /// What is in force.
    pub granted: Config,
    /// What is not, and would be if it were approved.
    pub waiting: Vec<Asked>,
}

/// Takes out of a repository's file what is not among the lines that were approved. What the user's own file says as well asks for
/// nothing. `files`: what a command names of the repository's files, as [`super::named_files`] tells it.
pub fn sift(
    mut file: Config,
    own: &Config,
    approved: &BTreeSet<String>,
    files: &dyn Fn(&str) -> BTreeMap<String, String>,
) -> Sifted {
    let mut sifted = Sifted::default();
    let mut stays = |text: String, line: u64| {
        let stays = approved.contains(&text);
        if !stays {
            let was_another = text.starts_with(CHECKS) && {
                let command = command_of(&text);
                approved.iter().any(|one| command_of(one) == command)
            };
            sifted.waiting.push(Asked {
                text,
                line,
                was_another,
            });
        }
        stays
    };
    if let Some(rules) = &mut file.allow {
        let own = own.allow.as_deref().unwrap_or_default();
        rules.retain(|one| {
            own.iter().any(|own| own.rule.is_same(&one.rule))
                || stays(format!("firewall.allow: {}", one.rule), one.line)
        });
    }
    file.sync.retain(|one| {
        let rule = &one.value;
        // What is below a directory is another file below another one.
        let is_fixed = rule.src.starts_with(['/', '~']);
        is_fixed && own.sync.iter().any(|own| own.value == *rule) || {
            let (src, dest) = (shown(&rule.src), shown(&rule.dest.to_string()));
            let text = format!(
                "sync: {src} to {dest}, mode {:04o}, owner {}",
                rule.mode, rule.owner
            );
            stays(text, one.line)
        }
    });
    file.env.retain(|name, one| {
        let text = match &one.value {
            Variable::Text(_) if may_be_the_repositorys(name) => return true,
            Variable::Text(text) => format!("env: {name} is {}", shown(text)),
            Variable::OfHost(host) => format!("env: {name} is ${host} of this machine"),
        };
        own.env.get(name).is_some_and(|own| own.value == one.value) || stays(text, one.line)
    });
    let command = |key: &str, command: &str, name: Option<&String>| {
        let mut text = format!("{key}{}", shown(command));
        if let Some(name) = name {
            text.push_str(&format!(", called {}", shown(name)));
        }
        text
    };
    // What runs inside as the agent could as well be run by the agent.
    file.on_sync.retain(|one| {
        let hook = &one.value;
        !hook.root || own.on_sync.iter().any(|own| own.value == *hook) || {
            let text = command("on_sync as root: ", &hook.command, hook.name.as_ref());
            stays(text, one.line)
        }
    });
    file.checks.retain(|one| {
        let check = &one.value;
        let mut own = own.checks.iter();
        own.any(|own| own.value == *check) || {
            let mut text = command(CHECKS, &check.command, check.name.as_ref());
            for (path, what) in files(&check.command) {
                text.push_str(&format!(", {} with SHA-256 {what}", shown(&path)));
            }
            stays(text, one.line)
        }
    });
    file.settings.retain(|one| {
        let text = format!("{}: {}", one.value.key(), shown(&one.value.to_string()));
        let mut own = own.settings.iter();
        own.any(|own| own.value == one.value) || stays(text, one.line)
    });
    sifted.granted = file;
    sifted
}

/// The part of an approved line that says which command it is. What is in quotation marks ends with the next one that nothing escapes.
fn command_of(line: &str) -> &str {
    let rest = line
        .strip_prefix(CHECKS)
        .and_then(|rest| rest.strip_prefix('"'));
    let Some(rest) = rest else { return line };
    let mut escaped = false;
    let end = rest.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    &line[..line.len() - rest.len() + end.unwrap_or(rest.len())]
}

/// In quotation marks, with every character visible.
fn shown(text: &str) -> String {
    let ascii: String = text
        .chars()
        .flat_map(|c| {
            let plain = c.is_ascii_graphic() || c == ' ';
            let escaped: String = match c {
                '"' | '\\' => format!("\\{c}"),
                _ if plain => c.to_string(),
                _ => c.escape_unicode().to_string(),
            };
            escaped.chars().collect::<Vec<_>>()
        })
        .collect();
    format!("\"{ascii}\"")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_wall::Origin;

    use super::*;

    fn read(text: &str, origin: Origin) -> Config {
        super::super::parse(Path::new("c"), text.as_bytes(), origin).unwrap()
    }

    /// What waits of a repository's file, beside an own one that says `own`.
    fn waiting(file: &str, own: &str, approved: &[&str]) -> Vec<String> {
        let (file, own) = (read(file, Origin::Repository), read(own, Origin::Global));
        let approved = approved.iter().map(|&line| line.to_owned()).collect();
        let files = |command: &str| {
            let named = command.split(' ').filter(|word| word.contains('.'));
            named
                .map(|word| (word.to_owned(), "0a".to_owned()))
                .collect()
        };
        let sifted = sift(file, &own, &approved, &files);
        sifted.waiting.into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn what_widens_waits_and_what_narrows_does_not() {
        let none: [&str; 0] = [];
        for harmless in [
            "",
            "hide: [a]\n",
            "protect: [a]\n",
            "setup: make\n",
            "on_sync: [{cmd: make}]\n",
            "env: {APP_NAME: x, NODE_ENV: test}\n",
        ] {
            assert_eq!(waiting(harmless, "", &[]), none, "{harmless}");
        }
        for (file, line) in [
            (
                "firewall: {allow: [{domain: a.test}]}\n",
                "firewall.allow: a.test:80,443",
            ),
            (
                "firewall: {allow: [{cidr: 203.0.113.0/24}]}\n",
                "firewall.allow: 203.0.113.0/24",
            ),
            (
                "env: {APP_NAME: $HOME}\n",
                "env: APP_NAME is $HOME of this machine",
            ),
            ("env: {PATH: /x}\n", "env: PATH is \"/x\""),
            (
                "sync: [{src: /etc/passwd, dest: ~/p, mode: \"600\"}]\n",
                "sync: \"/etc/passwd\" to \"~/p\", mode 0600, owner agent:agent",
            ),
            (
                "gate: {checks: [{cmd: make test}]}\n",
                "gate.checks: \"make test\"",
            ),
            (
                "gate: {checks: [{cmd: sh ci.sh, name: all good}]}\n",
                "gate.checks: \"sh ci.sh\", called \"all good\", \"ci.sh\" with SHA-256 0a",
            ),
            (
                "on_sync: [{cmd: make}, {cmd: sh fix.sh, name: fix, root: true}]\n",
                "on_sync as root: \"sh fix.sh\", called \"fix\"",
            ),
            ("sandbox: docker\n", "sandbox: \"docker\""),
            ("image: a.test/x\n", "image: \"a.test/x\""),
            ("limits: {memory: 4m}\n", "limits.memory: \"4194304 bytes\""),
            ("limits: {cpus: 0.5}\n", "limits.cpus: \"0.5\""),
            ("run: {network: open}\n", "run.network: \"open\""),
            (
                "ports: [3000, \"8080:80\"]\n",
                "ports: \"3000:3000, 8080:80\"",
            ),
        ] {
            assert_eq!(waiting(file, "", &[]), [line], "{file}");
            assert_eq!(waiting(file, "", &[line]), none, "{file}");
            // What the user's own file says as well asks for nothing.
            assert_eq!(waiting(file, file, &[]), none, "{file}");
        }
        // The same words are another file below another directory.
        let below = "sync: [{src: key, dest: ~/key}]\n";
        assert_eq!(waiting(below, below, &[]).len(), 1);
    }

    #[test]
    fn a_check_that_names_another_file_now_is_known_as_one_that_was_approved() {
        let another = |file: &str, approved: &[&str]| {
            let file = read(file, Origin::Repository);
            let approved = approved.iter().map(|&line| line.to_owned()).collect();
            let sifted = sift(file, &Config::default(), &approved, &|_| BTreeMap::new());
            sifted.waiting[0].was_another
        };
        let file = "gate: {checks: [{cmd: 'sh \"ci.sh\"'}]}\n";
        let same = "gate.checks: \"sh \\\"ci.sh\\\"\"";
        assert!(another(
            file,
            &[&format!("{same}, \"ci.sh\" with SHA-256 0a")]
        ));
        assert!(another(file, &[&format!("{same}, called \"x\"")]));
        assert!(!another(file, &["gate.checks: \"sh\""]));
        assert!(!another(file, &[]));
    }

    /// Two that differ are never the same line, and no line shows less than it says.
    #[test]
    fn a_line_says_all_of_it_in_visible_characters() {
        for text in [
            "a\\nb",
            "\\u202ereversed",
            "tab\\there",
            "\\e[1m",
            "nbsp\\u00a0",
        ] {
            let file = format!("env: {{PATH: \"{text}\"}}\n");
            let lines = waiting(&file, "", &[]);
            assert!(
                lines[0].chars().all(|c| c.is_ascii_graphic() || c == ' '),
                "{lines:?}"
            );
        }
        let quote = waiting("env: {PATH: 'a\" of this machine'}\n", "", &[]);
        assert_eq!(quote, ["env: PATH is \"a\\\" of this machine\""]);
        let (one, other) = ("env: {PATH: 'a\\nb'}\n", "env: {PATH: \"a\\nb\"}\n");
        assert_ne!(waiting(one, "", &[]), waiting(other, "", &[]));
    }
}
