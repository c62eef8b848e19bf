//! What is not refused is the real git, to the last byte.

use crate::scene::{SKIPPABLE, Scene, Through};

// covers: S3-73 S3-97
#[test]
fn everything_else_is_the_real_git() {
    let scene = Scene::new();
    for line in [
        "git",
        "git --version",
        "git --exec-path",
        "git --no-verify",
        "git status",
        "git status --porcelain",
        "git nothing --no-verify",
        "git log -n 5",
        "git log -n5 --format=%H",
        "git diff --stat",
        "git commit -am x",
        "git commit -a -m -n",
        "git commit -amn",
        "git commit -am -n",
        "git commit -a -F -n",
        "git commit -a --message=--no-verify",
        "git commit -a --message --no-verify",
        "git commit -am x -- -n",
        "git commit -am x -- file",
        "git commit -am x --no-verify --verify",
        "git commit -nam x --verify",
        "git commit -am x --no-ver",
        "git commit -am x --no-such-option",
        "git commit -am x -uno",
        "git add file; GIT_AUTHOR_NAME=pre-commit git commit --no-edit --no-gpg-sign -n -minit",
        "git commit -h",
        "git commit --help -n </dev/null",
        "git -c user.name=--no-verify commit -am x",
        "git ci -am x",
        "git ci -a -m -n",
        "git code",
        "git count a -n --no-verify",
        "git -c alias.x='log -n 1' x",
        "git -c alias.x=y -c alias.y=x x -n",
        "git -c alias.x=\"'\" x",
        "git push",
        "git push -n origin side",
        "git push --dry-run origin side:new",
        "git push origin side",
        "git push -u origin side",
        "git push origin :main",
        "git push --delete origin main",
        "git push origin tag v1",
        "git push origin tag +v1",
        "git push +nowhere main",
        "git push -o --force origin side",
        "git push --force --no-force",
        "git push --fo origin main",
        "git fetch -f origin +main:other",
        "git pull",
        "git pull -n",
        "git pull --no-verif",
        "git merge side",
        "git merge -n side",
        "git merge -m --no-verify side",
        "git merge --no-verif side",
        "git rebase --autostash -n side",
        "git rebase --autostash -f side",
        "git rebase side",
        "git am ../side.patch",
        "git am -3 ../side.patch",
        "git cherry-pick side",
        "git cherry-pick -n side",
        "git cherry-pick --no-verify side",
        "git revert -n HEAD",
        "git checkout -f side",
        "git branch -f side main",
        "git tag -f v1 side",
        "git clean -n",
        "git reset --hard side",
        "git stash push -m --no-verify",
        "git config core.hooksPath",
        "git config --get core.hooksPath",
        "git config core.hooksPath .husky/_",
        "git config user.name core.hooksPath",
        "git config alias.y 'commit --no-verify'",
        "git config --uns core.hooksPath",
        "HUSKY=0 git status",
        "HUSKY=0 git checkout side",
        "HUSKY=1 git commit -am x",
        "git -c core.hooksPath=/dev/null status",
        "git -c core.hooksPath=/dev/null worktree add ../other side",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=core.hooksPath git commit -am x",
        "printf 'from standard input' | git commit -a -F -",
        "git hash-object --stdin <file",
        "echo side | git rev-list --stdin",
    ] {
        let real = scene.outcome(line, Through::Real, "");
        assert_eq!(scene.outcome(line, Through::Guard, ""), real, "{line}");
    }
}

/// A hook that says no is heard as without the guard.
// covers: S3-73
#[test]
fn hooks_say_no_through_it() {
    let scene = Scene::new();
    for line in [
        "git commit -am x",
        "git commit -a -m -n",
        "git commit -nam x --verify",
        "git ci -am x",
        "git push -n origin side",
        "git push origin side",
        "git pull -n",
        "git merge -n side",
        "git rebase --autostash -n side",
        "git am -3 ../side.patch",
    ] {
        let real = scene.outcome(line, Through::Real, SKIPPABLE);
        assert_ne!(real.hooks, "", "{line}");
        let guarded = scene.outcome(line, Through::Guard, SKIPPABLE);
        assert_eq!(guarded, real, "{line}");
    }
}
