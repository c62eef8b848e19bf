//! Attacks 54, 56, 87 and 88 of docs/attacks.md by an agent whose files lie in a directory of its user's: in the checkout itself
//! (`--head`), or in a linked worktree (`--mode bind`). No command follows what leads out of it, waits at a pipe, or says a name
//! that a terminal obeys.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam::fsx::{remove_tree, write_private};
use cofferdam_lab::opens::Opens;

use crate::environment::Done;
use crate::left_kinds;
use crate::lives::Lives;
use crate::terminal;

const HEAD: &[&str] = &["--head"];
const WORKTREE: &[&str] = &["--mode", "bind"];
const WAYS: [&[&str]; 2] = [HEAD, WORKTREE];
const NONE: &[&str] = &["--network", "none"];

/// What waits at a pipe has not ended by then.
const LIMIT: Duration = Duration::from_secs(30);
/// What waits for nobody ends sooner. Some commands give up a look that takes longer than 5 s.
const SOON: Duration = Duration::from_secs(4);
/// So often a machine may be busy.
const TRIES: usize = 3;

/// With a sandbox `box`.
#[track_caller]
fn made(way: &[&str]) -> Lives {
    Lives::with("box", &[way, NONE].concat())
}

/// Where its files are on this machine.
#[track_caller]
fn workdir(lives: &Lives) -> PathBuf {
    lives.listed("box").unwrap()["workdir"]
        .as_str()
        .unwrap()
        .into()
}

/// A command that can be given again, and waits for nobody.
#[track_caller]
fn soon(lives: &Lives, words: &[&str]) -> Done {
    for _ in 0..TRIES {
        let began = Instant::now();
        let done = lives.cofferdam_within(words, LIMIT);
        if began.elapsed() < SOON {
            return done;
        }
    }
    panic!("{words:?} waits each time");
}

/// They show it, and change nothing.
const LOOKS: [&[&str]; 5] = [
    &["list"],
    &["list", "--wide"],
    &["status", "box"],
    &["diff", "box"],
    &["log", "box"],
];
/// They look for what is in no commit.
const UNCOMMITTED: [&[&str]; 2] = [&["diff", "--uncommitted", "box"], &["apply", "box"]];
/// They bring home what is in commits.
const HOME: [&[&str]; 2] = [&["collect", "box"], &["merge", "box"]];

/// Git opens these by their names, and would wait for ever.
const TRAPS: [&str; 4] = [
    ".gitignore",
    ".gitattributes",
    "src/.gitignore",
    "src/.gitattributes",
];

/// Attack 56. With a commit, after which git compares what it knows of the files with what they are.
#[test]
fn no_command_waits_at_a_pipe() {
    for way in WAYS {
        for trap in TRAPS {
            let lives = made(way);
            let place = workdir(&lives);
            let script = format!(
                "set -e; echo three >> src/lib.txt; git commit -qam work; echo new > new; mkfifo src/pipe {trap}"
            );
            lives.exec("box", &script).expect_code(0);
            let what = format!("{way:?}, {trap}");
            let looks = |is_asked: bool| {
                for words in LOOKS {
                    soon(&lives, words).expect_code(0);
                }
                for words in UNCOMMITTED {
                    let done = soon(&lives, words);
                    if is_asked {
                        let named = done.stderr.contains(&format!("{trap} is a pipe"));
                        assert!(named && !done.status.success(), "{what}: {done}");
                    }
                }
            };
            looks(true);
            let mut told = String::new();
            for words in HOME {
                told += &lives.cofferdam_within(words, LIMIT).to_string();
            }
            let is_home = lives.git(&["log", "-1", "--format=%s", "main"]) == "work";
            assert!(is_home || told.contains(trap), "{what}: {told}");
            lives.cofferdam(&["stop", "box"]).expect_code(0);
            // Nobody looks into a checkout for what its user sees there.
            looks(way == WORKTREE);
            let done = lives.cofferdam_within(&["delete", "box"], LIMIT);
            // Nothing is lost with a pipe in a checkout; what else is in a worktree goes with it once its user says so.
            let is_refused = done.status.code() == Some(1) && done.stderr.contains(trap);
            assert!(is_refused || way == HEAD, "{what}: {done}");
            if lives.listed("box").is_some() {
                let delete = ["delete", "--force", "box"];
                lives.cofferdam_within(&delete, LIMIT).expect_code(0);
            }
            // Their user's own git waits at none either.
            assert!(place.join(trap).symlink_metadata().is_err(), "{what}");
            lives.git(&["status", "--porcelain"]);
            lives.expect_clean();
        }
    }
}

/// Attack 56. What lies in the checkout is met by whoever works there next.
#[test]
fn a_pipe_in_the_checkout_stops_no_other_run() {
    let commits = "echo x > x; git add x; git commit -qm x";
    for trap in TRAPS {
        let lives = made(HEAD);
        let script = format!("echo new > new; mkfifo {trap}");
        lives.exec("box", &script).expect_code(0);
        for (options, script) in [
            (&["--in", "box"][..], "true"),
            (&["--network", "none", "--branch", "other"], commits),
            // It is done with the checkout, and takes the pipe away.
            (&["--network", "none", "--head"], "true"),
        ] {
            let pipe = lives.repository().join(trap);
            assert!(pipe.symlink_metadata().is_ok(), "{trap} {options:?}");
            let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
            let done = lives.cofferdam_within(&words, LIMIT);
            let is_told = done.stderr.contains(trap);
            assert!(done.status.success() || is_told, "{options:?}: {done}");
        }
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
    }
}

/// Attack 56. A pipe that was there before is its user's: no sandbox has made it, and none takes it away.
#[test]
fn the_users_own_pipes_stay() {
    let lives = Lives::new();
    lives.write(".gitignore", "build/\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "rules"]);
    let own = ["build/.gitignore", "build/.gitfifo", "build/c/.mailmap"];
    lives.shell(&format!("mkdir -p build/c; mkfifo {}", own.join(" ")));
    // The times of files have seconds here.
    std::thread::sleep(Duration::from_secs(2));
    let run = ["run", "--network", "none", "--head", "--", "true"];
    for words in [&["create", "--head", "--network", "none", "box"][..], &run] {
        // It may refuse to begin.
        lives.cofferdam_within(words, LIMIT);
        if lives.listed("box").is_some() {
            lives
                .cofferdam_within(&["stop", "box"], LIMIT)
                .expect_code(0);
            let delete = ["delete", "--force", "box"];
            lives.cofferdam_within(&delete, LIMIT).expect_code(0);
        }
        for path in own {
            let found = lives.repository().join(path).symlink_metadata();
            assert!(found.is_ok(), "{words:?} took {path}");
        }
    }
}

/// Attack 56. What a command names of the checkout may have become a pipe.
#[test]
fn files_that_became_pipes_are_not_waited_for() {
    let lives = Lives::new();
    lives.write("tool.sh", "#!/bin/sh\necho worked\n");
    lives.write("plan.md", "a plan\n");
    lives
        .shell("chmod +x tool.sh; git add -A; git commit -qm tool")
        .expect_code(0);
    lives.create("box", &[HEAD, NONE].concat());
    let script = "rm tool.sh plan.md && mkfifo tool.sh plan.md";
    lives.exec("box", script).expect_code(0);
    let run = ["run", "--network", "none"];
    let named = [
        ([&run[..], &["--", "./tool.sh"]].concat(), "tool.sh"),
        (
            [&run[..], &["--prompt-file", "plan.md", "--", "cat"]].concat(),
            "plan.md",
        ),
        (vec!["prompt", "check", "plan.md"], "plan.md"),
    ];
    for (words, name) in &named {
        let done = lives.cofferdam_within(words, LIMIT);
        assert!(!done.status.success(), "{done}");
        assert!(done.stderr.contains(name), "{done}");
    }
    // The control: as they were.
    let script = "rm tool.sh plan.md && git checkout -q -- tool.sh plan.md";
    lives.shell(script).expect_code(0);
    for (words, _) in &named {
        lives.cofferdam_within(words, LIMIT).expect_code(0);
    }
    lives.cofferdam(&["delete", "box"]).expect_code(0);
}

/// Attack 56.
#[test]
fn what_git_cannot_take_is_said_of_a_worktree_too() {
    left_kinds::cannot_take("bind");
}

/// Attack 56.
#[test]
fn links_that_lead_out_are_not_followed() {
    for way in WAYS {
        let lives = Lives::new();
        let key = lives.puts(".ssh/id_rsa", "SECRET\n");
        let opens = Opens::of([key.parent().unwrap()]).unwrap();
        for script in left_kinds::links(&key) {
            lives.create("box", &[way, NONE].concat());
            let script = format!("echo new > new; {script}");
            lives.exec("box", &script).expect_code(0);
            let told = |words: &[&str]| {
                let done = lives.cofferdam(words);
                let text = done.to_string();
                assert!(
                    !text.contains("SECRET") && !text.contains("root:"),
                    "{done}"
                );
                done
            };
            for stop in [false, true] {
                if stop {
                    told(&["stop", "box"]).expect_code(0);
                }
                for words in LOOKS.iter().chain(&HOME) {
                    told(words);
                }
                for words in UNCOMMITTED {
                    let done = told(words);
                    // Of one that is stopped nobody is asked what its user sees in their checkout.
                    if way == WORKTREE || !stop {
                        assert!(done.stderr.contains("its target "), "{script}: {done}");
                        assert_eq!(done.status.code(), Some(1), "{script}: {done}");
                    }
                }
            }
            told(&["start", "box"]).expect_code(0);
            // It is work, and is not thrown away.
            let deleted = told(&["delete", "box"]);
            let code = i32::from(way == WORKTREE);
            assert_eq!(deleted.status.code(), Some(code), "{script}: {deleted}");
            if way == WORKTREE {
                told(&["delete", "--force", "box"]).expect_code(0);
            }
            lives.expect_clean();
            lives
                .shell("git clean -qfd -e .cofferdam; git checkout -q .")
                .expect_code(0);
        }
        assert_eq!(opens.names(), [""; 0], "{way:?}");
        // The control.
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "SECRET\n");
        assert_eq!(opens.names(), ["id_rsa"]);
    }
}

/// A directory of the user's with one file, `x`, and who opens it.
#[track_caller]
fn outside(lives: &Lives) -> (PathBuf, Opens) {
    let outside = lives.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    write_private(&outside.join("x"), b"theirs\n").unwrap();
    let opens = Opens::of([&outside]).unwrap();
    (outside, opens)
}

/// Nobody has opened it, and nothing was put there.
#[track_caller]
fn expect_untouched((outside, opens): &(PathBuf, Opens), what: &dyn std::fmt::Debug) {
    assert_eq!(opens.names(), [""; 0], "{what:?}");
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1, "{what:?}");
    let there = std::fs::read_to_string(outside.join("x")).unwrap();
    assert_eq!(there, "theirs\n", "{what:?}");
    assert_eq!(opens.names(), ["x"]);
}

/// Attack 54. Where both commits were checked out one after the other, the file would be written through the link.
#[test]
fn a_link_first_and_a_file_behind_it_are_refused() {
    for way in WAYS {
        let lives = made(way);
        let outside = outside(&lives);
        let before = lives.git(&["rev-parse", "main"]);
        let script = format!(
            "set -e; ln -s {0} l; git add l; git commit -qm link
             git rm -q l; mkdir l; echo owned > l/x; git add l; git commit -qm behind; rm -r l; ln -s {0} l",
            outside.0.display()
        );
        lives.exec("box", &script).expect_code(0);
        for stop in [false, true] {
            if stop {
                lives.cofferdam(&["stop", "box"]).expect_code(0);
            }
            let mut told = String::new();
            for words in LOOKS.iter().chain(&UNCOMMITTED).chain(&HOME) {
                let done = lives.cofferdam(words);
                expect_untouched(&outside, words);
                assert!(words[0] != "collect" || !done.status.success(), "{done}");
                told += &done.to_string();
            }
            assert!(told.contains("its target is absolute"), "{way:?}: {told}");
        }
        // The control: it leads there.
        let link = workdir(&lives).join("l/x");
        assert_eq!(std::fs::read_to_string(link).unwrap(), "theirs\n");
        assert_eq!(outside.1.names(), ["x"]);
        // What was refused is told before it goes.
        lives.cofferdam(&["delete", "box"]).expect_code(1);
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
        assert_eq!(lives.git(&["rev-parse", "main"]), before);
        expect_untouched(&outside, &way);
    }
}

/// Makes a commit with a file in a directory.
const BEHIND: &str = "set -e; mkdir l; echo owned > l/x; git add l; git commit -qm behind";

/// Attack 54. The commit is honest, and in the place of its directory lies a link.
#[test]
fn what_lands_in_the_checkout_is_not_looked_for_behind_a_link() {
    let lives = made(HEAD);
    let outside = outside(&lives);
    let script = format!("{BEHIND}; rm -r l; ln -s {} l", outside.0.display());
    lives.exec("box", &script).expect_code(0);
    for stop in [false, true] {
        if stop {
            lives.cofferdam(&["stop", "box"]).expect_code(0);
        }
        for words in LOOKS.iter().chain(&UNCOMMITTED).chain(&HOME) {
            lives.cofferdam(words);
            expect_untouched(&outside, words);
        }
    }
    assert_eq!(lives.git(&["show", "main:l/x"]), "owned");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    expect_untouched(&outside, &"delete");
    let link = lives.repository().join("l");
    assert_eq!(link.read_link().unwrap(), outside.0);
    // Their user's own git makes of it what was committed.
    lives.git(&["reset", "-q", "--hard"]);
    assert_eq!(lives.read("l/x"), "owned\n");
    let there = std::fs::read_to_string(outside.0.join("x")).unwrap();
    assert_eq!(there, "theirs\n");
    lives.expect_clean();
}

/// Attack 54. One agent leaves the link in the checkout, and another one's file is to come behind it.
#[test]
fn what_comes_from_a_worktree_is_not_written_through_a_link() {
    let lives = made(WORKTREE);
    let outside = outside(&lives);
    lives.exec("box", BEHIND).expect_code(0);
    let link = lives.repository().join("l");
    symlink(&outside.0, &link).unwrap();
    for words in [&["merge", "box"][..], &["apply", "box"]] {
        lives.cofferdam(words).expect_code(1);
        expect_untouched(&outside, &words);
        assert_eq!(link.read_link().unwrap(), outside.0);
    }
    // The control: where none is in its way it comes.
    std::fs::remove_file(&link).unwrap();
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(lives.read("l/x"), "owned\n");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.expect_clean();
    expect_untouched(&outside, &"merge");
}

/// Attack 56. Git has no devices and no such rights, and no second name leads out.
#[test]
fn devices_and_rights_and_second_names_stay_where_they_are() {
    for way in WAYS {
        let lives = Lives::new();
        lives.shell("ln src/lib.txt ../outside").expect_code(0);
        let outside = lives.repository().with_file_name("outside");
        lives.create("box", &[way, NONE].concat());
        // Whoever may write a file may make that one, which leads to no device: layers are made of it (mknod(2)).
        let kinds = left_kinds::KINDS.replace(" 'c 0 0'", "");
        lives.exec("box", &kinds).expect_code(0);
        let planted = left_kinds::plant(&workdir(&lives));
        let shown = lives
            .cofferdam(&["diff", "--uncommitted", "box", "--name-status"])
            .expect_code(0);
        assert_eq!(shown.stdout, left_kinds::SEEN, "{way:?}: {shown}");
        if planted {
            let opens = "test -c zero && ! head -c 1 zero";
            lives.exec("box", opens).expect_code(0);
        }
        // In a worktree it has a file of its own.
        let writes = lives.exec("box", "echo owned >> src/lib.txt");
        assert_eq!(writes.status.success(), way == WORKTREE, "{writes}");
        lives.exec("box", "echo free > free").expect_code(0);
        for words in LOOKS {
            lives.cofferdam(words).expect_code(0);
        }
        if way == WORKTREE {
            lives.cofferdam(&["apply", "box"]).expect_code(0);
            left_kinds::came_out_plain(&lives);
            lives.cofferdam(&["apply", "--undo", "box"]).expect_code(0);
        }
        // After a start a device is none.
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        lives.cofferdam(&["start", "box"]).expect_code(0);
        if planted {
            let covered = "test ! -c zero || ! head -c 1 zero";
            lives.exec("box", covered).expect_code(0);
        }
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
        let there = std::fs::read_to_string(&outside).unwrap();
        assert_eq!(there, "one\ntwo\n", "{way:?}");
    }
}

/// Attack 56.
#[test]
fn deep_and_very_many_names_are_told_in_their_time() {
    let (number, script) = left_kinds::many_names();
    for way in WAYS {
        let lives = made(way);
        let long = |words: &[&str]| {
            let done = lives.cofferdam_within(words, left_kinds::LONG);
            done.expect_code(0)
        };
        long(&["exec", "box", "--", "sh", "-c", &script]);
        let uncommitted = ["diff", "--uncommitted", "box", "--name-status"];
        let shown = long(&uncommitted).stdout;
        assert_eq!(shown.lines().count(), number + 1, "{way:?}");
        let bottom = format!("A\t{}bottom", "d/".repeat(200));
        assert!(shown.lines().any(|line| line == bottom), "{way:?}");
        if way == WORKTREE {
            long(&["apply", "box"]);
            let staged = lives.git(&["diff", "--cached", "--name-only"]);
            assert_eq!(staged.lines().count(), number + 1);
            long(&["apply", "--undo", "box"]);
        }
        // What no path can name is counted.
        long(&["exec", "box", "--", "sh", "-c", left_kinds::DEEP]);
        let shown = long(&uncommitted);
        assert!(
            shown.stderr.contains(left_kinds::UNREAD),
            "{way:?}: {}",
            shown.stderr
        );
        assert_eq!(shown.stdout.lines().count(), number + 1, "{way:?}");
        for words in LOOKS.iter().chain(&HOME) {
            long(words);
        }
        let place = workdir(&lives);
        long(&["stop", "box"]);
        long(&["start", "box"]);
        long(&["delete", "--force", "box"]);
        // Deeper than who clears up after tests can go.
        remove_tree(&place.join("dddd")).unwrap();
        lives.expect_clean();
    }
}

/// A screen that is wiped, the clipboard, C1 in UTF-8, text that runs backwards, and a line that passes as ours.
const ODD: &str =
    r"$(printf 'a\033[2Jb\033]52;c;eA==\007c\302\233d\342\200\256e\nlanded: 9 commits')";

/// Nothing of [`ODD`] is obeyed, and no line begins with what it says.
#[track_caller]
fn expect_inert(done: &Done) {
    let text = done.to_string();
    let obeyed = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}'];
    assert!(!text.contains(obeyed), "{text:?}");
    let passes = |line: &str| line.starts_with("landed: 9 commits");
    assert!(!text.lines().any(passes), "{text:?}");
}

/// Attack 56. Names of files, of directories and of a pipe.
#[test]
fn names_of_what_is_in_no_commit_are_told_inert() {
    let script = format!(
        r#"set -e; odd={ODD}; echo x > "$odd"; mkdir "d$odd"; echo y > "d$odd/f"; chmod 666 "$odd""#
    );
    let commands: [&[&str]; 7] = [
        &["list", "--json"],
        &["status", "--json", "box"],
        &["diff", "--uncommitted", "box", "--stat"],
        &["diff", "--uncommitted", "box", "--name-status"],
        &["diff", "--uncommitted", "box"],
        &["apply", "box"],
        &["apply", "--undo", "box"],
    ];
    for way in WAYS {
        let lives = made(way);
        lives.exec("box", &script).expect_code(0);
        let mut told = 0;
        for words in commands.iter().chain(&LOOKS).chain(&HOME) {
            let done = lives.cofferdam(words);
            expect_inert(&done);
            told += usize::from(done.stdout.contains("landed: 9 commits"));
        }
        // The control: it is told.
        assert!(told > 0, "{way:?}");
        let trap = format!("odd={ODD}; mkfifo \".git$odd\"");
        lives.exec("box", &trap).expect_code(0);
        for words in UNCOMMITTED {
            let done = soon(&lives, words);
            expect_inert(&done);
            assert!(done.stderr.contains("landed: 9 commits"), "{way:?}: {done}");
        }
        for delete in [&["delete", "box"][..], &["delete", "--force", "box"]] {
            expect_inert(&lives.cofferdam_within(delete, LIMIT));
        }
        lives.expect_clean();

        // A run says what it leaves at its end.
        let lives = Lives::new();
        let ran = lives.run(&[way, NONE].concat(), &script).expect_code(0);
        expect_inert(&ran);
        let text = ran.to_string();
        assert!(way == WORKTREE || text.contains("landed: 9"), "{text}");
    }
}

/// Attack 87.
#[test]
fn nothing_that_a_terminal_obeys_is_shown_or_logged() {
    let on = [
        ("--head", ""),
        ("--head", "NO_COLOR=1"),
        ("--head", "TERM=dumb"),
        ("--head --json", ""),
        ("--mode bind", "NO_COLOR=1"),
        ("--mode bind --json", ""),
    ];
    let off: [&[&str]; 4] = [
        HEAD,
        &["--head", "--json"],
        WORKTREE,
        &["--mode", "bind", "--json"],
    ];
    terminal::nothing_is_obeyed(&on, &off);
}

/// Attack 87. Zero bytes on both streams, in a line without end.
const ZEROS: &str =
    "head -c 3000000 /dev/zero; echo; printf 'a\\000b\\n'; head -c 3000000 /dev/zero >&2";

/// Attack 87.
#[test]
fn floods_and_zero_bytes_are_shown_bounded() {
    for way in WAYS {
        for script in [terminal::FLOOD, ZEROS] {
            terminal::is_bounded(way, script);
        }
    }
}

/// Attack 88. Standard error, a file, and what only repeats the prompt: none is the agent's word.
#[test]
fn nothing_but_the_agents_own_word_completes() {
    let prompt =
        "Do it. When nothing is left say on a line of its own:\n<promise>COMPLETE</promise>\n";
    let says = "echo 'Nothing is left to do in here.'; echo '<promise>COMPLETE</promise>'";
    for way in WAYS {
        for (then, starts) in [("true", 2), (says, 1)] {
            let lives = Lives::new();
            let script = format!(
                "tee /dev/stderr; echo '<promise>COMPLETE</promise>' | tee signal >&2
                 git add signal; git commit -q --allow-empty -m again; {then}"
            );
            let task = ["--prompt", prompt, "--max-iterations", "2"];
            let options = [way, NONE, &task].concat();
            let done = lives.run(&options, &script).expect_code(0);
            let subjects = lives.git(&["log", "--format=%s", "main"]);
            assert_eq!(subjects.matches("again").count(), starts, "{way:?}: {done}");
            let is_said = done.stdout.contains("signalled completion");
            assert_eq!(is_said, starts == 1, "{way:?}: {done}");
        }
    }
}
