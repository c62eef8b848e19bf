//! `git push host`, from dev sandboxes: through the gate, and never to what is checked out.

use cofferdam::fsx::write_private;

use crate::containers::World;
use crate::environment::{Done, TestEnvironment};
use crate::everywhere::everywhere;
use crate::lives::Lives;

/// The sandbox on the branch `feature`.
const FEATURE: &str = "dev-feature";
const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";

/// The branch is there on the host too.
fn on_feature() -> Lives {
    let lives = Lives::new();
    lives.git(&["branch", "feature"]);
    lives
        .cofferdam(&["start", "--branch", "feature"])
        .expect_code(0);
    lives
}

fn subject(environment: &TestEnvironment, branch: &str) -> String {
    let subject = environment.git(&["log", "-1", "--format=%s", branch, "--"]);
    subject.trim().to_owned()
}

/// Nothing moves on the host, and it is said why.
#[track_caller]
fn refused(lives: &Lives, script: &str, why: &[&str]) {
    is_refused(lives, || lives.exec(FEATURE, script), why);
}

#[track_caller]
fn refused_in(world: &World, script: &str, why: &[&str]) {
    is_refused(&world.environment, || world.exec_in(FEATURE, script), why);
}

#[track_caller]
fn is_refused(environment: &TestEnvironment, push: impl Fn() -> Done, why: &[&str]) {
    let before = environment.git(&["for-each-ref", "refs/heads"]);
    let done = push();
    assert_eq!(done.status.code(), Some(1), "{done}");
    for why in why {
        assert!(done.stderr.contains(why), "{why}: {done}");
    }
    let after = environment.git(&["for-each-ref", "refs/heads"]);
    assert_eq!(before, after, "{done}");
}

/// The dev sandbox of the branch `feature`, which the host has, in what this world has sandboxes in.
fn start_on_feature(world: &World) {
    world.environment.git(&["branch", "feature"]);
    world.start(&["--branch", "feature"]);
}

// covers: S3-106, S3-133, S3-135
#[test]
fn a_branch_moves_while_the_sandbox_lives() {
    let lives = on_feature();
    // The host's own hooks are its user's, and no push from inside runs them.
    let ran = lives.home().join("ran");
    let hooks = [
        "pre-receive",
        "update",
        "post-receive",
        "reference-transaction",
    ];
    let hook = |name: &str| lives.repository().join(".git/hooks").join(name);
    for name in hooks {
        let script = format!("#!/bin/sh\ntouch {}\n", ran.display());
        cofferdam::fsx::write_with_mode(&hook(name), script.as_bytes(), 0o755).unwrap();
    }
    let push = format!(
        "{COMMIT} one && git push host feature && git rev-parse HEAD refs/remotes/host/feature"
    );
    let pushed = lives.exec(FEATURE, &push).expect_code(0);
    assert!(pushed.stderr.contains("feature -> feature"), "{pushed}");
    assert!(pushed.stderr.contains("feature went from"), "{pushed}");
    assert!(!ran.exists());
    for name in hooks {
        std::fs::remove_file(hook(name)).unwrap();
    }
    let tip = lives.git(&["rev-parse", "feature"]);
    assert_eq!(pushed.stdout, format!("{tip}\n{tip}\n"), "{pushed}");
    assert_eq!(subject(&lives, "main"), "start");
    // Once more, from where it is now; and who leaves is told nothing twice.
    let push = format!("{COMMIT} two && git push host feature && git push host feature");
    let pushed = lives.exec(FEATURE, &push).expect_code(0);
    assert!(
        pushed.stderr.contains(&format!("{}..", &tip[..7])),
        "{pushed}"
    );
    assert!(pushed.stderr.contains("Everything up-to-date"), "{pushed}");
    assert_eq!(subject(&lives, "feature"), "two");
    let left = lives.exec(FEATURE, "true").expect_code(0);
    assert!(!left.stderr.contains("feature"), "{left}");
    // From the sandbox of what is checked out: the shelf is the same, and its own repository has the remote too.
    lives.cofferdam(&["start"]).expect_code(0);
    let there = "cd /repo-shelf/worktrees/feature";
    let script = format!("{there} && {COMMIT} three && git push -q host feature");
    lives.exec("dev", &script).expect_code(0);
    assert_eq!(subject(&lives, "feature"), "three");
    let script = format!(
        "git switch -qc cofferdam/idea && {COMMIT} idea && git push host cofferdam/idea && {COMMIT} more && git push host HEAD && git switch -q main"
    );
    let pushed = lives.exec("dev", &script).expect_code(0);
    assert_eq!(subject(&lives, "cofferdam/idea"), "more", "{pushed}");
    assert!(!pushed.stderr.contains("refs/cofferdam/"), "{pushed}");
    assert!(pushed.stderr.contains("cofferdam/idea is new"), "{pushed}");
    let own = lives.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam"]);
    assert!(!own.contains("pushed"), "{own}");
    // A commit that came from the host is one that it has: a branch goes there without a pack.
    let script = "git branch cofferdam/here HEAD && git push host cofferdam/here";
    lives.exec("dev", script).expect_code(0);
    assert_eq!(subject(&lives, "cofferdam/here"), "start");
    // Nothing is to move, and nothing does.
    let dry = format!("{there} && {COMMIT} dry && git push --dry-run host feature");
    lives.exec("dev", &dry).expect_code(0);
    assert_eq!(subject(&lives, "feature"), "three");
    lives
        .cofferdam(&["delete", "--force", "dev", FEATURE])
        .expect_code(0);
    lives.expect_clean();
}

// covers: S3-107, S3-132
#[test]
fn what_is_not_its_to_move_stays() {
    everywhere(85, what_is_not_its_to_move_stays_in);
}

fn what_is_not_its_to_move_stays_in(world: &World) {
    start_on_feature(world);
    world.environment.git(&["branch", "other"]);
    world
        .exec_in(FEATURE, &format!("{COMMIT} one"))
        .expect_code(0);
    let elsewhere = "git init -q /tmp/x && cd /tmp/x && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x && git push cofferdam::host HEAD:refs/heads/feature";
    let bad = "blob=$(echo x | git hash-object -w --stdin); tree=$({ git ls-tree HEAD; printf '100644 blob %s\\t.GIT\\n' $blob; } | git mktree); \
        git push host $(git commit-tree -p HEAD -m bad $tree):refs/heads/cofferdam/bad";
    let cases: [(&str, &[&str]); 8] = [
        (
            "git push host feature:main",
            &["the branch is checked out on the host"],
        ),
        (
            "git push host feature:other",
            &["not this sandbox's", "`cofferdam checkout other`"],
        ),
        ("git push host feature:new", &["not this sandbox's"]),
        (
            "git push host :feature",
            &["no branch of the host's is removed"],
        ),
        (
            "git push host --delete feature",
            &["no branch of the host's is removed"],
        ),
        ("git tag v1; git push host v1", &["only branches"]),
        (bad, &["the commit gate refuses it", "`.git` in some form"]),
        (elsewhere, &["the commit is not there"]),
    ];
    for (script, why) in cases {
        refused_in(world, script, why);
    }
    // What a server would be told beside it, nobody hears: git itself says so, and asks for nothing.
    let before = world.environment.git(&["for-each-ref", "refs/heads"]);
    let options = world.exec_in(FEATURE, "git push -o merge_request.merge host feature");
    assert!(!options.status.success(), "{options}");
    assert_eq!(
        world.environment.git(&["for-each-ref", "refs/heads"]),
        before
    );
    // By git itself, past the one that explains.
    let script = "real=$(which -a git | grep -v cofferdam | head -n 1); \
        git push -q host feature && git commit -q --amend -m rewritten && $real push -f host feature";
    let done = world.exec_in(FEATURE, script);
    assert!(done.stderr.contains("moves only forward"), "{done}");
    assert_eq!(subject(&world.environment, "feature"), "one");
    world
        .exec_in(FEATURE, "git reset -q --hard host/feature")
        .expect_code(0);
    // Protected is protected, on whatever way.
    refused_in(
        world,
        "mkdir .husky; echo x > .husky/pre-commit; git add -A; git commit -qm husky; git push host feature",
        &["the commit gate refuses it", ".husky/pre-commit"],
    );
    world
        .exec_in(FEATURE, "git reset -q --hard HEAD~1")
        .expect_code(0);
    // So is what the configuration protects by now.
    world.environment.configure("protect: [guarded]\n");
    refused_in(
        world,
        "mkdir guarded; echo x > guarded/x; git add -A; git commit -qm guarded; git push host feature",
        &["the commit gate refuses it", "guarded/x"],
    );
    world
        .exec_in(FEATURE, "git reset -q --hard HEAD~1")
        .expect_code(0);
    // Who commits on the host meanwhile keeps that, and what is said then helps.
    let tree = world.environment.git(&["rev-parse", "feature^{tree}"]);
    let ours = [
        "commit-tree",
        "-p",
        "feature",
        "-m",
        "on the host",
        tree.trim(),
    ];
    let ours = world.environment.git(&ours);
    world
        .environment
        .git(&["branch", "-f", "feature", ours.trim()]);
    let push = format!("{COMMIT} inside; git push host feature");
    let why = ["not a fast-forward", "`cofferdam checkout feature`"];
    refused_in(world, &push, &why);
    world.cofferdam(&["checkout", "feature"]).expect_code(0);
    let merge = "git merge -q -m merged host/feature && git push -q host feature";
    world.exec_in(FEATURE, merge).expect_code(0);
    assert_eq!(subject(&world.environment, "feature"), "merged");
    world
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// What its user did on another branch is no work of the sandbox's, wherever it comes in.
#[test]
fn what_is_merged_from_the_host_is_the_hosts() {
    let lives = Lives::new();
    let commits = |path: &str| {
        lives.write(path, "true\n");
        lives.git(&["add", "-A"]);
        lives.git(&["commit", "-qm", "of the user's"]);
    };
    lives.git(&["switch", "-qc", "feature"]);
    commits(".husky/of-feature");
    lives.git(&["switch", "-q", "main"]);
    lives
        .cofferdam(&["start", "--branch", "feature"])
        .expect_code(0);
    lives.exec(FEATURE, &format!("{COMMIT} one")).expect_code(0);
    // Each of the two has something that a sandbox may not change, and is in no history of the other one.
    commits(".husky/pre-commit");
    // Nor is a merge the way to take back what its user did.
    let undone = "git fetch -q host main && git merge -q --no-commit FETCH_HEAD && git rm -qf .husky/of-feature && git commit -qm undone && git push host feature";
    refused(&lives, undone, &[".husky/of-feature"]);
    lives
        .exec(FEATURE, "git reset -q --hard HEAD~1")
        .expect_code(0);
    let merge =
        "git fetch -q host main && git merge -q -m merged FETCH_HEAD && git push host feature";
    let pushed = lives.exec(FEATURE, merge).expect_code(0);
    assert_eq!(subject(&lives, "feature"), "merged", "{pushed}");
    // The control: another one is its own.
    let other = "echo other > .husky/pre-commit; git commit -qam changed; git push host feature";
    refused(&lives, other, &[".husky/pre-commit"]);
    lives
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// A branch moves once its checks succeed.
#[test]
fn what_is_pushed_is_checked() {
    let lives = Lives::new();
    let config = lives.home().join(".cofferdam/config.yaml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    write_private(
        &config,
        b"gate:\n  checks:\n    - cmd: if ls | grep -q ^ba; then echo because of it; exit 3; fi\n",
    )
    .unwrap();
    lives.git(&["branch", "feature"]);
    lives
        .cofferdam(&["start", "--branch", "feature"])
        .expect_code(0);
    let bad = "touch bad; git add -A; git commit -qm bad; git push host feature";
    let why = [
        "its checks did not succeed",
        "grep -q ^ba",
        "host: because of it\n",
    ];
    refused(&lives, bad, &why);
    // Whoever pushes merges nothing.
    let again = lives.exec(FEATURE, "git push host feature").expect_code(1);
    assert!(!again.stderr.contains("--no-checks"), "{again}");
    let good = "git rm -q bad; git commit -qm good; git push host feature";
    lives.exec(FEATURE, good).expect_code(0);
    assert_eq!(subject(&lives, "feature"), "good");
    lives
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// Who goes around the guard and the hooks of the repository meets the checks: they ask nobody how a commit was made.
#[test]
fn what_went_around_guard_and_hooks_is_checked() {
    everywhere(84, what_went_around_guard_and_hooks_is_checked_in);
}

fn what_went_around_guard_and_hooks_is_checked_in(world: &World) {
    const NO: &str = "no, says the hook";
    world
        .environment
        .configure("gate: {checks: [{cmd: 'if ls | grep -q ^ba; then exit 3; fi'}]}\n");
    let hook = format!(
        "#!/bin/sh\n[ \"$HUSKY\" = 0 ] && exit 0\nif ls | grep -q ^ba; then echo {NO} >&2; exit 1; fi\n"
    );
    let place = world.environment.repository().join(".git/hooks/pre-commit");
    cofferdam::fsx::write_with_mode(&place, hook.as_bytes(), 0o755).unwrap();
    start_on_feature(world);
    // The control: they hold off who does not go around them.
    let held = world.exec_in(FEATURE, "echo x > bad; git add bad; git commit -qm bad");
    assert!(held.stderr.contains(NO), "{held}");
    let held = world.exec_in(FEATURE, "git commit -nqm bad");
    assert!(held.stderr.contains("is refused in this sandbox"), "{held}");
    let real = "real=$(which -a git | grep -v cofferdam | head -n 1)";
    for around in [
        "$real commit -q --no-verify -m bad",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null $real commit -qm bad",
        "git update-ref HEAD $(git commit-tree -p HEAD -m bad $(git write-tree))",
        "HUSKY=0 $real commit -qm bad",
    ] {
        let script = format!("{real}; {around} || exit 9; git push host feature");
        refused_in(world, &script, &["its checks did not succeed"]);
        let inside = world.exec_in(
            FEATURE,
            "git log -1 --format=%s; git reset -q --soft HEAD~1",
        );
        assert_eq!(inside.stdout, "bad\n", "{around}: {inside}");
        assert_eq!(subject(&world.environment, "feature"), "start", "{around}");
    }
    let good = "git rm -qf bad; git commit -q --allow-empty -m good; git push host feature";
    world.exec_in(FEATURE, good).expect_code(0);
    assert_eq!(subject(&world.environment, "feature"), "good");
    world
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// So many processes of this machine that do as the check does.
fn checking() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let words = processes.map(|one| std::fs::read(one.path().join("cmdline")).unwrap_or_default());
    words
        .filter(|words| words == b"sleep\x001.2173\x00")
        .count()
}

/// One is looked at after the other, and so many in a minute.
// covers: S3-133
#[test]
fn pushes_take_turns() {
    let lives = Lives::new();
    lives.git(&["branch", "feature"]);
    lives.configure("gate: {checks: [{cmd: sleep 1.2173}]}\n");
    lives
        .cofferdam(&["start", "--branch", "feature"])
        .expect_code(0);
    let two = "for b in a b; do echo $b > new; git add -A; git commit -qm $b; git branch cofferdam/$b; done; \
        for b in a b; do git push -q host cofferdam/$b & done; wait";
    let most = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| lives.exec(FEATURE, two).expect_code(0));
        let mut most = 0;
        while !pushing.is_finished() {
            most = most.max(checking());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        pushing.join().unwrap();
        most
    });
    assert_eq!(most, 1);
    for branch in ["a", "b"] {
        assert_eq!(subject(&lives, &format!("cofferdam/{branch}")), branch);
    }
    // Another sandbox has a minute of its own.
    lives.git(&["branch", "other"]);
    lives
        .cofferdam(&["start", "--branch", "other"])
        .expect_code(0);
    let many = "for i in $(seq 22); do git push -q host other:main 2>&1 | grep -q 'too many pushes' && echo refused || echo taken; done";
    let counted = lives.exec("dev-other", many).stdout;
    assert_eq!(
        counted,
        format!("{}{}", "taken\n".repeat(20), "refused\n".repeat(2))
    );
    lives
        .cofferdam(&["delete", "--force", FEATURE, "dev-other"])
        .expect_code(0);
}

/// Its sizes are those of the gate: one commit fewer lands.
#[test]
fn a_push_is_as_large_as_the_gate_lets_in() {
    if !cofferdam_lab::sample::all() {
        cofferdam_lab::skip!("makes 100,001 commits: only with `scripts/test --all`");
        return;
    }
    let lives = on_feature();
    let many = "from=$(git rev-parse HEAD); { echo reset refs/heads/cofferdam/many; echo from $from; echo; for i in $(seq 100001); do \
        echo commit refs/heads/cofferdam/many; echo 'committer a <a@b> 1 +0000'; echo data 0; done; } | git fast-import --quiet";
    lives.exec(FEATURE, many).expect_code(0);
    let why = ["the commit gate refuses it", "more than 100000 new commits"];
    refused(&lives, "git push -q host cofferdam/many", &why);
    let fewer = "git push -q host cofferdam/many~1:refs/heads/cofferdam/many";
    lives.exec(FEATURE, fewer).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// A frame that is none, one that is too long, one with an unknown question, and one of another version.
const GARBAGE: &str = r#"
use Socket;
for my $words ("", "x", "\xff\xff\xff\xff" . "y" x 100, pack("V", 3) . "\x01\x09\x00", pack("V", 2) . "\x7f\x00") {
    socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die;
    connect($s, sockaddr_un("/.cofferdam/pushes/s")) or die "connect: $!";
    syswrite($s, $words);
    shutdown($s, 1);
    my $answer = join "", <$s>;
    print length($words), " ", ($answer =~ /another version/ ? "version" : "nothing"), "\n";
}"#;

/// Any program may ask, in any words; the next one is answered all the same, also by the next watcher.
#[test]
fn who_asks_for_anything_else_stops_nobody() {
    let lives = on_feature();
    let done = lives.exec(FEATURE, &format!("perl -e '{GARBAGE}'"));
    let said = "0 nothing\n1 nothing\n104 nothing\n7 nothing\n6 version\n";
    assert_eq!(done.stdout, said, "{done}");
    // The socket is the host's: nobody inside takes its place.
    let place = "rm -f /.cofferdam/pushes/s 2>/dev/null || touch /.cofferdam/pushes/x 2>/dev/null || echo kept";
    assert_eq!(lives.exec(FEATURE, place).stdout, "kept\n");
    let push = |subject: &str| {
        let script = format!("{COMMIT} {subject} && git push -q host feature");
        lives.exec(FEATURE, &script).expect_code(0);
    };
    push("one");
    lives.kill_watcher(FEATURE);
    push("two");
    assert_eq!(subject(&lives, "feature"), "two");
    let dev = ["--branch", "feature"];
    for command in ["stop", "start"] {
        lives
            .cofferdam(&[&[command], &dev[..]].concat())
            .expect_code(0);
    }
    push("three");
    assert_eq!(subject(&lives, "feature"), "three");
    lives
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}
