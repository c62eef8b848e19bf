//! The base that other images are built on: really built, and built again.

use std::process::Stdio;
use std::time::Duration;

use cofferdam_lab::skip;

use crate::containers::{World, own, worlds};
use crate::environment::{Done, finish_within};
use crate::images::{dockerfile, hinted};

/// From package registries alone, with its network behind the wall: minutes.
// covers: S3-24 S3-26 S3-27 S3-30 S3-36
#[test]
fn the_small_base_is_built_and_has_its_agents() {
    if !cofferdam_lab::sample::all() {
        skip!("builds an image: only with `scripts/test --all`");
        return;
    }
    for world in worlds() {
        let base = "debian:bookworm-slim";
        if let Err(why) = own(world.engine, &["image", "inspect", base]) {
            skip!("{}: {why}", world.engine);
            continue;
        }
        let words = [
            "build-base",
            "--sandbox",
            world.engine,
            "--small",
            "--base-image",
            base,
        ];
        let built = world.builds(&[&words[..], &["--codex-version", "latest"]].concat());
        assert!(built.stderr.contains("latest codex: "), "{built}");
        if world.engine == "docker" {
            updates(&world, &words, &built);
        }
        dockerfile(
            &world.environment,
            "ARG BASE_IMAGE_TAG=latest\nFROM cofferdam-base:${BASE_IMAGE_TAG}\nRUN touch /tmp/x\n",
        );
        let words = ["build", "--sandbox", world.engine, "--base-tag", "small"];
        let command = hinted(&world.cofferdam(&words).expect_code(1));
        world
            .cofferdam(&command.iter().map(String::as_str).collect::<Vec<_>>())
            .expect_code(0);
        world
            .cofferdam(&["create", "one", "--sandbox", world.engine])
            .expect_code(0);
        shells(&world, &built);
        authorities(&world);
        let tools = "claude --version && codex --version && node --version && npm --version && git --version
            zsh -ic 'alias freeclaude; print -r -- \"$ZSH_THEME\"'
            echo 'export MADE=by-sync' >~/.cofferdam-env; echo 'ZSH_THEME=mine' >~/.cofferdam-zsh-theme
            zsh -ic 'print -r -- \"$MADE $ZSH_THEME\"'; bash -ic 'echo \"$MADE\"' 2>/dev/null";
        let said = world.exec(tools).stdout;
        for part in [
            "Claude Code",
            "codex-cli",
            "git version",
            "dangerously-skip-permissions",
            "robbyrussell",
            "by-sync mine",
            "\nby-sync\n",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// Each that this machine knows is one that its programs believe, as where a proxy inspects TLS.
#[track_caller]
fn authorities(world: &World) {
    let look = "cd /usr/local/share; n=$(grep -c BEGIN cofferdam/ca.pem); test $n -gt 10
        test $n = $(ls ca-certificates/host-*.crt | wc -l)
        for one in ca-certificates/host-*.crt; do
            grep -qF \"$(sed -n 2p $one)\" /etc/ssl/certs/ca-certificates.crt || echo $one is not believed
        done
        for name in SSL_CERT_FILE NODE_EXTRA_CA_CERTS PIP_CERT REQUESTS_CA_BUNDLE; do
            test -s \"$(printenv $name)\" || echo $name leads nowhere
        done";
    assert_eq!(world.exec(&format!("set -e; {look}")).stdout, "");
}

/// Both remember what was typed, know the same short names, and show the branch; and what was said of oh-my-zsh is so.
#[track_caller]
fn shells(world: &World, built: &Done) {
    let stand_in = built.stderr.contains("oh-my-zsh cannot be reached");
    world.exec("git switch -q -c a-branch");
    for (shell, file, prompt) in [
        ("bash", ".bash_history", r#"echo "prompt: ${PS1@P}""#),
        (
            "zsh",
            ".zsh_history",
            r#"setopt prompt_subst; print -rP -- "prompt: $PROMPT""#,
        ),
    ] {
        let typed = format!("alias ll la grep\n{prompt}\n: remembered-by-{shell}\nexit\n");
        let script = format!("printf '%s' '{typed}' | {shell} -i 2>&1; cat ~/{file}");
        let said = world.exec(&script).stdout;
        let mut prompts = said.lines().filter(|line| line.contains("prompt: "));
        // Themes of oh-my-zsh's own ask git while the prompt is there already.
        let has_branch = prompts.any(|line| line.contains("a-branch"));
        assert!(has_branch || shell == "zsh" && !stand_in, "{said}");
        for part in [
            "ls -la",
            "ls -l'",
            "--color=auto",
            &format!("remembered-by-{shell}"),
        ] {
            assert!(said.contains(part), "{shell}: {part}: {said}");
        }
    }
    let look = "cd /usr/local/share/oh-my-zsh; cat commit 2>/dev/null || cmp oh-my-zsh.sh ../cofferdam/shell/stand-in.zsh && echo small";
    let found = world.exec(look).stdout;
    assert_eq!(found == "small\n", stand_in, "{found}: {built}");
    assert!(stand_in || found.trim_end().len() == 40, "{found}");
}

/// With the versions that `built` had everything is there already, whatever the tag, and however a version was named.
#[track_caller]
fn updates(world: &World, words: &[&str], built: &Done) {
    let codex = |done: &Done| {
        let line = (done.stderr.lines()).find_map(|line| line.split_once("latest codex: "));
        let (_, version) = line.unwrap_or_else(|| panic!("{done}"));
        version.trim().to_owned()
    };
    let id = |tag: &str| {
        let name = format!("cofferdam-base:{tag}");
        own(
            world.engine,
            &["image", "inspect", "--format", "{{.Id}}", &name],
        )
        .unwrap()
    };
    let codex = codex(built);
    assert!(codex.starts_with(|c: char| c.is_ascii_digit()), "{codex}");
    let small = id("small");
    // Where `latest` went to the engine as it is, that would find its step done for ever.
    let history = [
        "history",
        "--no-trunc",
        "--format",
        "{{.CreatedBy}}",
        "cofferdam-base:small",
    ];
    let history = own(world.engine, &history).unwrap();
    let argument = format!("CODEX_VERSION={codex} ");
    assert!(history.contains(&argument), "{history}");
    assert!(!history.contains("VERSION=latest"), "{history}");
    for (tag, version) in [("2024-08-12", codex.as_str()), ("2024-08-13", "latest")] {
        let more = ["--tag", tag, "--codex-version", version];
        let again = world.builds(&[words, &more].concat());
        assert!(
            again
                .stdout
                .contains(&format!("built: cofferdam-base:{tag} ")),
            "{again}"
        );
        // What was made anew says when.
        assert_eq!(id(tag), small, "{again}");
        let text =
            "ARG BASE_IMAGE_TAG=no-such\nFROM cofferdam-base:${BASE_IMAGE_TAG}\nRUN touch /tmp/";
        // Another one each time: what was agreed to is not shown again.
        dockerfile(&world.environment, &format!("{text}{tag}\n"));
        let words = ["build", "--sandbox", world.engine, "--base-tag", tag];
        let command = hinted(&world.cofferdam(&words).expect_code(1));
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        world.cofferdam(&command).expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        own(world.engine, &["rmi", &format!("cofferdam-base:{tag}")]).unwrap();
    }
    // The control: with another version that step is not there yet. Nobody has this one.
    let more = ["--tag", "other", "--codex-version", "0.0.1-none"];
    let mut other = world.command(&[words, &more].concat());
    other.stdout(Stdio::piped()).stderr(Stdio::piped());
    let other = finish_within(other.spawn().unwrap(), Duration::from_secs(180)).expect_code(1);
    assert!(other.stderr.contains("0.0.1-none"), "{other}");
    own(world.engine, &["image", "inspect", "cofferdam-base:other"]).unwrap_err();
}
