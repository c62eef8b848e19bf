use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// The rules of the text, or the error, whose file is `config.yaml`.
fn read(text: &str) -> Result<Option<Vec<String>>, String> {
    match parse(Path::new("config.yaml"), text.as_bytes(), Origin::Global) {
        Ok(config) => Ok(config
            .allow
            .map(|rules| rules.iter().map(|one| one.rule.to_string()).collect())),
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
fn check(text: &str, rules: Option<&[&str]>) {
    let rules = rules.map(|rules| rules.iter().map(|&rule| rule.to_owned()).collect());
    assert_eq!(read(text), Ok(rules), "{text:?}");
}

/// An entry on line 3 of an otherwise good file is refused, and the message begins so.
#[track_caller]
fn refused(entry: &str, message: &str) {
    let text = format!("firewall:\n  allow:\n    - {entry}\n    - domain: good.test\n");
    let error = read(&text).expect_err(entry);
    assert!(
        error.starts_with(&format!("config.yaml:{message}")),
        "{entry:?}: {error}"
    );
    assert!(
        error.len() < 600 && error.chars().all(|c| !c.is_control() && c.is_ascii()),
        "{entry:?}: {error:?}"
    );
}

// covers: S1-23 S1-24 S1-25 S1-26 S1-27
#[test]
fn the_example_of_the_document() {
    let text = "\
firewall:
  allow:
    - domain: api.example.com              # defaults to ports 80, 443
    - domain: staging.example.com
      ports: [443, 8443]                   # custom port list
    - cidr: 10.0.0.0/8                     # raw IP/CIDR range
      ports: [443]                         # optional port restriction
    - cidr: 203.0.113.9
    - cidr: 2001:db8::/32
      ports:
        - 5432
    - domain: \"*.example.com\"
";
    check(
        text,
        Some(&[
            "api.example.com:80,443",
            "staging.example.com:443,8443",
            "10.0.0.0/8:443",
            "203.0.113.9",
            "[2001:db8::/32]:5432",
            "*.example.com:80,443",
        ]),
    );
}

#[test]
fn what_says_nothing_configures_nothing() {
    for text in ["", "\n", "# all of it\n", "---\n", "firewall: {}\n"] {
        check(text, None);
    }
    check("firewall:\n  allow: []\n", Some(&[]));
    check(
        "\u{feff}firewall:\r\n  allow:\r\n    - domain: A.test.\r\n",
        Some(&["a.test:80,443"]),
    );
    // Said twice is harmless.
    let twice = "firewall: {allow: [{domain: a.test}, {domain: a.test, ports: [443, 443]}]}";
    check(twice, Some(&["a.test:80,443", "a.test:443"]));
}

// covers: S1-15
#[test]
fn keys_that_nothing_reads_are_errors() {
    for (text, message) in [
        (
            "firewal: {}\n",
            "1:1: firewal: unknown field `firewal`, expected one of sync, env, firewall, on_sync, hide, protect, setup, gate, sandbox, image, limits, ports, run",
        ),
        (
            "firewall:\n  deny: []\n",
            "2:3: firewall.deny: unknown field `deny`",
        ),
        (
            "firewall:\n",
            "1:9: firewall: it has no value: leave it out, or write `firewall: {}`",
        ),
        (
            "firewall:\n  allow:\n",
            "2:8: firewall.allow: it has no value: leave it out, or write `allow: []`",
        ),
        (
            "firewall:\n  allow: a.test\n",
            "2:10: firewall.allow: it is not a list",
        ),
        (
            "firewall: {}\nfirewall: {allow: []}\n",
            "2:1: `firewall` is given twice",
        ),
        (
            "firewall: {}\n---\nfirewall: {}\n",
            "2:1: a second document is not read here",
        ),
        ("[]\n", "1:1: it has no `key: value`"),
        ("firewall: [\n", "1:11: firewall: "),
        ("firewall:\n\tallow: []\n", "2:2: tabs disallowed"),
    ] {
        let error = read(text).expect_err(text);
        assert!(
            error.starts_with(&format!("config.yaml:{message}")),
            "{text:?}: {error}"
        );
    }
}

// covers: S1-35
#[test]
fn bad_entries_are_named_by_line_and_field() {
    for (entry, message) in [
        (
            "domain: a..test",
            "3:15: firewall.allow[0].domain: host name `a..test` has an empty label",
        ),
        (
            "domain: https://a.test/x",
            "3:15: firewall.allow[0].domain: host name `https://a.test/...` has the character `:`: write the bare name",
        ),
        (
            "domain: a.test:443",
            "3:15: firewall.allow[0].domain: host name `a.test:443` has the character `:`",
        ),
        (
            "domain: \"a.test; touch x\"",
            "3:15: firewall.allow[0].domain: host name `a.test; touch x` has the character `;`",
        ),
        (
            "domain: $(touch x)",
            "3:15: firewall.allow[0].domain: host name `$(touch x)` has the character `$`",
        ),
        (
            "domain: \"a\\0.test\"",
            "3:15: firewall.allow[0].domain: host name `a\\u{0}.test` has the character `\\u{0}`",
        ),
        (
            "domain: \"a\\u202e.test\"",
            "3:15: firewall.allow[0].domain: host name `a\\u{202e}.test` is not ASCII",
        ),
        (
            "domain: a\u{202e}.test",
            "3:15: firewall.allow[0].domain: host name `a\\u{202e}.test` is not ASCII",
        ),
        (
            "domain: \"a\\n.test\"",
            "3:15: firewall.allow[0].domain: host name `a\\n.test` has the character `\\n`",
        ),
        (
            "domain: a\0.test",
            "3:16: firewall.allow[0]: unexpected character",
        ),
        (
            "domain: a\u{1b}[2J.test",
            "3:15: firewall.allow[0]: unexpected character",
        ),
        (
            "domain: \"\"",
            "3:15: firewall.allow[0].domain: a host name is empty",
        ),
        ("domain:", "3:13: firewall.allow[0].domain: it has no value"),
        (
            "domain: 10.0.0.1",
            "3:15: firewall.allow[0].domain: `10.0.0.1` reads as an address",
        ),
        (
            "domain: \"*\"",
            "3:15: firewall.allow[0].domain: wildcard `*` is not `*.` before a name",
        ),
        (
            "domain: \"*.com\"",
            "3:15: firewall.allow[0].domain: wildcard `*.com` is not",
        ),
        (
            "domain: *.a.test",
            "3:15: firewall.allow[0]: a value that begins with `*` needs quotes",
        ),
        (
            "domain: host.cofferdam.internal",
            "3:15: firewall.allow[0].domain: `host.cofferdam.internal` is this machine: name the port",
        ),
        (
            "domain: [a.test]",
            "3:15: firewall.allow[0].domain: it is not text",
        ),
        (
            "cidr: 10.0.0/8",
            "3:13: firewall.allow[0].cidr: `10.0.0/8` is not an address or a range",
        ),
        ("cidr: 10.0.0.0/33", "3:13: firewall.allow[0].cidr: "),
        (
            "cidr: a.test",
            "3:13: firewall.allow[0].cidr: `a.test` is not an address or a range",
        ),
        (
            "cidr: 0.0.0.0/0",
            "3:13: firewall.allow[0].cidr: range `0.0.0.0/0` is too wide",
        ),
        (
            "cidr: ::/0",
            "3:13: firewall.allow[0].cidr: range `::/0` is too wide",
        ),
        (
            "cidr: 10.0.0.0/8",
            "3:13: firewall.allow[0].cidr: range `10.0.0.0/8` is a private address: name its ports",
        ),
        (
            "cidr: 127.0.0.0/8",
            "3:13: firewall.allow[0].cidr: range `127.0.0.0/8` is a loopback address: name its ports",
        ),
        (
            "cidr: 169.254.0.0/16",
            "3:13: firewall.allow[0].cidr: range `169.254.0.0/16` is a link-local address: name its ports",
        ),
        (
            "{cidr: 169.254.169.254, ports: [80]}",
            "3:14: firewall.allow[0].cidr: `169.254.169.254` is a cloud metadata service",
        ),
        (
            "{domain: a.test, ports: [80, 0]}",
            "3:36: firewall.allow[0].ports[1]: `0` is not a port",
        ),
        (
            "{domain: a.test, ports: [70000]}",
            "3:32: firewall.allow[0].ports[0]: `70000` is not a port",
        ),
        (
            "{domain: a.test, ports: [-1]}",
            "3:32: firewall.allow[0].ports[0]: `-1` is not a port",
        ),
        (
            "{domain: a.test, ports: [http]}",
            "3:32: firewall.allow[0].ports[0]: it is not a whole number",
        ),
        (
            "{domain: a.test, ports: 80}",
            "3:31: firewall.allow[0].ports: it is not a list",
        ),
        (
            "{domain: a.test, ports: []}",
            "3:31: firewall.allow[0].ports: the list of ports is empty",
        ),
        (
            "{domain: a.test, ports: }",
            "3:29: firewall.allow[0].ports: it has no value",
        ),
        (
            "{domain: a.test, port: [80]}",
            "3:24: firewall.allow[0].port: unknown field `port`",
        ),
        (
            "{domain: a.test, domain: b.test}",
            "3:24: firewall.allow[0]: `domain` is given twice",
        ),
        (
            "{domain: a.test, cidr: 203.0.113.9}",
            "3:30: firewall.allow[0]: `domain` and `cidr` in one entry",
        ),
        (
            "{ports: [80]}",
            "3:7: firewall.allow[0]: the entry names neither",
        ),
        ("a.test", "3:7: firewall.allow[0]: it has no `key: value`"),
        (
            "{<<: {domain: a.test}}",
            "3:8: firewall.allow[0]: merge keys are not read here",
        ),
        (
            "domain: &a a.test",
            "3:18: firewall.allow[0]: anchors and aliases are not read here",
        ),
    ] {
        refused(entry, message);
    }
    let long = format!("domain: {}.test", "x".repeat(300));
    refused(
        &long,
        "3:15: firewall.allow[0].domain: a host name of 305 bytes is too long",
    );
    refused(&"{".repeat(100_000), "3:");
    refused(&"x".repeat(1 << 20), "3:7: firewall.allow[0]: ");
}

/// Each may be a file that is approved with the command.
#[test]
fn a_command_of_very_many_words_is_refused() {
    let parsed = |count: usize, entry: &str| {
        let words: String = (0..count).map(|number| format!(" w{number}")).collect();
        let text = entry.replace("CMD", &format!("'true{words}'"));
        parse(Path::new("c"), text.as_bytes(), Origin::Repository)
    };
    for entry in [
        "setup: CMD\n",
        "on_sync: [{cmd: CMD}]\n",
        "gate: {checks: [{cmd: CMD}]}\n",
    ] {
        parsed(999, entry).unwrap();
        let refused = parsed(1000, entry).unwrap_err().to_string();
        assert!(
            refused.contains("more than 1000 different words"),
            "{refused}"
        );
    }
}

/// What is meant to bound a sandbox is not left out for a letter.
#[test]
fn a_key_that_is_almost_one_that_bounds_counts_as_one() {
    let has = |text: &str| {
        let parsed = parse(Path::new("c"), text.as_bytes(), Origin::Global);
        matches!(
            parsed.unwrap_err(),
            ConfigError::Content {
                has_setting: true,
                ..
            }
        )
    };
    for key in [
        "hidee",
        "HIDE",
        "hid",
        "hdie",
        "hode",
        "gates",
        "limit",
        "protct",
        "\"hiide\"",
    ] {
        assert!(has(&format!("{key}: [x]\n")), "{key}");
    }
    for key in ["firewal", "syncs", "nothing", "hi", "  - hidee"] {
        assert!(!has(&format!("{key}: [x]\n")), "{key}");
    }
}

/// With its name and the byte that ends it: execve(2).
#[test]
fn a_variable_that_no_program_can_be_given_is_refused() {
    let parsed = |length: usize| {
        let text = format!("env:\n  A: {}\n", "x".repeat(length));
        parse(Path::new("c"), text.as_bytes(), Origin::Global)
    };
    parsed((128 << 10) - 3).unwrap();
    let refused = parsed((128 << 10) - 2).unwrap_err().to_string();
    assert!(
        refused.starts_with("c:2:6: env.A: no program can be given so much"),
        "{refused}"
    );
}

#[test]
fn bytes_that_are_no_text_are_named_by_line() {
    let parsed = parse(
        Path::new("c"),
        b"# \xc3\xa4\n# \xc3\xa4\xff\n",
        Origin::Global,
    )
    .unwrap_err();
    assert_eq!(parsed.to_string(), "c:2:4: the file is not UTF-8 text");
}

#[test]
fn a_hundred_thousand_rules_load_and_a_wrong_one_among_many_is_found() {
    let text = |count: usize, last: &str| {
        let mut text = String::from("firewall:\n  allow:\n");
        let entry = |n| format!("    - domain: h{n}.test\n      ports: [443]\n");
        text.extend((0..count).map(entry));
        text + "    - domain: " + last + "\n"
    };
    assert_eq!(
        read(&text(99_999, "a.test")).unwrap().unwrap().len(),
        100_000
    );
    let error = read(&text(2_000, "a.test/x")).unwrap_err();
    assert!(
        error.starts_with("config.yaml:4003:15: firewall.allow[2000].domain: "),
        "{error}"
    );
}

#[test]
fn the_file_itself_must_be_the_users_alone() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::new(directory.path());
    let path = home.config();
    assert_eq!(load(&home).unwrap(), Config::default());
    let refused = |why: &str| {
        let error = load(&home).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("config.yaml"),
            "{error}"
        );
    };
    fs::create_dir(&path).unwrap();
    refused("it is not a regular file");
    fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    refused("it is not a regular file");
    fs::remove_file(&path).unwrap();
    fsx::write_private(&path, b"firewall: {allow: []}\n").unwrap();
    assert_eq!(load(&home).unwrap().allow, Some(vec![]));
    for mode in [0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        refused("others than its owner can write it");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(load(&home).is_ok());
    let link = directory.path().join("real");
    fs::rename(&path, &link).unwrap();
    std::os::unix::fs::symlink(&link, &path).unwrap();
    refused("it is a symlink");
    fs::remove_file(&path).unwrap();
    let file = fs::File::create(&path).unwrap();
    file.set_len(MAX_FILE + 1).unwrap();
    refused("it is larger than");
    if rustix::process::geteuid().is_root() {
        file.set_len(0).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        refused("it belongs to another user");
    }
}

/// What is written is read back as it was, or not written.
#[test]
fn rules_become_a_file() {
    let rule = |text: &str| Rule::parse(text, cofferdam_wall::Origin::Defaults).unwrap();
    let rules = [
        "a.test",
        "b.test:8443",
        "*.c.test",
        "10.1.0.0/16:5432,6379",
        "[2001:db8::/32]:443",
        "203.0.113.9",
    ];
    let text = text_of(&rules.map(rule)).unwrap();
    assert_eq!(
        text,
        "firewall:\n  allow:\n    - domain: a.test\n    - domain: b.test\n      ports: [8443]\n    \
         - domain: \"*.c.test\"\n    - cidr: \"10.1.0.0/16\"\n      ports: [5432, 6379]\n    \
         - cidr: \"2001:db8::/32\"\n      ports: [443]\n    - cidr: \"203.0.113.9\"\n"
    );
    assert_eq!(text_of(&[rule("a.test:9 tls")]), None);
    let defaults = cofferdam_wall::defaults::rules().unwrap();
    assert!(text_of(&defaults).is_some());
}

// covers: S1-15, S1-16, S1-17, S1-18, S1-22, S1-28, S1-105
#[test]
fn the_whole_example_of_the_document() {
    let text = "\
sync:
  - src: /path/to/file           # exact file path
    dest: /container/path         # container destination
    mode: \"0755\"                  # optional, defaults to \"0644\"
    owner: \"agent:agent\"          # optional, defaults to \"agent:agent\"
  - src: /path/to/scripts/*.sh   # glob pattern (filepath.Glob)
    dest: /home/agent/scripts/   # trailing slash = directory target
env:
  FOO: bar                                 # literal value
  SECRET: value
  GITHUB_TOKEN: $GITHUB_TOKEN              # expanded from host env at sync time
on_sync:
  - cmd: npm install                       # required — shell command
    name: install deps                     # optional — label for status output
  - cmd: chmod 600 ~/.ssh/*
    root: true                             # optional — run as root (default: false)
";
    let config = parse(Path::new("c"), text.as_bytes(), Origin::Global).unwrap();
    let [file, pattern] = &config.sync[..] else {
        panic!("{config:?}")
    };
    assert_eq!((file.line, file.value.mode), (2, 0o755));
    assert_eq!(file.value.dest.to_string(), "/container/path");
    assert_eq!(
        (pattern.value.mode, &pattern.value.owner),
        (0o644, &Owner::Agent)
    );
    assert!(pattern.value.dest.is_directory);
    let host = Variable::OfHost("GITHUB_TOKEN".to_owned());
    assert_eq!(config.env["GITHUB_TOKEN"].value, host);
    assert_eq!(config.env["FOO"].value, Variable::Text("bar".to_owned()));
    let [install, chmod] = &config.on_sync[..] else {
        panic!("{config:?}")
    };
    assert_eq!(
        (install.value.label(), install.value.root),
        ("install deps", false)
    );
    assert_eq!(
        (chmod.value.label(), chmod.value.root),
        ("chmod 600 ~/.ssh/*", true)
    );
}

// covers: S1-35, S1-105, S1-137, S1-138
#[test]
fn what_is_wrong_elsewhere_is_named_by_line_and_field() {
    for (text, message) in [
        ("sync:\n  - src: /x\n", "2:5: sync[0]: `dest` is missing"),
        (
            "sync:\n  - {src: /x, dest: x}\n",
            "2:21: sync[0].dest: it is a path in the sandbox",
        ),
        (
            "sync:\n  - {src: /x, dest: /a/../b}\n",
            "2:21: sync[0].dest: it leads upwards",
        ),
        ("sync:\n  - {src: /x, dest: /}\n", ""),
        (
            "sync:\n  - {src: /x, dest: ~/a, mode: \"4755\"}\n",
            "2:32: sync[0].mode: it is no mode",
        ),
        (
            "sync:\n  - {src: /x, dest: ~/a, owner: \"a b\"}\n",
            "2:33: sync[0].owner: it is no owner",
        ),
        (
            "sync:\n  - {src: '', dest: ~/a}\n",
            "2:11: sync[0].src: it is no path",
        ),
        (
            "sync:\n  - {src: ~root/x, dest: ~/a}\n",
            "2:11: sync[0].src: of home directories only your own has a short name",
        ),
        (
            "sync:\n  - {src: \"~\", dest: ~/a}\n",
            "2:11: sync[0].src: of home directories only",
        ),
        ("sync:\n  - {src: ./~root/x, dest: ~/a}\n", ""),
        ("sync: /x\n", "1:7: sync: it is not a list"),
        ("env:\n  1A: x\n", "2:7: env.1A: the name of a variable"),
        (
            "env:\n  A: $1\n",
            "2:6: env.A: `$` begins the name of a variable of this machine",
        ),
        ("env:\n  A:\n", "2:4: env.A: it has no value"),
        ("env: [A]\n", "1:6: env: it has no `key: value`"),
        (
            "on_sync:\n  - name: x\n",
            "2:5: on_sync[0]: `cmd` is missing",
        ),
        (
            "on_sync:\n  - cmd: ' '\n",
            "2:10: on_sync[0].cmd: it is empty, or has a NUL in it",
        ),
        (
            "on_sync:\n  - {cmd: x, root: user}\n",
            "2:20: on_sync[0].root: ",
        ),
        (
            "hide: [/etc]\n",
            "1:8: hide[0]: it is not below the repository's top",
        ),
        ("hide: [.]\n", "1:8: hide[0]: it is not below"),
        (
            "hide: [\"*.env\"]\n",
            "1:8: hide[0]: patterns mean nothing here",
        ),
        (
            "protect: [src/?]\n",
            "1:11: protect[0]: patterns mean nothing here",
        ),
        (
            "hide: [a/../../b]\n",
            "1:8: hide[0]: it is not below the repository's top",
        ),
        (
            "sandbox: vm\n",
            "1:10: sandbox: it is none of native, docker, podman",
        ),
        ("image: -x\n", "1:8: image: it is no name of an image"),
        (
            "limits: {memory: 2x}\n",
            "1:18: limits.memory: it is no size",
        ),
        (
            "limits: {memory: 1m}\n",
            "1:18: limits.memory: a sandbox has 4m of memory at least",
        ),
        (
            "limits: {cpus: 0}\n",
            "1:16: limits.cpus: it is no number of CPUs",
        ),
        (
            "limits: {cpus: .inf}\n",
            "1:16: limits.cpus: it is no number of CPUs",
        ),
        (
            "limits: {pids: 0}\n",
            "1:16: limits.pids: it is no number of at least 1",
        ),
        (
            "limits: {disk: 1g}\n",
            "1:10: limits.disk: unknown field `disk`",
        ),
        ("limits:\n", "1:7: limits: it has no value"),
        ("run: {agent: --x}\n", "1:14: run.agent: it is no name"),
        (
            "run: {strategy: branch}\n",
            "1:17: run.strategy: it is none of head, merge-to-head",
        ),
        (
            "run: {iterations: 0}\n",
            "1:19: run.iterations: it is no number of at least 1",
        ),
        (
            "run: {network: all}\n",
            "1:16: run.network: it is none of none, allowlist, open",
        ),
        ("run: {image: x}\n", "1:7: run.image: unknown field `image`"),
        ("volumes: []\n", "1:1: volumes: unknown field `volumes`"),
        ("capabilities: []\n", "1:1: capabilities: unknown field"),
        ("publish: []\n", "1:1: publish: unknown field"),
        ("mounts: []\n", "1:1: mounts: unknown field"),
        ("privileged: true\n", "1:1: privileged: unknown field"),
        ("devices: []\n", "1:1: devices: unknown field"),
        ("build: {}\n", "1:1: build: unknown field"),
    ] {
        let parsed = parse(Path::new("c"), text.as_bytes(), Origin::Global);
        let said = parsed
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        let wanted = if message.is_empty() {
            String::new()
        } else {
            format!("c:{message}")
        };
        assert!(
            said.starts_with(&wanted) && said.is_empty() == wanted.is_empty(),
            "{text:?}: {said}"
        );
    }
}

#[test]
fn what_commands_leave_open_is_a_choice_each() {
    let text = "sandbox: podman\nimage: a.test/x:1\nlimits: {memory: 2g, cpus: 1.5, pids: 500}\n\
                run: {agent: codex, model: m-1, effort: high, strategy: head, iterations: 3, network: open}\n";
    let own = parse(Path::new("c"), text.as_bytes(), Origin::Global).unwrap();
    let told = |merged: Merged| -> Vec<String> {
        let all = merged.settings.values();
        all.map(|one| format!("{}={} {}", one.value.key(), one.value, one.source.file()))
            .collect()
    };
    let alone = told(merge(own.clone(), Config::default()));
    let file = |keys: &[&str]| -> Vec<String> {
        let lines = keys.iter().map(|key| format!("{key} config.yaml"));
        lines.collect()
    };
    let all = [
        "image=a.test/x:1",
        "limits.cpus=1.5",
        "limits.memory=2147483648 bytes",
        "limits.pids=500",
        "run.agent=codex",
        "run.effort=high",
        "run.iterations=3",
        "run.model=m-1",
        "run.network=open",
        "run.strategy=head",
        "sandbox=podman",
    ];
    assert_eq!(alone, file(&all));
    let of = |text: &str| parse(Path::new("c"), text.as_bytes(), Origin::Repository).unwrap();
    let same = told(merge(
        own.clone(),
        of("run: {agent: codex, iterations: 9}\n"),
    ));
    assert_eq!(same.len(), all.len());
    assert_eq!(same[6], "run.iterations=9 .cofferdam/config.yaml");
    // The model is another agent's.
    let both = told(merge(own, of("run: {agent: opencode}\n")));
    assert_eq!(both[4], "run.agent=opencode .cofferdam/config.yaml");
    assert!(
        !both
            .iter()
            .any(|one| one.contains("run.model") || one.contains("run.effort"))
    );
    assert_eq!(both.len(), all.len() - 2);
}

/// What the manual shows can be written so.
#[test]
fn the_example_of_the_manual_is_read() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let manual = fs::read_to_string(manual).unwrap();
    let example = manual.split("```yaml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let config = parse(Path::new("c"), example.as_bytes(), Origin::Global).unwrap();
    assert_eq!((config.sync.len(), config.env.len()), (2, 3));
    assert_eq!((config.on_sync.len(), config.checks.len()), (1, 1));
    assert_eq!((config.hide.len(), config.protect.len()), (1, 1));
    assert_eq!(config.allow.map(|rules| rules.len()), Some(3));
    assert!(config.settings.len() > 8 && config.setup.is_some());
}
