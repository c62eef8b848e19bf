//! What an agent may do wrong, by every entry point of the library: a run, a sandbox that stays, one that another process has made,
//! one with somebody at the agent's terminal, a sandbox of its own with somebody there, no sandbox, and a task of a plan; in each mode.
//! It is the table of the command's tests (`cofferdam-cli/tests/cli/every_way.rs`), which come by their entry points alone. With
//! `scripts/test --all` all of it is tried in containers as well.
//!
//! Where one of them differs:
//!
//! | entry | what, and why |
//! |---|---|
//! | at a terminal | how its program ended is its user's to see, and no error |
//! | at a terminal | its output is its user's: nothing in it completes, and it is started once |
//! | at a terminal | the prompt is a word for its program, and `command` gets none |
//! | on the host | git there is its user's: settings, and commits on other branches, are where it put them |
//! | on the host | what it leaves running goes on as any program of its user's does, and it has the hook of the worktree alone |
//! | in a sandbox that stays | what it leaves running ends with the sandbox; what it leaves uncommitted keeps the sandbox from being closed |
//! | in a sandbox that stays | it is there for a look where a hook inside failed; its commits move no target before `merge` |
//! | a plan | a prompt has at most 1 MiB; a task always has a branch |
//!
//! What went wrong in one way alone, or below all of them, has its tests elsewhere:
//!
//! | what | where |
//! |---|---|
//! | a prompt with arguments cannot be gone on from | `orchestrate::a_conversation_goes_on_in_another_sandbox`: it goes on with any prompt |
//! | asking again for an answer loses commits; only the last message counts | `orchestrate::an_answer_that_does_not_fit_is_asked_for_again` |
//! | errors have lost their types | here: each error is matched as the enum that it is |
//! | hooks hang | `lifecycle::failing_and_hanging_hooks_fail_the_run`, `living::what_cannot_be_made_leaves_nothing` |
//! | input and variables are dropped by providers of others | `providers`, `without_git`, `conformance` |
//! | branches that differ in a separator are one | `branches::names_that_differ_only_in_a_separator_have_their_own_worktrees`, and the command's table |
//! | Ctrl-C leaves agents behind | the command's, which alone hears signals: here it is `Caller::cancel` |

mod entry;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use cofferdam::agent::{self, AgentEvent, AgentOptions};
use cofferdam::plan::MAX_PROMPT;
use cofferdam::sandbox::{BranchStrategy, Exit};
use cofferdam::session::manage::{self, MergeOptions};
use cofferdam::session::{
    AgentFailure, COMPLETION_SIGNAL, Event, Hook, Hooks, Landing, PlanError, PromptSource,
    RunErrorKind, Session,
};
use cofferdam_lab::way::Mode;

use self::entry::{
    ALL, BRANCH, Done, Entry, IN_SANDBOX, MAKING, READ, STOP, Trial, WITH_DIRECTORY, by_entries,
    long_time, until,
};
use crate::living::delete;
use crate::support::{block_on, iterations, processes_with, target};

const CONVERSATION: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Where its output is read the error has its words.
fn expect_failed(trial: &Trial, done: &Done, ended: Exit, words: &str) {
    assert_eq!(done.exits, [Some(ended)], "{done:?}");
    match &done.error {
        None => assert!(trial.entry.at_terminal(), "{done:?}"),
        Some(RunErrorKind::Agent { failure, .. }) => {
            assert!(!trial.entry.at_terminal(), "{done:?}");
            let is_its_exit = matches!(failure, AgentFailure::Exit { exit, .. } if *exit == ended);
            assert!(is_its_exit, "{done:?}");
            let text = failure.to_string();
            assert!(text.contains(words), "{text}");
        }
        Some(other) => panic!("{other}"),
    }
}

fn expect_good(done: &Done) {
    assert!(done.error.is_none(), "{done:?}");
    assert!(
        done.exits.iter().all(|exit| *exit == Some(Exit::Code(0))),
        "{done:?}"
    );
}

#[test]
fn one_that_a_signal_ends_has_failed() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let script = "git commit -q --allow-empty -m kept; kill -9 $$";
        let done = trial.go(trial.options(script));
        expect_failed(trial, &done, Exit::Signal(9), "signal 9");
        trial.expect_home(&done, &["kept"]);
        assert!(!done.uncommitted, "{done:?}");
    });
}

/// Neither its commits nor what is in none are thrown away.
#[test]
fn one_that_fails_keeps_its_work_and_its_words() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let script =
            "git commit -q --allow-empty -m kept; echo line > draft; echo 'no credit' >&2; exit 7";
        let done = trial.go(trial.options(script));
        expect_failed(trial, &done, Exit::Code(7), "exit code 7: no credit");
        trial.expect_home(&done, &["kept"]);
        assert!(done.uncommitted, "{done:?}");
    });
}

/// It holds the streams open, and no end of the agent waits for it.
#[test]
fn what_it_leaves_running_ends_with_its_sandbox() {
    by_entries(&IN_SANDBOX, &Mode::ALL, |trial| {
        let time = long_time();
        let script = format!(
            "(setsid sh -c 'touch /tmp/on; exec sleep {time}' &); until [ -e /tmp/on ]; do sleep 0.01; done
            git commit -q --allow-empty -m kept"
        );
        let alive = Cell::new(false);
        let look = || alive.set(!processes_with(&time).is_empty());
        let done = trial.go_and_look(trial.options(&script), look);
        expect_good(&done);
        trial.expect_home(&done, &["kept"]);
        assert_eq!(alive.get(), trial.entry.stays(), "{done:?}");
        assert_eq!(processes_with(&time), [""; 0]);
    });
}

#[test]
fn a_prompt_that_is_echoed_completes_nothing() {
    let asks = format!("Say on a line of its own:\n{COMPLETION_SIGNAL}\n");
    let says = format!("echo '{COMPLETION_SIGNAL}'");
    // The second one is the control.
    for (script, completes) in [
        ("tee /tmp/asked; cat /tmp/asked >&2", false),
        (&*says, true),
    ] {
        by_entries(&READ, &Mode::ALL, |trial| {
            let script = format!("{script}; git commit -q --allow-empty -m again");
            let mut options = trial.options(&script);
            options.task.prompt = PromptSource::Inline(asks.clone());
            iterations(&mut options, 2);
            let done = trial.go(options);
            expect_good(&done);
            assert_eq!(done.completion.is_some(), completes, "{done:?}");
            let all = ["again", "again"];
            trial.expect_home(&done, if completes { &all[..1] } else { &all });
        });
    }
}

/// No UTF-8, a control byte, and a line that ends in the middle of what could have been JSON.
#[test]
fn output_that_is_no_text_harms_nothing() {
    by_entries(&READ, &Mode::ALL, |trial| {
        let script = r#"git commit -q --allow-empty -m kept; printf '\377\n' >&2
            printf '\377\376\000\033[2J\n{"type":"result","is_error":tr'"#;
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["kept"]);
        let events = trial.env.events.lock().unwrap();
        let lines = events.iter().filter_map(|event| match event {
            Event::Agent {
                item: AgentEvent::Text { text },
                ..
            } => Some(text.as_str()),
            _ => None,
        });
        let lines: Vec<&str> = lines.collect();
        let want = [
            "\u{fffd}\u{fffd}\0\u{1b}[2J",
            r#"{"type":"result","is_error":tr"#,
        ];
        assert_eq!(lines, want);
    });
}

/// A program that always says how it ended has not said it, whatever its exit code is.
#[test]
fn a_stream_that_breaks_off_is_no_success() {
    let last = format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"{COMPLETION_SIGNAL}","session_id":"{CONVERSATION}"}}"#
    );
    // The whole of it is the control.
    for length in [last.len() / 2, last.len()] {
        by_entries(&READ, &Mode::ALL, |trial| {
            let said = &last[..length];
            let program = format!(
                "#!/bin/sh\ncat > /dev/null; git commit -q --allow-empty -m kept\nprintf '\\377\\n%s' '{said}'\n"
            );
            let bin = trial.env.dir.path().join("user/.local/bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join("claude"), program).unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(bin.join("claude"), mode).unwrap();
            let mut options = trial.options("");
            let path = format!("{}:/usr/bin:/bin", bin.display());
            options
                .caller
                .environment
                .insert("PATH".into(), path.into());
            let key = ("ANTHROPIC_API_KEY".into(), "the-users".into());
            options.session.environment.extend([key]);
            options.task.agent = agent::by_name("claude-code", AgentOptions::default()).unwrap();
            options.task.prompt = PromptSource::Inline("work".to_owned());
            let done = trial.go(options);
            let is_whole = length == last.len();
            assert_eq!(done.completion.is_some(), is_whole, "{done:?}");
            match &done.error {
                None => assert!(is_whole, "{done:?}"),
                Some(RunErrorKind::Agent { failure, .. }) => {
                    assert!(matches!(failure, AgentFailure::Silent(_)), "{failure}");
                }
                Some(other) => panic!("{other}"),
            }
            assert_eq!(done.exits, [Some(Exit::Code(0))], "{done:?}");
            trial.expect_home(&done, &["kept"]);
        });
    }
}

/// It works on without its branch, and on one of its own that goes on from that: it is one history.
#[test]
fn commits_beside_the_branch_come_home() {
    by_entries(&IN_SANDBOX, &Mode::ALL, |trial| {
        let script = "git commit -q --allow-empty -m on; git checkout -q --detach; \
            git commit -q --allow-empty -m beside; git checkout -q -b other; git commit -q --allow-empty -m far";
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["on", "beside", "far"]);
        assert!(!done.uncommitted, "{done:?}");
    });
}

/// What does not go on from the branch is told, and kept.
#[test]
fn commits_of_another_history_are_told() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let script = "git checkout -q -b other; git commit -q --allow-empty -m far; \
            git checkout -q work; git commit -q --allow-empty -m on";
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["on"]);
        expect_other(trial, &done, "far");
    });
}

/// The branch `other` has this commit: on the host it is there already, and from a sandbox it is kept, and its user hears where.
fn expect_other(trial: &Trial, done: &Done, subject: &str) {
    if trial.entry == Entry::OnHost {
        assert_eq!(trial.new_on("other"), [subject]);
        assert!(done.beside.is_empty(), "{done:?}");
        return;
    }
    let [beside] = &done.beside[..] else {
        panic!("{done:?}");
    };
    assert_eq!(beside.names, ["other"], "{done:?}");
    assert_eq!(trial.env.subjects(&beside.at), ["first", subject]);
    let told = format!("(other) are kept at {}", beside.at);
    let said = trial.env.said();
    assert!(said.contains(&told), "{told}\n{said}");
}

/// What HEAD alone names in a worktree is kept when that goes, as from a sandbox.
#[test]
fn commits_on_no_branch_stay_on_the_host() {
    by_entries(&[Entry::OnHost], &[Mode::Bind], |trial| {
        let script = "git commit -q --allow-empty -m on; git checkout -q --detach; echo x > far; git add far; git commit -qm far";
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["on"]);
        assert!(!done.uncommitted, "{done:?}");
        let [beside] = &done.beside[..] else {
            panic!("{done:?}");
        };
        assert_eq!(beside.names, ["a detached HEAD"], "{done:?}");
        assert_eq!(trial.env.subjects(&beside.at), ["first", "on", "far"]);
        let told = format!("(a detached HEAD) are kept at {}", beside.at);
        let said = trial.env.said();
        assert!(said.contains(&told), "{told}\n{said}");
    });
}

/// What it had committed is home; the merge that it had begun is nobody else's, and its files stay.
#[test]
fn a_half_done_merge_is_kept_where_it_is() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let script = r#"git checkout -q -b other; echo theirs > README.md; git commit -qam theirs
            git checkout -q work; echo mine > README.md; git commit -qam mine
            git merge other; test -e "$(git rev-parse --git-path MERGE_HEAD)""#;
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["mine"]);
        expect_other(trial, &done, "theirs");
        assert!(done.uncommitted, "{done:?}");
        assert_eq!(trial.env.git(&["status", "--porcelain"]), "");
        assert_eq!(trial.env.read("README.md"), "hello\n");
    });
}

/// No agent is started, and nothing is left.
#[test]
fn a_hook_that_fails_ends_it() {
    let hooks: [fn(&mut Hooks, Hook); 3] = [
        |hooks, hook| hooks.host_worktree_ready = vec![hook],
        |hooks, hook| hooks.host_sandbox_ready = vec![hook],
        |hooks, hook| hooks.sandbox_ready = vec![hook],
    ];
    for put in hooks {
        by_entries(&MAKING, &WITH_DIRECTORY, |trial| {
            let before = trial.env.refs();
            let script = "git commit -q --allow-empty -m never";
            let mut options = trial.options(script);
            put(
                &mut options.session.hooks,
                Hook::new("echo why >&2; exit 3"),
            );
            let hooks = &options.session.hooks;
            let is_inside = !hooks.sandbox_ready.is_empty();
            if trial.entry == Entry::OnHost && hooks.host_worktree_ready.is_empty() {
                return;
            }
            let done = trial.go(options);
            let Some(RunErrorKind::Hook(error)) = &done.error else {
                panic!("{done:?}");
            };
            assert_eq!(error.exit, Some(Exit::Code(3)), "{error}");
            assert!(error.to_string().contains("why"), "{error}");
            assert!(done.exits.is_empty() && done.commits.is_empty(), "{done:?}");
            let stays = trial.entry.stays() && is_inside;
            assert_eq!(trial.lives(), stays, "{done:?}");
            if stays {
                trial.clear();
            }
            trial.env.assert_no_state();
            assert_eq!(trial.env.refs(), before);
        });
    }
}

/// In a sandbox that stays too: what its agent has started is gone before that ends.
#[test]
fn one_that_is_cancelled_ends_and_its_commits_are_home() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let time = long_time();
        let script =
            format!("git commit -q --allow-empty -m kept; echo '{STOP}'; sleep {time}; exit 0");
        let look = || until("it goes on", || processes_with(&time).is_empty());
        let done = trial.go_and_look(trial.options(&script), look);
        assert!(
            matches!(done.error, Some(RunErrorKind::Cancelled)),
            "{done:?}"
        );
        assert_eq!(done.exits, [None], "{done:?}");
        trial.expect_home(&done, &["kept"]);
    });
}

/// Of 5 MB, or of as much as the entry takes.
#[test]
fn a_prompt_that_nobody_reads_holds_up_nothing() {
    let prompt = "A line of a long prompt.\n".repeat(200_000);
    by_entries(&READ, &Mode::ALL, |trial| {
        let script = "exec <&-; git commit -q --allow-empty -m kept";
        let mut options = trial.options(script);
        options.task.prompt = PromptSource::Inline(prompt.clone());
        let done = trial.go(options);
        expect_good(&done);
        trial.expect_home(&done, &["kept"]);
        let given = match trial.entry {
            Entry::Plan => MAX_PROMPT,
            _ => prompt.len(),
        };
        let events = trial.env.events.lock().unwrap();
        let is_it = |event: &Event| matches!(event, Event::IterationStarted { prompt_bytes, .. } if *prompt_bytes == given);
        assert!(events.iter().any(is_it), "{events:?}");
    });
}

/// Each finds what the one before it left, and one place has it at the end.
#[test]
fn its_iterations_share_their_files() {
    by_entries(&READ, &Mode::ALL, |trial| {
        let script = r#"echo line >> draft; git commit -q --allow-empty -m "$(wc -l < draft)""#;
        let mut options = trial.options(script);
        iterations(&mut options, 3);
        let done = trial.go(options);
        expect_good(&done);
        trial.expect_home(&done, &["1", "2", "3"]);
        assert!(done.uncommitted, "{done:?}");
        let places = std::fs::read_dir(trial.env.home.state()).unwrap();
        assert_eq!(places.count(), 1);
    });
}

#[test]
fn its_variables_are_there() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let script = r#"git commit -q --allow-empty -m "$ONE""#;
        let mut options = trial.options(script);
        let one = ("ONE".into(), "two".into());
        options.session.environment.extend([one]);
        let done = trial.go(options);
        expect_good(&done);
        trial.expect_home(&done, &["two"]);
    });
}

#[test]
fn its_branch_begins_where_it_was_told() {
    by_entries(&ALL, &Mode::ALL, |trial| {
        let later = ["commit", "-q", "--allow-empty", "-m", "later"];
        trial.env.git(&later);
        let strategy = BranchStrategy::Branch {
            branch: BRANCH.parse().unwrap(),
            base: Some("main~1".to_owned()),
        };
        let script = "git commit -q --allow-empty -m kept";
        let done = trial.go(trial.options_with(strategy, script));
        expect_good(&done);
        trial.expect_home(&done, &["kept"]);
        assert_eq!(trial.env.subjects(BRANCH), ["first", "kept"]);
    });
}

#[test]
fn a_template_knows_its_branches() {
    by_entries(&READ, &Mode::ALL, |trial| {
        let mut options = trial.options("cat > got; git add got; git commit -qm got");
        options.task.prompt = PromptSource::TemplateText {
            name: "t.md".into(),
            text: "S={{SOURCE_BRANCH}} T={{TARGET_BRANCH}} X={{X}}".to_owned(),
            arguments: BTreeMap::from([("X".to_owned(), "$(y) `z`".to_owned())]),
        };
        let done = trial.go(options);
        expect_good(&done);
        trial.expect_home(&done, &["got"]);
        let got = trial.env.git(&["show", "work:got"]);
        assert_eq!(got, "S=work T=main X=$(y) `z`");
    });
}

/// What it sets for all repositories of its user is its sandbox's alone.
#[test]
fn its_settings_of_git_are_its_own() {
    by_entries(&IN_SANDBOX, &Mode::ALL, |trial| {
        let global = trial.env.dir.path().join("user/.gitconfig");
        let text = "[mark]\n\tof = the-user\n";
        std::fs::write(&global, text).unwrap();
        assert_eq!(trial.env.git(&["config", "mark.of"]), "the-user");
        let script = r#"git config --global mark.of agent; git commit -q --allow-empty -m "$(git config --global mark.of)""#;
        let done = trial.go(trial.options(script));
        expect_good(&done);
        trial.expect_home(&done, &["agent"]);
        assert_eq!(std::fs::read_to_string(&global).unwrap(), text);
    });
}

/// Two on one branch would commit over each other.
#[test]
fn a_branch_on_which_another_one_works_is_refused() {
    by_entries(&MAKING, &Mode::ALL, |trial| {
        let mut first = trial.options("");
        first.session.name = Some("first".to_owned());
        block_on(async {
            let made = Session::create(&first.caller, &first.session).await;
            made.unwrap().detach();
        });
        let before = trial.env.refs();
        let script = "git commit -q --allow-empty -m never";
        let done = trial.go(trial.options(script));
        let Some(RunErrorKind::Plan(PlanError::BranchHeld { holder, .. })) = &done.error else {
            panic!("{done:?}");
        };
        assert_eq!(holder.name.as_str(), "first");
        assert!(done.exits.is_empty(), "{done:?}");
        assert_eq!(trial.env.refs(), before);
        block_on(delete(&trial.env, "first"));
    });
}

/// The user and the agent change the same line: nothing of a merge is left in the checkout, at once or when the user merges.
#[test]
fn a_conflict_leaves_no_half_merge() {
    by_entries(&MAKING, &WITH_DIRECTORY, |trial| {
        let env = &trial.env;
        let script = "echo theirs > README.md; git commit -qam theirs";
        let mut options = trial.options_with(BranchStrategy::MergeToHead, script);
        let top = env.repo.display();
        let mine = format!("cd '{top}' && echo mine > README.md && git commit -qam mine");
        options.session.hooks.host_worktree_ready = vec![Hook::new(mine)];
        let done = trial.go(options);
        expect_good(&done);
        let conflicts = |landing: &Landing| matches!(landing, Landing::Kept { why, .. } if why.contains("conflicts with"));
        if !trial.entry.stays() && trial.entry != Entry::Plan {
            assert!(done.landing.as_ref().is_some_and(conflicts), "{done:?}");
        }
        let merge = target(env, &"box").0;
        let merged = block_on(manage::merge(
            &merge,
            MergeOptions::default(),
            &|_| (),
            None,
        ));
        let merged = merged.unwrap();
        assert!(
            merged.len() == 1 && conflicts(&merged[0].landing),
            "{merged:?}"
        );
        env.assert_sound();
        let tracked = ["status", "--porcelain", "--untracked-files=no"];
        assert_eq!(env.git(&tracked), "");
        assert_eq!(env.read("README.md"), "mine\n");
        assert_eq!(env.subjects("main"), ["first", "mine"]);
        let own = done.branch.as_deref().unwrap();
        assert_eq!(trial.new_on(own), ["theirs"]);
        // The control: their own git begins the merge that was not begun for them.
        let begun = env.try_git(&env.repo, &["merge", own]);
        assert!(!begun.status.success());
        assert!(env.repo.join(".git/MERGE_HEAD").exists());
        env.git(&["merge", "--abort"]);
    });
}
