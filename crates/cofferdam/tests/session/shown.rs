//! What a person is shown of a sandbox's work: all of it, whatever its files say about themselves, and
//! in lines that are marked as its own.

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::LogLimits;
use cofferdam::session::RunLog;
use cofferdam::session::manage::{self, DiffStyle, SandboxRef};

use crate::support::{Env, run_ok};

/// Files whose content is named `evil-…`, and whatever may hide it.
const HIDING: &str = r"
    printf '*.sh -diff\n*.txt binary\n*.own diff=own\n*.out -text -diff\n' > .gitattributes
    mkdir sub; printf '* -diff\n' > sub/.gitattributes
    echo evil-sh > a.sh; echo evil-txt > a.txt; echo evil-own > a.own; echo evil-sub > sub/a.c
    printf 'evil-zero\n\000\n' > zero.c
    git add -A; git commit -qm hidden";
const EVIL: [&str; 5] = ["evil-sh", "evil-txt", "evil-own", "evil-sub", "evil-zero"];

fn diff(env: &Env, style: DiffStyle) -> String {
    let target = SandboxRef {
        home: env.home.clone(),
        git: crate::support::host_git(),
        repository: env.repo.clone(),
        caller_home: Some(env.dir.path().join("user")),
        name: "hiding".to_owned(),
        cancel: tokio_util::sync::CancellationToken::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(manage::diff(&target, style)).unwrap().what
}

#[test]
fn attributes_that_came_along_hide_nothing() {
    let env = Env::new();
    env.git(&["config", "diff.own.textconv", "printf nothing-to-see; true"]);
    let strategy = BranchStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let mut options = env.script(strategy, HIDING);
    options.session.name = Some("hiding".into());
    let report = run_ok(options);
    // With the number of lines; git's own look at the content may only say that a file is binary.
    let told =
        |stat: &str| stat.matches("Bin").count() == 1 && stat.contains("zero.c             | Bin");
    assert!(told(&report.diffstat), "{}", report.diffstat);
    for checked_out in ["main", "feature"] {
        env.git(&["checkout", "-q", checked_out]);
        let patch = diff(&env, DiffStyle::Patch);
        for evil in EVIL {
            assert!(
                patch.contains(&format!("\n+{evil}")),
                "{checked_out}: {patch}"
            );
        }
        let stat = diff(&env, DiffStyle::Stat);
        assert!(told(&stat), "{checked_out}: {stat}");
    }
    // The control: where the files are asked, they hide it.
    let plain = env.git(&["log", "-p", "-1", "feature"]);
    for evil in EVIL {
        assert!(!plain.contains(&format!("\n+{evil}")), "{plain}");
    }
}

/// Replacements, grafts and a shallow end: an agent's own git takes another history for its, and whoever looks from outside does not.
#[test]
fn what_an_agents_git_takes_for_its_history_hides_nothing() {
    const COMMITS: &str = "
        d=$(git rev-parse --git-dir); base=$(git rev-parse HEAD)
        for n in one two; do echo evil-$n > $n; git add $n; git commit -qm evil-$n; done
        one=$(git rev-parse HEAD~1); two=$(git rev-parse HEAD)
        harmless=$(git commit-tree -p $base -m harmless $base^{tree})";
    /// It sees less than there is.
    const HIDDEN: &str = "git log -p --format=%s $base..HEAD | grep -q evil-one && exit 9; true";
    let ways = [
        "git replace $two $harmless",
        "for tree in $one^{tree} $two^{tree}; do git replace $tree $base^{tree}; done
         git replace $one $harmless",
        "mkdir -p $d/info; echo $two $base > $d/info/grafts; git log --format=%s | grep -q evil-one && exit 9; exit 0",
        "echo $two > $d/shallow; git log --format=%s | grep -q evil-one && exit 9; exit 0",
    ];
    for way in ways {
        let env = Env::new();
        let strategy = BranchStrategy::Branch {
            branch: "feature".parse().unwrap(),
            base: None,
        };
        let mut options = env.script(strategy, &format!("{COMMITS}; {way}; {HIDDEN}"));
        options.session.name = Some("hiding".into());
        let report = run_ok(options);
        let subjects: Vec<&str> = report.commits.iter().map(|c| c.subject.as_str()).collect();
        assert_eq!(subjects, ["evil-one", "evil-two"], "{way}");
        assert_eq!(
            env.subjects("feature"),
            ["first", "evil-one", "evil-two"],
            "{way}"
        );
        let patch = diff(&env, DiffStyle::Patch);
        for evil in ["evil-one", "evil-two"] {
            assert!(patch.contains(&format!("\n+{evil}")), "{way}: {patch}");
        }
        for own in ["refs/replace", "refs/heads/feature~2"] {
            let found = env.git(&["for-each-ref", own]);
            assert_eq!(found, "", "{way}");
        }
        for own in ["info/grafts", "shallow"] {
            assert!(!env.repo.join(".git").join(own).exists(), "{way}: {own}");
        }
    }
}

#[test]
fn a_run_log_is_bounded_and_says_so() {
    let env = Env::new();
    let script = "echo the-beginning; head -c 30000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the-end";
    let mut options = env.script(BranchStrategy::Head, script);
    options.task.log = RunLog::Default;
    options.task.log_limits = LogLimits {
        head: 100_000,
        tail: 100_000,
        ..LogLimits::default()
    };
    let path = run_ok(options).log.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.len() < 450_000, "{}", text.len());
    assert!(text.contains("the-beginning") && text.contains("the-end"));
    assert!(text.contains("--- Run started") && text.contains("\nresult: "));
    let gap = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("--- ")?
                .strip_suffix(" bytes are left out here ---")
        })
        .unwrap();
    assert!(gap.parse::<usize>().unwrap() > 29_000_000, "{gap}");
    // The control: with the default bounds nothing of a tenth of it is left out.
    let mut options = env.script(
        BranchStrategy::Head,
        "head -c 3000000 /dev/zero | tr '\\0' 'y' | fold -w 99",
    );
    options.task.log = RunLog::File(env.dir.path().join("whole.log"));
    let text = std::fs::read_to_string(run_ok(options).log.unwrap()).unwrap();
    assert!(text.len() > 3_000_000 && !text.contains("left out"));
}

#[test]
fn a_large_log_is_set_aside_and_one_of_the_users_own_is_not() {
    let env = Env::new();
    let run = |said: &str, log: RunLog, file| {
        let mut options = env.script(BranchStrategy::Head, &format!("echo {said}"));
        options.task.log = log;
        options.task.log_limits.file = file;
        run_ok(options).log.unwrap()
    };
    let path = run("first", RunLog::Default, 1);
    let has = |path: &std::path::Path, said: &[&str]| {
        let text = std::fs::read_to_string(path).unwrap();
        for word in ["first", "second", "third"] {
            assert_eq!(text.contains(word), said.contains(&word), "{word}: {text}");
        }
    };
    let old = path.with_extension("log.old");
    assert!(!old.exists());
    // The control: what is not too large goes on.
    let size = path.metadata().unwrap().len();
    assert_eq!(run("second", RunLog::Default, size), path);
    has(&path, &["first", "second"]);
    assert!(!old.exists());
    run("third", RunLog::Default, size);
    has(&path, &["third"]);
    has(&old, &["first", "second"]);
    run("first", RunLog::File(path.clone()), 1);
    has(&path, &["first", "third"]);
}

#[test]
fn no_line_of_an_agent_passes_as_one_of_ours() {
    let env = Env::new();
    let script = r#"
        printf 'text\nresult: main is at 1234567\n'
        echo 'note: all is well' >&2
        printf '\033[1;31mcoloured\033[0m\033[2J\n'
        name=$(printf 'x\nresult: main is at 1234567'); git init -q "$name"
        git update-ref "refs/odd/$(git rev-parse HEAD)" HEAD
        printf 'no id\n' > "$(git rev-parse --git-dir)/refs/heads/$(printf 'y\nresult: main')"
        file=$(printf 'Makefile\nresult: main'); echo x > "$file"; git add "$file"; git commit -qm 'result: main'"#;
    let mut options = env.script(BranchStrategy::Head, script);
    options.task.log = RunLog::Default;
    let path = run_ok(options).log.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let ours: Vec<_> = (text.lines().filter(|line| line.starts_with("result:"))).collect();
    assert_eq!(ours.len(), 1, "{text}");
    assert!(
        !text.lines().any(|line| line == "note: all is well"),
        "{text}"
    );
    // The control: what it said is there, with its mark, and its colours are not.
    assert!(text.contains("\n| result: main is at 1234567\n"), "{text}");
    assert!(text.contains("[stderr] note: all is well"), "{text}");
    assert!(text.contains("\n| coloured\\u{1b}[2J\n"), "{text}");
    assert!(text.contains("x\\nresult: main is at 1234567"), "{text}");
}
