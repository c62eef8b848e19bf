use std::time::{Duration, Instant};

use crate::containers;
use crate::environment::{TestEnvironment, check, commit_script};
use crate::lives::Lives;

#[test]
fn nothing_yet() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["list"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    no sandboxes; `cofferdam create NAME` makes one that stays, `cofferdam run` one for an agent
    ");
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    assert_eq!(done.stdout, "[]\n");
    assert_eq!(done.stderr, "");
}

#[test]
fn outside_of_a_repository() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["list"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: [PLACE]/repository is not in a git repository
    hint: start it in a repository, name one with `-C DIR`, or make one with `git init`
    ");
    environment
        .cofferdam(&["list", "--all-repos"])
        .expect_code(0);
}

#[test]
fn a_branch_sandbox_with_its_commits() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &[
                "--branch",
                "feature/a",
                "--name",
                "first",
                "--mode",
                "layer",
            ],
            &commit_script(&["a", "b"]),
        )
        .expect_code(0);
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "{done}");
    let one = &found[0];
    assert_eq!(one["name"], "first");
    assert_eq!(one["kind"], "task");
    assert_eq!(one["provider"], "native");
    assert_eq!(one["mode"], "layer");
    assert_eq!(one["branch"], "feature/a");
    assert_eq!(one["ahead"], 2);
    assert_eq!(one["interrupted"], false);
    let done = environment.cofferdam(&["list"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    NAME   STATE    BRANCH     AHEAD  CHANGES  AGE  MEMORY
    first  stopped  feature/a  2      no       [TIME]  -
    --- stderr
    ");
    let done = environment.cofferdam(&["list", "--wide"]).expect_code(0);
    let start = "NAME   KIND  PROVIDER  MODE   STATE    BRANCH     AHEAD  CHANGES  AGE";
    assert!(done.stdout.starts_with(start), "{done}");
    let row = "\nfirst  task  native    layer  stopped  feature/a  2      no";
    assert!(done.stdout.contains(row), "{done}");
    // It had none on this machine.
    assert!(done.stdout.trim_end().ends_with(" -"), "{done}");
    assert!(one["workdir"].is_null(), "{one}");
    let options = ["--branch", "feature/b", "--mode", "bind"];
    environment
        .run(&options, "echo more > draft.txt")
        .expect_code(0);
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let at = std::path::Path::new(found[1]["workdir"].as_str().unwrap());
    assert!(at.join("draft.txt").is_file(), "{found}");
}

/// What programs use, and nothing where none run.
#[test]
fn memory_is_what_programs_use() {
    let lives = Lives::with("one", &["--network", "none"]);
    let memory = || lives.listed("one").unwrap()["memory"].as_u64();
    assert_eq!(memory(), Some(0));
    let holds = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo holds; sleep 1000; echo $x";
    lives
        .cofferdam(&["exec", "--detach", "one", "--", "sh", "-c", holds])
        .expect_code(0);
    let until = Instant::now() + Duration::from_secs(20);
    while memory().is_none_or(|bytes| bytes < 30_000_000) {
        assert!(Instant::now() < until, "{:?}", memory());
    }
    let listed = lives.cofferdam(&["list"]).expect_code(0).stdout;
    assert!(listed.trim_end().ends_with(" MB"), "{listed}");
    lives.cofferdam(&["stop", "one"]).expect_code(0);
    assert_eq!(memory(), None);
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}

/// The same in containers, whose own few bytes count there.
#[test]
fn memory_is_what_programs_use_in_containers() {
    for world in containers::worlds() {
        world.make("create", &["one"]).expect_code(0);
        let memory = || {
            let listed = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
            let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
            assert_eq!(listed[0]["name"], "one", "{listed}");
            listed[0]["memory"].as_u64()
        };
        let idle = memory();
        assert!(
            idle.is_some_and(|bytes| bytes < 30_000_000),
            "{}: {idle:?}",
            world.engine
        );
        let holds = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo holds; sleep 1000; echo $x";
        world
            .cofferdam(&["exec", "--detach", "one", "--", "sh", "-c", holds])
            .expect_code(0);
        let until = Instant::now() + Duration::from_secs(20);
        while memory().is_none_or(|bytes| bytes < 30_000_000) {
            assert!(Instant::now() < until, "{}: {:?}", world.engine, memory());
        }
        let listed = world.cofferdam(&["list"]).expect_code(0).stdout;
        assert!(listed.trim_end().ends_with(" MB"), "{listed}");
        world.cofferdam(&["stop", "one"]).expect_code(0);
        assert_eq!(memory(), None, "{}", world.engine);
        world.cofferdam(&["delete", "one"]).expect_code(0);
        world.expect_clean();
    }
}

/// The older word for `--all-repos` is none any more.
#[test]
fn all_is_refused() {
    let environment = TestEnvironment::with_repository();
    let refused = environment.cofferdam(&["list", "--all"]).expect_code(2);
    assert!(
        refused.stderr.contains("`--all`") || refused.stderr.contains("'--all'"),
        "{refused}"
    );
    assert_eq!(refused.stdout, "");
}

/// A generated name on a branch of its own is as long as usual ones get.
#[test]
fn a_line_has_80_columns() {
    let environment = TestEnvironment::with_repository();
    let branch = "users/somebody/a-branch-with-quite-a-long-name/and-more";
    let script = commit_script(&["a"]) + "echo more > draft.txt";
    environment
        .run(&["--branch", branch], &script)
        .expect_code(0);
    let done = environment.cofferdam(&["list"]).expect_code(0);
    let widest = done.stdout.lines().map(|line| line.chars().count()).max();
    assert!((70..=80).contains(&widest.unwrap()), "{done}");
    let row = done.stdout.lines().nth(1).unwrap();
    let name = row.split(' ').next().unwrap();
    assert!(row.contains("  users/somebody/a-"), "{done}");
    // The name is whole: it is what the other commands take.
    environment.cofferdam(&["log", name]).expect_code(0);
    let done = environment.cofferdam(&["list", "--wide"]).expect_code(0);
    assert!(done.stdout.contains(branch), "{done}");
}

#[test]
fn a_reader_that_goes_away_is_fine() {
    let environment = TestEnvironment::with_repository();
    let line = format!(
        "'{}' completions zsh | true; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_cofferdam")
    );
    let done = environment.shell(&line).expect_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("0\n", ""));
}

/// Commits of a run in the checkout itself that are on no branch.
#[test]
fn what_is_kept_beside_the_branches_is_shown_with_the_command_that_takes_it() {
    let environment = TestEnvironment::with_repository();
    let mine = "echo mine > mine.txt; git add mine.txt; git commit -qm mine";
    let options = ["--head", "--name", "late", "--on-host-ready", mine];
    environment
        .run(&options, &commit_script(&["a", "b"]))
        .expect_code(1);
    let done = environment.cofferdam(&["list"]).expect_code(0);
    let row = "\nlate  stopped  main    2 ";
    assert!(done.stdout.contains(row), "{done}");
    let words = "late: the commits are kept on refs/cofferdam/";
    assert!(done.stderr.starts_with(words), "{done}");
    let take = "; take them with: cofferdam merge late\n";
    assert!(done.stderr.ends_with(take), "{done}");
    let json = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(found[0]["ahead"], 2);
    assert!(found[0]["kept"].is_string(), "{json}");
    let all = environment
        .cofferdam(&["list", "--all-repos"])
        .expect_code(0);
    let command = all
        .stderr
        .trim_end()
        .rsplit("take them with: ")
        .next()
        .unwrap();
    let command = command.replacen("cofferdam", env!("CARGO_BIN_EXE_cofferdam"), 1);
    environment
        .shell(&format!("cd /; {command}"))
        .expect_code(0);
    assert_eq!(environment.read("b.txt"), "b\n");
    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert_eq!(done.stderr, "");
    assert!(
        done.stdout.contains("\nlate  stopped  main    0 "),
        "{done}"
    );
}

/// The same, while its command is dead and nobody has brought them home: nothing is looked into then.
#[test]
fn a_killed_run_in_the_checkout_is_shown_until_its_commits_are_home() {
    let environment = TestEnvironment::with_repository();
    let script = commit_script(&["a"]) + "touch ready; sleep 600";
    let mut run = environment
        .command(&["run", "--head", "--name", "dead", "--", "sh", "-c", &script])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let ready = environment.repository().join("ready");
    let began = std::time::Instant::now();
    while !ready.exists() {
        assert!(began.elapsed().as_secs() < 60, "it never started");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(done.stdout.contains("\ndead  interrupted  main "), "{done}");
    let words = "dead: it was interrupted, and what it committed is not home yet; bring it there with: cofferdam gc\n";
    assert_eq!(done.stderr, words);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(environment.git(&["log", "-1", "--format=%s"]), "a");
    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(done.stdout.is_empty(), "{done}");
}
