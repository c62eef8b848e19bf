//! `head` beside a user who edits, stages and commits while the agent works.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;

use crate::checker;
use crate::environment::{AGENT, Environment, Moment};

const SIX: &str = "mkdir -p agent; for n in 1 2 3 4 5 6; do echo w$n > agent/$n.txt; \
     git add agent/$n.txt; git commit -qm w$n || exit 1; sleep 0.03; done; echo end >> README.md; \
     git add README.md; git commit -qm w7; echo all-committed";

/// What the user believes.
#[derive(Debug, Default)]
struct Mind {
    working: BTreeMap<String, Vec<u8>>,
    index: BTreeMap<String, Vec<u8>>,
    committed: BTreeMap<String, Vec<u8>>,
    commits: Vec<String>,
}

impl Mind {
    fn at_start(environment: &Environment) -> Self {
        let mut mind = Self::default();
        for name in [
            "staged.txt",
            "unstaged.txt",
            "both.txt",
            "new.txt",
            "untracked.bin",
            "notes/n",
        ] {
            mind.working.insert(
                name.into(),
                fs::read(environment.repo().join(name)).unwrap(),
            );
            if let Some(bytes) = show(environment, &format!(":{name}")) {
                mind.index.insert(name.into(), bytes);
            }
        }
        mind
    }

    fn edit(&mut self, environment: &Environment, name: &str, bytes: String) {
        environment.write(name, &bytes);
        self.working.insert(name.into(), bytes.into_bytes());
    }

    fn stage(&mut self, environment: &Environment, name: &str) {
        patiently(environment, &["add", "--", name]);
        self.index.insert(name.into(), self.working[name].clone());
    }

    fn commit(&mut self, environment: &Environment) {
        let subject = format!("u{}", self.commits.len());
        patiently(
            environment,
            &["commit", "-q", "--allow-empty", "-m", &subject],
        );
        self.commits.push(subject);
        self.committed = self.index.clone();
    }

    /// All of it is true.
    #[track_caller]
    fn check(&self, environment: &Environment, what: &str) {
        for (name, bytes) in &self.working {
            let found = fs::read(environment.repo().join(name)).unwrap_or_default();
            assert_eq!(&found, bytes, "{what}: the user's file {name}");
        }
        for (name, bytes) in &self.index {
            let found = show(environment, &format!(":{name}"));
            assert_eq!(
                found.as_ref(),
                Some(bytes),
                "{what}: what was staged of {name}"
            );
        }
        for (name, bytes) in &self.committed {
            let found = show(environment, &format!("main:{name}"));
            assert_eq!(
                found.as_ref(),
                Some(bytes),
                "{what}: what was committed of {name}"
            );
        }
        let log = environment.git(&["log", "--format=%s", "main"]);
        let theirs: Vec<&str> = log
            .lines()
            .rev()
            .filter(|line| line.starts_with('u'))
            .collect();
        assert_eq!(theirs, self.commits, "{what}");
        // Nothing is staged but what they staged, nothing of the agent's is undone.
        let staged = environment.git(&["diff", "--cached", "--name-only"]);
        for name in staged.lines() {
            assert!(
                self.index.contains_key(name) || name == "deleted.txt",
                "{what}: {name} is staged"
            );
        }
    }
}

fn show(environment: &Environment, what: &str) -> Option<Vec<u8>> {
    let id = environment
        .try_git(&["rev-parse", "--verify", "-q", what])
        .ok()?;
    // Bytes, not text: the last line feed counts.
    let size = environment.git(&["cat-file", "-s", &id]);
    let text = environment.git(&["cat-file", "-p", &id]);
    let mut bytes = text.into_bytes();
    while bytes.len() < size.parse().unwrap() {
        bytes.push(b'\n');
    }
    Some(bytes)
}

/// As a person does it who reads "another git process seems to be running".
#[track_caller]
fn patiently(environment: &Environment, arguments: &[&str]) {
    let began = Instant::now();
    loop {
        match environment.try_git(arguments) {
            Ok(_) => return,
            Err(error) if error.contains("lock") && began.elapsed().as_secs() < 10 => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("git {arguments:?}: {error}"),
        }
    }
}

/// The agent's commits are on the branch, or at the sandbox's tip; never nowhere.
#[track_caller]
fn agent_is_home(environment: &Environment, subjects: usize, stdout: &str, what: &str) -> bool {
    let count = |revision: &str| {
        let log = environment
            .try_git(&["log", "--format=%s", revision])
            .unwrap_or_default();
        log.lines().filter(|line| line.starts_with('w')).count()
    };
    if count("main") == subjects {
        return true;
    }
    let refs = checker::refs(environment);
    let tip = refs
        .keys()
        .find(|name| name.starts_with("refs/cofferdam/") && name.ends_with("/tip"));
    let tip = tip.unwrap_or_else(|| panic!("{what}: no tip in {refs:#?}\n{stdout}"));
    assert_eq!(count(tip), subjects, "{what}");
    assert!(
        stdout.contains(tip.as_str()),
        "{what}: the tip is not named: {stdout}"
    );
    false
}

/// At a git call of a run the user edits, stages and commits, as far as git lets them.
#[test]
fn at_git_calls() {
    let environment = Environment::new();
    environment.count_calls();
    environment.start_run(&["--head"], AGENT).finish();
    let calls = environment.calls();
    assert!(calls >= 20, "{calls}");
    let mut landed = 0;
    let mut sample = Sample::new("the user at git calls");
    let chosen = sample.of(1..=calls, 4);
    for call in &chosen {
        let call = *call;
        let environment = Environment::new();
        let mut mind = Mind::at_start(&environment);
        let place = environment.path("");
        let script = format!(
            "cd {place}/repo; echo mine > mine.txt; echo more >> unstaged.txt; rm -f {place}/staged {place}/committed
             git add mine.txt && touch {place}/staged; {} git commit -qm u0 && touch {place}/committed",
            // Every third time they only stage.
            if sample.below(3) == 0 { "exit;" } else { "" },
            place = place.display(),
        );
        fs::write(environment.path("user.sh"), script).unwrap();
        environment.kill_at(call, Moment::User);
        let end = environment.start_run(&["--head"], AGENT).finish();
        let Some(at) = environment.killed_at() else {
            continue;
        };
        let what = format!("the user at git call {at} ({})", sample.again());
        mind.working.insert("mine.txt".into(), b"mine\n".to_vec());
        let more = [mind.working["unstaged.txt"].as_slice(), b"more\n"].concat();
        mind.working.insert("unstaged.txt".into(), more);
        if environment.path("staged").exists() {
            mind.index.insert("mine.txt".into(), b"mine\n".to_vec());
        }
        if environment.path("committed").exists() {
            mind.commits.push("u0".into());
            mind.committed = mind.index.clone();
        }
        mind.check(&environment, &what);
        checker::assert_sound(&environment, &what);
        let on_branch = agent_is_home(&environment, 3, &end.stdout, &what);
        assert_eq!(end.status == 0, on_branch, "{what}: {}", end.stderr);
        landed += usize::from(on_branch);
        if mind.commits.is_empty() {
            assert!(
                on_branch,
                "{what}: nothing stood in the way\n{}",
                end.stdout
            );
        }
    }
    assert!(
        landed * 8 > chosen.len(),
        "only {landed} landed of {}",
        chosen.len()
    );
}

/// Whole runs with a user who does what they want, when they want.
#[test]
fn at_random_times() {
    let mut sample = Sample::new("the user at random times");
    for round in sample.of(0..20, 3) {
        let environment = Environment::new();
        let mut mind = Mind::at_start(&environment);
        let first = mind.working.clone();
        let mut run = environment.start_run(&["--head"], SIX);
        let mut steps = Vec::new();
        let commits = sample.below(2) == 0;
        while !run.has_ended() && steps.len() < 12 {
            std::thread::sleep(Duration::from_millis(sample.below(90)));
            let name = format!("user/{}.txt", sample.below(3));
            let step = sample.below(if commits { 4 } else { 3 });
            match step {
                0 => mind.edit(&environment, &name, format!("{round} {}\n", steps.len())),
                1 => mind.edit(
                    &environment,
                    "both.txt",
                    format!("{round} {}\n", steps.len()),
                ),
                2 if mind.working.contains_key(&name) => mind.stage(&environment, &name),
                3 => mind.commit(&environment),
                _ => {}
            }
            steps.push(step);
        }
        let end = run.finish();
        let what = format!("round {round}, steps {steps:?} ({})", sample.again());
        mind.check(&environment, &what);
        checker::assert_sound(&environment, &what);
        agent_is_home(&environment, 7, &end.stdout, &what);
        // What they had at the start is recorded, untracked files too. An early edit may be in it.
        let refs = checker::refs(&environment);
        let before = refs.keys().find(|name| name.ends_with("/before"));
        let Some(before) = before else {
            // It goes where everything is as it was.
            for name in ["notes/n", "staged.txt", "unstaged.txt"] {
                let path = environment.repo().join(name);
                let now = std::fs::read(path).ok();
                assert_eq!(now.as_ref(), first.get(name), "{what}: {name} now");
            }
            continue;
        };
        for name in ["notes/n", "staged.txt", "unstaged.txt"] {
            let recorded = show(&environment, &format!("{before}:{name}"));
            assert_eq!(recorded.as_ref(), first.get(name), "{what}: {name} before");
        }
    }
}
