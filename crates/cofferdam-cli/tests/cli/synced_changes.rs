//! Whom a configuration concerns, and which changes of it are changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use crate::configured::User;
use crate::environment::{Done, finish};

/// The command in this directory, with a variable of this machine.
#[track_caller]
fn there(user: &User, directory: &Path, value: &str, words: &[&str]) -> Done {
    let mut command = user.command(words);
    command
        .current_dir(directory)
        .env("OF_HOST", value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// The user's own file counts everywhere, a repository's in its sandboxes alone; each of them counts without the other.
// covers: S1-2, S1-3, S1-6, S1-13, S1-14
#[test]
fn a_repositorys_file_is_nothing_to_others() {
    let user = User::new("env: {APP_A: own}\non_sync: [{cmd: echo own >> count}]\n");
    user.puts(".cofferdam/home/note", "note\n");
    let first = user.repository();
    let second = user.temporary().join("second");
    let [from, to] = [&first, &second].map(|path| path.to_str().unwrap());
    user.git(&["clone", "--quiet", from, to]);
    user.write(
        ".cofferdam/config.yaml",
        "env: {APP_A: theirs, APP_B: theirs}\non_sync: [{cmd: echo theirs >> count}]\n",
    );
    let own = user.home().join(".cofferdam/config.yaml");
    let as_it_is = || {
        let found = own.metadata().unwrap();
        (fs::read(&own).unwrap(), found.ino(), found.mtime_nsec())
    };
    let before = as_it_is();
    let see = "echo ${APP_A-none} ${APP_B-none}; cd; cat note count; rm count";
    let seen = |directory: &Path, name: &str| {
        let words = ["exec", name, "--", "sh", "-c", see];
        there(&user, directory, "", &words).expect_code(0).stdout
    };
    for (directory, name) in [(&first, "box"), (&second, "other")] {
        let create = ["create", name, "--network", "none"];
        there(&user, directory, "", &create).expect_code(0);
    }
    assert_eq!(seen(&first, "box"), "theirs theirs\nnote\nown\ntheirs\n");
    assert_eq!(seen(&second, "other"), "own none\nnote\nown\n");
    assert_eq!(as_it_is(), before);
    // Without the user's own.
    fs::remove_file(&own).unwrap();
    for (directory, name) in [(&first, "box"), (&second, "other")] {
        there(&user, directory, "", &["sync", name]).expect_code(0);
    }
    assert_eq!(seen(&first, "box"), "theirs theirs\nnote\ntheirs\n");
    let nothing = [
        "exec",
        "other",
        "--",
        "sh",
        "-c",
        "echo ${APP_A-none}; ls ~/count",
    ];
    let nothing = there(&user, &second, "", &nothing);
    assert_eq!(nothing.stdout, "none\n", "{nothing}");
    assert!(!nothing.status.success());
    let delete = ["delete", "--force", "other"];
    there(&user, &second, "", &delete).expect_code(0);
    user.ends();
}

/// What is brought and what runs, each by itself; and nothing that somebody inside could say of it.
// covers: S1-66, S1-67, S1-68, S1-69, S1-112, S1-114
#[test]
fn each_thing_that_a_sync_is_made_of_is_a_change() {
    const BEGIN: &str = "sync: [{src: ~/source, dest: ~/of-rule}]
env: {A: b, HOST: $OF_HOST}
firewall: {allow: [{domain: a.test}]}
on_sync: [{cmd: echo >> ~/count}]
";
    let user = User::new(BEGIN);
    user.puts("source", "source\n");
    user.puts(".cofferdam/home/note", "note\n");
    user.puts(".cofferdam/home/moves", "moves\n");
    let top = user.repository();
    let state = user.home().join(".cofferdam/state");
    there(&user, &top, "host", &["create", "box"]).expect_code(0);
    // An agent that comes in has what changed, and nothing is done where nothing has.
    let host = std::cell::Cell::new("host");
    let synced = || {
        let count = || {
            user.inside("wc -l < ~/count")
                .trim()
                .parse::<u32>()
                .unwrap()
        };
        let before = count();
        let run = ["run", "-q", "--in", "box", "--", "true"];
        there(&user, &top, host.get(), &run).expect_code(0);
        count() - before
    };
    assert_eq!(synced(), 0);
    let config = |from: &str, to: &str| {
        let changed = BEGIN.replace(from, to);
        assert_ne!(changed, BEGIN);
        user.says(&changed);
    };
    let files = user.home().join(".cofferdam/home");
    let changes: [(&str, &dyn Fn()); 16] = [
        ("a file of home/", &|| {
            drop(user.puts(".cofferdam/home/note", "other\n"));
        }),
        ("a new one", &|| {
            drop(user.puts(".cofferdam/home/new", "new\n"));
        }),
        ("one that is gone", &|| {
            fs::remove_file(files.join("new")).unwrap();
        }),
        ("a file's place and mode", &|| {
            fs::create_dir(files.join("bin")).unwrap();
            fs::rename(files.join("moves"), files.join("bin/moves")).unwrap();
        }),
        ("a rule's source", &|| drop(user.puts("source", "other\n"))),
        ("its mode", &|| {
            config("~/of-rule}", "~/of-rule, mode: \"0600\"}");
        }),
        ("its place", &|| config("~/of-rule", "~/elsewhere")),
        ("a value", &|| config("A: b", "A: c")),
        ("another name", &|| config("A: b", "B: b")),
        ("this machine's value", &|| host.set("other")),
        ("a destination", &|| config("a.test", "b.test")),
        ("a command's label", &|| {
            config("count}", "count, name: counting}");
        }),
        ("a command", &|| config("echo >>", "echo x >>")),
        ("the repository's", &|| {
            user.write(".cofferdam/config.yaml", "env: {APP_A: b}\n");
        }),
        ("a file of the user's own for shells", &|| {
            user.says(BEGIN);
            user.puts(".cofferdam/home/.cofferdam-env", "own\n");
        }),
        ("a value that it does not have", &|| config("A: b", "A: d")),
    ];
    for (what, change) in changes {
        change();
        assert_eq!(synced(), 1, "{what}");
    }
    assert_eq!(synced(), 0);
    // In which order something stands is no difference, but for commands and rules.
    let (first, last) = BEGIN.split_once("env: ").unwrap();
    let moved =
        format!("env: {last}{first}").replace("A: b, HOST: $OF_HOST", "HOST: $OF_HOST, A: d");
    assert!(moved.starts_with("env: {HOST: $OF_HOST, A: d}\n") && moved.len() == BEGIN.len());
    user.says(&moved);
    assert_eq!(synced(), 0);
    // It is remembered where nobody inside writes.
    let id = user.listed("box").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let done = state.join(id).join("sync.json");
    let told: serde_json::Value = serde_json::from_slice(&fs::read(&done).unwrap()).unwrap();
    let digest = told["digest"].as_str().unwrap();
    assert_eq!(digest.len(), 64);
    let look = format!(
        "find / -xdev -name 'sync.json' 2>/dev/null; grep -rlsF {digest} ~ /opt /etc; true"
    );
    assert_eq!(user.inside(&look), "");
    fs::remove_file(&done).unwrap();
    assert_eq!(synced(), 1);
    assert_eq!(synced(), 0);
    user.ends();
}

/// What was taken back is in no shell any more, whether its line is gone or what a repository asks for is no longer approved.
// covers: S1-93, S1-97, S1-116
#[test]
fn what_nobody_says_any_more_is_in_no_shell() {
    let user = User::new("");
    user.write(".cofferdam/config.yaml", "env: {PATH_LIKE: theirs}\n");
    let asked = user.cofferdam(&["approve"]).expect_code(1);
    let digest = asked.stderr.split("--trust ").nth(1).unwrap();
    let digest = digest.split('`').next().unwrap();
    let trust = ["approve", "--trust", digest];
    user.cofferdam(&trust).expect_code(0);
    user.puts(".zshrc", "ZSH_THEME=\"mine\"\n");
    user.make();
    let shell = || {
        user.inside("unset PATH_LIKE ZSH_THEME; . ~/.cofferdam-env; . ~/.cofferdam-zsh-theme; echo ${PATH_LIKE-none} ${ZSH_THEME-none}")
    };
    let sync = || drop(user.cofferdam(&["sync", "box"]).expect_code(0));
    assert_eq!(shell(), "theirs mine\n");
    user.cofferdam(&["approve", "--revoke"]).expect_code(0);
    sync();
    assert_eq!(shell(), "none mine\n");
    user.puts(".zshrc", "");
    user.says("env: {PATH_LIKE: own}\n");
    sync();
    assert_eq!(shell(), "own none\n");
    // One that cannot be emptied is not forgotten.
    user.says("");
    user.inside("mv ~/.cofferdam-env ~/kept; mkdir ~/.cofferdam-env");
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert!(
        synced.stderr.contains("/home/agent/.cofferdam-env: "),
        "{synced}"
    );
    user.inside("rmdir ~/.cofferdam-env; mv ~/kept ~/.cofferdam-env");
    assert_eq!(shell(), "own none\n");
    sync();
    assert_eq!(shell(), "none none\n");
    user.ends();
}

/// What a command names to be done next does it from where its user stands.
#[test]
fn with_another_directory_the_next_commands_name_it() {
    let user = User::new("");
    user.write(".cofferdam/config.yaml", "env: {PATH_LIKE: theirs}\n");
    let parent = user.repository().parent().unwrap().to_owned();
    let name = user.repository().file_name().unwrap().to_owned();
    let name = name.to_str().unwrap();
    let given = |words: &[&str]| there(&user, &parent, "", words);
    let asked = given(&["-C", name, "approve"]).expect_code(1);
    let next = asked.stderr.split('`').nth(1).unwrap();
    let words: Vec<&str> = next.split(' ').collect();
    assert_eq!(words[..4], ["cofferdam", "-C", name, "approve"], "{asked}");
    given(&words[1..]).expect_code(0);
    let said = |words: &[&str], code: i32, text: &str| {
        let done = given(words).expect_code(code);
        let shown = format!("{}{}", done.stdout, done.stderr);
        assert!(shown.contains(text), "{text}: {done}");
    };
    let create = ["-C", name, "create", "box", "--network", "none"];
    said(
        &create,
        0,
        &format!("next: cofferdam -C {name} shell box\n"),
    );
    said(&create, 1, &format!("`cofferdam -C {name} status box`"));
    let commit = "echo a > a; git add a; git commit -qm 'see `cofferdam list`'";
    given(&["-C", name, "exec", "box", "--", "sh", "-c", commit]).expect_code(0);
    let status = ["-C", name, "status", "box"];
    said(
        &status,
        0,
        &format!("commits inside: cofferdam -C {name} collect box\n"),
    );
    // What somebody else wrote stays as it is.
    let collect = ["-C", name, "collect", "box"];
    said(&collect, 0, "see `cofferdam list`\n");
    said(&collect, 0, "has no new commit");
    let merge = ["-C", name, "collect", "none"];
    said(&merge, 1, &format!("`cofferdam -C {name} list"));
    // Who stands there is told nothing of it.
    let status = user.cofferdam(&["status", "box"]).expect_code(0);
    assert!(!status.stdout.contains(" -C "), "{status}");
    user.ends();
}

/// What was approved and cannot be read has a way out, and each hint is a command that does what it says.
#[test]
fn approvals_that_cannot_be_read_are_put_aside() {
    let user = User::new("");
    let config = "env: {PATH_LIKE: theirs}\n";
    user.write(".cofferdam/config.yaml", config);
    let trust = || {
        let asked = user.cofferdam(&["approve"]).expect_code(1);
        let digest = asked.stderr.split("--trust ").nth(1).unwrap();
        let digest = digest.split('`').next().unwrap().to_owned();
        user.cofferdam(&["approve", "--trust", &digest])
            .expect_code(0);
    };
    trust();
    user.puts(".cofferdam/approvals.json", "{ broken");
    let check = user.cofferdam(&["config", "check"]).expect_code(1);
    assert!(
        check.stderr.contains("see `cofferdam approve --list`"),
        "{check}"
    );
    let listed = user.cofferdam(&["approve", "--list"]).expect_code(1);
    assert!(
        listed
            .stderr
            .contains("hint: `cofferdam approve --revoke` puts it aside"),
        "{listed}"
    );
    let revoked = user.cofferdam(&["approve", "--revoke"]).expect_code(0);
    let kept = user.home().join(".cofferdam/approvals.unread");
    assert!(revoked.stderr.contains(kept.to_str().unwrap()), "{revoked}");
    assert_eq!(fs::read(&kept).unwrap(), b"{ broken");
    // One after the other.
    for (number, text) in [(2, "{ too"), (3, "{ as well")] {
        user.puts(".cofferdam/approvals.json", text);
        let revoked = user.cofferdam(&["approve", "--revoke"]).expect_code(0);
        let next = kept.with_extension(format!("unread.{number}"));
        assert!(revoked.stderr.contains(next.to_str().unwrap()), "{revoked}");
        assert_eq!(fs::read(&next).unwrap(), text.as_bytes());
    }
    assert_eq!(fs::read(&kept).unwrap(), b"{ broken");
    trust();
    user.cofferdam(&["approve", "--revoke"]).expect_code(0);
    assert!(
        user.cofferdam(&["config", "check"])
            .stderr
            .contains("1 line waits")
    );
    // The file of the user's own is named to its end.
    let odd = user.puts("a: b/config.yaml", "env: [\n");
    let mut command = user.command(&["config", "check"]);
    command.env("COFFERDAM_HOME", odd.parent().unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let check = finish(command.spawn().unwrap()).expect_code(1);
    let named = format!("until then ({})", odd.display());
    assert!(check.stderr.contains(&named), "{check}");
}
