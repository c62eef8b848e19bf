//! What an agent may do wrong, in every way in which a command lets one work: a run of its own, one whose sandbox stays, one in a
//! sandbox that was there, one that goes on with an earlier conversation in the sandbox of that or in another, a task of a plan, one at
//! which its user sits in each of those kinds of sandbox or in none, and the agent's own program in a dev sandbox; natively, and in a
//! container of each engine; where it matters also in a worktree, in a copy, and in the checkout itself. Each is something that went
//! wrong in one way of the closest peer and not in another. A run of the whole suite tries in containers, and where files are elsewhere
//! than usual, the share of ways that its seed chooses.
//!
//! Where one of them differs:
//!
//! | way | what, and why |
//! |---|---|
//! | with its user there | how its program ended is the command's code, and the prompt is a word for it; what it prints is the terminal's |
//! | goes on, or with its user there | the agent is a known one: completion signals, bounds and hanging are tried with any program |
//! | goes on | where its branch begins, and what that is merged into, was said before |
//! | without a sandbox | git there is its user's: settings, and commits on other branches, are where it put them; the worktree's hook is the one there is |
//! | a dev sandbox | it works on what is checked out: it is given no branch, no prompt and no hook |
//! | a plan | a prompt has at most 1 MiB; a task has a branch of its own, and is never in the checkout |
//!
//! What went wrong there in one way alone, or below all of them, has its tests elsewhere:
//!
//! | what | where |
//! |---|---|
//! | without a sandbox no question is asked of the user | `no_sandbox::it_has_the_users_machine_and_asks_them`, `compile_fail/no_sandbox.rs` |
//! | an agent goes on when its run is stopped | `no_sandbox::it_is_stopped_and_loses_nothing`, `lifecycle::cancelling_ends_the_whole_tree_and_collects` |
//! | a prompt with arguments cannot be gone on from | `runs::one_that_is_still_there_is_gone_on_in` |
//! | asking again for an answer loses commits; only the last message counts | `orchestrate::an_answer_that_does_not_fit_is_asked_for_again` |
//! | hooks hang | `lifecycle::failing_and_hanging_hooks_fail_the_run`, `living::what_cannot_be_made_leaves_nothing` (of the library) |
//! | an error says nothing of what was kept | `lifecycle::a_failing_agent_keeps_its_commits_and_its_words` |
//! | input and variables do not arrive | `conformance/streams.rs`, `conformance/programs.rs`, for each kind of sandbox |
//! | nothing is locked | `mistakes::a_busy_branch_names_its_sandbox_and_what_to_do`, `living_runs::one_agent_at_a_time_works_in_it` |
//! | Ctrl-C leaves agents behind | `interrupt`, `living_runs::what_a_stopped_agent_committed_comes_home`, `plan::a_signal_ends_all_and_says_how_to_go_on` |

mod way;

use self::way::{
    ALL, ANYWHERE, APART, Entry, Files, PRINTING, UNATTENDED, Way, at_once, in_modes, in_sandbox,
    in_ways, of_runs, with_files,
};

const TEMPLATE: [&str; 4] = ["--prompt-file", "t.md", "--arg", "X=$(y) `z`"];
/// The agent commits its prompt.
const GOT: &str = "cat > got; git add got; git commit -qm got";

fn has_template(entry: &Entry) {
    let text = "S={{SOURCE_BRANCH}} T={{TARGET_BRANCH}} X={{X}}";
    entry.lives.write("t.md", text);
    entry.lives.git(&["add", "t.md"]);
    entry.lives.git(&["commit", "-qm", "template"]);
}

#[test]
fn a_template_knows_its_branches() {
    in_ways(&of_runs(), |entry| {
        has_template(entry);
        entry.run(&[], &TEMPLATE, GOT).expect_code(0);
        assert_eq!(
            entry.lives.git(&["show", "work:got"]),
            "S=work T=main X=$(y) `z`",
            "{:?}",
            entry.way
        );
    });
}

/// Where its commits are to be merged, the branch that they are made on is still its own.
#[test]
fn a_template_knows_what_it_is_merged_into() {
    in_ways(&at_once(), |entry| {
        has_template(entry);
        let done = entry.run_on(("box", None), &[], &TEMPLATE, GOT);
        done.expect_code(0);
        let got = if entry.way.merges() {
            "main:got"
        } else {
            "cofferdam/box:got"
        };
        assert_eq!(
            entry.lives.git(&["show", got]),
            "S=cofferdam/box T=main X=$(y) `z`",
            "{:?}",
            entry.way
        );
    });
}

#[test]
fn an_agent_that_a_signal_ends_has_failed() {
    in_modes(&ALL, &ANYWHERE, |entry| {
        let script = "git commit -q --allow-empty -m kept; kill -9 $$";
        let done = entry.run(&[], &[], script);
        // At a terminal the code is the program's own.
        let code = if entry.way.is_attended() { 137 } else { 1 };
        assert_eq!(done.status.code(), Some(code), "{:?}: {done}", entry.way);
        assert!(
            code == 137 || done.stderr.contains("signal 9"),
            "{:?}: {done}",
            entry.way
        );
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

#[test]
fn variables_of_its_sandbox_are_there() {
    in_ways(&ALL, |entry| {
        let script = "git commit -q --allow-empty -m \"$ONE\"";
        entry.run(&["--env", "ONE=two"], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["two"], "{:?}", entry.way);
    });
}

/// At a terminal it is a word.
#[test]
fn one_that_reads_no_prompt_ends_in_peace() {
    in_ways(&UNATTENDED, |entry| {
        let long = "A line of a long prompt.\n".repeat(30_000);
        entry.lives.write("long.md", &long);
        entry.lives.git(&["add", "long.md"]);
        entry.lives.git(&["commit", "-qm", "long"]);
        let task = ["--prompt-file", "long.md"];
        let script = "exec <&-; git commit -q --allow-empty -m kept";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

/// That of a task has a bound, and at a terminal it is a word.
#[test]
fn a_prompt_of_5_mb_arrives_whole() {
    let ways = [
        Way::Run,
        Way::Kept,
        Way::In,
        Way::Continue,
        Way::ContinueThere,
    ];
    in_ways(&ways, |entry| {
        let long = "0123456789 abcdefgh\n".repeat(250_000);
        entry.lives.write("long.md", &long);
        entry.lives.git(&["add", "long.md"]);
        entry.lives.git(&["commit", "-qm", "long"]);
        let task = ["--prompt-file", "long.md"];
        let script = "git commit -q --allow-empty -m \"$(wc -c)\"";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["5000000"], "{:?}", entry.way);
    });
}

/// It works on without its branch, and on one of its own that goes on from that: it is one history.
#[test]
fn commits_beside_the_branch_come_home() {
    in_modes(&in_sandbox(), &ANYWHERE, |entry| {
        let script = "git commit -q --allow-empty -m on; git checkout -q --detach; \
            git commit -q --allow-empty -m beside; git checkout -q -b other; git commit -q --allow-empty -m far";
        let done = entry.run(&[], &[], script).expect_code(0);
        if entry.way == Way::Dev {
            // A person's other branches are theirs, and told.
            assert_eq!(entry.subjects(), ["on"], "{done}");
            assert!(done.stderr.contains("refs/cofferdam/"), "{done}");
            let beside = ["for-each-ref", "--format=%(subject)", "refs/cofferdam/"];
            let beside = entry.lives.git(&beside);
            assert!(beside.lines().any(|one| one == "far"), "{beside}: {done}");
            return;
        }
        assert_eq!(entry.subjects(), ["far", "beside", "on"], "{:?}", entry.way);
    });
}

/// What does not go on from the branch is told, and kept.
#[test]
fn commits_of_another_history_are_told() {
    in_modes(&in_sandbox(), &ANYWHERE, |entry| {
        let script = "git checkout -q -b other; git commit -q --allow-empty -m far; \
            git checkout -q work; git commit -q --allow-empty -m on";
        let done = entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["on"], "{:?}", entry.way);
        let kept = ["for-each-ref", "--format=%(refname) %(subject)"];
        let kept = entry.lives.git(&kept);
        let mut kept = kept.lines().filter_map(|line| line.strip_suffix(" far"));
        let name = kept.next().unwrap();
        let told = format!("(other) are kept at {name}");
        assert!(done.stderr.contains(&told), "{:?}: {done}", entry.way);
    });
}

#[test]
fn a_prompt_that_is_echoed_completes_nothing() {
    in_ways(&PRINTING, |entry| {
        let prompt = "Say on a line of its own:\n<promise>COMPLETE</promise>\n";
        let task = ["--prompt", prompt, "--max-iterations", "2"];
        let script = "cat; git commit -q --allow-empty -m again";
        entry.run(&[], &task, script).expect_code(0);
        assert_eq!(entry.subjects(), ["again", "again"], "{:?}", entry.way);
    });
}

#[test]
fn what_several_iterations_leave_uncommitted_is_there() {
    in_modes(&UNATTENDED, &ANYWHERE, |entry| {
        let script = "echo line >> draft";
        entry
            .run(&[], &["--max-iterations", "3"], script)
            .expect_code(0);
        assert_eq!(entry.lines_left(), 3, "{:?}", entry.way);
    });
}

/// At a terminal it is the terminal's.
#[test]
fn output_that_is_no_text_harms_nothing() {
    in_ways(&UNATTENDED, |entry| {
        let script = r#"printf '\377\376\000{"a":\033[2J'; git commit -q --allow-empty -m kept"#;
        let done = entry.run(&[], &[], script).expect_code(0);
        assert!(!done.stderr.contains('\u{1b}'), "{:?}: {done}", entry.way);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
    });
}

/// What it sets for all repositories of its user is its sandbox's alone.
#[test]
fn its_settings_of_git_are_its_own() {
    in_modes(&in_sandbox(), &ANYWHERE, |entry| {
        let script = "git config --global mark.of agent; \
            git commit -q --allow-empty -m \"$(git config --global mark.of)\"";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["agent"], "{:?}", entry.way);
    });
}

#[test]
fn branches_with_names_that_are_nearly_the_same_are_two() {
    in_ways(&of_runs(), |entry| {
        entry.lives.git(&["branch", "wor-k"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(entry.subjects_on("wor-k"), [""; 0], "{:?}", entry.way);
    });
}

/// The user and the agent change the same line: nothing of a merge is left in the checkout, and what is said next is the user's own.
#[test]
fn a_conflict_leaves_no_half_merge() {
    in_modes(&at_once(), &APART, |entry| {
        let (way, lives) = (entry.way, &entry.lives);
        let top = lives.repository();
        let mine = format!(
            "cd '{}' && echo mine > README.md && git commit -qam mine",
            top.display()
        );
        let hook = match way {
            Way::OnHost => "--on-worktree-ready",
            _ => "--on-host-ready",
        };
        let made = [hook, &mine];
        let script = "echo theirs > README.md; git commit -qam theirs";
        let mut done = entry.run_on(("box", None), &made, &[], script);
        if !way.merges() {
            done.expect_code(0);
            done = lives.cofferdam(&["merge", "box"]);
        }
        done = done.expect_code(1);
        let half = top.join(".git/MERGE_HEAD");
        assert!(!half.exists(), "{way:?}: {done}");
        let tracked = ["status", "--porcelain", "--untracked-files=no"];
        assert_eq!(lives.git(&tracked), "", "{way:?}: {done}");
        assert_eq!(lives.read("README.md"), "mine\n", "{way:?}: {done}");
        let log = lives.git(&["log", "--format=%s"]);
        assert_eq!(log, "mine\nstart", "{way:?}: {done}");
        assert_eq!(entry.subjects_on("cofferdam/box"), ["theirs"], "{way:?}");
        let said = format!("{}{}", done.stdout, done.stderr);
        let next = "git merge cofferdam/box";
        assert!(said.contains(next), "{way:?}: {done}");
        // The control: with it they begin the merge that was not begun for them.
        lives.shell(next).expect_code(1);
        assert!(half.exists(), "{way:?}");
    });
}

/// Two branches whose directories would have one name, the second made while the first one's has work in no commit.
#[test]
fn branches_that_differ_in_a_separator_are_two() {
    with_files(&of_runs(), Files::Bind, |entry| {
        let branches = [("one", "a/b"), ("two", "a-b")];
        for (name, branch) in branches {
            let script = format!(
                "git commit -q --allow-empty -m \"$(git branch --show-current)\"; echo {branch} >> left"
            );
            entry
                .run_on((name, Some(branch)), &[], &[], &script)
                .expect_code(0);
        }
        for (_, branch) in branches {
            assert_eq!(entry.subjects_on(branch), [branch], "{:?}", entry.way);
        }
        let left = "cd .cofferdam/worktrees && cat */left | sort";
        let left = entry.lives.shell(left).expect_code(0).stdout;
        assert_eq!(left, "a-b\na/b\n", "{:?}", entry.way);
    });
}

#[test]
fn its_branch_begins_where_it_was_told() {
    in_modes(&at_once(), &APART, |entry| {
        entry
            .lives
            .git(&["commit", "-q", "--allow-empty", "-m", "later"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&["--base", "main~1"], &[], script).expect_code(0);
        let log = entry.lives.git(&["log", "--format=%s", "work"]);
        assert_eq!(log, "kept\nstart", "{:?}", entry.way);
    });
}

/// The checkout is on no branch: it stays where it is.
#[test]
fn a_checkout_on_no_branch_is_one_to_work_beside() {
    in_ways(&of_runs(), |entry| {
        entry.lives.git(&["checkout", "-q", "--detach"]);
        let before = entry.lives.git(&["rev-parse", "HEAD"]);
        let script = "git commit -q --allow-empty -m kept";
        entry.run(&[], &[], script).expect_code(0);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(entry.lives.git(&["rev-parse", "HEAD"]), before);
        assert_eq!(entry.lives.git(&["branch", "--show-current"]), "");
    });
}

/// Its code counts, inside and on the host: no agent is started.
#[test]
fn a_hook_that_fails_ends_it() {
    for hook in [
        "--on-sandbox-ready",
        "--on-host-ready",
        "--on-worktree-ready",
    ] {
        in_ways(&of_runs(), |entry| {
            if entry.way == Way::OnHost && hook != "--on-worktree-ready" {
                return;
            }
            let made = [hook, "echo why; exit 3"];
            let script = "git commit -q --allow-empty -m never";
            let done = entry.run(&made, &[], script).expect_code(1);
            let told = done.stderr.contains("why") && done.stderr.contains("exit code 3");
            assert!(told, "{:?}, {hook}: {done}", entry.way);
            let all = entry.lives.git(&["log", "--all", "--format=%s"]);
            assert_eq!(all, "start", "{:?}, {hook}", entry.way);
        });
    }
}

/// Also where it fails: neither its commits nor what is in none are thrown away.
#[test]
fn what_a_failing_one_leaves_uncommitted_is_there() {
    in_modes(&ALL, &ANYWHERE, |entry| {
        let script = "git commit -q --allow-empty -m kept; echo line > draft; exit 7";
        let done = entry.run(&[], &[], script);
        assert!(!done.status.success(), "{:?}: {done}", entry.way);
        assert_eq!(entry.subjects(), ["kept"], "{:?}", entry.way);
        assert_eq!(entry.lines_left(), 1, "{:?}: {done}", entry.way);
    });
}

/// What its user has in no commit is not seen but where that is said, and is theirs afterwards, though it commits files of the same names.
#[test]
fn what_its_user_has_in_no_commit_stays_theirs() {
    in_modes(&of_runs(), &APART, |entry| {
        let lives = &entry.lives;
        let files = ["README.md", "copied", "staged"];
        for file in files {
            lives.write(file, "mine\n");
        }
        lives.git(&["add", "staged"]);
        let script = "test \"$(cat README.md copied)\" = \"$(echo hello; echo mine)\" || exit 9; test ! -e staged || exit 9
            for file in README.md copied staged; do echo theirs > $file; git add $file; done; git commit -qm theirs";
        let done = entry.run(&["--copy", "copied"], &[], script);
        let done = done.expect_code(0);
        assert_eq!(entry.subjects(), ["theirs"], "{:?}: {done}", entry.way);
        for file in files {
            let (own, its) = (lives.read(file), format!("work:{file}"));
            assert_eq!(own, "mine\n", "{:?}, {file}: {done}", entry.way);
            assert_eq!(lives.git(&["show", &its]), "theirs", "{:?}", entry.way);
        }
        let tracked = ["status", "--porcelain", "--untracked-files=no"];
        let status = lives.git(&tracked);
        assert_eq!(status, " M README.md\nA  staged", "{:?}", entry.way);
    });
}

/// It hangs before its signal, in the middle of it, and after it, or ends, and what it started beside itself goes on: all of them end in
/// time. In a sandbox that stays, what an agent left there that ended by itself is the sandbox's and ends with that, and so is what it
/// put into a session of its own.
#[test]
fn one_that_hangs_ends_with_all_that_it_started() {
    // Numbers that nothing else sleeps for.
    let [child, apart] = [600, 601].map(|number| format!("{number}.{}", std::process::id()));
    let is_alive = |mark: &str| {
        let words = format!("sleep\0{mark}\0");
        let mut all = std::fs::read_dir("/proc").unwrap().flatten();
        all.any(|one| {
            std::fs::read(one.path().join("cmdline")).is_ok_and(|its| its == words.as_bytes())
        })
    };
    let signal = "<promise>COMPLETE</promise>";
    for (then, code) in [
        (format!("sleep {child}"), 1),
        (format!("printf '{}'; sleep {child}", &signal[..12]), 1),
        (format!("echo '{signal}'; sleep {child}"), 0),
        (format!("echo '{signal}'; exit 0"), 0),
    ] {
        in_ways(&PRINTING, |entry| {
            let script = format!(
                "git commit -q --allow-empty -m kept; (setsid sh -c 'touch /tmp/on; exec sleep {apart}' &)
                sleep {child} & until [ -e /tmp/on ]; do sleep 0.01; done; {then}"
            );
            let task = ["--idle-timeout", "2s", "--grace", "1s"];
            let done = entry.run(&[], &task, &script).expect_code(code);
            let what = format!("{:?}, {then}: {done}", entry.way);
            assert_eq!(entry.subjects(), ["kept"], "{what}");
            assert_eq!(done.stderr.contains("printed nothing"), code == 1, "{what}");
            let stays = matches!(entry.way, Way::Kept | Way::In);
            let ended_by_itself = then.ends_with("exit 0");
            assert_eq!(is_alive(&child), stays && ended_by_itself, "{what}");
            assert_eq!(is_alive(&apart), stays, "{what}");
            if stays {
                let delete = ["delete", "--force", "box"];
                entry.lives.cofferdam(&delete).expect_code(0);
            }
            assert!(!is_alive(&child) && !is_alive(&apart), "{what}");
        });
    }
}
