//! The whole of a configuration, wherever sandboxes are: natively, in Docker, in Podman. From its making to one of the same name after it.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;

use crate::configured::User;
use crate::containers::{World, making, worlds};
use crate::environment::{Done, TestEnvironment, finish};

/// A user, and where their sandboxes are.
enum Place {
    Native(User),
    Engine(World),
}

impl Place {
    fn environment(&self) -> &TestEnvironment {
        match self {
            Self::Native(user) => user,
            Self::Engine(world) => &world.environment,
        }
    }

    /// With a variable of this machine.
    fn cofferdam(&self, words: &[&str]) -> Done {
        let mut command = match self {
            Self::Native(user) => user.command(words),
            Self::Engine(world) => world.command(words),
        };
        command
            .env("OF_HOST", "se 'cret'\nwith $(lines)")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn makes(&self) -> Done {
        match self {
            Self::Native(_) => self.cofferdam(&["create", "one"]),
            Self::Engine(world) => self.cofferdam(&making("create", world.engine, &["one"])),
        }
    }

    #[track_caller]
    fn inside(&self, script: &str) -> String {
        let done = self.cofferdam(&["exec", "one", "--", "sh", "-c", script]);
        done.expect_code(0).stdout
    }

    /// A file of the user's, below their home.
    fn puts(&self, path: &str, text: &str) {
        let path = self.environment().home().join(path);
        cofferdam::fsx::private_dir(path.parent().unwrap()).unwrap();
        cofferdam::fsx::write_private(&path, text.as_bytes()).unwrap();
    }

    /// A run in a sandbox of its own, whose home is in memory.
    fn runs(&self, script: &str) -> Done {
        let script = ["--", "sh", "-c", script];
        match self {
            Self::Native(_) => self.cofferdam(&[&["run"], &script[..]].concat()),
            Self::Engine(world) => self.cofferdam(&making("run", world.engine, &script)),
        }
    }

    /// What a service of this machine says to the sandbox; empty where it is not reached.
    fn asks(&self, port: u16) -> String {
        let line = match self {
            Self::Native(_) => {
                format!(
                    "exec 3<>/dev/tcp/host.cofferdam.internal/{port} && read -r -t 20 line <&3; echo $line"
                )
            }
            Self::Engine(_) => format!("nc -w 20 host.cofferdam.internal {port} </dev/null"),
        };
        let shell = match self {
            Self::Native(_) => "bash",
            Self::Engine(_) => "sh",
        };
        let done = self.cofferdam(&["exec", "one", "--", shell, "-c", &line]);
        done.stdout.trim().to_owned()
    }

    /// The lines that commands of `on_sync` left.
    fn counted(&self) -> String {
        self.inside("cat ~/count 2>/dev/null; true")
    }
}

/// A service on this machine that says hello to everybody. It ends with the test's process.
fn service() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().flatten() {
            let _ = visitor.write_all(b"hello\n");
        }
    });
    port
}

const FILES: &str = "sync:
  - {src: ~/scripts/*.sh, dest: ~/scripts/, mode: \"0755\"}
  - {src: ~/secret, dest: ~/deep/er/key, mode: \"0600\"}
  - {src: ~/secret, dest: /tmp/of-rule}
  - {src: ~/secret, dest: /opt/of-rule}
  - {src: ~/none/*, dest: ~/x/}
env:
  OF_HOST: $OF_HOST
  ABSENT: $NOT_THERE
  PLAIN: it's $HOME
";

/// `hooks`: the commands after a sync. `allowed`: ports of this machine.
fn says(place: &Place, hooks: &str, allowed: &[u16]) {
    let mut text = format!("{FILES}on_sync:\n{hooks}firewall:\n  allow:\n");
    if allowed.is_empty() {
        text = text.replace("  allow:\n", "  allow: []\n");
    }
    for port in allowed {
        text += &format!("    - {{domain: host.cofferdam.internal, ports: [{port}]}}\n");
    }
    place.puts(".cofferdam/config.yaml", &text);
}

/// Modes, and whose it is: by name and by number.
const WHOSE: &str = "cd; whose() { stat -c %U:%G $*; for one; do test $(stat -c %u:%g $one) = $(id -u):$(id -g) || echo $one is another ones; done; }";

fn everything_is_there(place: &Place) {
    let files =
        ".vimrc bin/tool .config/a/b scripts/a.sh scripts/b.sh deep/er/key of-hook /tmp/of-rule";
    let modes = "644\n755\n644\n755\n755\n600\n644\n644\n";
    assert_eq!(
        place.inside(&format!(
            "{WHOSE}; stat -c %a {files}; whose {files} deep deep/er .config .config/a bin scripts; test $(cat of-hook) = $(id -u) && echo same; cat .vimrc /tmp/of-rule; bin/tool"
        )),
        format!(
            "{modes}{}same\nset nu\nkey\nran\n",
            "agent:agent\n".repeat(14)
        )
    );
    let told = "OF_HOST=se 'cret'\nwith $(lines)\nPLAIN=it's $HOME\nnone\n";
    let tell = "echo \"OF_HOST=$OF_HOST\"; echo \"PLAIN=$PLAIN\"; echo \"${ABSENT-none}\"";
    assert_eq!(place.inside(tell), told);
    let of_file = format!(
        "env -i PATH=\"$PATH\" sh -c '. /home/agent/.cofferdam-env; {tell}'",
        tell = tell.replace('\'', "'\\''")
    );
    assert_eq!(place.inside(&of_file), told);
}

/// A run has a home of its own, which nobody has on the disk: everything is there before its agent starts, or it does not start.
fn a_run_has_it(place: &Place, hooks: &str) {
    let git = |words: &[&str]| place.environment().git(words);
    let see = format!(
        "{WHOSE}; ( stat -c %a .vimrc bin/tool deep/er/key; whose .vimrc bin/tool deep deep/er/key; cat count .cofferdam-env .cofferdam-zsh-theme; test -s .bashrc -a -s .zshrc && whose .bashrc .zshrc ) > told; cd \"$OLDPWD\"; mv ~/told .; git add told; git commit -qm told"
    );
    place.runs(&see).expect_code(0);
    let whose = "agent:agent\n".repeat(4);
    let shells = "agent:agent\nagent:agent\n";
    let variables = "# Written by cofferdam at each sync, from `env` of config.yaml.\nexport OF_HOST='se '\\''cret'\\''\nwith $(lines)'\nexport PLAIN='it'\\''s $HOME'\n";
    assert_eq!(
        format!("{}\n", git(&["show", "HEAD:told"])),
        format!("644\n755\n600\n{whose}set nu\n{variables}ZSH_THEME=\"mine\"\n{shells}")
    );
    // What waits for its user is said.
    let theirs = place.environment().repository().join(".cofferdam");
    place
        .environment()
        .write(".cofferdam/config.yaml", "env: {PATH_LIKE: theirs}\n");
    let waits = place.runs("test -z \"$PATH_LIKE\"").expect_code(0);
    let said = "asks for one thing that waits for you";
    assert!(waits.stderr.contains(said), "{waits}");
    std::fs::remove_dir_all(theirs).unwrap();
    let before = git(&["rev-parse", "HEAD"]);
    says(
        place,
        "  - {cmd: echo out; echo err >&2; exit 3, name: failing}\n",
        &[],
    );
    let failed = place.runs("echo it st''arted; git commit --allow-empty -qm started");
    let failed = failed.expect_code(1);
    for part in ["failing", "out\n", "err\n", "exit code 3"] {
        assert!(failed.stderr.contains(part), "{part}: {failed}");
    }
    assert!(!failed.to_string().contains("it started"), "{failed}");
    assert_eq!(git(&["rev-parse", "HEAD"]), before, "{failed}");
    let listed = place.cofferdam(&["list", "--json"]).expect_code(0);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed.stdout).unwrap();
    for one in listed {
        let name = one["name"].as_str().unwrap();
        place.cofferdam(&["delete", "--force", name]).expect_code(0);
    }
    says(place, hooks, &[]);
}

/// Each step as its user takes it.
fn everything(place: &Place) {
    let port = service();
    for (path, text) in [
        (".cofferdam/home/.vimrc", "set nu\n"),
        (".cofferdam/home/bin/tool", "#!/bin/sh\necho ran\n"),
        (".cofferdam/home/.config/a/b", "c"),
        ("scripts/a.sh", "a\n"),
        ("scripts/b.sh", "b\n"),
        ("scripts/c.txt", "c\n"),
        ("secret", "key\n"),
        (".zshrc", "ZSH_THEME=\"mine\"\n"),
    ] {
        place.puts(path, text);
    }
    let hooks = "  - {cmd: 'id -u > of-hook; cat .vimrc >> count', name: counting}\n";
    says(place, hooks, &[]);
    a_run_has_it(place, hooks);
    let made = place.makes().expect_code(0);
    assert!(made.stderr.contains("nothing matches `~/none/*`"), "{made}");
    // Nobody makes it good by trying again: what follows would have its commands twice.
    assert!(made.stderr.contains("not synced: /opt/of-rule: "), "{made}");
    everything_is_there(place);
    assert_eq!(place.counted(), "set nu\n");
    assert_eq!(place.inside("ls ~/scripts"), "a.sh\nb.sh\n");

    // What it may reach changes with a sync, and a command after it reaches that already.
    assert_eq!(place.asks(port), "");
    let reaching = match place {
        Place::Native(_) => {
            format!(
                "bash -c 'exec 3<>/dev/tcp/host.cofferdam.internal/{port}; read -r -t 20 line <&3; echo $line >> count'"
            )
        }
        Place::Engine(_) => {
            format!("nc -w 20 host.cofferdam.internal {port} </dev/null >> count")
        }
    };
    let reaching = format!("  - {{cmd: \"{reaching}\", name: reaching}}\n");
    says(place, &reaching, &[port]);
    let synced = place.cofferdam(&["sync", "one"]).expect_code(0);
    assert_eq!(place.counted(), "set nu\nhello\n", "{synced}");
    assert_eq!(place.asks(port), "hello");
    // No file inside tells of it.
    let named = "grep -rlsF host.cofferdam.internal /home/agent /opt /tmp; true";
    assert_eq!(place.inside(named), "");
    says(place, hooks, &[]);
    place.cofferdam(&["sync", "one"]).expect_code(0);
    assert_eq!(place.asks(port), "");

    // So it is for an agent that comes in.
    says(place, hooks, &[port]);
    let run = ["run", "-q", "--in", "one", "--", "true"];
    place.cofferdam(&run).expect_code(0);
    assert_eq!(place.asks(port), "hello");
    says(place, hooks, &[]);
    place.cofferdam(&run).expect_code(0);
    assert_eq!(place.asks(port), "");

    // One that fails is the last, and the next sync has all of them again.
    place.inside("rm ~/count");
    let failing = "  - {cmd: echo first >> count}\n  - {cmd: echo out; echo err >&2; test -e mended, name: failing}\n  - {cmd: echo third >> count}\n";
    says(place, failing, &[]);
    let failed = place.cofferdam(&["sync", "one"]).expect_code(1);
    for part in ["failing", "out", "err"] {
        assert!(failed.stderr.contains(part), "{part}: {failed}");
    }
    place.cofferdam(&run).expect_code(1);
    assert_eq!(place.counted(), "first\nfirst\n");
    place.inside("touch ~/mended");
    // An agent that comes in brings it to its end; the next one finds nothing to do.
    place.cofferdam(&run).expect_code(0);
    let once = "first\nfirst\nfirst\nthird\n";
    assert_eq!(place.counted(), once);
    place.cofferdam(&run).expect_code(0);
    assert_eq!(place.counted(), once);

    // What changed goes alone; with `--all` everything.
    says(place, hooks, &[]);
    place.cofferdam(&["sync", "one"]).expect_code(0);
    place.puts(".cofferdam/home/.vimrc", "set nonu\n");
    let synced = place.cofferdam(&["sync"]).expect_code(0);
    assert!(
        synced.stderr.contains("one: 1 file sent, 1 command run"),
        "{synced}"
    );
    let synced = place.cofferdam(&["sync", "--all"]).expect_code(0);
    assert!(synced.stderr.contains("one: 9 files sent"), "{synced}");
    place.puts(".cofferdam/home/.vimrc", "set nu\n");

    // One that is started again has it again, what was in memory too.
    place.inside("rm ~/count");
    place.cofferdam(&["stop", "one"]).expect_code(0);
    place.cofferdam(&["start", "one"]).expect_code(0);
    everything_is_there(place);
    assert_eq!(place.counted(), "set nu\n");

    // One of the same name has nothing of the first but what it is brought itself.
    place.inside("echo mine > ~/.vimrc");
    place
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    place.makes().expect_code(0);
    everything_is_there(place);
    assert_eq!(place.counted(), "set nu\n");
    place
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

fn everything_in(engine: &str) {
    for world in worlds().into_iter().filter(|one| one.engine == engine) {
        let place = Place::Engine(world);
        everything(&place);
        if let Place::Engine(world) = &place {
            world.expect_clean();
        }
    }
}

// covers: S1-1, S1-2, S1-58, S1-76, S1-89, S1-101
#[test]
fn the_whole_configuration_natively() {
    everything(&Place::Native(User::new("")));
}

// covers: S1-1, S1-58, S1-89, S1-101
#[test]
fn the_whole_configuration_in_docker() {
    everything_in("docker");
}

// covers: S1-1, S1-58, S1-89, S1-101
#[test]
fn the_whole_configuration_in_podman() {
    everything_in("podman");
}
