//! `.cofferdam/.env`: what a repository may say in it, and who writes it.

use cofferdam::sandbox::BranchStrategy;

use crate::support::{Env, run, run_ok};

const HEAD: BranchStrategy = BranchStrategy::Head;

/// Variables that make some program run what a file says, or that lead a key or settings elsewhere.
const DECIDING: &[&str] = &[
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "BASH_ENV",
    "BASH_FUNC_ls",
    "CLASSPATH",
    "CODEX_HOME",
    "CURL_HOME",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "HOME",
    "HTTPS_PROXY",
    "JAVA_TOOL_OPTIONS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOCPATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENAI_API_KEY",
    "PAGER",
    "PATH",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "RUSTC_WRAPPER",
    "SHELL",
    "SSH_ASKPASS",
    "SSL_CERT_FILE",
    "TZ",
    "XDG_CONFIG_HOME",
    "ZDOTDIR",
    "app_name",
    "https_proxy",
    "npm_config_script_shell",
    "NOBODY_KNOWS_THIS_ONE",
];

/// Invariant 4: what decides what runs, or where a key goes, is the user's to say. The list is one of what is
/// allowed: the last name above is in no list of anybody's.
#[test]
fn a_file_of_the_repository_sets_only_what_is_known_to_be_harmless() {
    let mut file =
        "APP_NAME=shop\nDATABASE_URL=postgres://db.example/x\nNODE_ENV=test\n".to_owned();
    for name in DECIDING {
        file += &format!("{name}=/workspace/repo/planted\n");
    }
    let seen = "env; exec 2>/dev/null; echo end";
    let outcome = |tracked: bool, given: bool| {
        let env = Env::new();
        env.write(".cofferdam/.env", &file);
        if tracked {
            env.commit_all("env");
        }
        let mut options = env.script(HEAD, seen);
        if given {
            let own = ("HTTPS_PROXY".into(), "http://mine.example".into());
            options.session.environment.extend([own]);
        }
        let ended = run(options);
        (ended.is_ok(), env.said())
    };
    let (ran, said) = outcome(true, false);
    assert!(ran, "{said}");
    for fine in [
        "APP_NAME=shop",
        "DATABASE_URL=postgres://db.example/x",
        "NODE_ENV=test",
    ] {
        assert!(said.contains(&format!("\"{fine}\"")), "{fine}: {said}");
    }
    assert!(!said.contains("/workspace/repo/planted"), "{said}");
    let mut names: Vec<_> = DECIDING.to_vec();
    names.sort_unstable();
    let notice = format!("SteeringWithheld {{ names: {names:?} }}");
    assert!(said.contains(&notice), "{notice}: {said}");
    // What the user gives by name is theirs.
    let (_, said) = outcome(true, true);
    assert!(
        said.contains("\"HTTPS_PROXY=http://mine.example\""),
        "{said}"
    );
    let names: Vec<_> = names
        .into_iter()
        .filter(|name| *name != "HTTPS_PROXY")
        .collect();
    let notice = format!("SteeringWithheld {{ names: {names:?} }}");
    assert!(said.contains(&notice), "{notice}: {said}");
    // The user's own file, which git does not track, says what it likes: the loader looks for what it names.
    let (_, said) = outcome(false, false);
    assert!(said.contains("/workspace/repo/planted"), "{said}");
    assert!(!said.contains("Withheld"), "{said}");
}

/// The attack that this is about: a program of the repository's in the place of one that everybody starts, with
/// the user's key in its environment.
#[test]
fn a_repository_does_not_put_its_program_before_the_agent() {
    let runs = |tracked: bool| {
        let env = Env::new();
        env.write("bin/date", "#!/bin/sh\necho \"planted has $OWN_KEY\"\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(env.repo.join("bin/date"), mode).unwrap();
        env.commit_all("bin");
        env.write(
            ".cofferdam/.env",
            "PATH=/workspace/repo/bin:/usr/bin:/bin\n",
        );
        if tracked {
            env.commit_all("env");
        }
        let mut options = env.script(HEAD, "date");
        options
            .session
            .environment
            .insert("OWN_KEY".into(), "the-key".into());
        run_ok(options);
        env.said()
    };
    assert!(runs(false).contains("planted has the-key"), "the control");
    assert!(!runs(true).contains("planted has the-key"));
}

/// A file that git does not track counts as the user's own, so no agent may be able to write one.
#[test]
fn an_agent_makes_no_env_file_of_the_users() {
    let script = "for at in .cofferdam ../repo/.cofferdam; do echo PATH=x > $at/.env && exit 9; done; \
                  mv .cofferdam c && exit 9; rm -r .cofferdam && exit 9; ln -s src .cofferdam && exit 9; \
                  echo x > src/ok; exit 0";
    for tracked in [false, true] {
        let env = Env::new();
        if tracked {
            env.write(".cofferdam/.env", "APP_X=1\n");
            env.commit_all("env");
        }
        run_ok(env.script(HEAD, script));
        assert_eq!(env.read("src/ok"), "x\n");
        assert_eq!(env.repo.join(".cofferdam/.env").exists(), tracked);
        // Nor does it make a tracked one an untracked one.
        let untrack = "git rm -q --cached --sparse .cofferdam/.env; git update-index --force-remove .cofferdam/.env; \
                       git commit -qm untracked || exit 0; git ls-files";
        run_ok(env.script(HEAD, untrack));
        assert_eq!(
            env.git(&["ls-tree", "--name-only", "HEAD", ".cofferdam/.env"])
                .is_empty(),
            !tracked
        );
    }
}
