//! What goes around hooks or overwrites a branch: the real git does it, and the guard does not let it.

use crate::scene::{Outcome, SKIPPABLE, Scene, Through, gits, version};

/// The control is that the real git does what the line says, whatever the hooks say.
fn is_refused(scene: &Scene, line: &str, failing: &str) {
    let real = scene.outcome(line, Through::Real, failing);
    assert_ne!(
        real.state, scene.before,
        "the real git does it: {line}: {real:?}"
    );
    let guarded = scene.outcome(line, Through::Guard, failing);
    assert!(guarded.is_refused(), "{line}: {guarded:?}");
    let rest = Outcome {
        errors: String::new(),
        ..guarded
    };
    let nothing = Outcome {
        code: Some(1),
        output: String::new(),
        errors: String::new(),
        hooks: String::new(),
        state: scene.before.clone(),
    };
    assert_eq!(rest, nothing, "{line}");
}

/// Without what is refused, hooks and the remote hold; else nothing would be gone around below.
#[test]
fn hooks_hold_where_nothing_goes_around_them() {
    let scene = Scene::new();
    for (line, failing, hook) in [
        ("git commit -am x", SKIPPABLE, "pre-commit"),
        (
            "git commit -am x",
            "commit-msg",
            "pre-commit\nprepare-commit-msg\ncommit-msg",
        ),
        ("git merge side", SKIPPABLE, "pre-merge-commit"),
        ("git pull", SKIPPABLE, "pre-merge-commit"),
        ("git rebase --autostash side", SKIPPABLE, "pre-rebase"),
        ("git am ../side.patch", SKIPPABLE, "applypatch-msg"),
        ("git push origin side", SKIPPABLE, "pre-push"),
        (
            "git cherry-pick side",
            "prepare-commit-msg",
            "prepare-commit-msg",
        ),
        (
            "git revert --no-edit HEAD",
            "prepare-commit-msg",
            "prepare-commit-msg",
        ),
        ("git push origin main", "", "pre-push"),
    ] {
        for through in [Through::Real, Through::Guard] {
            let outcome = scene.outcome(line, through, failing);
            assert_ne!(outcome.code, Some(0), "{line}: {outcome:?}");
            assert_eq!(outcome.state, scene.before, "{line}: {outcome:?}");
            assert_eq!(outcome.hooks.trim(), hook, "{line}: {outcome:?}");
        }
    }
}

// covers: S3-67 S3-68 S3-74 S3-97
#[test]
fn hooks_are_not_skipped() {
    let scene = Scene::new();
    for line in [
        "git commit -a --no-verify -m x",
        "git commit -am x -n",
        "git commit -anm x",
        "git commit -nam x",
        "git commit -qan -m x",
        "git commit file -n -m x",
        "git commit -am x --verify --no-verify",
        "git commit -am x --no-author -n",
        "git commit -am x -uno -n",
        "git -C . commit -nam x",
        "git -C ../repo -c a.b=c --no-pager commit -nam x",
        "git --git-dir=.git --work-tree . commit -nam x",
        "git --exec-path=\"$(git --exec-path)\" commit -nam x",
        "git merge --no-verify side",
        "git merge side -n --no-verify",
        "git pull --no-verify",
        "git pull -n --no-verify origin main",
        "git rebase --autostash --no-verify side",
        "git rebase -n --autostash --no-verify side",
        "git am --no-verify ../side.patch",
        "git am -n ../side.patch",
        "git am -3n ../side.patch",
        "git push --no-verify origin side",
        "git push origin side --no-verify",
    ] {
        is_refused(&scene, line, SKIPPABLE);
    }
}

// covers: S3-69 S3-70 S3-74 S3-97
#[test]
fn branches_are_not_overwritten() {
    let scene = Scene::new();
    for line in [
        "git push --force",
        "git push -f",
        "git push -f origin main",
        "git push origin main --force",
        "git push -uf origin main",
        "git push -qf origin main",
        "git push --force-with-lease",
        "git push --force-with-lease=main origin main",
        "git push --force-with-lease=main:origin/main origin main",
        "git push --force-with-lease --force-if-includes origin side:new",
        "git push --no-force --force",
        "git push --mirror origin",
        "git push origin +main",
        "git push origin side:new +main:main",
        "git push -- origin +HEAD:refs/heads/main",
        "git push --repo nowhere origin +main",
        "git push origin tag v1 +main",
        "git -C . push -f",
        "git -c remote.origin.push=+refs/heads/main push origin",
        "git -c remote.origin.mirror=true push origin",
        "P=+refs/heads/main git --config-env=remote.origin.push=P push origin",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.push GIT_CONFIG_VALUE_0=+refs/heads/main git push origin",
    ] {
        is_refused(&scene, line, "");
    }
}

// covers: S3-74 S3-97
#[test]
fn hooks_are_not_turned_off_for_one_call() {
    let scene = Scene::new();
    for line in [
        "git -c core.hooksPath=/dev/null commit -am x",
        "git -c CORE.HOOKSPATH=/dev/null commit -am x",
        "git -c core.hooksPath= commit -am x",
        "P=/dev/null git --config-env=core.hooksPath=P commit -am x",
        "P=/dev/null git --config-env core.hooksPath=P commit -am x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null git commit -am x",
        "GIT_CONFIG_PARAMETERS=\"'core.hookspath'='/dev/null'\" git commit -am x",
        "GIT_CONFIG_PARAMETERS=\"'core.hookspath=/dev/null'\" git commit -am x",
        "HUSKY=0 git commit -am x",
        "HUSKY_SKIP_HOOKS=1 git commit -am x",
        "LEFTHOOK=0 git commit -am x",
        "HUSKY=0 git push origin side",
        "HUSKY=0 git merge side",
        "HUSKY=0 git pull",
        "HUSKY=0 git rebase --autostash side",
        "HUSKY=0 git am ../side.patch",
        "git -c core.hooksPath=/dev/null push origin side",
        "git -c core.hooksPath=/dev/null merge side",
        "git -c core.hooksPath=/dev/null pull",
        "git -c core.hooksPath=/dev/null rebase --autostash side",
        "git -c core.hooksPath=/dev/null am ../side.patch",
    ] {
        is_refused(&scene, line, SKIPPABLE);
    }
    for line in [
        "git -c core.hooksPath=/dev/null cherry-pick side",
        "git -c core.hooksPath=/dev/null revert --no-edit HEAD",
    ] {
        is_refused(&scene, line, "prepare-commit-msg");
    }
}

// covers: S3-74 S3-97
#[test]
fn hooks_are_not_moved() {
    let scene = Scene::new();
    let mut lines = vec![
        "git config core.hooksPath /dev/null",
        "git config --local core.hookspath /dev/null",
        "git config -f .git/config core.hooksPath /dev/null",
        "git config --file=.git/config --path CORE.hooksPath /dev/null",
        "git config --add core.hooksPath /dev/null",
        "git config --ad core.hooksPath /dev/null",
        "git config --replace-all core.hooksPath /dev/null",
        "git config --unset core.hooksPath",
        "git config --unset-all core.hooksPath",
        "git config --remove-section core",
        "git config --rename-section core other",
    ];
    if version(&gits()[0]) >= (2, 46) {
        lines.extend([
            "git config set core.hooksPath /dev/null",
            "git config set --local --all core.hooksPath /dev/null",
            "git config unset core.hooksPath",
            "git config remove-section core",
        ]);
    }
    for line in lines {
        is_refused(&scene, line, "");
    }
}

// covers: S3-74 S3-97
#[test]
fn aliases_do_not_hide_it() {
    let scene = Scene::new();
    for line in [
        "git nv -am x",
        "git nv2 -am x",
        "git ci -nam x",
        "git off -am x",
        "git sh x",
        "git function -am x",
        "git -c alias.x='commit --no-verify' x -am x",
        "git -c alias.x='!git nv' x -am x",
        "git -C .. -C repo nv -am x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='commit -n' git x -am x",
    ] {
        is_refused(&scene, line, SKIPPABLE);
    }
    // Nothing may be uncommitted where a rebase has something to execute.
    let line = "git checkout -q file; git rebase -f -x 'git commit --allow-empty -nm x' HEAD~1";
    is_refused(&scene, line, "pre-commit");
    is_refused(&scene, "git pf origin main", "");
}
