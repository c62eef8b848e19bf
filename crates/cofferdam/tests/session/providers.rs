//! Providers written outside of the library, against nothing but its public interface.

mod conversations;
mod faults;
mod others;
mod own;

use std::sync::Arc;

use cofferdam::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, Contained, CopyStrategy, ExecRequest, Handle,
    Isolated, IsolatedProvider, PrivateCopy, TerminalSize,
};
use cofferdam::session::{
    EventSink, Hook, Landing, NetworkOptions, PromptSource, RunErrorKind, Session, SessionExec,
};
use tokio::io::AsyncReadExt;

use self::own::{Apart, Fault, Own};
use crate::bad_input::{HEAD, branch, whole_ok};
use crate::support::{Env, command, run};

const WORK: &str = "git log --oneline >/dev/null && echo more >> README.md && git commit -qam work && echo '<promise>COMPLETE</promise>'";

fn agent(script: &str) -> Arc<dyn cofferdam::agent::AgentProvider> {
    command(&["/bin/sh", "-c", script])
}

fn copy_branch(name: &str) -> CopyStrategy {
    CopyStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    }
}

// covers: S2-1 S2-7 S2-13 S4-NFR1
#[test]
fn a_mounting_provider_from_outside() {
    for (strategy, moves) in [
        (HEAD, "main"),
        (BranchStrategy::MergeToHead, "main"),
        (branch("topic"), "topic"),
    ] {
        let env = Env::new();
        let own = Own::new(Fault::None);
        let diary = own.diary.clone();
        let options = env.with(BindMount::new(own, strategy), agent(WORK));
        let report = whole_ok(&env, options, &[&format!("refs/heads/{moves}")]);
        assert!(report.completion.is_some());
        assert_eq!(env.subjects(moves), ["first", "work"]);
        let diary = diary.lock().unwrap();
        assert_eq!(diary[..2], ["create in /workspace/repo", "exec /bin/sh"]);
        assert!(diary.contains(&"close".to_owned()), "{diary:?}");
    }
}

// covers: S2-1 S2-7 S2-8
#[test]
fn an_isolated_provider_from_outside() {
    for (strategy, moves) in [
        (CopyStrategy::MergeToHead, "main"),
        (copy_branch("topic"), "topic"),
    ] {
        let env = Env::new();
        env.write("run.sh", "#!/bin/sh\n");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(env.repo.join("run.sh"), executable).unwrap();
        std::os::unix::fs::symlink("README.md", env.repo.join("link")).unwrap();
        env.write(".gitignore", "ignored\n");
        env.commit_all("more");
        env.write("ignored", "but asked for\n");
        let script = format!(
            "test -x run.sh && test -L link && test \"$(cat ignored)\" = 'but asked for' && test -z \"$(git status --porcelain)\" && {WORK}"
        );
        let apart = Apart(Own::new(Fault::None));
        let mut options = env.with(Isolated::new(apart, strategy), agent(&script));
        options.session.copy = vec!["ignored".into()];
        let report = whole_ok(&env, options, &[&format!("refs/heads/{moves}")]);
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
        assert_eq!(report.commits.len(), 1);
        assert_eq!(env.subjects(moves), ["first", "more", "work"]);
        assert_eq!(
            env.git(&["show", &format!("{moves}:README.md")]),
            "hello\nmore"
        );
    }
}

#[test]
fn uncommitted_work_of_an_isolated_sandbox_is_not_lost() {
    let env = Env::new();
    for script in ["true", "git commit -qm work --allow-empty"] {
        let script = format!("{script}; echo edited > README.md; echo new > new.txt");
        let isolated = Isolated::new(Apart(Own::new(Fault::None)), CopyStrategy::MergeToHead);
        let report = whole_ok(
            &env,
            env.with(isolated, agent(&script)),
            &["refs/heads/main"],
        );
        let kept = env.git(&[
            "for-each-ref",
            "--format=%(refname)",
            &format!("refs/cofferdam/{}", report.id),
        ]);
        assert_eq!(kept.lines().count(), 1, "{kept}\n{}", env.said());
        assert_eq!(env.git(&["show", &format!("{kept}:new.txt")]), "new");
        assert_eq!(env.git(&["show", &format!("{kept}:README.md")]), "edited");
        assert!(env.said().contains(&kept), "the user is told");
        assert_eq!(env.read("README.md"), "hello\n");
    }
    assert_eq!(env.subjects("main"), ["first", "work"]);
}

/// Its work is in it alone: it is not closed, and nobody looks for its work elsewhere.
#[test]
fn an_isolated_sandbox_stays_until_its_work_is_home() {
    let env = Env::new();
    let own = Own::new(Fault::FailPack);
    let (again, diary) = (own.clone(), own.diary.clone());
    let files = own.files.clone();
    let isolated = Isolated::new(Apart(own), copy_branch("topic"));
    let failed = run(env.with(isolated, agent(WORK))).unwrap_err();
    assert!(failed.to_string().contains("the wire was cut"), "{failed}");
    let diary = diary.lock().unwrap().clone();
    assert!(!diary.contains(&"close".to_owned()), "{diary:?}");
    let id = failed.kept.id.unwrap();
    let state = env.home.sandbox(id);
    let report = crate::support::gc(&env);
    assert!(report.recovered.is_empty(), "{report:?}");
    assert!(state.join("record.json").exists(), "{report:?}");
    let told = format!("{report:?}");
    assert!(told.contains("is in the apart sandbox itself"), "{told}");
    // It lives, and its commit with it.
    assert_eq!(newest_commit(again, &Handle { id, state }), "work\n");
    assert_eq!(files.lock().unwrap().len(), 1);
}

/// Nobody can open it again: it is closed, and its user is told what that means.
#[test]
fn an_isolated_sandbox_that_cannot_stay_is_not_passed_over() {
    let env = Env::new();
    let own = Own::new(Fault::LoseWork);
    let diary = own.diary.clone();
    let isolated = Isolated::new(Apart(own), copy_branch("topic"));
    let failed = run(env.with(isolated, agent(WORK))).unwrap_err();
    assert!(failed.to_string().contains("the wire was cut"), "{failed}");
    assert!(diary.lock().unwrap().contains(&"close".to_owned()));
    let told = "what is not home is lost: a sandbox of the provider `apart` ends with the program that made it";
    assert!(env.said().contains(told), "{}", env.said());
}

/// As one says that goes on, which is then ended: whoever made it finds it by its provider.
fn newest_commit(own: Own, handle: &Handle) -> String {
    let apart = Apart(own);
    crate::support::block_on(async {
        let sandbox = apart.open(handle).await.unwrap();
        let request = ExecRequest::new(["git", "log", "-1", "--format=%s"]);
        let mut program = sandbox.exec(request).await.unwrap();
        let mut out = String::new();
        let mut stdout = program.take_stdout().unwrap();
        stdout.read_to_string(&mut out).await.unwrap();
        apart.remove(handle).await.unwrap();
        out
    })
}

/// Its user let go of the run, and of bringing its work home: that is in it all the same.
#[test]
fn an_isolated_sandbox_that_is_abandoned_stays() {
    let env = Env::new();
    let own = Own::new(Fault::None);
    let (again, diary) = (own.clone(), own.diary.clone());
    let files = own.files.clone();
    let isolated = Isolated::new(Apart(own), copy_branch("topic"));
    let script = "git commit -qm work --allow-empty; echo ready; sleep 100";
    let mut options = env.with(isolated, agent(script));
    let (cancel, abandon) = (
        options.caller.cancel.clone(),
        options.caller.abandon.clone(),
    );
    options.caller.events = EventSink::new(move |event| {
        if format!("{event:?}").contains("ready\"") {
            cancel.cancel();
            abandon.cancel();
        }
    });
    let failed = run(options).unwrap_err();
    assert!(matches!(failed.kind, RunErrorKind::Cancelled), "{failed}");
    let diary = diary.lock().unwrap().clone();
    assert!(!diary.contains(&"close".to_owned()), "{diary:?}");
    assert_eq!(failed.kept.landing, None);
    let id = failed.kept.id.unwrap();
    let state = env.home.sandbox(id);
    assert_eq!(newest_commit(again, &Handle { id, state }), "work\n");
    assert_eq!(files.lock().unwrap().len(), 1);
}

/// One that lives on outlives whoever makes it, and is collected from where its files are mounted, while its programs stand
/// still. Nothing is made of one that could not.
#[test]
fn what_cannot_live_on_is_not_made() {
    let apart = Own::new(Fault::None);
    let restless = Own::new(Fault::NoPause);
    let mortal = Own::new(Fault::NoOutlive);
    let diaries = [&apart, &restless, &mortal].map(|own| own.diary.clone());
    for (sandbox, why) in [
        (
            Contained::from(Isolated::new(Apart(apart), copy_branch("topic"))),
            "the provider `apart` cannot mount directories of the host",
        ),
        (
            BindMount::new(restless, branch("topic")).into(),
            "the provider `own` cannot stop its programs for a while",
        ),
        (
            BindMount::new(mortal, branch("topic")).into(),
            "the provider `own` cannot keep a sandbox longer than the program that made it",
        ),
    ] {
        let env = Env::new();
        let options = env.with(sandbox, agent(WORK));
        let made = Session::create(&options.caller, &options.session);
        let refused = crate::support::block_on(made).unwrap_err();
        assert_eq!(refused.to_string(), why);
        assert!(!env.refs().contains("topic"), "{}", env.refs());
        env.assert_no_state();
    }
    for diary in diaries {
        assert_eq!(*diary.lock().unwrap(), <[String; 0]>::default());
    }
}

#[test]
fn terminals_and_ports_are_asked_of_a_provider_that_has_them() {
    for (fault, refusal) in [
        (
            Fault::NoTerminal,
            Some("sandbox `one`: the provider `own` cannot give a program a terminal"),
        ),
        (Fault::None, None),
    ] {
        let env = Env::new();
        let own = Own::new(fault);
        let mut options = env
            .with(BindMount::new(own.clone(), branch("topic")), agent(WORK))
            .session;
        options.name = Some("one".to_owned());
        options.network = NetworkOptions::None;
        crate::support::block_on(async {
            let caller = crate::living::caller(&env);
            let session = Session::create(&caller, &options).await.unwrap();
            let mut exec = SessionExec::new(["true"]);
            session.exec(exec.clone()).await.unwrap();
            let started = own.diary.lock().unwrap().len();
            exec.terminal = Some(TerminalSize {
                rows: 24,
                columns: 80,
            });
            let refused = session.exec(exec).await.err();
            assert_eq!(refused.map(|why| why.to_string()).as_deref(), refusal);
            let asked = own.diary.lock().unwrap().len() > started;
            assert_eq!(asked, refusal.is_none());
            // The same for ports, which neither of these sandboxes really has.
            let refused = session.connect(80).await.unwrap_err().to_string();
            let who = refusal.map_or("this sandbox", |_| "the provider `own`");
            assert_eq!(
                refused,
                format!("sandbox `one`: {who} cannot connect to a server inside")
            );
            own.native
                .remove(&Handle {
                    id: session.id(),
                    state: env.home.sandbox(session.id()),
                })
                .await
                .unwrap();
        });
    }
}

#[test]
fn a_private_copy_of_a_mounting_provider() {
    let env = Env::new();
    let own = PrivateCopy::new(Own::new(Fault::None), CopyStrategy::MergeToHead);
    whole_ok(&env, env.with(own, agent(WORK)), &["refs/heads/main"]);
    assert_eq!(env.subjects("main"), ["first", "work"]);
    env.assert_no_state();
}

#[test]
fn a_network_that_the_provider_cannot_give_is_refused_by_name() {
    let env = Env::new();
    let apart = Apart(Own::new(Fault::None));
    let isolated = Isolated::new(apart, CopyStrategy::MergeToHead);
    let mut options = env.with(isolated, command(&["true"]));
    options.session.network = NetworkOptions::default();
    let error = run(options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "provider `apart` cannot give its sandboxes the network `allowlist`; it gives `none`"
    );
    env.assert_no_state();
}

/// What is started inside is the agent, and before it only what the template and the caller ask for.
// covers: S2-31
#[test]
fn a_step_with_nothing_to_do_starts_nothing() {
    let started = |prompt: PromptSource, hook: bool, iterations: u32| {
        let env = Env::new();
        let own = Own::new(Fault::None);
        let provider = BindMount::new(own.clone(), HEAD);
        let mut options = env.with(provider, command(&["/bin/cat"]));
        options.task.prompt = match prompt {
            PromptSource::Template { path, arguments } => {
                let text = path.to_str().unwrap();
                env.write("prompt.md", text);
                let path = env.repo.join("prompt.md");
                PromptSource::Template { path, arguments }
            }
            other => other,
        };
        if hook {
            options.session.hooks.sandbox_ready = vec![Hook::new("true")];
        }
        crate::support::iterations(&mut options, iterations);
        crate::support::run_ok(options);
        let diary = own.diary.lock().unwrap();
        let programs = diary.iter().filter_map(|line| line.strip_prefix("exec "));
        programs.map(str::to_owned).collect::<Vec<_>>()
    };
    let template = |text: &str, pairs: &[(&str, &str)]| PromptSource::Template {
        path: text.into(),
        arguments: pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    };
    let inert = ("KEY", "!`touch x` {{KEY}}");
    assert_eq!(started(PromptSource::None, false, 2), ["/bin/cat"; 2]);
    assert_eq!(
        started(PromptSource::Inline("!`date`".into()), false, 2),
        ["/bin/cat"; 2]
    );
    assert_eq!(
        started(template("plain `code` {{", &[]), false, 2),
        ["/bin/cat"; 2]
    );
    assert_eq!(
        started(template("{{KEY}}", &[inert]), false, 2),
        ["/bin/cat"; 2]
    );
    // Where there is something to do it is done, before each iteration.
    let both = ["/bin/sh", "/bin/cat", "/bin/sh", "/bin/cat"];
    assert_eq!(
        started(template("!`echo {{KEY}}`", &[inert]), false, 2),
        both
    );
    assert_eq!(
        started(PromptSource::None, true, 1),
        ["/bin/sh", "/bin/cat"]
    );
}
