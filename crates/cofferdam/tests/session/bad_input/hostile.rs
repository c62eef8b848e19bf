//! Agents that do what no agent should, to their worktree and to their repository.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cofferdam::RunReport;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::Landing;
use cofferdam_lab::sample;
use cofferdam_lab::way::{Mode, Strategy, Way};

use super::{HEAD, whole_ok};
use crate::support::{Env, in_containers, run_ok};

const MERGE: BranchStrategy = BranchStrategy::MergeToHead;

fn landed(report: &RunReport) {
    let landing = &report.landing;
    assert!(matches!(landing, Landing::Landed { .. }), "{landing}");
}

/// Runs the script under merge-to-head; it succeeds.
fn merge_ok(env: &Env, script: &str) -> RunReport {
    whole_ok(env, env.script(MERGE, script), &["refs/heads/main"])
}

/// The commits that a user can still reach by a reference.
fn reachable(env: &Env) -> String {
    env.git(&["log", "--all", "--format=%s"])
}

#[test]
fn an_agent_that_deletes_its_files() {
    let delete = "git commit -qm work --allow-empty; rm -rf ./* ./.[!.]* 2>/dev/null; true";
    let env = Env::new();
    env.write("untracked", "u\n");
    env.write("src/a.txt", "edited\n");
    // What is below `.git` of a `head` checkout goes too: it is the sandbox's own.
    let report = whole_ok(&env, env.script(HEAD, delete), &[]);
    assert!(matches!(report.landing, Landing::Refused { .. }));
    // `head` means that the agent works on the user's files; what was in no commit is recorded.
    let before = format!("refs/cofferdam/{}/before", report.id);
    assert_eq!(env.git(&["show", &format!("{before}:untracked")]), "u");
    assert_eq!(env.git(&["show", &format!("{before}:src/a.txt")]), "edited");
    assert!(env.repo.join(".git/HEAD").exists());

    let env = Env::new();
    let report = whole_ok(&env, env.bind(MERGE, delete), &["refs/heads/main"]);
    landed(&report);
    assert!(report.preserved_worktree.is_some());
    // Where its git directory is among its files, what is in that goes with them.
    for mode in [Mode::Layer, Mode::Copy] {
        let way = Way::new(Strategy::MergeToHead, mode);
        let report = whole_ok(&env, env.in_way(way, delete), &[]);
        let Landing::Refused { pack, .. } = &report.landing else {
            panic!("{way}: {}", report.landing)
        };
        assert!(pack.as_ref().unwrap().is_dir(), "{way}");
    }
    assert_eq!(env.read("README.md"), "hello\n");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_agent_that_deletes_its_git_directory() {
    for strategy in [HEAD, MERGE] {
        let env = Env::new();
        let script = "git commit -qm work --allow-empty; find $(git rev-parse --git-dir) -delete 2>/dev/null; true";
        let report = whole_ok(&env, env.script(strategy, script), &["refs/heads/main"]);
        let said = report.landing.to_string();
        assert!(said.contains("in the sandbox's git directory"), "{said}");
        assert_eq!(env.subjects("main"), ["first"]);
        assert_eq!(env.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn rewritten_history_never_lands_and_is_kept() {
    let rewrites = [
        "git commit -q --amend -m rewritten",
        "git checkout -q --orphan other; git commit -qm rewritten",
        "git update-ref refs/heads/$(git branch --show-current) $(git commit-tree -m rewritten HEAD^{tree})",
    ];
    for script in rewrites {
        for strategy in [HEAD, MERGE] {
            let env = Env::new();
            let report = whole_ok(&env, env.script(strategy, script), &[]);
            match &report.landing {
                Landing::Kept { .. } => assert!(reachable(&env).contains("rewritten")),
                Landing::Refused { pack, .. } => assert!(pack.as_ref().unwrap().exists()),
                other => panic!("{script}: {other}"),
            }
            assert_eq!(env.subjects("main"), ["first"]);
        }
    }
}

#[test]
fn ten_thousand_commits_come_home() {
    let env = Env::new();
    let script = r#"
        b=$(git symbolic-ref HEAD); i=0
        { while [ $i -lt 10000 ]; do
            printf 'commit %s\ncommitter A <a@b> %s +0000\ndata 2\nc\n\n' "$b" $((1700000000 + i))
            [ $i -eq 0 ] && printf 'from %s\n' "$(git rev-parse HEAD)"
            printf 'M 644 inline n\ndata %s\n%s\n' ${#i} $i
            i=$((i + 1))
        done; } | git fast-import --quiet && git reset -q --hard"#;
    let began = Instant::now();
    let report = merge_ok(&env, script);
    landed(&report);
    assert_eq!(report.commits.len(), 10_000);
    assert_eq!(env.git(&["rev-list", "--count", "main"]), "10001");
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "{:?}",
        began.elapsed()
    );
    env.assert_no_state();
}

#[test]
fn everything_without_permissions() {
    let env = Env::new();
    let script = "mkdir -p d/e; echo x > d/e/f; git add .; git commit -qm x; chmod -R 000 d; chmod 000 . 2>/dev/null; true";
    let report = merge_ok(&env, script);
    landed(&report);
    assert_eq!(env.git(&["show", "main:d/e/f"]), "x");
    // In no commit, and nobody may look at it: it stays.
    let script =
        "mkdir locked; echo x > locked/work; git commit -qm y --allow-empty; chmod 000 locked";
    let report = whole_ok(&env, env.bind(MERGE, script), &["refs/heads/main"]);
    landed(&report);
    let kept = report.preserved_worktree.expect("there is work in it");
    assert!(kept.join("locked").exists());
}

#[test]
fn very_deep_directories() {
    let env = Env::new();
    let deep = |last: &str| {
        format!(
            "git commit -qm work --allow-empty; perl -e 'for (1..2000) {{ mkdir \"dddd\"; chdir \"dddd\" }} {last}'"
        )
    };
    for last in ["", "open(F, \">\", \"bottom\"); print F \"x\""] {
        let report = whole_ok(&env, env.bind(MERGE, &deep(last)), &["refs/heads/main"]);
        landed(&report);
        // Git does not see what is at the bottom; it stays where it is.
        let kept = report.preserved_worktree.expect("there may be work in it");
        assert!(kept.join("dddd").exists());
        cofferdam::fsx::remove_tree(&kept).unwrap();
        assert!(!kept.exists());
    }
}

/// A hundred thousand with `--all`.
#[test]
fn very_many_untracked_files() {
    let env = Env::new();
    let number = if sample::all() { 100_000 } else { 20_000 };
    let script = format!(
        "git commit -qm work --allow-empty; mkdir many; cd many; seq {number} | xargs touch"
    );
    let began = Instant::now();
    let report = merge_ok(&env, &script);
    landed(&report);
    assert!(report.preserved_worktree.is_some());
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn symlink_loops_and_names_like_options() {
    let env = Env::new();
    let script = "
        ln -s . loop; ln -s b a; ln -s a b; mkdir d; ln -s ../d d/self
        for name in -rf --help -- --upload-pack=x; do echo x > ./$name; done
        git add -A; git commit -qm odd";
    landed(&merge_ok(&env, script));
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert!(env.repo.join("loop").is_symlink() && env.repo.join("-rf").is_file());
    landed(&whole_ok(
        &env,
        env.script(
            HEAD,
            "git mv -- --help help; ln -s /etc/passwd -x; git commit -qm more",
        ),
        &["refs/heads/main"],
    ));
    env.assert_no_state();
}

#[test]
fn nested_repositories_are_moved_out_and_never_run() {
    for strategy in [HEAD, MERGE] {
        let env = Env::new();
        let canary = env.dir.path().join("canary");
        let script = format!(
            "git init -q deep/er; printf '[core]\\n\\tfsmonitor = touch {c}\\n\\tsshCommand = touch {c}\\n' >> deep/er/.git/config
             printf '#!/bin/sh\\ntouch {c}\\n' > deep/er/.git/hooks/post-checkout; chmod +x deep/er/.git/hooks/*
             echo 'gitdir: er/.git' > deep/.git
             mkdir .GIT; echo x > .GIT/config
             printf '#!/bin/sh\\ntouch {c}\\n' > $(git rev-parse --git-dir)/hooks/post-commit && exit 5
             echo x > x; git add x; git commit -qm x",
            c = canary.display()
        );
        let report = whole_ok(&env, env.script(strategy, &script), &["refs/heads/main"]);
        landed(&report);
        let work = report.preserved_worktree.unwrap_or(env.repo.clone());
        for place in ["deep", "deep/er"].map(|place| work.join(place)) {
            if place.exists() {
                env.try_git(&place, &["status"]);
            }
        }
        assert!(!canary.exists());
        assert!(env.said().contains("NestedGitMoved"), "{}", env.said());
    }
}

/// Makes `$1` a git directory, bare if `$2` is there, whose configuration makes a file when git looks.
const EVIL: &str = r#"evil() { mkdir -p "$1"; git init -q $2 "$1"; git --git-dir "$1/$3" config core.fsmonitor "touch RAN; false"; }"#;

#[test]
fn a_nested_repository_of_the_user_cannot_be_exchanged() {
    for tracked in [false, true] {
        let env = Env::new();
        let sub = env.repo.join("libs/sub");
        env.git(&["init", "-q", sub.to_str().unwrap()]);
        env.try_git(
            &sub,
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a",
                "commit",
                "-qm",
                "x",
                "--allow-empty",
            ],
        );
        if tracked {
            env.commit_all("a submodule without a name");
        }
        let script = format!(
            "{EVIL}; cd libs/.. && mv libs old; rm -rf libs; evil libs/sub '' .git; echo x > libs/own; \
             git add libs/own && git commit -qm work"
        )
        .replace("RAN", env.dir.path().join("ran").to_str().unwrap());
        let report = whole_ok(&env, env.script(HEAD, &script), &["refs/heads/main"]);
        landed(&report);
        assert!(sub.join(".git/HEAD").exists() && !env.repo.join("old").exists());
        for place in [&env.repo, &sub] {
            env.try_git(place, &["status"]);
        }
        assert!(!env.dir.path().join("ran").exists());
    }
}

#[test]
fn directories_that_git_takes_for_repositories() {
    let ran = |env: &Env| {
        for place in ["src", "new", "."].map(|place| env.repo.join(place)) {
            if place.exists() {
                env.try_git(&place, &["status"]);
            }
        }
        env.dir.path().join("ran").exists()
    };
    let script = |env: &Env| {
        let bare = "git --git-dir \"$d\" config core.bare false; git --git-dir \"$d\" config core.worktree /tmp";
        format!("{EVIL}; for d in src new; do evil $d --bare .; {bare}; touch $d/objects/x $d/refs/x; done")
            .replace("RAN", env.dir.path().join("ran").to_str().unwrap())
    };
    let env = Env::new();
    let done = Command::new("sh")
        .arg("-c")
        .arg(script(&env))
        .current_dir(&env.repo)
        .status();
    assert!(
        done.unwrap().success() && ran(&env),
        "the attack works where nothing stops it"
    );

    let env = Env::new();
    whole_ok(&env, env.script(HEAD, &script(&env)), &[]);
    assert!(env.repo.join("src/a.txt").exists() && !env.repo.join("src/HEAD").exists());
    assert!(!ran(&env), "{}", env.said());

    let env = Env::new();
    let top = script(&env).replace("src new", "/tmp/b src");
    let top = format!("{top}; cp -r /tmp/b/* .; echo x > uncommitted");
    let report = whole_ok(&env, env.copy(CopyStrategy::MergeToHead, &top), &[]);
    let copy = report.preserved_worktree.unwrap();
    for place in [copy.join("src"), copy.clone()] {
        env.try_git(&place, &["status"]);
    }
    assert!(
        !ran(&env) && copy.join("uncommitted").exists(),
        "{}",
        env.said()
    );

    let env = Env::new();
    let commit = format!("{}; git add -A . && git commit -qm evil", script(&env));
    let report = merge_ok(&env, &commit);
    assert!(
        matches!(report.landing, Landing::Refused { .. }),
        "{}",
        report.landing
    );
    assert!(!ran(&env));
}

#[test]
fn pipes_that_git_would_wait_for() {
    for strategy in [HEAD, MERGE] {
        let env = Env::new();
        let script = "git commit -q --allow-empty -m work; for d in . src; do mkfifo $d/.gitignore $d/.gitattributes; done";
        let began = Instant::now();
        landed(&whole_ok(
            &env,
            env.bind(strategy, script),
            &["refs/heads/main"],
        ));
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
        assert!(!env.repo.join("src/.gitignore").exists());
    }
}

#[test]
fn settings_of_the_agents_repository_stay_there() {
    let env = Env::new();
    let canary = env.dir.path().join("canary");
    let script = format!(
        "for key in core.fsmonitor core.sshCommand core.pager gpg.program diff.external core.editor uploadpack.packObjectsHook; do git config $key 'touch {c}' ; done
         git config core.hooksPath /tmp; git config include.path /tmp/x; git config alias.status '!touch {c}'
         echo x > x; git add x; git commit -qm x",
        c = canary.display()
    );
    let before = std::fs::read(env.repo.join(".git/config")).unwrap();
    landed(&whole_ok(
        &env,
        env.script(HEAD, &script),
        &["refs/heads/main"],
    ));
    assert!(!canary.exists());
    assert_eq!(std::fs::read(env.repo.join(".git/config")).unwrap(), before);
}

/// Other git directories in the place of its own, or of a part of it. `TOP` is where its files are on the host.
const OTHERS: [&str; 2] = [
    "evil own '' .git; mv own/.git evilgit; { mv .git old || rm -f .git || umount .git; echo 'gitdir: ./evilgit' > .git; } 2>/dev/null; true",
    "evil own '' .git; mv own/.git evilcommon; echo TOP/evilcommon > $(git rev-parse --git-dir)/commondir",
];

#[test]
fn no_other_git_directory_takes_the_place_of_its_own() {
    for other in OTHERS {
        let script = |env: &Env, top: &Path| {
            let ran = env.dir.path().join("ran");
            format!("{EVIL}; git commit -qm work --allow-empty; {other}")
                .replace("RAN", ran.to_str().unwrap())
                .replace("TOP", top.to_str().unwrap())
        };
        let looks = |env: &Env, place: &Path| {
            for words in [&["status"][..], &["add", "-n", "."], &["log"], &["fsck"]] {
                env.try_git(place, words);
            }
            let ran = env.dir.path().join("ran");
            let did = ran.exists();
            _ = std::fs::remove_file(ran);
            did
        };
        // The control: in a repository of the user's it works.
        let env = Env::new();
        let own = env.dir.path().join("own");
        env.git(&["clone", "-q", ".", own.to_str().unwrap()]);
        let mut planted = Command::new("sh");
        planted.args(["-c", &script(&env, &own)]).current_dir(&own);
        for who in ["AUTHOR", "COMMITTER"] {
            planted.env(format!("GIT_{who}_NAME"), "A");
            planted.env(format!("GIT_{who}_EMAIL"), "a@example.com");
        }
        assert!(planted.status().unwrap().success());
        assert!(looks(&env, &own), "{other}");

        for way in Way::EACH_MODE {
            let env = Env::new();
            let settings = std::fs::read(env.repo.join(".git/config")).unwrap();
            let script = script(&env, &env.repo);
            let report = whole_ok(&env, env.in_way(way, &script), &["refs/heads/main"]);
            landed(&report);
            assert_eq!(env.subjects("main"), ["first", "work"], "{way}");
            crate::support::gc(&env);
            let places = [Some(env.repo.clone()), report.preserved_worktree];
            for place in places.into_iter().flatten() {
                assert!(!looks(&env, &place), "{way}: {other}: {}", place.display());
            }
            assert!(env.repo.join(".git/HEAD").is_file(), "{way}");
            assert_eq!(
                std::fs::read(env.repo.join(".git/config")).unwrap(),
                settings,
                "{way}"
            );
        }
    }
}

/// A commit that names a repository, and that repository in its place.
#[test]
fn a_gitlink_with_a_repository_in_it_is_refused_and_runs_nothing() {
    let script = |env: &Env| {
        format!(
            "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -qm x --allow-empty; git add sub 2>/dev/null
             git -c user.name=a -c user.email=a@b commit -qm gitlink; git -C sub config core.fsmonitor 'touch {}; false'",
            env.dir.path().join("ran").display()
        )
    };
    let looks = |env: &Env, top: &Path| {
        for place in [top.to_owned(), top.join("sub")] {
            for words in [&["status"][..], &["diff"], &["submodule", "status"]] {
                if place.exists() {
                    env.try_git(&place, words);
                }
            }
        }
        env.dir.path().join("ran").exists()
    };
    let env = Env::new();
    let mut planted = Command::new("sh");
    planted.args(["-c", &script(&env)]).current_dir(&env.repo);
    assert!(planted.status().unwrap().success());
    assert!(
        looks(&env, &env.repo),
        "the attack works where nothing stops it"
    );
    for way in Way::EACH_MODE {
        let env = Env::new();
        let mut options = env.in_way(way, &script(&env));
        options.session.name = Some("link".into());
        let report = whole_ok(&env, options, &[]);
        let Landing::Refused { why, .. } = &report.landing else {
            panic!("{way}: {}", report.landing);
        };
        assert!(why.contains("sub"), "{way}: {why}");
        assert_eq!(env.subjects("main"), ["first"], "{way}");
        crate::support::gc(&env);
        let places = [Some(env.repo.clone()), report.preserved_worktree.clone()];
        for place in places.into_iter().flatten() {
            assert!(!looks(&env, &place), "{}", place.display());
        }
    }
}

#[test]
fn drivers_in_the_tree_never_run_on_the_host() {
    /// Without a path: a file that a setting names is read-only for the agent, and this is about what is not.
    const OWN: &str = "cd tools && sh own";
    for strategy in [HEAD, MERGE, super::branch("other")] {
        let env = Env::new();
        let canary = env.dir.path().join("canary");
        env.write(".gitattributes", "*.x filter=own merge=own diff=own\n");
        env.write("tools/own", "#!/bin/sh\nexec cat\n");
        env.git(&["update-index", "--add", "--chmod=+x", "tools/own"]);
        env.write("a.x", "a\n");
        env.write("b.x", "b\n");
        env.commit_all("drivers");
        for key in ["filter.own.clean", "filter.own.smudge", "diff.own.textconv"] {
            env.git(&["config", key, OWN]);
        }
        env.git(&["config", "merge.own.driver", OWN]);
        let script = format!(
            "printf '#!/bin/sh\\ntouch {c}; cat\\n' > tools/own
             for f in a.x b.x new.x; do echo more >> $f; done
             git config filter.own.clean cat; git add -A; git commit -qm x
             echo uncommitted >> b.x; echo y > y; git add y; git commit -qm y",
            c = canary.display()
        );
        let mut options = env.script(strategy, &script);
        options.session.name = Some("one".into());
        let report = run_ok(options);
        landed(&report);
        assert!(!canary.exists(), "{}", report.landing);
    }
}

#[test]
fn commits_of_every_shape() {
    let shapes: [(&str, usize); 6] = [
        (
            "GIT_AUTHOR_NAME='Some One' GIT_COMMITTER_NAME='Other' git commit -qm x --allow-empty --author 'A <a@example.com>'",
            1,
        ),
        ("for i in 1 2 3; do git commit -qm x --allow-empty; done", 3),
        ("git commit -qm '' --allow-empty --allow-empty-message", 1),
        (
            "b=$(git branch --show-current); git checkout -qb t; git commit -qm t --allow-empty; git checkout -q $b; git commit -qm u --allow-empty; git merge -q -m m t",
            3,
        ),
        (
            "b=$(git branch --show-current); for i in 1 2 3 4; do git checkout -q -b t$i main 2>/dev/null || git checkout -q -b t$i $b; echo $i > f$i; git add f$i; git commit -qm t$i; git checkout -q $b; done; git merge -q -m octopus t1 t2 t3 t4",
            5,
        ),
        (
            "git commit -qm x --allow-empty; git tag v1; git tag -a -m v v2; git stash list; git branch other",
            1,
        ),
    ];
    for (script, count) in shapes {
        let env = Env::new();
        let report = merge_ok(&env, script);
        landed(&report);
        assert_eq!(report.commits.len(), count, "{script}");
        let heads = env.git(&["for-each-ref", "--format=%(refname)"]);
        assert_eq!(heads, "refs/heads/main", "{script}");
        env.assert_no_state();
    }
}

#[test]
fn work_beside_the_branch_is_found() {
    let scripts = [
        "git checkout -q -b other; git commit -qm found --allow-empty",
        "git checkout -q --detach; git commit -qm found --allow-empty",
        "b=$(git branch --show-current); git commit -qm found --allow-empty; git checkout -q --detach; git branch -D $b",
        "git commit -qm found --allow-empty; git pack-refs --all --prune; git gc -q --prune=now; git reflog expire --expire=now --all",
        "git worktree add -q /tmp/w -b w; cd /tmp/w; git commit -qm found --allow-empty",
    ];
    for script in scripts {
        let env = Env::new();
        let report = merge_ok(&env, script);
        landed(&report);
        assert_eq!(env.subjects("main").last().unwrap(), "found", "{script}");
    }
}

#[test]
fn a_full_disk_inside_is_the_agents_problem() {
    let env = Env::new();
    // /run of the sandbox is a small one, and as bounded as /tmp. A container's own files are where its engine has them.
    let root = if in_containers() { "" } else { "/" };
    let script = "
        for d in /tmp /home/agent /var/tmp /dev/shm ROOT; do test $(df --output=size -B1 $d | tail -1) -lt $(($(grep MemTotal /proc/meminfo | tr -dc 0-9) * 512)) || exit 4; done
        head -c 1G /dev/zero > /dev/zero.full 2>/dev/null && exit 5
        head -c 1G /dev/zero > /full 2>/dev/null && exit 6
        git commit -qm work --allow-empty";
    landed(&merge_ok(&env, &script.replace("ROOT", root)));
}
