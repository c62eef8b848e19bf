use std::os::unix::fs::symlink;

use cofferdam_lab::skip;

use crate::environment::{TestEnvironment, commit_script};
use crate::lives::Lives;

#[track_caller]
fn completes(shell: &str, words: &[&str]) {
    let done = TestEnvironment::empty()
        .cofferdam(&["completions", shell])
        .expect_code(0);
    assert_eq!(done.stderr, "");
    for word in words {
        assert!(done.stdout.contains(word), "{shell}: {word}");
    }
}

#[test]
fn each_shell() {
    completes(
        "bash",
        &["complete -F _cofferdam", "merge-to-head", "claude-code"],
    );
    completes(
        "zsh",
        &["#compdef cofferdam", "merge-to-head", "claude-code"],
    );
    completes(
        "fish",
        &["complete -c cofferdam", "merge-to-head", "claude-code"],
    );
    TestEnvironment::empty()
        .cofferdam(&["completions", "tcsh"])
        .expect_code(2);
}

#[test]
fn bash_completes_the_names_of_sandboxes() {
    let environment = TestEnvironment::with_repository();
    for name in ["one", "other"] {
        environment
            .run(&["--branch", name, "--name", name], &commit_script(&["a"]))
            .expect_code(0);
    }
    let script = environment
        .cofferdam(&["completions", "bash"])
        .expect_code(0)
        .stdout;
    let path = environment.temporary().join("completion");
    cofferdam::fsx::write_private(&path, script.as_bytes()).unwrap();
    let check = |words: &str, wanted: &str| {
        let line = format!(
            "cofferdam() {{ '{}' \"$@\"; }}; source '{}'; COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _cofferdam_or_sandbox cofferdam \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[*]}}\"",
            env!("CARGO_BIN_EXE_cofferdam"),
            path.display()
        );
        let done = environment.shell(&line).expect_code(0);
        assert_eq!(done.stdout, format!("{wanted}\n"), "{words}: {done}");
    };
    check("cofferdam exec o", "one other");
    check("cofferdam shell ''", "one other");
    check("cofferdam pause one ot", "other");
    check("cofferdam -C . diff on", "one");
    check("cofferdam exec one -- o", "");
    check("cofferdam create o", "");
    check("cofferdam run --in o", "one other");
    check("cofferdam run --in = ot", "other");
    check("cofferdam run --in =", "one other");
    check("cofferdam run o", "");
    check("cofferdam allow --sandbox ot", "other");
    check("cofferdam revoke --sandbox ot", "other");
    check("cofferdam net rules --sandbox ot", "other");
    check("cofferdam net test --sandbox ot", "other");
    check("cofferdam net log ot", "other");
    check("cofferdam net test ot", "");
    check("cofferdam doctor ot", "other");
    // A command's name may be another one's value.
    check("cofferdam -C exec create o", "");
    // Typed as a path, with nothing of that name in PATH; or as another name for it.
    let check = |setting: &str, typed: &str| {
        let line = format!(
            "{setting} cp '{}' ~/cofferdam; source '{}'; COMP_WORDS=('{typed}' shell ot); COMP_CWORD=2; \
             _cofferdam_or_sandbox '{typed}' ot shell; echo \"${{COMPREPLY[*]}}\"",
            env!("CARGO_BIN_EXE_cofferdam"),
            path.display()
        );
        let done = environment.shell(&line).expect_code(0);
        assert_eq!(done.stdout, "other\n", "{typed}: {done}");
    };
    let home = environment.home();
    check("", &home.join("cofferdam").to_string_lossy());
    check("", "~/cofferdam");
    check("", "../home/cofferdam");
    check("PATH=$PATH:~;", "box");
    for (shell, word) in [
        ("zsh", "names it:_cofferdam_sandboxes'"),
        ("zsh", "their dev sandboxes:_cofferdam_sandboxes'"),
        ("zsh", ":SANDBOX:_cofferdam_sandboxes'"),
        ("zsh", "_cofferdam_sandboxes() {"),
        (
            "fish",
            "using_subcommand exec\" -f -a \"(__fish_cofferdam_sandboxes)",
        ),
        (
            "fish",
            "using_subcommand net; and __fish_seen_subcommand_from log\" -f -a \"(__fish_cofferdam_sandboxes)",
        ),
    ] {
        completes(shell, &[word]);
    }
}

#[test]
fn bash_takes_the_script() {
    let environment = TestEnvironment::empty();
    let script = environment
        .cofferdam(&["completions", "bash"])
        .expect_code(0)
        .stdout;
    let path = environment.temporary().join("completion");
    cofferdam::fsx::write_private(&path, script.as_bytes()).unwrap();
    let line = format!(
        "source '{}'; COMP_WORDS=(cofferdam run --merge); COMP_CWORD=2; _cofferdam cofferdam \
         --merge run; echo \"${{COMPREPLY[*]}}\"",
        path.display()
    );
    let done = environment.shell(&line).expect_code(0);
    assert_eq!(done.stdout, "--merge-to-head\n", "{done}");
}

/// Two sandboxes that stay, made from the main checkout, and a directory with the shell's script in it and `cofferdam`
/// itself. The shell stands in another checkout of the repository.
struct User {
    lives: Lives,
    place: String,
    elsewhere: String,
}

impl User {
    fn new(shell: &str, file: &str) -> Self {
        let lives = Lives::new();
        for name in ["one", "other"] {
            lives.create(name, &["--network", "none"]);
        }
        let [place, elsewhere] = ["place", "elsewhere"].map(|name| lives.temporary().join(name));
        lives.git(&[
            "worktree",
            "add",
            "-q",
            elsewhere.to_str().unwrap(),
            "-b",
            "x",
        ]);
        // Another repository of theirs.
        let line = "git init -q ~/away && git -C ~/away -c user.name=x -c user.email=x commit -q --allow-empty -m x";
        lives.shell(line).expect_code(0);
        let away = lives.home().join("away");
        let away = [
            "-C",
            away.to_str().unwrap(),
            "create",
            "zebra",
            "--network",
            "none",
        ];
        lives.cofferdam(&away).expect_code(0);
        std::fs::create_dir(&place).unwrap();
        symlink(env!("CARGO_BIN_EXE_cofferdam"), place.join("cofferdam")).unwrap();
        let script = lives.cofferdam(&["completions", shell]).expect_code(0);
        cofferdam::fsx::write_private(&place.join(file), script.stdout.as_bytes()).unwrap();
        let [place, elsewhere] = [place, elsewhere].map(|path| path.to_str().unwrap().to_owned());
        Self {
            lives,
            place,
            elsewhere,
        }
    }

    fn has(&self, shell: &str) -> bool {
        let found = self.lives.shell(&format!("command -v {shell}"));
        found.status.success()
    }
}

/// What stands on the line after the key, where only one thing can.
#[test]
fn zsh_completes_names_in_another_checkout() {
    let user = User::new("zsh", "_cofferdam");
    if !user.has("zsh") {
        return skip!("completion in zsh: this machine has none");
    }
    let User {
        lives,
        place,
        elsewhere,
    } = &user;
    let mut zsh = lives.program_on_a_terminal("zsh", &["-f", "-i"]);
    zsh.press(&format!(
        "cd '{elsewhere}'; PATH='{place}':$PATH; fpath=('{place}' $fpath); autoload -Uz compinit; compinit -u -D; \
         bindkey -e; setopt interactivecomments; print rea''dy\r"
    ));
    zsh.expect("ready");
    for (typed, whole) in [
        ("cofferdam exec ot", "cofferdam exec other"),
        ("cofferdam shell ot", "cofferdam shell other"),
        ("cofferdam pause one ot", "cofferdam pause one other"),
        ("cofferdam run --in ot", "cofferdam run --in other"),
        ("cofferdam run --in=ot", "cofferdam run --in=other"),
        (
            "cofferdam allow --sandbox ot",
            "cofferdam allow --sandbox other",
        ),
        (
            "cofferdam net test --sandbox ot",
            "cofferdam net test --sandbox other",
        ),
        ("cofferdam net log ot", "cofferdam net log other"),
        ("cofferdam doctor ot", "cofferdam doctor other"),
        (
            "cofferdam -C ~/away exec ze",
            "cofferdam -C ~/away exec zebra",
        ),
        ("cofferdam exec ze", "cofferdam exec ze"),
        ("cofferdam dele", "cofferdam delete"),
        // Nothing of that name, and no name at all.
        ("cofferdam exec two", "cofferdam exec two"),
        ("cofferdam create ot", "cofferdam create ot"),
    ] {
        // To the beginning of the line, which becomes what is printed.
        zsh.press(&format!("{typed}\t\u{1}print -r -- \"<\"'\u{5}.>'\r"));
        zsh.expect(&format!("<{whole}.>"));
    }
    zsh.press("exit\r");
    zsh.ends();
}

#[test]
fn fish_completes_names_in_another_checkout() {
    let user = User::new("fish", "script");
    if !user.has("fish") {
        return skip!("completion in fish: this machine has none");
    }
    let User {
        lives,
        place,
        elsewhere,
    } = &user;
    for (typed, wanted) in [
        ("cofferdam exec o", "one other"),
        ("cofferdam shell ot", "other"),
        ("cofferdam pause one ot", "other"),
        ("cofferdam run --in ot", "other"),
        ("cofferdam run --in=ot", "--in=other"),
        ("cofferdam allow --sandbox ot", "other"),
        ("cofferdam net test --sandbox ot", "other"),
        ("cofferdam net log ot", "other"),
        ("cofferdam doctor ot", "other"),
        ("cofferdam -C ~/away exec ze", "zebra"),
        ("cofferdam exec ze", ""),
        ("cofferdam dele", "delete"),
        ("cofferdam exec two", ""),
        ("cofferdam create ot", ""),
    ] {
        // Each with what is said about it behind a tab.
        let line = format!(
            "cd '{elsewhere}' && PATH='{place}':$PATH fish --no-config -c \
             \"source '{place}/script'; complete -C '{typed}'\" | cut -f1 | sort | xargs"
        );
        let done = lives.shell(&line).expect_code(0);
        assert_eq!(done.stdout.trim_end(), wanted, "{typed}: {done}");
    }
}
