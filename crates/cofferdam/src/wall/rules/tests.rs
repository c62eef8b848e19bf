//! Real files in a home of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam_wall::{Origin, Rule, defaults};

use super::loaded::MAX_CONTRADICTIONS;
use super::*;
use crate::fsx;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::wall::allowed::{Scope, Which, add, remove};

struct World {
    _directory: tempfile::TempDir,
    sources: Sources,
}

fn rule(text: &str, origin: Origin) -> Rule {
    Rule::parse(text, origin).unwrap()
}

fn place() -> World {
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
    World {
        _directory: directory,
        sources,
    }
}

impl World {
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
        assert_eq!(loaded.rules.len(), loaded.written.len());
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
        .written
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
