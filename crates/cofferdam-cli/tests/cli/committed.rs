//! What a run names of the checkout has to be committed, and what is not committed stays outside: what is said of it, with
//! the command that mends it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{Done, TestEnvironment, commit_script, finish};
use crate::lives::Lives;

/// Each way to have files of one's own.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--mode", "bind"],
    &["--mode", "copy"],
    &["--branch", "feature"],
];

/// Its sandbox is there before its agent.
const KEPT: &[&str] = &["--keep"];

fn program(environment: &TestEnvironment, path: &str, says: &str) {
    environment.write(path, &format!("#!/bin/sh\necho {says}\n"));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(environment.repository().join(path), mode).unwrap();
}

fn commit(environment: &TestEnvironment, path: &str) {
    environment.git(&["add", path]);
    environment.git(&["commit", "--quiet", "--message=more"]);
}

/// The option that the hint prints, as it stands there.
#[track_caller]
fn mends(done: &Done) -> &str {
    let hint = done
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("hint: "));
    let options = hint.unwrap().split('`').skip(1).step_by(2);
    let mut options = options.filter(|one| one.starts_with("--copy "));
    options.next().unwrap_or_else(|| panic!("{done}"))
}

/// `cofferdam run OPTIONS` by a shell, as a user types it.
#[track_caller]
fn typed(environment: &TestEnvironment, options: &str) -> Done {
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    environment.shell(&format!("'{cofferdam}' run {options}"))
}

#[test]
fn a_program_that_is_not_committed_is_refused_with_the_copy_that_mends_it() {
    let environment = TestEnvironment::with_repository();
    let path = "my tools/agent.sh";
    let typed_path = "'./my tools/agent.sh'";
    // Never committed, staged alone, and changed since: there an older one would work, and nobody would notice.
    for (state, says) in [
        ("untracked", "there is no such program\n"),
        ("staged", "there is no such program\n"),
        (
            "changed",
            "error: the agent's program `my tools/agent.sh` is in no commit as it is now, and the sandbox has committed \
             files only\n",
        ),
    ] {
        match state {
            "untracked" => program(&environment, path, "old"),
            "staged" => drop(environment.git(&["add", path])),
            _ => {
                commit(&environment, path);
                program(&environment, path, "new");
            }
        }
        for way in WAYS.into_iter().chain([KEPT]) {
            let arguments = [&["run"], way, &["--", "./my tools/agent.sh"]].concat();
            let done = environment.cofferdam(&arguments).expect_code(1);
            assert!(done.stderr.contains(says), "{state} {way:?}: {done}");
            assert_eq!(mends(&done), "--copy 'my tools/agent.sh'", "{done}");
        }
        environment.expect_nothing_made();
    }
    // The whole directory does as well. The older one is not what works then.
    let done = environment
        .cofferdam(&["run", "--", "./my tools/agent.sh"])
        .expect_code(1);
    for copy in [mends(&done), "--copy 'my tools'"] {
        let done = typed(&environment, &format!("{copy} -- {typed_path}")).expect_code(0);
        assert!(done.stderr.contains("  | new\n"), "{done}");
    }
    // The control: committed, it needs no word.
    commit(&environment, path);
    let done = typed(&environment, &format!("-- {typed_path}")).expect_code(0);
    assert!(done.stderr.contains("  | new\n"), "{done}");
}

/// What git takes for the same is the same.
#[test]
fn a_prompt_with_line_ends_of_the_checkouts_own_is_committed() {
    let environment = TestEnvironment::with_repository();
    environment.write(".gitattributes", "*.md text eol=crlf\n");
    environment.write("plan.md", "a plan\n");
    commit(&environment, ".");
    std::fs::remove_file(environment.repository().join("plan.md")).unwrap();
    environment.git(&["checkout", "--quiet", "plan.md"]);
    assert_eq!(environment.read("plan.md"), "a plan\r\n");
    let run = || typed(&environment, "--prompt-file plan.md -- cat");
    let done = run().expect_code(0);
    assert!(done.stderr.contains("  | a plan"), "{done}");
    // The control: more than those is a change.
    environment.write("plan.md", "another plan\r\n");
    let done = run().expect_code(1);
    assert_eq!(mends(&done), "--copy plan.md", "{done}");
}

#[test]
fn a_prompt_that_is_not_committed_is_refused_with_the_copy_that_mends_it() {
    let environment = TestEnvironment::with_repository();
    let says = "error: the prompt `src/plan.md` is in no commit as it is now, and the sandbox has committed files only\n";
    for state in ["untracked", "staged", "changed"] {
        match state {
            "untracked" => environment.write("src/plan.md", "old plan\n"),
            "staged" => drop(environment.git(&["add", "src/plan.md"])),
            _ => {
                commit(&environment, "src/plan.md");
                environment.write("src/plan.md", "new plan\n");
            }
        }
        for way in WAYS.into_iter().chain([KEPT]) {
            let arguments = [
                &["run", "--prompt-file", "src/plan.md"],
                way,
                &["--", "cat"],
            ];
            let done = environment.cofferdam(&arguments.concat()).expect_code(1);
            assert!(done.stderr.starts_with(says), "{state} {way:?}: {done}");
            assert_eq!(mends(&done), "--copy src/plan.md", "{done}");
        }
        // From below, the path of the option counts from there, and that of the copy from the top.
        let below = typed(&environment, "-C src --prompt-file plan.md -- cat").expect_code(1);
        assert!(below.stderr.starts_with(says), "{below}");
        assert_eq!(mends(&below), "--copy src/plan.md", "{below}");
        environment.expect_nothing_made();
    }
    // The agent is asked what was read, and finds the same.
    let options = "-C src --prompt-file plan.md --copy src/plan.md -- sh -c 'cat; cat src/plan.md'";
    let done = typed(&environment, options).expect_code(0);
    assert_eq!(done.stderr.matches("  | new plan\n").count(), 2, "{done}");
    // The control: committed, it needs no word.
    commit(&environment, "src/plan.md");
    let done = typed(&environment, "--prompt-file src/plan.md -- cat").expect_code(0);
    assert!(done.stderr.contains("  | new plan\n"), "{done}");
}

/// It is read by the command alone, and no commit could have it.
#[test]
fn a_prompt_of_another_place_is_only_read() {
    let environment = TestEnvironment::with_repository();
    environment.write("../tmp/plan.md", "a plan\n");
    // No sandbox sees that directory, committed or not.
    environment.write(".cofferdam/prompts/plan.md", "a plan\n");
    for way in WAYS {
        for path in ["../tmp/plan.md", ".cofferdam/prompts/plan.md"] {
            let arguments = [&["run", "--prompt-file", path], way, &["--", "cat"]];
            let done = environment.cofferdam(&arguments.concat()).expect_code(0);
            assert!(done.stderr.contains("  | a plan\n"), "{done}");
        }
    }
}

#[test]
fn in_the_checkout_itself_nothing_has_to_be_committed() {
    let environment = TestEnvironment::with_repository();
    let run = || {
        let options = "--head --prompt-file plan.md -- ./agent.sh";
        typed(&environment, options).expect_code(0).stderr
    };
    let write = |word: &str| {
        environment.write("plan.md", &format!("{word} plan\n"));
        program(&environment, "agent.sh", &format!("{word} agent; cat"));
    };
    write("draft");
    let said = run();
    assert!(said.contains("  | draft agent\n  | draft plan\n"), "{said}");
    environment.git(&["add", "--all"]);
    environment.git(&["commit", "--quiet", "--message=more"]);
    write("new");
    let said = run();
    assert!(said.contains("  | new agent\n  | new plan\n"), "{said}");
    // All of it is there, and nothing stays outside.
    assert!(!said.contains("outside"), "{said}");
}

/// The agent gets what was read here, whatever that branch has.
#[test]
fn a_prompt_for_a_branch_at_another_commit() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["branch", "before"]);
    environment.write("plan.md", "first plan\n");
    commit(&environment, "plan.md");
    environment.git(&["branch", "older"]);
    environment.write("plan.md", "second plan\n");
    commit(&environment, "plan.md");
    let run = |branch: &str| {
        let options = format!("--branch {branch} --prompt-file plan.md -- cat");
        typed(&environment, &options)
    };
    for branch in ["older", "before"] {
        let done = run(branch).expect_code(0);
        assert!(done.stderr.contains("  | second plan\n"), "{done}");
    }
    // One that no commit has is refused there too.
    environment.git(&["rm", "--quiet", "--cached", "plan.md"]);
    environment.git(&["commit", "--quiet", "--message=less"]);
    let done = run("before").expect_code(1);
    assert_eq!(mends(&done), "--copy plan.md", "{done}");
}

const OUTSIDE: &str = "stay outside: the sandbox has committed files";

/// A changed file, one that is staged, one that is new, and a new directory, which counts as one.
fn change(environment: &TestEnvironment) {
    environment.write(".gitignore", "ignored\n");
    commit(environment, ".gitignore");
    environment.write("ignored", "no\n");
    environment.write("README.md", "changed\n");
    environment.write("staged", "x\n");
    environment.git(&["add", "staged"]);
    environment.write("new", "x\n");
    environment.write("directory/one", "x\n");
    environment.write("directory/two", "x\n");
}

/// A run whose agent commits and then goes on until its user has heard what stays outside.
#[track_caller]
fn told_while_it_works(environment: &TestEnvironment, way: &[&str]) -> String {
    let script = "git commit -q --allow-empty -m a; sleep 60";
    let arguments = [&["run"], way, &["--", "sh", "-c", script]].concat();
    let mut child = environment
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("outside") {
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(finish(child).status.code(), Some(130), "{said}");
    said
}

#[test]
fn what_stays_outside_is_told_once_with_its_number() {
    for way in WAYS {
        let environment = TestEnvironment::with_repository();
        change(&environment);
        let said = told_while_it_works(&environment, way);
        let line = format!("\nnote: 4 uncommitted changes of this checkout {OUTSIDE}\n");
        assert_eq!(said.matches(&line).count(), 1, "{way:?}: {said}");
        assert_eq!(said.matches("outside").count(), 1, "{way:?}: {said}");
    }
    let environment = TestEnvironment::with_repository();
    environment.write("README.md", "changed\n");
    let said = told_while_it_works(&environment, &[]);
    let line = "\nnote: 1 uncommitted change of this checkout stays outside: ";
    assert!(said.contains(line), "{said}");
}

/// The same of a sandbox that is kept, whose agent commits nothing, or is over at once.
#[test]
fn of_one_that_is_kept_it_is_told_too() {
    let environment = Lives::new();
    change(&environment);
    let said = told_while_it_works(&environment, KEPT);
    let line = format!("\nnote: 4 uncommitted changes of this checkout {OUTSIDE}\n");
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    for script in ["true", "sleep 1"] {
        let done = environment.run(KEPT, script).expect_code(0);
        // On a busy machine that it is not known yet.
        assert_eq!(done.stderr.matches(" outside").count(), 1, "{done}");
    }
}

/// An agent that is quicker than the look at the checkout: once its commit is there, the look is waited for.
#[test]
fn a_quick_agents_user_is_told_too() {
    quick_agent(
        "echo a > a.txt; git add a.txt; git commit -qm a",
        "iteration 1 ended",
    );
}

/// Where nothing came of it nobody waits long, and that it is not known is told.
#[test]
fn the_user_of_a_quick_agent_that_commits_nothing_is_told_too() {
    quick_agent("true", "never said");
}

/// `until`: what is in the run's log when whoever looks at the checkout gets an answer.
#[track_caller]
fn quick_agent(script: &str, until: &str) {
    let environment = TestEnvironment::with_repository();
    change(&environment);
    // Where the start waits for the look, that never comes.
    let log = environment.temporary().join("run.log");
    let gave_up = environment.temporary().join("gave-up");
    let real = environment.shell("command -v git").expect_code(0).stdout;
    let waits = format!(
        "#!/bin/sh\nn=0\ncase \" $* \" in *' status '*)\n\
         until grep -qs '{until}' '{}'; do\n\
         [ $n = 600 ] && {{ touch '{}'; break; }}; sleep 0.05; n=$((n+1)); done;;\n\
         esac\nexec {} \"$@\"\n",
        log.display(),
        gave_up.display(),
        real.trim()
    );
    let programs = environment.temporary().join("programs");
    std::fs::create_dir(&programs).unwrap();
    cofferdam::fsx::write_with_mode(&programs.join("git"), waits.as_bytes(), 0o755).unwrap();
    let line = format!(
        "PATH='{}':\"$PATH\" '{}' run --json --log '{}' -- sh -c '{script}'",
        programs.display(),
        env!("CARGO_BIN_EXE_cofferdam"),
        log.display()
    );
    let done = environment.shell(&line).expect_code(0);
    assert!(!gave_up.exists(), "the start waited: {done}");
    let told: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|one: &serde_json::Value| one["event"] == "notice")
        .collect();
    let [one] = told.as_slice() else {
        panic!("{done}");
    };
    // On a machine so busy that the look takes seconds, that it is not known is told.
    match one["notice"].as_str().unwrap() {
        "uncommitted_outside" => assert_eq!(one["paths"], 4, "{one}"),
        _ => assert!(
            one["text"].as_str().unwrap().contains("stayed outside"),
            "{one}"
        ),
    }
}

/// Ignored files are no work, and neither is what landed or what is Cofferdam's own.
#[test]
fn where_nothing_stays_outside_nothing_is_told() {
    for way in WAYS {
        let environment = TestEnvironment::with_repository();
        environment.write(".gitignore", "ignored\n");
        commit(&environment, ".gitignore");
        environment.write("ignored", "no\n");
        environment.write(".cofferdam/prompts/plan.md", "a plan\n");
        let done = environment.run(way, &commit_script(&["a"])).expect_code(0);
        assert!(!done.stderr.contains("stay outside"), "{way:?}: {done}");
        assert!(!done.stderr.contains("stays outside"), "{way:?}: {done}");
    }
}
