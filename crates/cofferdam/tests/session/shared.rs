//! The checkout that an agent shares with its user: nothing in it may reach further than the checkout, and
//! nothing that an agent leaves there may run as the user.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cofferdam::RunOptions;
use cofferdam::git::RepositoryError;
use cofferdam::registry;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::manage;
use cofferdam::session::{PlanError, RunErrorKind};
use tokio_util::sync::CancellationToken;

use crate::support::{Env, host_git, run, run_ok, target};

/// Runs until `path` is there, then `look`s, and drops the run where it is, as a death would.
fn while_it_works(options: RunOptions, path: &Path, look: impl AsyncFnOnce()) {
    let home = options.caller.home.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let there = async {
            let began = Instant::now();
            while !path.exists() {
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "{} is missing",
                    path.display()
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut run = Box::pin(cofferdam::run(options));
        tokio::select! {
            done = &mut run => panic!("it ended early: {done:?}"),
            () = there => {}
        }
        tokio::select! {
            done = &mut run => panic!("it ended early: {done:?}"),
            () = look() => {}
        }
        drop(run);
        // A program that another test is just starting holds all that is open until it runs.
        let began = Instant::now();
        while registry::list(&home, None)
            .unwrap()
            .entries
            .iter()
            .any(|entry| entry.in_use)
        {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "somebody holds the lock"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Names of the sandboxes of the repository that is found from `directory`.
async fn listed(env: &Env, directory: &Path) -> Result<Vec<String>, manage::ManageError> {
    let user = env.dir.path().join("user");
    let cancel = CancellationToken::new();
    let found = manage::list(
        &env.home,
        &host_git(),
        Some(directory),
        Some(&user),
        &cancel,
    )
    .await?;
    Ok(found.into_iter().map(|one| one.name.to_string()).collect())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An agent's repository that names nothing, so that no watch moves it out.
const MAKES_A_REPOSITORY: &str = "git init -q sub && cd sub && \
    git -c user.name=A -c user.email=a@x commit -q --allow-empty -m x && \
    mkdir .cofferdam && echo STOLEN=value > .cofferdam/.env";

#[test]
fn an_agents_repository_is_never_found() {
    let env = Env::new();
    let private = env.dir.path().join("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::write(private.join("secret.txt"), "the secret").unwrap();
    env.git(&["init", "-q", "own"]);
    env.git(&[
        "-C",
        "own",
        "-c",
        "user.name=U",
        "-c",
        "user.email=u@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    let script = format!("({MAKES_A_REPOSITORY}) || exit 9; touch ready; sleep 1000");
    let mut options = env.script(BranchStrategy::Head, &script);
    options.session.name = Some("worker".into());
    let again = |place: &str| {
        let mut options = env.script(BranchStrategy::Head, "ls; env");
        options.session.repository = env.repo.join(place);
        options
    };
    let refused = |error: &RunErrorKind, alive: bool| match error {
        RunErrorKind::Repository(RepositoryError::AgentsOwn {
            sandbox, in_use, ..
        }) => sandbox.as_str() == "worker" && *in_use == alive,
        _ => false,
    };
    while_it_works(options, &env.repo.join("ready"), async || {
        let error = cofferdam::run(again("sub")).await.unwrap_err();
        assert!(refused(&error.kind, true), "{error}");
        assert!(listed(&env, &env.repo.join("sub")).await.is_err());
        // The controls: further up, beside it, and in a repository of the user's own, all goes on.
        assert_eq!(listed(&env, &env.repo).await.unwrap(), ["worker"]);
        assert_eq!(
            listed(&env, &env.repo.join("src")).await.unwrap(),
            ["worker"]
        );
        assert!(
            listed(&env, &env.repo.join("own"))
                .await
                .unwrap()
                .is_empty()
        );
        assert!(listed(&env, &private).await.is_err());
    });
    // As an agent would at the last moment: the checkout is another project of the user's.
    let elsewhere = private.to_str().unwrap();
    env.git(&["-C", "sub", "config", "core.worktree", elsewhere]);
    let error = run(again("sub")).unwrap_err();
    assert!(refused(&error.kind, false), "{error}");
    // A run in the checkout finishes the dead one first.
    run_ok(env.script(BranchStrategy::Head, "test ! -e sub/.git"));
    assert!(
        env.said()
            .contains("sandbox `worker`, whose command had died here, was finished first"),
        "{}",
        env.said()
    );
    assert!(!env.repo.join("sub/.git").exists());
    run_ok(again("sub"));
    assert!(
        !env.said().contains("secret.txt") && !env.said().contains("STOLEN"),
        "{}",
        env.said()
    );
}

#[test]
fn a_checkout_that_is_elsewhere_is_refused() {
    let env = Env::new();
    let private = env.dir.path().join("private");
    std::fs::create_dir(&private).unwrap();
    run_ok(env.script(BranchStrategy::Head, "true"));
    env.git(&["config", "core.worktree", private.to_str().unwrap()]);
    let error = run(env.script(BranchStrategy::Head, "true")).unwrap_err();
    assert!(
        matches!(
            error.kind,
            RunErrorKind::Repository(RepositoryError::Elsewhere { .. })
        ),
        "{error}"
    );
}

#[test]
fn what_a_dead_run_left_is_not_the_users() {
    let env = Env::new();
    let options = env.script(
        BranchStrategy::Head,
        "git init -q sub; touch ready; sleep 1000",
    );
    while_it_works(options, &env.repo.join("ready"), async || {});
    assert!(env.repo.join("sub/.git").exists());
    run_ok(env.script(
        BranchStrategy::Head,
        "git commit -q --allow-empty -m second",
    ));
    assert!(!env.repo.join("sub/.git").exists());
    assert_eq!(env.subjects("main"), ["first", "second"]);
    // The control: the user's own stays.
    env.git(&["init", "-q", "own"]);
    run_ok(env.script(BranchStrategy::Head, "true"));
    assert!(env.repo.join("own/.git").exists());
}

/// Git would write through whatever the agent there puts in the place of a directory.
#[test]
fn nothing_lands_around_a_checkout_in_which_an_agent_works() {
    let env = Env::new();
    env.git(&["init", "-q", "pkg"]);
    for (key, value) in [("user.name", "U"), ("user.email", "u@x")] {
        env.git(&["-C", "pkg", "config", key, value]);
    }
    env.git(&["-C", "pkg", "commit", "-q", "--allow-empty", "-m", "inner"]);
    let strategy = CopyStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let mut options = env.layered(strategy, "echo x > new; git add new; git commit -qm work");
    options.session.name = Some("one".into());
    run_ok(options);
    let mut inner = env.script(BranchStrategy::Head, "touch ready; sleep 1000");
    inner.session.repository = env.repo.join("pkg");
    let target = target(&env, &"one").0;
    while_it_works(inner, &env.repo.join("pkg/ready"), async || {
        let merged = manage::merge(&target, manage::MergeOptions::default(), &|_| (), None)
            .await
            .unwrap();
        let cofferdam::session::Landing::Kept { why, .. } = &merged[0].landing else {
            panic!("{merged:?}");
        };
        assert!(why.ends_with("/repo/pkg"), "{why}");
        assert!(!env.repo.join("new").exists());
    });
}

#[test]
fn a_merge_finishes_a_dead_run_of_the_checkout_first() {
    let env = Env::new();
    let strategy = CopyStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let mut options = env.layered(strategy, "echo x > new; git add new; git commit -qm work");
    options.session.name = Some("one".into());
    run_ok(options);
    let dead = || {
        let script = "git init -q sm && touch ready && sleep 1000";
        let options = env.script(BranchStrategy::Head, script);
        while_it_works(options, &env.repo.join("ready"), async || {});
        std::fs::remove_file(env.repo.join("ready")).unwrap();
        assert!(env.repo.join("sm/.git/HEAD").exists());
    };
    dead();
    let target = target(&env, &"one").0;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let merged = runtime
        .block_on(manage::merge(
            &target,
            manage::MergeOptions::default(),
            &|_| (),
            None,
        ))
        .unwrap();
    assert!(
        matches!(
            merged[0].landing,
            cofferdam::session::Landing::Landed { .. }
        ),
        "{merged:?}"
    );
    assert!(!env.repo.join("sm/.git").exists());
    // So does a run whose commits are to land there.
    dead();
    let work = "echo y > newer; git add newer; git commit -qm more";
    let report = run_ok(env.layered(CopyStrategy::MergeToHead, work));
    assert!(
        matches!(report.landing, cofferdam::session::Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert!(!env.repo.join("sm/.git").exists());
}

#[test]
fn files_with_names_outside_are_not_written() {
    let env = Env::new();
    let store = env.dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let link = |name: &str| {
        let place = store.join(name.replace('/', "-"));
        std::fs::write(&place, "theirs").unwrap();
        env.write(name, "");
        std::fs::remove_file(env.repo.join(name)).unwrap();
        std::fs::hard_link(&place, env.repo.join(name)).unwrap();
        place
    };
    let one = link("src/linked.txt");
    env.write("within", "ours");
    std::fs::hard_link(env.repo.join("within"), env.repo.join("src/within")).unwrap();
    let script = "echo bad > src/linked.txt; mv src moved; echo bad > moved/linked.txt; \
        ln moved/linked.txt new && echo bad > new; rm -f moved/linked.txt; mv moved src; \
        echo good > src/within && echo good > src/other";
    run_ok(env.script(BranchStrategy::Head, script));
    assert_eq!(std::fs::read_to_string(&one).unwrap(), "theirs");
    assert_eq!(env.read("src/linked.txt"), "theirs");
    // The controls: a file whose names are all in the checkout, and one without another name.
    assert_eq!(env.read("within"), "good\n");
    assert_eq!(env.read("src/other"), "good\n");
    assert!(
        env.said().contains("a file there is also in another place"),
        "{}",
        env.said()
    );

    // A store of packages: too many for a mount each.
    let all: Vec<_> = (0..100)
        .map(|number| link(&format!("node_modules/p/{number}")))
        .collect();
    let script = "for file in node_modules/p/*; do echo bad > $file; done; echo x > node_modules/p/new; \
        mkdir node_modules/q && echo good > node_modules/q/new";
    run_ok(env.script(BranchStrategy::Head, script));
    for place in all {
        assert_eq!(std::fs::read_to_string(place).unwrap(), "theirs");
    }
    assert!(!env.repo.join("node_modules/p/new").exists());
    assert!(env.repo.join("node_modules/q/new").exists());
    assert!(
        env.said().contains("src/linked.txt") && env.said().contains("node_modules/p"),
        "{}",
        env.said()
    );

    // A checkout made of links.
    for number in 0..65 {
        link(&format!("d{number:02}/file"));
    }
    let error = run(env.script(BranchStrategy::Head, "true")).unwrap_err();
    assert!(
        matches!(
            error.kind,
            RunErrorKind::Plan(PlanError::ManyLinks { count: 166, .. })
        ),
        "{error}"
    );
    env.assert_no_state();
    run_ok(env.layered(CopyStrategy::MergeToHead, "true"));
}

/// Writes through a shared mapping, which leaves a set-user-id bit where it is.
const MAPS: &str = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\nm[0:3]=b'bad'\nm.flush()\n";

#[test]
fn set_user_id_files_are_not_written() {
    let env = Env::new();
    for (name, mode) in [("suid", 0o4755), ("sgid", 0o2755), ("plain", 0o755)] {
        env.write(name, "good");
        set_mode(&env.repo.join(name), mode);
    }
    env.write("map.py", MAPS);
    let script = "for name in suid sgid plain; do python3 map.py $name; done; true";
    run_ok(env.script(BranchStrategy::Head, script));
    assert_eq!(env.read("suid"), "good");
    assert_eq!(env.read("sgid"), "good");
    assert_eq!(mode(&env.repo.join("suid")), 0o4755);
    // The control: it would have worked.
    assert_eq!(env.read("plain"), "badd");
    assert!(
        env.said()
            .contains("run with rights of their owner's: sgid, suid"),
        "{}",
        env.said()
    );
}

#[test]
fn pipes_in_the_checkout_lead_nowhere() {
    let env = Env::new();
    for name in ["pipe", "src/pipe"] {
        assert!(
            Command::new("mkfifo")
                .arg(env.repo.join(name))
                .status()
                .unwrap()
                .success()
        );
    }
    let read = |name: &str| {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::open(env.repo.join(name), flags, rustix::fs::Mode::empty()).unwrap()
    };
    let open = [read("pipe"), read("src/pipe")];
    // Inside nobody may wait for a reader, so the pipes that the host reads are written without.
    let script = "import os,sys\nfor name in sys.argv[1:]:\n try:\n  os.write(os.open(name,os.O_WRONLY|os.O_NONBLOCK),b'bad')\n \
        except OSError: pass\n";
    env.write("w.py", script);
    let host = Command::new("python3")
        .args(["w.py", "pipe"])
        .current_dir(&env.repo)
        .status();
    assert!(host.unwrap().success());
    let mut bytes = [0; 8];
    assert_eq!(
        rustix::io::read(&open[0], &mut bytes).unwrap(),
        3,
        "the control"
    );
    run_ok(env.script(
        BranchStrategy::Head,
        "python3 w.py pipe src/pipe; mkfifo mine; test -p mine; rm mine",
    ));
    for pipe in &open {
        // At its end: nobody has it open for writing, and nothing was written.
        assert_eq!(rustix::io::read(pipe, &mut bytes).unwrap(), 0);
    }
    assert!(env.repo.join("pipe").exists());
}

#[test]
fn what_the_users_git_runs_is_not_written() {
    let env = Env::new();
    env.write("tools/clean", "#!/bin/sh\ncat\n");
    set_mode(&env.repo.join("tools/clean"), 0o755);
    env.write(".gitconfig", "[alias]\n\tok = status\n");
    env.write("more.inc", "");
    env.commit_all("tools");
    env.git(&["config", "core.hooksPath", "dev/hooks"]);
    env.git(&["config", "include.path", "../.gitconfig"]);
    env.git(&["config", "filter.x.clean", "./tools/clean %f"]);
    env.git(&["config", "alias.safe", "log --oneline"]);
    env.git(&[
        "config",
        "includeIf.gitdir:/nowhere/.path",
        "../missing.inc",
    ]);
    let script = "mkdir -p dev/hooks; printf '#!/bin/sh\\ntouch ../ran\\n' > dev/hooks/pre-commit; chmod +x dev/hooks/pre-commit; \
        mv dev old; mkdir -p dev/hooks; printf '#!/bin/sh\\ntouch ../ran\\n' > dev/hooks/pre-commit; chmod +x dev/hooks/pre-commit; \
        printf '[core]\\n\\tfsmonitor = touch ../ran\\n' >> .gitconfig; rm -f .gitconfig; \
        echo 'touch ../ran' >> tools/clean; mv tools old2; \
        echo good >> README.md; echo good > tools/other";
    run_ok(env.script(BranchStrategy::Head, script));
    env.git(&["add", "-A"]);
    env.git(&["commit", "-q", "--allow-empty", "-m", "user"]);
    assert!(!env.dir.path().join("ran").exists());
    assert_eq!(env.read("tools/clean"), "#!/bin/sh\ncat\n");
    assert_eq!(env.read(".gitconfig"), "[alias]\n\tok = status\n");
    // The controls: beside them all is the agent's, and what was made for the time is gone.
    assert_eq!(env.read("README.md"), "hello\ngood\n");
    assert_eq!(env.read("tools/other"), "good\n");
    assert!(!env.repo.join("dev").exists());
    assert!(
        env.said()
            .contains("your git configuration names what is not there yet")
            && env.said().contains("missing.inc"),
        "{}",
        env.said()
    );
}

/// A directory of hooks that nobody named is none: nothing is made for it, neither in the checkout nor in a worktree. One
/// that is there is read-only all the same.
// covers: S3-60
#[test]
fn no_directory_is_made_that_the_users_git_does_not_name() {
    let env = Env::new();
    for strategy in [BranchStrategy::Head, BranchStrategy::MergeToHead] {
        let looks =
            "test ! -e .husky && test ! -e .githooks || exit 9; git commit -q --allow-empty -m x";
        run_ok(env.bind(strategy, looks));
        assert!(env.repo.join(".husky").symlink_metadata().is_err());
        assert_eq!(env.git(&["status", "--porcelain"]), "");
    }
    env.write(".husky/pre-commit", "#!/bin/sh\n");
    env.commit_all("husky");
    for strategy in [BranchStrategy::Head, BranchStrategy::MergeToHead] {
        let tries = "touch .husky/x && exit 9; echo x >> .husky/pre-commit && exit 8; mv .husky y && exit 7; \
            git commit -q --allow-empty -m y";
        run_ok(env.bind(strategy, tries));
        assert_eq!(env.read(".husky/pre-commit"), "#!/bin/sh\n");
    }
}

/// One that the user's git will look into is made for the sandbox's time, or an agent could put hooks there. It is
/// gone at the end, also where the command died.
#[test]
fn a_directory_of_hooks_that_is_named_is_there_for_the_sandboxs_time_alone() {
    let tries = "touch .husky/_/x && exit 9; touch .husky/x && exit 8; mkdir -p .husky/_ || exit 7; touch free";
    let env = Env::new();
    env.git(&["config", "core.hooksPath", ".husky/_"]);
    env.write(".gitignore", "free\nready\n");
    env.commit_all("ignore");
    run_ok(env.script(BranchStrategy::Head, tries));
    assert!(env.repo.join("free").exists());
    let gone = || {
        assert!(env.repo.join(".husky").symlink_metadata().is_err());
        assert_eq!(env.git(&["status", "--porcelain"]), "");
    };
    gone();
    let script = format!("({tries}) || exit 6; touch ready; sleep 1000");
    let options = env.script(BranchStrategy::Head, &script);
    while_it_works(options, &env.repo.join("ready"), async || {
        assert!(env.repo.join(".husky/_").is_dir());
    });
    crate::support::gc(&env);
    gone();
}

/// Whoever ends first does not take the cover from under the other one; whoever ends last clears up.
#[test]
fn two_agents_in_one_checkout_have_their_hooks_directory_in_common() {
    let env = Env::new();
    env.git(&["config", "core.hooksPath", "dev/hooks"]);
    let plants = "mkdir -p dev/hooks; printf '#!/bin/sh\\ntouch ../ran\\n' > dev/hooks/pre-commit && chmod +x dev/hooks/pre-commit && exit 9; ";
    let first = env.script(
        BranchStrategy::Head,
        "touch one; until [ -e two ]; do sleep 0.01; done",
    );
    let second = env.script(
        BranchStrategy::Head,
        &format!("until [ -e one ]; do sleep 0.01; done; touch two; until [ -e over ]; do sleep 0.01; done; {plants} touch tried"),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = async {
            let done = cofferdam::run(first).await.map(|_| ());
            env.write("over", "");
            done
        };
        let (first, second) = tokio::join!(first, Box::pin(cofferdam::run(second)));
        first.unwrap();
        second.unwrap();
    });
    assert!(env.repo.join("tried").exists());
    assert!(!env.repo.join("dev").exists());
    env.git(&["commit", "-q", "--allow-empty", "-m", "user"]);
    assert!(!env.dir.path().join("ran").exists());
}

#[test]
fn what_runs_by_itself_is_told_without_a_commit() {
    let env = Env::new();
    env.write(".vscode/tasks.json", "{}");
    env.write("Makefile", "all:\n");
    env.commit_all("tasks");
    run_ok(env.script(BranchStrategy::Head, "echo x > notes.txt"));
    assert!(!env.said().contains("able to run when"), "{}", env.said());
    let script = "echo x > .envrc; echo '{ }' > .vscode/tasks.json; echo 'x:' > Makefile; echo x > src/b.txt; \
        git commit -qm make Makefile";
    run_ok(env.script(BranchStrategy::Head, script));
    let said = env.said();
    let told = said
        .lines()
        .find(|line| line.contains("able to run when"))
        .unwrap();
    assert!(
        told.contains(".envrc, .vscode/tasks.json\"") && !told.contains("Makefile"),
        "{told}"
    );
}

#[test]
fn rights_of_others_do_not_stay() {
    let env = Env::new();
    env.write("key", "secret");
    set_mode(&env.repo.join("key"), 0o600);
    std::fs::create_dir(env.repo.join("closed")).unwrap();
    set_mode(&env.repo.join("closed"), 0o700);
    std::fs::create_dir(env.repo.join("open")).unwrap();
    set_mode(&env.repo.join("open"), 0o777);
    for name in ["src", "src/a.txt", "README.md"] {
        set_mode(
            &env.repo.join(name),
            if name == "src" { 0o755 } else { 0o644 },
        );
    }
    for name in ["usual", "usual/too"] {
        std::fs::create_dir(env.repo.join(name)).unwrap();
        set_mode(&env.repo.join(name), 0o755);
        let file = env.repo.join(name).join("file");
        std::fs::write(&file, "x").unwrap();
        set_mode(&file, 0o644);
    }
    set_mode(&env.repo, 0o750);
    let script = "chmod 777 . src closed; chmod 666 key README.md; umask 0; mkdir new; echo x > new/file; \
        chmod +x src/a.txt; test $(stat -c %a README.md) = 666";
    run_ok(env.script(BranchStrategy::Head, script));
    for (name, want) in [
        ("", 0o750),
        ("src", 0o755),
        ("closed", 0o700),
        ("key", 0o600),
        ("README.md", 0o644),
        ("new", 0o755),
        ("new/file", 0o644),
        // The controls: what was open stays so, and what git knows of is the agent's.
        ("open", 0o777),
        ("src/a.txt", 0o755),
    ] {
        let path = env.repo.join(name);
        assert_eq!(mode(&path), want, "{name}: {}", env.said());
    }
    assert!(
        env.said()
            .contains("rights that were given to other users are taken back: the top directory"),
        "{}",
        env.said()
    );
}

#[test]
fn what_git_would_obey_is_moved_out_while_the_agent_works() {
    let env = Env::new();
    env.git(&["init", "-q", "own"]);
    env.git(&["-C", "own", "config", "core.fsmonitor", "true"]);
    let gone = "until [ ! -e $1 ]; do sleep 0.01; done";
    let script = format!(
        "git init -q plain && git -C plain -c user.name=A -c user.email=a@x commit -q --allow-empty -m x || exit 9\n\
         gone() {{ {gone}; }}\n\
         mkdir -p new/deep && git init -q new/deep/armed && git -C new/deep/armed config core.fsmonitor ./x; gone new/deep/armed/.git\n\
         git init -q hooked && echo x > hooked/.git/hooks/post-index-change; gone hooked/.git\n\
         mkdir point; echo \"gitdir: $PWD/../x\" > point/.git; printf 'gitdir: /\\0/x\\n' > point/.git; gone point/.git\n\
         git init -q ends && printf '[core \"fsmonitor\\0\"]\\n\\tbare = ./x\\n' >> ends/.git/config; gone ends/.git\n\
         mkdir moved; git init -q moved/a; git -C moved/a config alias.x '!x'; mv moved src/again; gone src/again/a/.git\n\
         git worktree add -q tree || exit 8\n\
         git -C plain status || exit 7; git -C tree status || exit 6\n\
         git -C own config core.fsmonitor || exit 5\n\
         rm -rf plain; touch ready; sleep 1000"
    );
    let ready = env.repo.join("ready");
    while_it_works(
        env.script(BranchStrategy::Head, &script),
        &ready,
        async || {},
    );
    let said = env.said();
    for path in [
        "new/deep/armed/.git",
        "hooked/.git",
        "point/.git",
        "ends/.git",
    ] {
        assert!(
            said.contains(&format!("NestedGitMoved {{ paths: [\"{path}\"]")),
            "{path}: {said}"
        );
    }
    // The controls: what came and went was seen, and the user's own stays.
    assert!(said.contains("until the end: plain/.git"), "{said}");
    assert!(
        !said.contains("[\"plain") && !said.contains("[\"tree"),
        "{said}"
    );
    assert!(env.repo.join("own/.git").exists());
}

/// A file that is written by another name of its, which no watch of its directory tells.
#[test]
fn git_directories_that_were_harmless_are_judged_again() {
    let env = Env::new();
    let script = "for name in written linked plain mark; do git init -q $name || exit 9; done; touch ready\n\
         until [ -e go ]; do sleep 0.01; done\n\
         ln written/.git/config x && printf '[core]\\n\\tfsmonitor = ./x\\n' >> x && rm x || exit 8\n\
         ln linked/.git/config y || exit 7\n\
         until [ ! -e written/.git ] && [ ! -e linked/.git ]; do sleep 0.01; done\n\
         touch done; sleep 1000";
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(30), "{what}: {}", env.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let options = env.script(BranchStrategy::Head, script);
    while_it_works(options, &env.repo.join("ready"), async || {
        // All that came before it has been looked at then, and was harmless.
        until("seen", &|| env.said().contains("until the end: mark/.git")).await;
        assert!(!env.said().contains("NestedGitMoved"), "{}", env.said());
        env.write("go", "");
        until("moved", &|| env.repo.join("done").exists()).await;
    });
    let said = env.said();
    for path in ["written/.git", "linked/.git"] {
        let words = format!("NestedGitMoved {{ paths: [\"{path}\"]");
        assert!(said.contains(&words), "{path}: {said}");
    }
    // The control.
    assert!(env.repo.join("plain/.git").exists());
}
