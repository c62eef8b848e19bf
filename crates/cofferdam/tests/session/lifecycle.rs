//! Iterations, ends, limits, hooks and cancelling.

use std::time::{Duration, Instant};

use cofferdam::RunOptions;
use cofferdam::process::Exit;
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Event, EventSink, Hook, Landing, RunErrorKind, manage};

use crate::support::{Env, block_on, command, iterations, processes_with, run, run_ok, target};

const HEAD: BranchStrategy = BranchStrategy::Head;

// covers: S2-16
#[test]
fn iterations_share_the_sandbox_and_stop_at_the_limit() {
    let env = Env::new();
    let script =
        "echo x >> /tmp/count; git commit -qm \"work $(wc -l < /tmp/count)\" --allow-empty";
    let mut options = env.script(HEAD, script);
    iterations(&mut options, 3);
    let report = run_ok(options);
    assert_eq!(report.iterations.len(), 3);
    assert_eq!(
        env.subjects("main"),
        ["first", "work 1", "work 2", "work 3"]
    );
    assert_eq!(report.completion, None);
}

// covers: S2-17
#[test]
fn the_completion_signal_ends_the_run() {
    let env = Env::new();
    let mut options = env.script(
        HEAD,
        "git commit -qm work --allow-empty; echo '<promise>COMPLETE</promise>'",
    );
    iterations(&mut options, 5);
    let report = run_ok(options);
    assert_eq!(report.iterations.len(), 1);
    assert_eq!(
        report.completion.as_deref(),
        Some("<promise>COMPLETE</promise>")
    );
}

/// In the checkout, and in the mode of this pass.
const EACH: [BranchStrategy; 2] = [HEAD, BranchStrategy::MergeToHead];

#[test]
fn an_echoed_prompt_does_not_complete() {
    for strategy in EACH {
        let env = Env::new();
        let mut options = env.script(
            strategy,
            "cat; cat >&2 </dev/null; echo '<promise>COMPLETE</promise>' >&2",
        );
        options.task.prompt = cofferdam::session::PromptSource::Inline(
            "Do it. When nothing is left print\n<promise>COMPLETE</promise>\non a line.".into(),
        );
        iterations(&mut options, 2);
        let report = run_ok(options);
        assert_eq!(report.iterations.len(), 2);
        assert_eq!(report.completion, None);
    }
}

/// What an agent leaves running may keep its streams, and has no say once the agent has ended.
#[test]
fn a_signal_after_the_end_of_its_agent_does_not_complete() {
    let script = "
        cd /tmp
        if [ -e first ]; then
            touch second; n=0; until [ -e printed ] || [ $n = 3000 ]; do sleep 0.01; n=$((n+1)); done
            [ -e printed ] && cd - && git commit -qm printed --allow-empty; exit 0
        fi
        touch first
        (trap '' PIPE HUP; until [ -e second ]; do sleep 0.01; done; echo '<promise>COMPLETE</promise>'; touch printed) &";
    for strategy in EACH {
        let env = Env::new();
        let mut options = env.script(strategy, script);
        iterations(&mut options, 2);
        let report = run_ok(options);
        assert_eq!(env.subjects("main"), ["first", "printed"]);
        assert_eq!(report.iterations.len(), 2);
        assert_eq!(report.completion, None);
    }
}

#[test]
fn an_agent_that_hangs_after_its_signal_is_a_success() {
    let env = Env::new();
    let mut options = env.script(
        HEAD,
        "git commit -qm work --allow-empty; echo '<promise>COMPLETE</promise>'; sleep 1000",
    );
    options.task.completion_grace = Duration::from_millis(300);
    let report = run_ok(options);
    assert_eq!(report.iterations[0].exit, None);
    assert_eq!(env.subjects("main"), ["first", "work"]);
}

#[test]
fn a_failing_agent_keeps_its_commits_and_its_words() {
    let env = Env::new();
    let error = run(env.script(
        HEAD,
        "git commit -qm work --allow-empty; echo 'no credit' >&2; exit 7",
    ))
    .unwrap_err();
    assert!(
        error.to_string().contains("exit code 7") && error.to_string().contains("no credit"),
        "{error}"
    );
    assert_eq!(env.subjects("main"), ["first", "work"]);
    assert_eq!(error.kept.commits.len(), 1);
    assert_eq!(error.kept.iterations[0].exit, Some(Exit::Code(7)));
    assert!(matches!(error.kept.landing, Some(Landing::Landed { .. })));
    env.assert_no_state();
}

/// The target is moved by runs that went well.
#[test]
fn a_failed_run_moves_no_target() {
    for (code, moved) in [(7, false), (0, true)] {
        let env = Env::new();
        let script = format!("git commit -qm work --allow-empty; exit {code}");
        let done = run(env.script(BranchStrategy::MergeToHead, &script));
        assert_eq!(done.is_ok(), moved, "{done:?}");
        let main = env.subjects("main");
        assert_eq!(main.contains(&"work".to_owned()), moved, "{main:?}");
        if let Err(error) = done {
            // Its commits have a name.
            let Some(Landing::Kept { reference, .. }) = &error.kept.landing else {
                panic!("{:?}", error.kept);
            };
            assert_eq!(env.subjects(reference), ["first", "work"]);
        }
    }
}

/// Nor by one that its user stopped, although all of its work is home.
#[test]
fn a_cancelled_run_moves_no_target() {
    let env = Env::new();
    let script = "git commit -qm work --allow-empty; echo ready; sleep 100";
    let mut options = env.script(BranchStrategy::MergeToHead, script);
    let cancel = options.caller.cancel.clone();
    options.caller.events = EventSink::new(move |event| {
        if format!("{event:?}").contains("ready\"") {
            cancel.cancel();
        }
    });
    let error = run(options).unwrap_err();
    assert!(matches!(error.kind, RunErrorKind::Cancelled), "{error}");
    assert_eq!(env.subjects("main"), ["first"]);
    let Some(Landing::Kept { reference, .. }) = &error.kept.landing else {
        panic!("{:?}", error.kept);
    };
    assert_eq!(env.subjects(reference), ["first", "work"]);
}

#[test]
fn a_signal_killed_agent_is_a_failure() {
    let env = Env::new();
    let error = run(env.script(HEAD, "kill -9 $$")).unwrap_err();
    assert!(error.to_string().contains("signal 9"), "{error}");
}

#[test]
fn a_missing_program_is_a_clear_error_at_once_whatever_the_prompt() {
    for size in [10, 1 << 20] {
        let env = Env::new();
        let mut options = env.options(HEAD, command(&["no-such-agent"]));
        // A hook might have installed it: only its start tells.
        options.session.hooks.sandbox_ready = vec![Hook::new("true")];
        options.task.prompt = cofferdam::session::PromptSource::Inline("x".repeat(size));
        let began = Instant::now();
        let error = run(options).unwrap_err();
        assert!(error.to_string().contains("no-such-agent"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
        env.assert_no_state();
    }
}

#[test]
fn an_agent_that_does_not_read_its_prompt_is_fine() {
    let env = Env::new();
    let mut options = env.script(HEAD, "exec true");
    options.task.prompt = cofferdam::session::PromptSource::Inline("x".repeat(4 << 20));
    run_ok(options);
}

#[test]
fn silence_ends_the_agent_and_any_output_resets_the_clock() {
    let env = Env::new();
    let mut options = env.script(HEAD, "git commit -qm work --allow-empty; for i in 1 2 3 4 5 6; do printf .; sleep 0.5; done; sleep 60");
    // Longer than a pause, shorter than all of them: also on a busy machine.
    options.task.idle_timeout = Duration::from_millis(2500);
    let began = Instant::now();
    let error = run(options).unwrap_err();
    assert!(error.to_string().contains("printed nothing"), "{error}");
    assert!(
        began.elapsed() > Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(env.subjects("main"), ["first", "work"]);
}

#[test]
fn cancelling_ends_the_whole_tree_and_collects() {
    let env = Env::new();
    // Its end is a success: a cancel that does not reach it is noticed soon.
    let mark = format!("20.4242{}", std::process::id());
    let script = format!(
        "trap '' TERM; git commit -qm work --allow-empty; (setsid sleep {mark} &) ; setsid sh -c 'trap \"\" TERM; sleep {mark}' & echo ready; sleep {mark}"
    );
    let mut options = env.script(HEAD, &script);
    let cancel = options.caller.cancel.clone();
    let seen = env.events.clone();
    let (stop, mark2) = (cancel.clone(), mark.clone());
    let watcher = std::thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if seen
                .lock()
                .unwrap()
                .iter()
                .any(|event| format!("{event:?}").contains("ready\""))
            {
                let alive = processes_with(&mark2).len();
                stop.cancel();
                return alive;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        0
    });
    options.session.name = Some("stopped".into());
    let error = run(options).unwrap_err();
    assert!(watcher.join().unwrap() > 0);
    assert!(matches!(error.kind, RunErrorKind::Cancelled), "{error}");
    assert_eq!(env.subjects("main"), ["first", "work"]);
    assert_eq!(error.kept.commits.len(), 1);
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    env.assert_no_state();
}

#[test]
fn a_daemon_that_double_forks_dies_with_the_run() {
    let env = Env::new();
    let mark = format!("4343.{}", std::process::id());
    let script = format!(
        "(setsid sh -c 'sleep {mark} & exec >/dev/null 2>&1; sleep {mark}' &) ; sleep 0.2; git commit -qm work --allow-empty"
    );
    run_ok(env.script(HEAD, &script));
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    assert_eq!(env.subjects("main"), ["first", "work"]);
}

// covers: S2-20 S2-21
#[test]
fn hooks_run_in_order_and_in_their_place() {
    let env = Env::new();
    env.write("copied.txt", "c\n");
    let log = env.dir.path().join("order");
    let mut options = env.in_a_directory(
        BranchStrategy::MergeToHead,
        "test -e hooked && test -e /tmp/inside",
    );
    options.session.copy = vec!["copied.txt".into()];
    let log_text = log.display().to_string();
    options.session.hooks.host_worktree_ready = vec![
        Hook::new(format!("test -e copied.txt && echo 1 >> '{log_text}'")),
        Hook::new(format!("echo 2 >> '{log_text}'; touch hooked")),
    ];
    options.session.hooks.host_sandbox_ready = vec![Hook::new(format!("echo 3 >> '{log_text}'"))];
    options.session.hooks.sandbox_ready = vec![Hook::new("test -e hooked && touch /tmp/inside")];
    run_ok(options);
    assert_eq!(std::fs::read_to_string(log).unwrap(), "1\n2\n3\n");

    // What was told, in the order in which it happened.
    let events = env.events.lock().unwrap();
    let at = |what: &dyn Fn(&Event) -> bool| events.iter().position(what).unwrap();
    let step =
        |name: &'static str| at(&|event| matches!(event, Event::Step { step } if *step == name));
    let hook = |wanted: &str, begins: bool| {
        at(&|event| match event {
            Event::HookStarted { command, .. } => begins && command.contains(wanted),
            Event::HookFinished { command, .. } => !begins && command.contains(wanted),
            _ => false,
        })
    };
    let up = at(&|event| matches!(event, Event::SandboxReady { .. }));
    let order = [
        step("copies"),
        hook("echo 1", true),
        hook("echo 1", false),
        hook("echo 2", true),
        hook("echo 2", false),
        step("sandbox"),
        up,
    ];
    assert!(order.is_sorted(), "{order:?}");
    let first = at(&|event| matches!(event, Event::IterationStarted { .. }));
    for ready in ["echo 3", "touch /tmp/inside"] {
        assert!(
            up < hook(ready, true) && hook(ready, false) < first,
            "{ready}"
        );
    }
}

/// Each waits for what the other one does: one after the other they would wait for ever.
// covers: S2-20
#[test]
fn ready_hooks_run_side_by_side() {
    let env = Env::new();
    let mut options = env.in_a_directory(BranchStrategy::MergeToHead, "rm met-*");
    let meet = |mine: &str, other: &str| {
        let mut hook = Hook::new(format!(
            "touch met-{mine}; until test -e met-{other}; do sleep 0.01; done"
        ));
        hook.timeout = Duration::from_secs(30);
        vec![hook]
    };
    options.session.hooks.host_sandbox_ready = meet("host", "inside");
    options.session.hooks.sandbox_ready = meet("inside", "host");
    run_ok(options);
}

#[test]
fn failing_and_hanging_hooks_fail_the_run() {
    let set: [fn(&mut cofferdam::session::Hooks, Hook); 3] = [
        |hooks, hook| hooks.host_worktree_ready = vec![hook],
        |hooks, hook| hooks.host_sandbox_ready = vec![hook],
        |hooks, hook| hooks.sandbox_ready = vec![hook],
    ];
    for put in set {
        for (command, words) in [
            ("echo why >&2; exit 3", "exit code 3"),
            ("sleep 1000", "did not finish"),
        ] {
            let env = Env::new();
            let mut options = env.in_a_directory(
                BranchStrategy::MergeToHead,
                "git commit -qm never --allow-empty",
            );
            let mut hook = Hook::new(command);
            if command.starts_with("sleep") {
                hook.timeout = Duration::from_millis(300);
            }
            put(&mut options.session.hooks, hook);
            let error = run(options).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(env.subjects("main"), ["first"]);
            assert_eq!(env.refs().lines().count(), 1);
            env.assert_no_state();
        }
    }
}

// covers: S2-19
#[test]
fn the_environment_is_what_was_listed() {
    let env = Env::new();
    env.write(".git/info/exclude", "/.cofferdam/\n");
    env.write(".cofferdam/.env", "LISTED=from file\nEMPTY=\n# no\n");
    let mut options = env.script(
        HEAD,
        "test \"$LISTED\" = 'from file' && test \"$EMPTY\" = caller && test -z \"$SECRET\" && test \"$GIVEN\" = g && test -z \"$(cat .cofferdam/.env 2>/dev/null)\"",
    );
    options
        .caller
        .environment
        .insert("EMPTY".into(), "caller".into());
    options
        .caller
        .environment
        .insert("SECRET".into(), "s".into());
    options
        .session
        .environment
        .insert("GIVEN".into(), "g".into());
    run_ok(options);
}

/// Invariant 4: a repository cannot ask for the caller's variables by itself.
#[test]
fn a_file_of_the_repository_names_nothing_of_the_callers_environment() {
    let file = "APP_LITERAL=from file\nAWS_SECRET_ACCESS_KEY=\nGIVEN=\n";
    let makes: [fn(&Env, &str); 4] = [
        |env, file| env.write(".cofferdam/.env", file),
        // Behind links that the repository made, in either place.
        |env, file| {
            env.write("names", file);
            std::fs::create_dir(env.repo.join(".cofferdam")).unwrap();
            std::os::unix::fs::symlink("../names", env.repo.join(".cofferdam/.env")).unwrap();
        },
        |env, file| {
            env.write("config/.env", file);
            std::os::unix::fs::symlink("config", env.repo.join(".cofferdam")).unwrap();
        },
        |env, file| {
            env.write(".gitignore", ".cofferdam/\n");
            env.write(".cofferdam/.env", file);
            env.git(&["add", "-f", ".cofferdam/.env"]);
        },
    ];
    for make in makes {
        let env = Env::new();
        make(&env, file);
        env.commit_all("env");
        let mut options = env.script(
            BranchStrategy::Head,
            "test \"$APP_LITERAL\" = 'from file' && test \"$GIVEN\" = g && test -z \"$AWS_SECRET_ACCESS_KEY\"",
        );
        let caller = &mut options.caller.environment;
        caller.insert("AWS_SECRET_ACCESS_KEY".into(), "secret".into());
        caller.insert("GIVEN".into(), "caller's".into());
        options
            .session
            .environment
            .insert("GIVEN".into(), "g".into());
        match run(options) {
            Ok(_) => {
                let said = env.said();
                assert!(
                    said.contains(r#"EnvironmentWithheld { names: ["AWS_SECRET_ACCESS_KEY"] }"#),
                    "{said}"
                );
            }
            // A `.cofferdam` that is a link is refused altogether.
            Err(error) => assert!(error.to_string().contains(".cofferdam"), "{error}"),
        }
    }
}

// covers: S2-37 S2-39
#[test]
fn the_run_log_has_the_story_without_control_bytes_and_a_broken_sink_is_harmless() {
    let env = Env::new();
    let mut options = env.script(
        HEAD,
        "printf 'visible \\033[31mred\\007\\n'; echo problem >&2",
    );
    // What a caller of the library has who says nothing about it.
    let agent = options.task.agent.clone();
    let said_nothing = RunOptions::new(
        env.home.clone(),
        &env.repo,
        agent,
        options.session.sandbox.clone(),
    );
    options.task.log = said_nothing.task.log;
    options.caller.events = cofferdam::session::EventSink::new(|_| panic!("broken forwarder"));
    let report = run_ok(options);
    let path = report.log.unwrap();
    let place = env
        .repo
        .canonicalize()
        .unwrap()
        .join(".cofferdam/logs/main.log");
    assert_eq!(path, place);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\n[stderr] problem")
            && text.contains("\niteration 1/1")
            && text.contains("visible")
            && text.contains("problem")
            && text.contains("--- Run started"),
        "{text}"
    );
    assert!(
        !text
            .bytes()
            .any(|byte| byte < 0x20 && byte != b'\n' && byte != b'\t')
    );
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

/// A run on branch `feature` that dies after its agent has committed. Its future is dropped: nobody
/// collects or disposes, as after `kill -9`.
fn dead_run(env: &Env) {
    let script = "git commit -qm work --allow-empty; echo committed; sleep 1000";
    let strategy = BranchStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let mut options = env.script(strategy, script);
    options.session.name = Some("one".into());
    let committed = async {
        while !env.said().contains("committed\"") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::select! {
            ended = cofferdam::run(options) => panic!("{ended:?}"),
            () = committed => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("{}", env.said()),
        }
    });
    drop(runtime);
    // Where the branch is made with the sandbox, nothing has landed on it.
    let all = env.git(&["log", "--all", "--format=%s"]);
    assert_eq!(all, "first");
}

#[test]
fn gc_takes_the_same_way_home_as_a_run() {
    let env = Env::new();
    dead_run(&env);
    let target = target(&env, &"one").0;
    let report = block_on(manage::gc(
        &target.home,
        &target.git,
        Some(&target.repository),
        None,
        cofferdam::session::manage::GcOptions::default(),
        &|_| (),
        &target.cancel,
    ))
    .unwrap();
    assert_eq!(report.recovered.len(), 1, "{report:?}");
    assert_eq!(report.recovered[0].commits, 1);
    assert_eq!(report.problems, []);
    assert_eq!(env.subjects("feature"), ["first", "work"]);
    env.assert_sound();
}

#[test]
fn what_is_deleted_comes_home_first_and_stays_in_the_trash() {
    let env = Env::new();
    dead_run(&env);
    let options = manage::DeleteOptions::default();
    let deleted = block_on(manage::delete(&target(&env, &"one").0, options)).unwrap();
    assert_eq!(deleted.trash, ["refs/cofferdam/trash/one"]);
    assert_eq!(env.subjects("refs/cofferdam/trash/one"), ["first", "work"]);
    assert_eq!(env.git(&["branch", "--list", "feature"]), "");
    env.assert_no_state();
    env.assert_sound();
}

/// Whoever finds the worktree of a run that was killed must find whose it is.
#[test]
fn the_record_names_the_worktree_before_it_is_used() {
    let env = Env::new();
    let found = env.dir.path().join("found");
    let mut options = env.bind(BranchStrategy::MergeToHead, "true");
    options.session.hooks.host_worktree_ready = vec![Hook::new(format!(
        "cat '{}'/*/record.json > '{}'; (echo; pwd) >> '{}'",
        env.home.state().display(),
        found.display(),
        found.display()
    ))];
    run_ok(options);
    let found = std::fs::read_to_string(found).unwrap();
    let (record, worktree) = found.trim_end().rsplit_once('\n').unwrap();
    assert!(worktree.contains("/.cofferdam/worktrees/"), "{worktree}");
    assert!(record.contains(worktree), "{worktree} is not in {record}");
}
