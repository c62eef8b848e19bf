//! What programs of a dev sandbox try with its shelf, its pushes and its logins; and what is left where their user works meanwhile.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::skip;

use crate::lives::Lives;

const COMMIT: &str = "git commit -q --allow-empty -m";

fn on_branch(lives: &Lives, branch: &str) -> String {
    lives
        .cofferdam(&["start", "--branch", branch])
        .expect_code(0);
    format!("dev-{branch}")
}

/// Objects may be named by SHA-256: a shelf is as its repository.
#[test]
fn a_repository_of_other_names_has_a_shelf() {
    let lives = Lives::new();
    std::fs::remove_dir_all(lives.repository().join(".git")).unwrap();
    lives.git(&["init", "-q", "--object-format=sha256", "-b", "main"]);
    lives.git(&["config", "user.name", "Test"]);
    lives.git(&["config", "user.email", "test@example.com"]);
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-q", "-m", "start"]);
    lives.git(&["branch", "two"]);
    let name = on_branch(&lives, "two");
    let push = format!("{COMMIT} inside && git push -q host two");
    lives.exec(&name, &push).expect_code(0);
    let subject = lives.git(&["log", "-1", "--format=%s", "two"]);
    assert_eq!(subject.trim(), "inside");
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// A pipe is no file that one writes to: nobody on the host waits for its other end.
#[test]
fn pipes_on_the_shelf_hold_nobody_up() {
    let lives = Lives::new();
    let name = on_branch(&lives, "two");
    let pipes = "cd /repo-shelf/repo/.git && rm -f shallow && for one in cofferdam/shallow cofferdam/all cofferdam/related cofferdam/begun-new; do mkfifo $one || exit 1; done; git config remote.host.pushurl /nowhere";
    lives.exec(&name, pipes).expect_code(0);
    let began = Instant::now();
    lives.cofferdam(&["checkout", "new"]).expect_code(0);
    assert!(began.elapsed() < Duration::from_secs(30));
    let seen = lives.exec(&name, "git -C /repo-shelf/worktrees/new log -1 --format=%s");
    assert_eq!(seen.expect_code(0).stdout, "start\n");
    // Where a push goes is set right with it.
    let push = format!("{COMMIT} inside && git push -q host two");
    lives.exec(&name, &push).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// What a program has said to git on the shelf runs when a branch is brought there, with no more memory than a sandbox.
#[test]
fn bringing_a_branch_takes_no_more_than_a_sandbox() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can limit memory here");
        return;
    }
    let lives = Lives::new();
    lives.configure("limits: {memory: 128m}\n");
    let name = on_branch(&lives, "two");
    let filter = |bytes: u64| {
        let script = format!(
            "cd /repo-shelf/repo && mkdir -p .git/info && echo '* filter=ev' > .git/info/attributes && git config filter.ev.required true && \
             git config filter.ev.smudge \"python3 -c 'x = bytearray({bytes}); import sys; sys.stdout.write(sys.stdin.read())'\""
        );
        lives.exec(&name, &script).expect_code(0);
    };
    filter(1 << 20);
    lives.cofferdam(&["checkout", "small"]).expect_code(0);
    filter(512 << 20);
    lives.cofferdam(&["checkout", "large"]).expect_code(1);
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// A branch that is another name for one is not replaced: what it leads to may be checked out.
#[test]
fn another_name_of_a_branch_is_not_pushed_to() {
    let lives = Lives::new();
    lives.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    let name = on_branch(&lives, "alias");
    let push = format!("{COMMIT} inside && git push host HEAD:alias");
    let refused = lives.exec(&name, &push).expect_code(1);
    assert!(
        refused.stderr.contains("another name of one on the host"),
        "{refused}"
    );
    let leads = lives.git(&["symbolic-ref", "refs/heads/alias"]);
    assert_eq!(leads.trim(), "refs/heads/main");
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// Their user goes to a branch while it is pushed to: git has looked at the branch and writes files for a while. Nothing moves below it.
#[test]
fn no_branch_moves_under_who_goes_to_it() {
    let lives = Lives::new();
    lives.git(&["config", "filter.slow.smudge", "sleep 2; cat"]);
    lives.git(&["switch", "-q", "-c", "two"]);
    lives.write(".gitattributes", "slow filter=slow\n");
    lives.write("slow", "slow\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-q", "-m", "slow"]);
    lives.git(&["switch", "-q", "main"]);
    let name = on_branch(&lives, "two");
    lives
        .exec(&name, "echo x > new; git add new; git commit -qm inside")
        .expect_code(0);
    let repository = lives.repository();
    #[expect(
        clippy::disallowed_methods,
        reason = "its user's own git, beside everything else"
    )]
    let mut switch = Command::new("git")
        .args(["-C", repository.to_str().unwrap(), "switch", "-q", "two"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !repository.join(".git/index.lock").exists() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(2));
    }
    let push = lives.exec(&name, "git push host two");
    assert!(switch.wait().unwrap().success());
    assert_ne!(push.status.code(), Some(0), "{push}");
    assert!(push.stderr.contains("checked out on the host"), "{push}");
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "slow");
    assert_eq!(lives.git(&["status", "--porcelain"]).trim(), "");
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// A shelf goes by force alone where it has what is nowhere else; what is left of a removal that was cut short goes with the next one.
#[test]
fn a_shelf_with_work_is_not_removed_by_the_way() {
    let lives = Lives::new();
    let name = on_branch(&lives, "two");
    let names = lives.cofferdam(&["volume"]).expect_code(0).stdout;
    let shelf = names.lines().find(|name| name.contains("shelf"));
    let shelf = shelf.unwrap().to_owned();
    let remove = |more: &[&str]| {
        let words = [&["volume", "remove", &shelf], more].concat();
        lives.cofferdam(&words)
    };
    lives
        .exec(&name, &format!("{COMMIT} inside; echo x > new"))
        .expect_code(0);
    let status = lives.cofferdam(&["status", &name]).expect_code(0);
    let line =
        "1 file of two on the shelf is in no commit: see with `cofferdam shell --branch two`";
    assert!(status.stdout.contains(line), "{status}");
    let deleted = lives.cofferdam(&["delete", "--force", &name]);
    let deleted = deleted.expect_code(0);
    assert!(deleted.stderr.contains(line), "{deleted}");
    let refused = remove(&[]).expect_code(1);
    let said = format!(
        "{shelf} has what is nowhere else: commits of two, 1 uncommitted file in worktrees/two"
    );
    assert!(refused.stderr.contains(&said), "{refused}");
    // Home, and clean; what is put away is work, too.
    on_branch(&lives, "two");
    lives
        .exec(&name, "git push -q host two; git add new; git stash -q")
        .expect_code(0);
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
    let refused = remove(&[]).expect_code(1);
    assert!(refused.stderr.contains("commits of"), "{refused}");
    on_branch(&lives, "two");
    lives.exec(&name, "git stash drop -q").expect_code(0);
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
    let volumes = lives.home().join(".cofferdam/volumes");
    std::fs::create_dir_all(volumes.join(".going-another/files/x")).unwrap();
    remove(&[]).expect_code(0);
    assert!(!volumes.join(".going-another").exists());

    on_branch(&lives, "two");
    lives.exec(&name, &format!("{COMMIT} again")).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
    remove(&[]).expect_code(1);
    remove(&["--force"]).expect_code(0);
    std::fs::create_dir_all(volumes.join(".going-another/files/x")).unwrap();
    let cleaned = lives.cofferdam(&["gc"]).expect_code(0);
    assert!(cleaned.stdout.contains("1 volume"), "{cleaned}");
    assert!(!volumes.join(".going-another").exists());
}

/// A branch that went on on both sides is told with the commands that bring both together.
#[test]
fn a_branch_that_went_on_on_both_sides_comes_home() {
    let lives = Lives::new();
    lives.git(&["branch", "two"]);
    let name = on_branch(&lives, "two");
    lives.git(&["switch", "-q", "two"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "on the host"]);
    lives.git(&["switch", "-q", "main"]);
    let left = lives
        .exec(&name, &format!("{COMMIT} inside"))
        .expect_code(0);
    let said = "1 commit on two is only on the shelf, and two has others here: merge those inside, after `cofferdam checkout two` by `git merge host/two`, \
                then `cofferdam exec dev-two -- git push host two`";
    assert!(left.stderr.contains(said), "{left}");
    lives.exec(&name, "git push -q host two").expect_code(1);
    lives.cofferdam(&["checkout", "two"]).expect_code(0);
    lives
        .exec(&name, "git merge -q --no-edit host/two")
        .expect_code(0);
    lives
        .cofferdam(&["exec", "dev-two", "--", "git", "push", "host", "two"])
        .expect_code(0);
    let subjects = lives.git(&["log", "--format=%s", "two"]);
    for subject in ["inside", "on the host"] {
        assert!(subjects.lines().any(|one| one == subject), "{subjects}");
    }
    lives
        .cofferdam(&["delete", "--force", &name])
        .expect_code(0);
}

/// What a deletion brings home before it stops short has moved a branch: that is said. What to do with what did not pass is said, too.
#[test]
fn what_came_home_is_told_where_a_deletion_stops_short() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives.configure("protect: [ci]\n");
    let bad = "mkdir ci && echo x > ci/a && git add ci && git commit -qm bad";
    let refused = lives.exec("dev", bad).expect_code(0);
    assert!(refused.stderr.contains("it is protected"), "{refused}");
    lives
        .exec("dev", "git reset -q --hard HEAD^; rm -rf ci")
        .expect_code(0);
    let commit = format!("{COMMIT} later");
    let left = lives.cofferdam(&["exec", "--detach", "dev", "--", "sh", "-c", &commit]);
    let id = left.expect_code(0).stdout.trim().to_owned();
    lives
        .cofferdam(&["logs", "--follow", "dev", &id])
        .expect_code(0);
    let short = lives.cofferdam(&["delete", "dev"]).expect_code(1);
    let tip = lives.git(&["log", "-1", "--format=%h %s", "--abbrev=10"]);
    let (tip, subject) = tip.trim().split_once(' ').unwrap();
    assert_eq!(subject, "later");
    let said = format!("what was committed in dev is home: main is at {tip}");
    assert!(short.stderr.contains(&said), "{short}");
    let hint =
        "where it was mended inside since, nothing of it is needed: `cofferdam delete --force dev`";
    assert!(short.stderr.contains(hint), "{short}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// A branch that was made in the checkout comes home beside it, and what is printed brings it to the branch that is checked out.
#[test]
fn a_branch_made_in_the_checkout_is_merged_as_printed() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives
        .exec("dev", &format!("{COMMIT} landed"))
        .expect_code(0);
    let branch = "git switch -qc five && echo five > five && git add five && git commit -qm five";
    lives.exec("dev", branch).expect_code(0);
    let listed = lives.cofferdam(&["list"]).expect_code(0);
    let said =
        ", once `cofferdam exec dev -- git switch main` has taken their files out of the checkout";
    let text = format!("{}{}", listed.stdout, listed.stderr);
    assert!(text.contains(said), "{text}");
    let (_, merge) = text.split_once("take them with `git ").unwrap();
    let (merge, _) = merge.split_once('`').unwrap();
    lives
        .cofferdam(&["exec", "dev", "--", "git", "switch", "-q", "main"])
        .expect_code(0);
    assert!(!lives.repository().join("five").exists());
    let words: Vec<&str> = merge.split(' ').collect();
    lives.git(&words);
    assert_eq!(lives.read("five"), "five\n");
    let seen = lives
        .exec("dev", "cat five; git log -1 --format=%s")
        .expect_code(0);
    assert_eq!(seen.stdout, "five\nfive\n");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// A login is what belongs to the login: nothing else of the file is kept for others, and forgotten it is kept no more.
#[test]
fn nothing_travels_with_a_login() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let place = "mkdir -p ~/.claude; cat > ~/.claude/.credentials.json";
    let login = r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1},"mcpOAuth":{"x":"secret"},"apiKeyHelper":"evil"}"#;
    let left = lives
        .exec("dev", &format!("echo '{login}' | ({place})"))
        .expect_code(0);
    assert!(left.stderr.contains("the login of claude-code"), "{left}");
    on_branch(&lives, "two");
    let given = lives.exec("dev-two", "cat ~/.claude/.credentials.json");
    let given = given.expect_code(0).stdout;
    assert!(given.contains("\"accessToken\":\"a\""), "{given}");
    for other in ["secret", "evil"] {
        assert!(!given.contains(other), "{given}");
    }
    // Renewed it is kept, although there is more beside it; who has that keeps it.
    let renewed = login.replace("\"a\"", "\"b\"").replace(":1}", ":2}");
    lives
        .exec("dev-two", &format!("echo '{renewed}' | ({place})"))
        .expect_code(0);
    let seen = lives.exec("dev", "cat ~/.claude/.credentials.json");
    let seen = seen.expect_code(0).stdout;
    assert!(seen.contains("\"accessToken\":\"b\""), "{seen}");
    assert!(seen.contains("secret"), "{seen}");

    let out = lives.cofferdam(&["claude-logout"]).expect_code(0);
    assert!(
        out.stderr.contains("forgot the login of Claude Code"),
        "{out}"
    );
    lives
        .exec("dev-two", &format!("echo '{renewed}' | ({place})"))
        .expect_code(0);
    on_branch(&lives, "three");
    let none = lives.exec("dev-three", "cat ~/.claude/.credentials.json");
    assert_ne!(none.status.code(), Some(0), "{none}");
    lives
        .cofferdam(&["delete", "--force", "dev", "dev-two", "dev-three"])
        .expect_code(0);
}

/// A line of the log in which its git says what it refused is as long as a line.
#[test]
fn what_its_git_refused_is_told_in_short() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let script =
        "printf '1 %s\\n' \"$(head -c 60000 /dev/zero | tr '\\0' x)\" >> /.cofferdam/guard.log";
    let left = lives.exec("dev", script).expect_code(0);
    let longest = left.stderr.lines().map(str::len).max();
    assert!(left.stderr.contains("its git refused"), "{longest:?}");
    assert!(longest.unwrap() < 1000, "{longest:?}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// A directory that was made for protection is removed where it is, and nowhere else.
#[test]
fn what_was_made_is_not_looked_for_behind_a_link() {
    let lives = Lives::new();
    lives.configure("protect: [x/y/z]\n");
    lives.cofferdam(&["start"]).expect_code(0);
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    let out = lives.temporary().join("out");
    std::fs::create_dir_all(out.join("y/z")).unwrap();
    std::fs::rename(lives.repository().join("x"), lives.repository().join("xx")).unwrap();
    std::os::unix::fs::symlink(&out, lives.repository().join("x")).unwrap();
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    assert!(out.join("y/z").is_dir());
}
