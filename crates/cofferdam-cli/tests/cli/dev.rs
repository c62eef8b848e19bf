//! Dev sandboxes: made, found and used by the checkout that they are for.

use cofferdam::fsx::write_private;

use crate::containers;
use crate::dev_untouched::GitDirectory;
use crate::environment::finish;
use crate::lives::Lives;

const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";

/// Its shell says this before it reads anything.
fn prompt(lives: &Lives, name: &str) -> String {
    let zsh = lives.exec(name, "command -v zsh").status.success();
    if zsh { "%".into() } else { "$ ".into() }
}

/// The whole of a day: nothing there, made, left, stopped, started, restarted, deleted.
// covers: S3-12, S3-37, S3-38, S3-42, S3-47, S3-48, S3-90, S3-91, S3-99, S3-100, S3-102, S3-124, S3-127
#[test]
fn a_day_in_a_checkout() {
    let lives = Lives::new();
    let none = lives.cofferdam(&["stop"]);
    assert_eq!(none.status.code(), Some(1), "{none}");
    assert!(none.stderr.contains("has no dev sandbox"), "{none}");
    assert!(none.stderr.contains("`cofferdam start`"), "{none}");

    let made = lives.cofferdam(&["start"]).expect_code(0);
    assert!(made.stderr.contains("made and started dev"), "{made}");
    let again = lives.cofferdam(&["start", "."]).expect_code(0);
    assert!(again.stderr.contains("dev is running already"), "{again}");

    // In the checkout itself, under the name of the checkout, with what outlives it.
    lives
        .exec("dev", "echo from-inside > README.md")
        .expect_code(0);
    assert_eq!(lives.read("README.md"), "from-inside\n");
    let seen = lives.exec("dev", "hostname; pwd; ls -d /repo-shelf /commandhistory");
    let seen = seen.expect_code(0).stdout;
    let name = lives.cofferdam(&["volume"]).expect_code(0).stdout;
    let hash = name
        .lines()
        .find_map(|line| line.strip_prefix("cofferdam-shelf-"))
        .unwrap();
    assert_eq!(
        seen,
        format!(
            "cofferdam-repository-{hash}\n/workspace/repository\n/commandhistory\n/repo-shelf\n"
        )
    );
    lives.git(&["checkout", "-q", "--", "."]);

    // Shells have what they need for a day.
    let shell = lives.exec(
        "dev",
        "bash -ic 'alias freeclaude ls; echo $HISTFILE$(__cofferdam_branch)' 2>/dev/null",
    );
    let said = "alias freeclaude='claude --dangerously-skip-permissions'\nalias ls='ls --color=auto'\n/commandhistory/.bash_history (main)\n";
    assert_eq!(shell.stdout, said, "{shell}");

    // Who leaves finds their commits on the branch that is checked out, and a clean tree.
    let left = lives.exec("dev", &format!("{COMMIT} one")).expect_code(0);
    assert!(left.stderr.contains("one"), "{left}");
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "main"]).trim(),
        "one"
    );
    assert_eq!(lives.git(&["status", "--porcelain"]).trim(), "");

    lives
        .exec("dev", "echo kept > ~/note; echo typed > /commandhistory/h")
        .expect_code(0);
    lives.cofferdam(&["stop"]).expect_code(0);
    assert_eq!(lives.state("dev"), "stopped");
    let by_name = lives.cofferdam(&["start"]).expect_code(0);
    assert!(by_name.stderr.contains("started dev"), "{by_name}");
    // By its path from anywhere.
    let (outside, checkout) = (lives.temporary(), lives.repository());
    for command in ["restart", "stop", "start", "restart"] {
        let words = [
            "-C",
            outside.to_str().unwrap(),
            command,
            checkout.to_str().unwrap(),
        ];
        lives.cofferdam(&words).expect_code(0);
    }
    let kept = lives.exec(".", "cat ~/note").expect_code(0);
    assert_eq!(kept.stdout, "kept\n");

    for command in ["log", "diff", "delete"] {
        let words = [
            "-C",
            outside.to_str().unwrap(),
            command,
            checkout.to_str().unwrap(),
        ];
        lives.cofferdam(&words).expect_code(0);
    }
    let none = lives.cofferdam(&["delete", "."]).expect_code(1);
    assert!(none.stderr.contains("has no dev sandbox"), "{none}");
    lives.expect_clean();
    // The home is gone with it, and what has a name is not.
    lives.cofferdam(&["start"]).expect_code(0);
    let kept = lives.exec("dev", "cat ~/note; cat /commandhistory/h");
    assert_eq!(kept.stdout, "typed\n", "{kept}");
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
    lives.expect_clean();
}

// covers: S3-39, S3-40, S3-120
#[test]
fn its_shell_comes_without_a_name() {
    let lives = Lives::new();
    // Nothing to be opened: who asks for nothing is told what there is.
    let help = lives.cofferdam(&[]);
    assert!(help.stdout.contains("Usage: cofferdam"), "{help}");
    let mut shell = lives.on_a_terminal(&["shell"]);
    shell.expect("dev:");
    shell.press("git commit --allow-empty -qm typed && echo do''ne\r");
    shell.expect("done");
    shell.press("exit\r");
    shell.ends();
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "typed");
    let end = prompt(&lives, "dev");
    // By now there is one.
    let mut shell = lives.on_a_terminal(&[]);
    shell.expect(&end);
    shell.press("echo $((40+2))\rexit\r");
    shell.expect("42");
    shell.ends();
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// Two first starts at once make one.
// covers: S3-131
#[test]
fn two_at_once_make_one() {
    let lives = Lives::new();
    let both = [(); 2].map(|()| {
        let mut command = lives.command(&["start"]);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    });
    let said = both.map(|one| crate::environment::finish(one).expect_code(0).stderr);
    let made = said
        .iter()
        .filter(|said| said.contains("made and started"))
        .count();
    let found = said
        .iter()
        .filter(|said| said.contains("running already"))
        .count();
    assert_eq!((made, found), (1, 1), "{said:?}");
    let listed = lives.cofferdam(&["list", "--names"]).expect_code(0);
    assert_eq!(listed.stdout, "dev\n");
}

/// A checkout goes its user's way, and the sandbox goes along when it is used next.
#[test]
fn what_is_checked_out_is_followed() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "on the host"]);
    let seen = lives.exec("dev", "git log -1 --format=%s; git status --porcelain");
    assert_eq!(seen.expect_code(0).stdout, "on the host\n");
    lives.git(&["switch", "-qc", "feature"]);
    lives.write("b.txt", "host\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "feature on the host"]);
    let seen = lives.exec(
        "dev",
        "git branch --show-current; git log -1 --format=%s; git status --porcelain",
    );
    let seen = seen.expect_code(0);
    assert_eq!(seen.stdout, "feature\nfeature on the host\n");
    assert!(seen.stderr.contains("dev is on feature now"), "{seen}");
    lives
        .exec("dev", &format!("{COMMIT} inside"))
        .expect_code(0);
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "feature"]).trim(),
        "inside"
    );
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "main"]).trim(),
        "on the host"
    );
    // What is on a branch here is home, also where that is not checked out any more.
    lives.exec("dev", "git branch idea").expect_code(0);
    lives.git(&["switch", "-q", "main"]);
    let seen = lives.exec("dev", "git log -1 --format=%s").expect_code(0);
    assert_eq!(seen.stdout, "on the host\n");
    assert!(!seen.stderr.contains("refused"), "{seen}");
    lives.git(&["switch", "-q", "feature"]);
    let seen = lives.exec("dev", "git log -1 --format=%s; git branch -qD idea");
    assert_eq!(seen.expect_code(0).stdout, "inside\n");
    // Nor is anything lost that is staged, or under way, inside.
    lives
        .exec("dev", "echo staged > staged; git add staged")
        .expect_code(0);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
    let stays = lives.exec(
        "dev",
        "git log -1 --format=%s; git diff --cached --name-only",
    );
    assert_eq!(stays.stdout, "inside\nstaged\n", "{stays}");
    assert!(stays.stderr.contains("stays where it is"), "{stays}");
    lives
        .exec(
            "dev",
            "git rm -q --cached staged; rm staged; touch .git/index.lock",
        )
        .expect_code(0);
    let stays = lives.exec("dev", "git log -1 --format=%s; rm .git/index.lock");
    assert_eq!(stays.stdout, "inside\n", "{stays}");
    // What it does not see is not seen as gone, also where a commit brought it.
    lives.write(".cofferdam/config.yaml", "setup: 'true'\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "configured"]);
    let seen = lives.exec("dev", "git log -1 --format=%s; git status --porcelain");
    assert_eq!(seen.stdout, "configured\n", "{seen}");
    // One that has commits of its own stays where they are.
    lives
        .cofferdam(&[
            "exec",
            "--detach",
            "dev",
            "--",
            "sh",
            "-c",
            &format!("{COMMIT} waiting; sleep 60"),
        ])
        .expect_code(0);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while lives.listed("dev").unwrap()["uncollected"] != true {
        assert!(std::time::Instant::now() < until, "it never committed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    lives.git(&["switch", "-qf", "main"]);
    let stays = lives
        .exec("dev", "git branch --show-current")
        .expect_code(0);
    assert_eq!(stays.stdout, "feature\n");
    assert!(stays.stderr.contains("stays where it is"), "{stays}");
    let main = lives.git(&["log", "-1", "--format=%s", "main"]);
    assert_eq!(main.trim(), "on the host");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// Who commits inside while somebody commits outside has a branch that went apart: both are in it when it is merged.
#[test]
fn commits_of_both_sides_are_merged() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let both = format!("{COMMIT} first; {COMMIT} inside; echo did > did; read -r _");
    let mut inside = lives.command(&["exec", "-i", "dev", "--", "sh", "-c", &both]);
    let mut inside = inside
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let did = lives.repository().join("did");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !did.exists() {
        assert!(std::time::Instant::now() < until, "it never committed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    lives.git(&["commit", "-q", "--allow-empty", "-m", "outside"]);
    drop(inside.stdin.take());
    let left = finish(inside);
    assert!(left.stderr.contains("kept"), "{left}");
    let subjects = |from: &str| lives.git(&["log", "--format=%s", from]);
    assert!(!subjects("main").contains("inside"), "the branch had moved");
    // It goes on from what it has, and says how that comes home.
    let stays = lives.exec("dev", "git log -1 --format=%s");
    assert_eq!(stays.stdout, "inside\n", "{stays}");
    assert!(stays.stderr.contains("stays where it is"), "{stays}");
    assert!(
        stays
            .stderr
            .contains("`cofferdam stop dev`, and then `cofferdam merge dev`"),
        "{stays}"
    );
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    lives.cofferdam(&["merge", "dev"]).expect_code(0);
    let merged = subjects("main");
    for subject in ["outside", "first", "inside"] {
        assert!(merged.lines().any(|one| one == subject), "{merged}");
    }
    // And it goes along.
    lives.cofferdam(&["start"]).expect_code(0);
    let seen = lives.exec("dev", "git log --format=%s");
    assert!(seen.stdout.contains("outside\n"), "{seen}");
    // A branch beside it does not keep the sandbox from going along, and takes nothing from the checkout's when it is merged.
    let idea = format!("git switch -qc idea; {COMMIT} idea; git switch -q main");
    lives.exec("dev", &idea).expect_code(0);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let seen = lives.exec("dev", "git log -1 --format=%s");
    assert_eq!(seen.stdout, "later\n", "{seen}");
    lives.cofferdam(&["stop", "dev"]).expect_code(0);
    lives.cofferdam(&["merge", "dev"]).expect_code(0);
    let merged = subjects("main");
    for subject in ["later", "idea"] {
        assert!(merged.lines().any(|one| one == subject), "{merged}");
    }
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// Two branches at once, each with a working tree of its own on one shelf, beside the checkout that all of them see.
// covers: S3-101, S3-103, S3-104, S3-105, S3-108, S3-109, S3-110, S3-111, S3-112, S3-114, S3-115, S3-116, S3-117, S3-118, S3-119, S3-121, S3-122, S3-125, S3-126, S3-130, S3-134, S3-136, S3-137
#[test]
fn branches_live_side_by_side_on_the_shelf() {
    let lives = Lives::new();
    lives.git(&["branch", "feature/one"]);
    lives.git(&[
        "remote",
        "add",
        "origin",
        "https://me:token@example.com/a.git",
    ]);
    // The host's git directory is read, and nothing of it is written.
    let before = GitDirectory::of(&lives);
    let ready = lives.cofferdam(&["checkout", "feature/one"]).expect_code(0);
    assert_eq!(ready.stdout, "/repo-shelf/worktrees/feature__one\n");
    let after = GitDirectory::of(&lives);
    assert_eq!(after.changed_since(&before), [""; 0]);
    let started = lives.cofferdam(&["list", "--names"]).expect_code(0);
    assert_eq!(started.stdout, "", "nothing is started for it");
    // One that was cut short is not taken for whole, and nothing that lies in the way is lost.
    let volumes = lives.home().join(".cofferdam/volumes");
    let shelf = std::fs::read_dir(volumes).unwrap().flatten();
    let shelf = shelf
        .map(|one| one.path().join("files"))
        .find(|one| one.join("repo").exists());
    let shelf = shelf.unwrap();
    std::fs::remove_file(shelf.join("worktrees/feature__one/README.md")).unwrap();
    write_private(&shelf.join("repo/.git/cofferdam/begun-feature__one"), b"").unwrap();
    std::fs::create_dir(shelf.join("worktrees/three")).unwrap();
    write_private(&shelf.join("worktrees/three/work"), b"mine").unwrap();
    lives.cofferdam(&["checkout", "three"]).expect_code(0);
    let aside = std::fs::read_dir(shelf.join("worktrees"))
        .unwrap()
        .flatten();
    let mut aside = aside.filter(|one| {
        one.file_name()
            .to_string_lossy()
            .starts_with("three.aside-")
    });
    let kept = aside.next().unwrap().path().join("work");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "mine");
    // Idempotent.
    lives.cofferdam(&["checkout", "feature/one"]).expect_code(0);
    lives
        .cofferdam(&["start", "--branch", "feature/one"])
        .expect_code(0);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    lives.cofferdam(&["start"]).expect_code(0);
    let at = |name: &str| {
        let done = lives.exec(
            name,
            "pwd; git branch --show-current; git log -1 --format=%s",
        );
        done.expect_code(0).stdout
    };
    assert_eq!(
        at("dev-feature-one"),
        "/repo-shelf/worktrees/feature__one\nfeature/one\nstart\n"
    );
    assert_eq!(at("dev-two"), "/repo-shelf/worktrees/two\ntwo\nstart\n");
    assert_eq!(at("dev"), "/workspace/repository\nmain\nstart\n");
    let whole = lives.exec("dev-feature-one", "git status --porcelain");
    assert_eq!(whole.expect_code(0).stdout, "");
    // What one commits there, the others see; the checkout does not have it.
    lives
        .exec("dev-two", &format!("{COMMIT} on-two"))
        .expect_code(0);
    let seen = lives.exec("dev", "git -C /repo-shelf/worktrees/two log -1 --format=%s; git -C /repo-shelf/repo worktree list | wc -l");
    assert_eq!(seen.expect_code(0).stdout, "on-two\n4\n");
    let script = "ls /workspace/repository/README.md; git config remote.origin.url; git config remote.host.url";
    let seen = lives.exec("dev-feature-one", script).expect_code(0);
    let said = "/workspace/repository/README.md\nhttps://example.com/a.git\nfile:///workspace/repository\n";
    assert_eq!(seen.stdout, said);
    // Each with its mode and place, and what it has that outlives it.
    let wide = lives.cofferdam(&["list", "--wide"]).expect_code(0).stdout;
    for (name, mode, place) in [
        ("dev-two", "branch", "/repo-shelf/worktrees/two"),
        ("dev", "bind", "/workspace/repository"),
    ] {
        let mut lines = wide.lines().map(|line| line.split_whitespace().collect());
        let line: Vec<&str> = lines
            .find(|line: &Vec<&str>| line.first() == Some(&name))
            .unwrap();
        assert_eq!(line[1..4], ["dev", "native", mode], "{wide}");
        assert_eq!(line.last(), Some(&place), "{wide}");
    }
    let volumes = lives.listed("dev-two").unwrap()["volumes"].clone();
    assert_eq!(volumes.as_array().unwrap().len(), 2, "{volumes}");
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "main"]).trim(),
        "start"
    );
    // The work on it outlives the sandboxes.
    let used = lives.cofferdam(&["volume", "list"]).expect_code(0).stdout;
    let shelf = used.lines().find(|line| line.contains("shelf")).unwrap();
    for name in ["dev", "dev-feature-one", "dev-two"] {
        assert!(shelf.contains(name), "{used}");
    }
    let volume = shelf.split(' ').next().unwrap();
    let refused = lives.cofferdam(&["volume", "remove", volume]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(refused.stderr.contains("is used by sandboxes"), "{refused}");
    for name in ["dev", "dev-feature-one", "dev-two"] {
        lives.cofferdam(&["delete", name]).expect_code(0);
    }
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    assert_eq!(at("dev-two"), "/repo-shelf/worktrees/two\ntwo\non-two\n");
    let archive = lives.home().join("shelf.tar");
    lives
        .cofferdam(&["volume", "export", volume, archive.to_str().unwrap()])
        .expect_code(0);
    assert!(archive.metadata().unwrap().len() > 10_000);
    lives.cofferdam(&["delete", "dev-two"]).expect_code(0);
    lives
        .cofferdam(&["volume", "remove", "--force", volume])
        .expect_code(0);
    lives.expect_clean();
}

/// While programs work in the checkout nothing is merged into it; who stops them can merge, and finds it inside.
#[test]
fn work_of_others_is_merged_while_it_stands() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let ran = lives.run(
        &["--name", "task", "--network", "none"],
        "echo new > new; git add new; git commit -qm task",
    );
    assert!(ran.stdout.contains("`cofferdam stop dev` first"), "{ran}");
    let refused = lives.cofferdam(&["merge", "task"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    assert!(
        refused.stdout.contains("sandbox `dev` is at work in"),
        "{refused}"
    );
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "start");
    lives.cofferdam(&["stop"]).expect_code(0);
    lives.cofferdam(&["merge", "task"]).expect_code(0);
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "task");
    lives.cofferdam(&["start"]).expect_code(0);
    let seen = lives.exec(
        "dev",
        "cat new; git log -1 --format=%s; git status --porcelain",
    );
    assert_eq!(seen.expect_code(0).stdout, "new\ntask\n");
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// A branch that began further back comes home beside what is checked out; what goes on from nothing of the host's does not.
#[test]
fn a_branch_from_an_older_commit_comes_home_too() {
    let lives = Lives::new();
    lives.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    lives.cofferdam(&["start"]).expect_code(0);
    let script = format!("git switch -qc old HEAD~1 && {COMMIT} on-old && git switch -q main");
    let left = lives.exec("dev", &script).expect_code(0);
    assert!(left.stderr.contains("refs/cofferdam/"), "{left}");
    assert!(!left.stderr.contains("refused"), "{left}");
    let kept = lives.git(&["for-each-ref", "--format=%(subject)", "refs/cofferdam"]);
    assert!(kept.lines().any(|line| line == "on-old"), "{kept}");
    let script = format!("git switch -q --orphan alone && {COMMIT} alone && git switch -q main");
    let left = lives.exec("dev", &script).expect_code(0);
    assert!(left.stderr.contains("does not descend"), "{left}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

// covers: S3-138
#[test]
fn what_does_not_go_together_is_refused() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let done = lives.cofferdam(&["start", "--env", "A=1"]);
    assert_eq!(done.status.code(), Some(2), "{done}");
    assert!(done.stderr.contains("dev is there already"), "{done}");
    // What it has already may be said again; what it has not is named.
    lives.write("../shown/a.txt", "a\n");
    let with = ["start", "--branch", "with", "--network", "none"];
    let with = [&with[..], &["--mount", "../shown"]].concat();
    for _ in 0..2 {
        lives.cofferdam(&with).expect_code(0);
    }
    let other = ["start", "--branch", "with", "--network", "open"];
    let other = [&other[..], &["--mount", "../shown:/other"]].concat();
    let other = lives.cofferdam(&other).expect_code(2);
    let named = "dev-with is there already, and was not made with this `--network`, `--mount`";
    assert!(other.stderr.contains(named), "{other}");
    lives
        .cofferdam(&["delete", "--force", "dev-with"])
        .expect_code(0);
    let done = lives.cofferdam(&["start", "dev", "--branch", "x"]);
    assert_eq!(done.status.code(), Some(2), "{done}");
    let done = lives.cofferdam(&["start", "--branch", "y", "--build"]);
    assert_eq!(done.status.code(), Some(2), "{done}");
    assert!(done.stderr.contains("this sandbox is native"), "{done}");
    assert_eq!(lives.listed("dev-y"), None);
    lives
        .cofferdam(&["start", "--branch", "stopped"])
        .expect_code(0);
    lives
        .cofferdam(&["stop", "--branch", "stopped"])
        .expect_code(0);
    assert_eq!(lives.state("dev-stopped"), "stopped");
    assert_eq!(lives.state("dev"), "active");
    lives.cofferdam(&["delete", "dev-stopped"]).expect_code(0);
    let done = lives.cofferdam(&["start", "./nowhere"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    lives.cofferdam(&["pause", "dev"]).expect_code(0);
    let done = lives.cofferdam(&["start"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.contains("cofferdam resume dev"), "{done}");
    lives.cofferdam(&["resume", "dev"]).expect_code(0);
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// Somebody has a sandbox called so already.
#[test]
fn a_name_that_is_taken_is_another_ones() {
    let lives = Lives::with("dev", &["--network", "none"]);
    let made = lives.cofferdam(&["start"]).expect_code(0);
    assert!(made.stderr.contains("made and started dev-2"), "{made}");
    assert_eq!(lives.state("dev-2"), "active");
    let again = lives.cofferdam(&["start"]).expect_code(0);
    assert!(again.stderr.contains("dev-2 is running already"), "{again}");
    lives.cofferdam(&["delete", "dev", "dev-2"]).expect_code(0);
}

/// In a container it is the same, under the name that the documents give it.
// covers: S3-98, S3-128, S3-129
#[test]
fn a_day_in_a_container() {
    for world in containers::worlds() {
        let making = [
            "start",
            "--sandbox",
            world.engine,
            "--image",
            containers::IMAGE,
        ];
        world.cofferdam(&making).expect_code(0);
        let script = "hostname; pwd; echo typed >> /commandhistory/h; cat /commandhistory/h; echo x > README.md";
        let seen = world.exec_in("dev", script).expect_code(0).stdout;
        let name = world.cofferdam(&["volume"]).expect_code(0).stdout;
        let hash = name
            .lines()
            .find_map(|line| line.strip_prefix("cofferdam-shelf-"))
            .unwrap();
        let named = format!("cofferdam-repository-{hash}");
        assert!(seen.starts_with(&format!("{named}\n")), "{seen}");
        assert!(seen.ends_with("/workspace/repository\ntyped\n"), "{seen}");
        assert_eq!(world.environment.read("README.md"), "x\n");
        let container = world.agents();
        let told = containers::own(
            world.engine,
            &["inspect", "--format", "{{.Name}}", &container],
        );
        assert_eq!(
            told.unwrap().trim().trim_start_matches('/'),
            named,
            "{}",
            world.engine
        );
        let left = world
            .exec_in("dev", "git commit -qam inside")
            .expect_code(0);
        assert!(left.stderr.contains("inside"), "{left}");
        let subject = world.environment.git(&["log", "-1", "--format=%s", "main"]);
        assert_eq!(subject.trim(), "inside");
        let refused = world.exec_in("dev", "git commit -q --allow-empty --no-verify -m x");
        assert_eq!(refused.status.code(), Some(1), "{refused}");
        // Its container is another one, and what outlives it is the same.
        world.cofferdam(&["restart"]).expect_code(0);
        assert_ne!(world.agents(), container);
        let making = [
            "start",
            "--branch",
            "two",
            "--sandbox",
            world.engine,
            "--image",
            containers::IMAGE,
        ];
        world.cofferdam(&making).expect_code(0);
        let seen = world.exec_in(
            "dev-two",
            "cat /commandhistory/h; pwd; git branch --show-current",
        );
        let place = "/repo-shelf/worktrees/two";
        assert_eq!(seen.expect_code(0).stdout, format!("typed\n{place}\ntwo\n"));
        // Both at once, on one shelf.
        let beside = format!("cd {place} && git branch --show-current");
        let seen = world.exec_in("dev", &beside).expect_code(0);
        assert_eq!(seen.stdout, "two\n");
        let listed = world.cofferdam(&["list", "--wide"]).expect_code(0).stdout;
        let line = |name: &str| {
            let line = listed.lines().find(|line| line.starts_with(name));
            line.unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(line("dev-two ").contains(" branch active two "), "{listed}");
        assert!(line("dev-two ").ends_with(place), "{listed}");
        assert!(line("dev ").contains(" bind active main "), "{listed}");
        let push = "git commit -q --allow-empty -m pushed && git push host two";
        let pushed = world.exec_in("dev-two", push).expect_code(0);
        let subject = world.environment.git(&["log", "-1", "--format=%s", "two"]);
        assert_eq!(subject.trim(), "pushed", "{pushed}");
        let refused = world.exec_in("dev-two", "git push host two:main");
        assert!(
            refused.stderr.contains("checked out on the host"),
            "{refused}"
        );
        world
            .cofferdam(&["delete", "dev", "dev-two"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}

/// Where its programs start is all that a branch changes: what they may reach, and what git does, is the same.
// covers: S3-58, S3-113
#[test]
fn a_branch_beside_has_the_same_wall_and_guard() {
    let lives = Lives::new();
    lives.git(&["branch", "two"]);
    lives.cofferdam(&["start"]).expect_code(0);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let look_up = "python3 -c 'import socket; socket.getaddrinfo(\"not-allowed.test\", 443)'";
    for name in ["dev", "dev-two"] {
        let refused = lives.exec(name, "git commit -q --allow-empty --no-verify -m x");
        assert_eq!(refused.status.code(), Some(1), "{refused}");
        let unknown = lives.exec(name, look_up);
        assert_ne!(unknown.status.code(), Some(0), "{unknown}");
        let log = lives.cofferdam(&["net", "log", name]).expect_code(0);
        assert!(log.stdout.contains("not-allowed.test"), "{name}: {log}");
        let status = lives.cofferdam(&["status", name, "--json"]).expect_code(0);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["network"], "allowlist");
        assert_eq!(status["wall"], "carried");
    }
    // What its user has committed there since is on the shelf when they bring it.
    lives.git(&["switch", "-q", "two"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "of the user's"]);
    lives.git(&["switch", "-q", "main"]);
    lives.cofferdam(&["checkout", "two"]).expect_code(0);
    let merged = lives.exec(
        "dev-two",
        "git merge -q --ff-only host/two && git log -1 --format=%s",
    );
    assert_eq!(merged.expect_code(0).stdout, "of the user's\n");
    lives
        .cofferdam(&["delete", "--force", "dev", "dev-two"])
        .expect_code(0);
    lives.expect_clean();
}

/// What the gate would refuse, or what only switches hooks off, is refused where it is typed, and told to who leaves.
// covers: S3-11, S3-66
#[test]
fn its_git_says_what_it_does_not_do() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let script = "echo one >> README.md; git commit -qa --no-verify -m skipped; git -c core.hooksPath=/dev/null commit -qam skipped";
    let done = lives.exec("dev", script);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.contains("--no-verify"), "{done}");
    assert!(done.stderr.contains("note: its git refused: 20"), "{done}");
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "start");
    // The control: it is the words that are refused, and nothing is told twice.
    let done = lives
        .exec("dev", "git commit -qam 'git push --force'")
        .expect_code(0);
    assert!(!done.stderr.contains("its git refused"), "{done}");
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s"]).trim(),
        "git push --force"
    );
    let pushed = lives.exec("dev", "git push --force host main");
    assert_eq!(pushed.status.code(), Some(1), "{pushed}");
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// They are nobody's to write, whether they are there or not, and no directory above them is moved away.
// covers: S3-59, S3-60, S3-61, S3-62, S3-64, S3-65, S3-71, S3-72, S3-95
#[test]
fn protected_paths_are_read_only_before_they_are_there() {
    let lives = Lives::new();
    lives.write(
        ".cofferdam/config.yaml",
        "protect: [guarded/deep, later.sql]\n",
    );
    lives.write(".cofferdam/guard/user-context.json", "{}\n");
    lives.cofferdam(&["start"]).expect_code(0);
    let script = "for path in .husky guarded/deep .git/hooks .cofferdam .cofferdam/guard; do mkdir -p $path 2>/dev/null; touch $path/x 2>/dev/null && echo $path; done; \
                  mv guarded other 2>/dev/null && echo moved; rm -r guarded 2>/dev/null && echo removed; \
                  mv .husky other 2>/dev/null && echo moved; touch guarded/beside && echo beside";
    let seen = lives.exec("dev", script);
    assert_eq!(seen.stdout, "beside\n", "{seen}");
    assert!(!lives.repository().join("later.sql").exists());
    assert!(lives.repository().join(".husky").is_dir());
    let context = ".cofferdam/guard/user-context.json";
    let write = format!("echo '{{\"no\": 1}}' > {context}; rm {context}; mv .cofferdam gone");
    lives.exec("dev", &write);
    assert_eq!(lives.read(context), "{}\n");
    // Made later on, it does not come home.
    let done = lives.exec(
        "dev",
        "echo x > later.sql; git add -A; git commit -qm protected",
    );
    assert!(done.stderr.contains("later.sql"), "{done}");
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "start");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    assert!(!lives.repository().join(".husky").exists());
    assert!(!lives.repository().join("guarded/deep").exists());
}

pub(crate) const LOGIN: &str =
    r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}"#;

/// A login that a person made inside is there after the sandbox was made anew, and in every other one.
// covers: S3-45 S1-123 S1-125
#[test]
fn logins_outlive_their_sandbox() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let login = format!("mkdir -p ~/.claude && printf %s '{LOGIN}' > ~/.claude/.credentials.json");
    let left = lives.exec("dev", &login).expect_code(0);
    assert!(
        left.stderr
            .contains("the login of claude-code that was made in dev is kept"),
        "{left}"
    );
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let seen = lives
        .exec("dev-two", "cat ~/.claude/.credentials.json")
        .expect_code(0);
    assert_eq!(seen.stdout, LOGIN);
    // Renewed inside it is renewed for all; what is none is left where it is.
    let renewed = LOGIN.replace("\"a\"", "\"b\"").replace(":1}", ":2}");
    let write = |text: &str| format!("printf %s '{text}' > ~/.claude/.credentials.json");
    lives.exec("dev-two", &write(&renewed)).expect_code(0);
    let kept = lives
        .home()
        .join(".cofferdam/volumes/cofferdam-creds/files/.credentials.json");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), renewed);
    lives
        .exec(
            "dev-two",
            &write("{\"claudeAiOauth\":{\"accessToken\":\"theirs\"}}"),
        )
        .expect_code(0);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), renewed);
    let listed = lives.cofferdam(&["volume", "list"]).expect_code(0);
    assert!(listed.stdout.contains("cofferdam-creds"), "{listed}");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

// covers: S3-46, S3-75, S3-77, S3-78, S3-79, S3-80, S3-81, S3-82, S3-83, S3-84, S3-85, S3-86, S3-87, S3-88, S3-89
#[test]
fn codex_is_set_up_once_for_all() {
    let lives = Lives::new();
    let none = lives.cofferdam(&["codex-init-config", "--auth"]);
    assert_eq!(none.status.code(), Some(1), "{none}");
    assert!(none.stderr.contains("codex login"), "{none}");
    assert!(!lives.home().join(".cofferdam/volumes").exists());
    let files = lives
        .home()
        .join(".cofferdam/volumes/cofferdam-codex-config/files");
    let read = |name: &str| std::fs::read_to_string(files.join(name)).ok();
    lives.cofferdam(&["codex-init-config"]).expect_code(0);
    let config = read("config.toml").unwrap();
    assert_eq!(
        config,
        "[profiles.high]\nmodel = \"gpt-5\"\n# Constrains reasoning effort for reasoning-capable models\nreasoning_effort = \"high\"\n# As Codex reads it\nmodel_reasoning_effort = \"high\"\n"
    );
    for said in ["Purpose", "Persistence", "ast-grep", "sandbox"] {
        assert!(read("AGENTS.md").unwrap().contains(said), "{said}");
    }
    // As it is, unless it is to be replaced.
    write_private(&files.join("config.toml"), b"mine").unwrap();
    let again = lives.cofferdam(&["codex-init-config"]).expect_code(0);
    assert!(
        again.stderr.contains("config.toml is there already"),
        "{again}"
    );
    assert_eq!(read("config.toml").unwrap(), "mine");
    lives
        .cofferdam(&["codex-init-config", "--force"])
        .expect_code(0);
    assert_eq!(read("config.toml").unwrap(), config);
    // The login is replaced whenever it is asked for.
    let own = lives.home().join(".codex");
    std::fs::create_dir_all(&own).unwrap();
    for (text, good) in [
        ("{\"x\":1}", false),
        ("{\"OPENAI_API_KEY\":\"one\"}", true),
        ("{\"OPENAI_API_KEY\":\"two\"}", true),
    ] {
        write_private(&own.join("auth.json"), text.as_bytes()).unwrap();
        let done = lives.cofferdam(&["codex-init-config", "--auth"]);
        assert_eq!(done.status.success(), good, "{done}");
        if good {
            assert_eq!(read("auth.json").unwrap(), text);
        }
    }
    write_private(&own.join("profile.json"), b"{}").unwrap();
    lives
        .cofferdam(&["codex-init-config", "--auth"])
        .expect_code(0);
    assert_eq!(read("profile.json").unwrap(), "{}");
    // Inside, and what is there stays.
    lives.cofferdam(&["start"]).expect_code(0);
    let script = "cat ~/.codex/auth.json; head -1 ~/.codex/config.toml; ls ~/.codex";
    let seen = lives.exec("dev", script).expect_code(0).stdout;
    assert_eq!(
        seen,
        "{\"OPENAI_API_KEY\":\"two\"}[profiles.high]\nAGENTS.md\nauth.json\nconfig.toml\nprofile.json\n"
    );
    let logout = lives.cofferdam(&["codex-logout"]).expect_code(0);
    assert!(
        logout.stderr.contains("and 1 of it in sandboxes"),
        "{logout}"
    );
    assert_eq!((read("auth.json"), read("profile.json")), (None, None));
    assert_eq!(read("config.toml").unwrap(), config);
    // Nothing brings it back, not a program either that still has it.
    let again = "printf '{\"OPENAI_API_KEY\":\"two\"}' > ~/.codex/auth.json";
    lives.exec("dev", again).expect_code(0);
    assert_eq!(read("auth.json"), None);
    lives.exec("dev", "rm ~/.codex/auth.json").expect_code(0);
    let seen = lives.exec("dev", "ls ~/.codex").expect_code(0).stdout;
    assert_eq!(seen, "AGENTS.md\nconfig.toml\nprofile.json\n");
    assert_eq!(read("auth.json"), None);
    lives.cofferdam(&["codex-logout"]).expect_code(0);
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// Others can live in the checkout as well.
#[test]
fn one_with_a_name_lives_in_the_checkout_too() {
    let lives = Lives::with("box", &["--head", "--network", "none"]);
    lives
        .exec(
            "box",
            "git init -q sub; git -C sub config core.fsmonitor 'touch ran'; sleep 1",
        )
        .expect_code(0);
    assert!(!lives.repository().join("sub/.git").exists());
    let told = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(told.stderr.contains("sub/.git"), "{told}");
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    let kept = lives.run(
        &["--keep", "--head", "--name", "kept", "--network", "none"],
        "touch made",
    );
    kept.expect_code(0);
    assert!(lives.repository().join("made").exists());
    assert_eq!(lives.state("kept"), "active");
    lives
        .cofferdam(&["delete", "--force", "kept"])
        .expect_code(0);
}

impl containers::World {
    #[track_caller]
    pub(crate) fn exec_in(&self, name: &str, script: &str) -> crate::environment::Done {
        self.cofferdam(&["exec", name, "--", "sh", "-c", script])
    }
}
