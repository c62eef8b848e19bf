//! Where the rules of a sandbox come from. All of it is host-owned: nothing that a sandbox can write
//! is read here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_wall::control::RuleLine;
use cofferdam_wall::{Class, Policy, PolicyError, Protocol, Rule, RuleError, Target, defaults};

use super::allowed::{self, Scope};
use crate::config::{self, ConfigError};
use crate::fsx::FileError;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::text::printable_line;

/// So many pairs of contradicting rules are sorted out; with more, no rule is trusted.
const MAX_CONTRADICTIONS: usize = 16;

/// The places that together make one sandbox's rules. Read anew whenever a policy is made.
#[derive(Debug, Clone)]
pub struct Sources {
    pub home: Home,
    /// Whose `allow --repo` rules count.
    pub repository: Option<RepoPath>,
    /// Whose `allow --sandbox` rules count.
    pub sandbox: Option<SandboxId>,
    /// From the command that started the sandbox.
    pub flags: Vec<Rule>,
}

/// What the sources say now.
#[derive(Debug, Default)]
pub struct Loaded {
    pub rules: Vec<Rule>,
    /// For each rule where it stands.
    pub places: Vec<Place>,
    /// What was left out, and why: never a reason to open more.
    pub problems: Vec<Problem>,
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// None: built in, or given on the command line.
    pub file: Option<Arc<Path>>,
    /// From 1.
    pub line: Option<u64>,
}

/// Something in a source that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    File(#[from] FileError),
    #[error("{} is not for {wanted}: its first line must be `{header}`", path.display())]
    Scope {
        path: PathBuf,
        wanted: String,
        header: String,
    },
    #[error("{}:{line}: {source}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        source: LineError,
    },
    #[error("{}: {count} more lines are no rules", path.display())]
    MoreLines { path: PathBuf, count: usize },
    #[error("rule `{rule}` ({}): udp is not carried yet", rule.origin())]
    Udp { rule: Box<Rule> },
    #[error("{0}; until then neither is in force")]
    Contradiction(#[from] PolicyError),
    #[error("too many rules contradict each other, and none of those is in force")]
    Contradictions,
    #[error("the built-in list: {0}")]
    Defaults(#[from] defaults::ListError),
}

/// Why a line of a file is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("it is not UTF-8 text")]
    NotUtf8,
    #[error(transparent)]
    Rule(#[from] RuleError),
}

/// A rule that cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("rule `{0}`: udp is not carried yet")]
    Udp(Box<Rule>),
    /// It can be meant, for names that lead there, and the config may say so; who writes it in passing means
    /// something else.
    #[error("`{rule}` is the sandbox itself there: a service of this machine is `{meant}`")]
    Loopback { rule: Box<Rule>, meant: String },
    #[error(transparent)]
    Contradiction(#[from] PolicyError),
}

impl Problem {
    /// For a person, on one line.
    pub fn message(&self) -> String {
        printable_line(&self.to_string())
    }

    /// Whether a whole source is missing, so that a policy in force knows better than what could be read.
    pub fn is_whole_source(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::File(_)
            | Self::Scope { .. }
            | Self::Contradictions
            | Self::Defaults(_) => true,
            Self::Line { .. }
            | Self::MoreLines { .. }
            | Self::Udp { .. }
            | Self::Contradiction(_) => false,
        }
    }
}

impl Sources {
    /// Reads all sources. What is malformed is left out and named; a config that cannot be read
    /// contributes nothing, and the built-in list does not step in for it.
    pub fn load(&self) -> Loaded {
        let mut loaded = Loaded::default();
        loaded.base(&self.home);
        let scopes = [
            Some(Scope::Global),
            self.repository.clone().map(Scope::Repository),
            self.sandbox.map(Scope::Sandbox),
        ];
        for scope in scopes.into_iter().flatten() {
            allowed::read_into(&mut loaded, &self.home, &scope);
        }
        for rule in &self.flags {
            loaded.push(rule.clone(), None, None);
        }
        loaded.settle();
        loaded
    }
}

impl Loaded {
    /// The rules as the gateway takes them.
    pub fn lines(&self) -> Vec<RuleLine> {
        lines(&self.rules)
    }

    /// The config's list, or the built-in one where there is none.
    fn base(&mut self, home: &Home) {
        match config::load(home) {
            Ok(config::Config { allow: Some(found) }) => {
                let file: Arc<Path> = home.config().into();
                for one in found {
                    self.push(one.rule, Some(&file), Some(one.line));
                }
            }
            Ok(config::Config { allow: None }) => match defaults::rules() {
                Ok(rules) => rules
                    .into_iter()
                    .for_each(|rule| self.push(rule, None, None)),
                Err(error) => self.problems.push(error.into()),
            },
            Err(error) => self.problems.push(error.into()),
        }
    }

    pub(super) fn push(&mut self, rule: Rule, file: Option<&Arc<Path>>, line: Option<u64>) {
        if rule.protocol() == Protocol::Udp {
            let rule = Box::new(rule);
            self.problems.push(Problem::Udp { rule });
            return;
        }
        self.rules.push(rule);
        let file = file.cloned();
        self.places.push(Place { file, line });
    }

    /// Takes out what contradicts, so that the rest makes a policy.
    fn settle(&mut self) {
        for _ in 0..MAX_CONTRADICTIONS {
            let Err(error) = Policy::compile(self.rules.clone()) else {
                return;
            };
            let PolicyError::Contradiction { first, second, .. } = &error;
            let kept: Vec<bool> = self
                .rules
                .iter()
                .map(|rule| rule != &**first && rule != &**second)
                .collect();
            let mut keep = kept.iter();
            self.rules.retain(|_| keep.next() == Some(&true));
            let mut keep = kept.iter();
            self.places.retain(|_| keep.next() == Some(&true));
            self.problems.push(error.into());
        }
        if Policy::compile(self.rules.clone()).is_err() {
            self.rules.clear();
            self.places.clear();
            self.problems.push(Problem::Contradictions);
        }
    }
}

/// Whether new rules can stand beside those that are loaded.
pub fn check(loaded: &Loaded, new: &[Rule]) -> Result<(), CheckError> {
    if let Some(rule) = new.iter().find(|rule| rule.protocol() == Protocol::Udp) {
        return Err(CheckError::Udp(Box::new(rule.clone())));
    }
    for rule in new {
        if let Some(meant) = rule.meant_for_this_machine() {
            let rule = Box::new(rule.clone());
            return Err(CheckError::Loopback { rule, meant });
        }
    }
    Policy::compile([&loaded.rules, new].concat())?;
    Ok(())
}

/// What someone should know who opens this.
pub fn caution(rule: &Rule) -> Option<String> {
    match rule.target() {
        Target::Name(name) if name.is_host() => {
            Some("this opens a service on this machine itself".to_owned())
        }
        Target::Range(range) => match Class::of(range.network()) {
            Class::Public => None,
            class => Some(format!(
                "this opens {class}: what is there was not made for strangers"
            )),
        },
        Target::Name(_) | Target::Below(_) => None,
    }
}

/// Rules as the gateway takes them.
pub fn lines(rules: &[Rule]) -> Vec<RuleLine> {
    rules
        .iter()
        .map(|rule| RuleLine {
            text: rule.to_string(),
            origin: rule.origin(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use cofferdam_wall::Origin;

    use super::*;
    use crate::fsx;
    use crate::wall::allowed::{Which, add, remove};

    struct Place {
        _directory: tempfile::TempDir,
        sources: Sources,
    }

    fn rule(text: &str, origin: Origin) -> Rule {
        Rule::parse(text, origin).unwrap()
    }

    fn place() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        fsx::private_dir(home.path()).unwrap();
        let sandbox = SandboxId::random().unwrap();
        let sources = Sources {
            home,
            repository: Some(RepoPath::resolve(directory.path()).unwrap()),
            sandbox: Some(sandbox),
            flags: Vec::new(),
        };
        Place {
            _directory: directory,
            sources,
        }
    }

    impl Place {
        fn config(&self, text: &str) {
            fsx::write_private(&self.sources.home.config(), text.as_bytes()).unwrap();
        }

        fn scopes(&self) -> [Scope; 3] {
            [
                Scope::Global,
                Scope::Repository(self.sources.repository.clone().unwrap()),
                Scope::Sandbox(self.sources.sandbox.unwrap()),
            ]
        }

        /// The rules with their origins, and the problems without the place of the test.
        #[track_caller]
        fn check(&self, rules: &[&str], problems: &[&str]) {
            let loaded = self.sources.load();
            let found: Vec<String> = loaded
                .rules
                .iter()
                .map(|rule| format!("{rule} ({})", rule.origin()))
                .collect();
            let home = format!("{}/", self.sources.home.path().display());
            let named: Vec<String> = loaded
                .problems
                .iter()
                .map(|problem| problem.message().replace(&home, ""))
                .collect();
            assert_eq!(
                (found.as_slice(), named.as_slice()),
                (
                    rules
                        .iter()
                        .map(|&text| text.to_owned())
                        .collect::<Vec<_>>()
                        .as_slice(),
                    problems
                        .iter()
                        .map(|&text| text.to_owned())
                        .collect::<Vec<_>>()
                        .as_slice(),
                )
            );
            assert_eq!(loaded.rules.len(), loaded.places.len());
        }
    }

    // covers: S1-73
    #[test]
    fn the_built_in_list_counts_until_the_config_has_one() {
        let place = place();
        let built_in = defaults::rules().unwrap();
        assert_eq!(place.sources.load().rules, built_in);
        for text in ["", "# nothing\n", "firewall: {}\n"] {
            place.config(text);
            assert_eq!(place.sources.load().rules, built_in, "{text:?}");
        }
        place.config("firewall:\n  allow: []\n");
        place.check(&[], &[]);
    }

    // covers: S1-76 S1-139
    #[test]
    fn every_source_adds_its_rules_and_says_where_they_stand() {
        let mut place = place();
        place.config("firewall:\n  allow:\n    - domain: config.test\n");
        for (scope, name) in place.scopes().iter().zip(["all", "repository", "sandbox"]) {
            let new = rule(&format!("{name}.test:443"), Origin::Live);
            fsx::private_dir(scope.file(&place.sources.home).parent().unwrap()).unwrap();
            add(&place.sources.home, scope, &[new]).unwrap();
        }
        place.sources.flags = vec![rule("flag.test:22", Origin::Flag)];
        place.check(
            &[
                "config.test:80,443 (global config)",
                "all.test:443 (allowed live)",
                "repository.test:443 (allowed live)",
                "sandbox.test:443 (allowed live)",
                "flag.test:22 (command line)",
            ],
            &[],
        );
        let lines: Vec<_> = place
            .sources
            .load()
            .places
            .iter()
            .map(|at| at.line)
            .collect();
        assert_eq!(lines, [Some(3), Some(3), Some(3), Some(3), None]);
        // Another repository and another sandbox have other rules.
        place.sources.repository = None;
        place.sources.sandbox = None;
        place.sources.flags = Vec::new();
        place.check(
            &[
                "config.test:80,443 (global config)",
                "all.test:443 (allowed live)",
            ],
            &[],
        );
    }

    #[test]
    fn a_config_that_cannot_be_read_opens_nothing() {
        let place = place();
        let config = place.sources.home.config();
        add(
            &place.sources.home,
            &Scope::Global,
            &[rule("kept.test:443", Origin::Live)],
        )
        .unwrap();
        place.config(
            "firewall:\n  allow:\n    - domain: a.test\n    - cidr: 10.0.0.1/8\n      ports: [1]\n",
        );
        place.check(
            &["kept.test:443 (allowed live)"],
            &["config.yaml:4:13: firewall.allow[1].cidr: range `10.0.0.1/8` has bits set beyond its length: write `10.0.0.0/8`"],
        );
        fs::set_permissions(&config, fs::Permissions::from_mode(0o620)).unwrap();
        place.check(
            &["kept.test:443 (allowed live)"],
            &["cannot use config.yaml: others than its owner can write it (`chmod go-w` changes that)"],
        );
        fs::remove_file(&config).unwrap();
        std::os::unix::fs::symlink("/dev/null", &config).unwrap();
        place.check(
            &["kept.test:443 (allowed live)"],
            &["cannot read config.yaml: it is a symlink: put the file itself there"],
        );
    }

    #[test]
    fn a_bad_line_is_named_and_the_others_count() {
        let place = place();
        let home = &place.sources.home;
        place.config("firewall: {allow: []}");
        let add_one = |text| add(home, &Scope::Global, &[rule(text, Origin::Live)]).unwrap();
        add_one("a.test:443");
        let file = Scope::Global.file(home);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_slice(b"http://b.test\n\xff\xfe\n\n  c.test:8443  \r\n10.0.0.53:53 udp\n169.254.169.254:80\nd.test:1");
        fsx::write_private(&file, &bytes).unwrap();
        add_one("e.test:443");
        place.check(
            &[
                "a.test:443 (allowed live)",
                "c.test:8443 (allowed live)",
                "d.test:1 (allowed live)",
                "e.test:443 (allowed live)",
            ],
            &[
                "allowed/global:4: host name `http://b.test` has the character `:`: write the bare name, without scheme, user, port or path",
                "allowed/global:5: it is not UTF-8 text",
                "rule `10.0.0.53:53 udp` (allowed live): udp is not carried yet",
                "allowed/global:9: `169.254.169.254` is a cloud metadata service: only a flag of the command that starts the sandbox opens it",
            ],
        );
        fsx::write_private(&file, &[bytes, b"*\n".repeat(100_000)].concat()).unwrap();
        let problems = place.sources.load().problems;
        assert!(problems.len() < 40, "{}", problems.len());
    }

    #[test]
    fn a_rule_is_written_once() {
        let place = place();
        let home = &place.sources.home;
        let [new, other] = [
            rule("a.test:443", Origin::Live),
            rule("b.test:443", Origin::Live),
        ];
        let both = [new.clone(), other.clone(), new.clone()];
        let done = add(home, &Scope::Global, &both).unwrap();
        assert_eq!((done.added.len(), done.present.len()), (2, 1));
        let before = fs::read(&done.file).unwrap();
        let again = add(home, &Scope::Global, &[new]).unwrap();
        assert_eq!((again.added.len(), again.present.len()), (0, 1));
        assert_eq!(fs::read(&done.file).unwrap(), before);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&done.file), mode(&home.allowed())), (0o600, 0o700));
    }

    #[test]
    fn what_is_removed_leaves_the_rest_as_it_was_written() {
        let place = place();
        let home = &place.sources.home;
        let which = |text: &str| Which::parse(text).unwrap();
        let file = Scope::Global.file(home);
        let none = remove(home, &Scope::Global, &[which("a.test")]).unwrap();
        assert!(none.removed.is_empty() && !file.exists());
        add(home, &Scope::Global, &[rule("a.test:8443", Origin::Live)]).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let header = bytes.len() - "a.test:8443\n".len();
        bytes.extend_from_slice(
            b"# mine\nhttp://b.test\n  a.test \r\n*.a.test\na.test:9 tls\n\xff\nc.test:1",
        );
        fsx::write_private(&file, &bytes).unwrap();
        let left = |text: &str| {
            let removed = remove(home, &Scope::Global, &[which(text)])
                .unwrap()
                .removed;
            let removed: Vec<String> = removed.iter().map(ToString::to_string).collect();
            let bytes = fs::read(&file).unwrap();
            (removed.join(" "), bytes[header..].to_vec())
        };
        // With ports or a word it is that rule and no other; without, all that name it.
        let (removed, _) = left("a.test:9");
        assert_eq!(removed, "");
        let (removed, rest) = left("a.test:9 tls");
        assert_eq!(removed, "a.test:9 tls");
        assert!(rest.starts_with(b"a.test:8443\n# mine\n"));
        let (removed, rest) = left("A.test");
        assert_eq!(removed, "a.test:8443 a.test:80,443");
        assert_eq!(rest, b"# mine\nhttp://b.test\n*.a.test\n\xff\nc.test:1");
        let (removed, rest) = left("c.test:1");
        assert_eq!(removed, "c.test:1");
        assert_eq!(rest, b"# mine\nhttp://b.test\n*.a.test\n\xff\n");
    }

    #[test]
    fn a_loopback_address_in_passing_means_this_machine() {
        for (text, meant) in [
            ("127.0.0.1:8080", "host.cofferdam.internal:8080"),
            ("[::1]:80,81", "host.cofferdam.internal:80,81"),
        ] {
            let error = check(&Loaded::default(), &[rule(text, Origin::Flag)]).unwrap_err();
            assert!(
                matches!(&error, CheckError::Loopback { meant: said, .. } if said == meant),
                "{error}"
            );
        }
        check(&Loaded::default(), &[rule("10.0.0.1:80", Origin::Flag)]).unwrap();
    }

    #[test]
    fn a_file_of_another_repository_counts_for_nobody() {
        let place = place();
        place.config("firewall: {allow: []}");
        let home = &place.sources.home;
        let [_, scope, _] = place.scopes();
        let file = scope.file(home);
        fsx::private_dir(&home.allowed()).unwrap();
        fsx::write_private(&file, b"# for: repository /elsewhere\na.test\n").unwrap();
        let loaded = place.sources.load();
        assert!(loaded.rules.is_empty());
        let said = loaded.problems[0].message();
        assert!(
            said.contains(" is not for ") && loaded.problems[0].is_whole_source(),
            "{said}"
        );
        add(home, &scope, &[rule("b.test", Origin::Live)]).unwrap_err();
        assert!(fs::read_to_string(&file).unwrap().ends_with("\na.test\n"));
    }

    #[test]
    fn rules_that_contradict_are_named_and_count_for_nothing() {
        let mut place = place();
        place.config("firewall: {allow: [{domain: a.test}]}");
        place.sources.flags = [
            "b.test:9 tls",
            "c.test:9",
            "b.test:9 plain",
            "c.test:9",
            "c.test:9",
        ]
        .map(|text| rule(text, Origin::Flag))
        .to_vec();
        place.check(
            &[
                "a.test:80,443 (global config)",
                "c.test:9 (command line)",
                "c.test:9 (command line)",
                "c.test:9 (command line)",
            ],
            &["rules `b.test:9 tls` (command line) and `b.test:9 plain` (command line) disagree about port 9: remove one; until then neither is in force"],
        );
        place.sources.flags = (0..=MAX_CONTRADICTIONS)
            .flat_map(|n| [format!("h{n}.test:9 tls"), format!("h{n}.test:9 http")])
            .map(|text| rule(&text, Origin::Flag))
            .collect();
        let loaded = place.sources.load();
        assert!(loaded.rules.is_empty());
        assert_eq!(loaded.problems.len(), MAX_CONTRADICTIONS + 1);
    }
}
