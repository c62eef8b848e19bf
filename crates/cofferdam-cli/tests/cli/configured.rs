//! `config.yaml` and `home/`: what they say is in the sandbox, and what cannot be is named.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::environment::{Done, TestEnvironment, finish};
use crate::lives::{Lives, OnTerminal};

/// A user whose configuration says this.
pub(crate) struct User(Lives);

impl std::ops::Deref for User {
    type Target = Lives;

    fn deref(&self) -> &Lives {
        &self.0
    }
}

impl User {
    pub(crate) fn new(config: &str) -> Self {
        let user = Self(Lives::new());
        user.says(config);
        user
    }

    pub(crate) fn says(&self, config: &str) {
        self.puts(".cofferdam/config.yaml", config);
    }

    /// One more commit of theirs, with this file.
    pub(crate) fn commits(&self, path: &str, text: &str) {
        self.write(path, text);
        self.git(&["add", path]);
        self.git(&["commit", "--quiet", "--message=theirs"]);
    }

    pub(crate) fn make(&self) -> Done {
        self.create("box", &["--network", "none"])
    }

    #[track_caller]
    pub(crate) fn inside(&self, script: &str) -> String {
        self.exec("box", script).expect_code(0).stdout
    }

    /// With a variable of this machine.
    #[track_caller]
    fn with(&self, name: &str, value: &str, words: &[&str]) -> Done {
        let mut command = self.command(words);
        command.env(name, value);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        finish(command.spawn().unwrap())
    }

    pub(crate) fn ends(self) {
        self.cofferdam(&["delete", "--force", "box"]).expect_code(0);
    }
}

// covers: S1-41, S1-42, S1-43, S1-44, S1-45, S1-46, S1-47, S1-48, S1-49, S1-128
#[test]
fn files_of_home_are_in_the_agents_home() {
    let user = User::new("");
    user.write(".cofferdam/home/.theirs", "of the repository\n");
    for (path, text) in [
        (".gitconfig", "[alias]\n"),
        (".vimrc", "set nu\n"),
        ("bin/my-script", "#!/bin/sh\necho ran\n"),
        ("bin/deep/tool", "x"),
        (".config/nvim/init.vim", "y"),
        ("two words\nand a line", "z"),
    ] {
        user.puts(&format!(".cofferdam/home/{path}"), text);
    }
    let files = user.home().join(".cofferdam/home");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(files.join(".vimrc"), executable).unwrap();
    std::os::unix::fs::symlink(".vimrc", files.join("to-vimrc")).unwrap();
    std::os::unix::fs::symlink(files.join(".vimrc"), files.join("to-vimrc-too")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", files.join("out")).unwrap();
    let made = user.make();
    assert_eq!(
        user.inside("cd; stat -c '%a %U:%G' .gitconfig .vimrc bin/my-script bin/deep/tool .config/nvim/init.vim 'two words\nand a line'"),
        "644 agent:agent\n644 agent:agent\n755 agent:agent\n755 agent:agent\n644 agent:agent\n644 agent:agent\n"
    );
    // So are the directories that they are in.
    assert_eq!(
        user.inside("cd; stat -c %U:%G bin/deep .config .config/nvim; test -e .theirs || echo not the repositorys"),
        "agent:agent\nagent:agent\nagent:agent\nnot the repositorys\n"
    );
    assert_eq!(
        user.inside("cat ~/to-vimrc ~/to-vimrc-too; ls ~/out 2>/dev/null; true"),
        "set nu\nset nu\n"
    );
    assert!(made.stderr.contains("out: a link leads out of"), "{made}");
    assert_eq!(
        user.inside("~/bin/my-script; cat ~/.vimrc"),
        "ran\nset nu\n"
    );
    user.ends();
}

// covers: S1-16, S1-17, S1-18, S1-19, S1-21, S1-50, S1-52, S1-53, S1-54, S1-55, S1-37, S1-36, S1-38, S1-39
#[test]
fn rules_bring_files_and_what_cannot_come_is_named() {
    let user = User::new(
        "sync:
  - {src: ~/one.txt, dest: /home/agent/renamed.txt, mode: \"0600\"}
  - {src: ~/scripts/*.sh, dest: ~/scripts/}
  - {src: ~/scripts/a*, dest: ~/direct.sh, mode: \"755\", owner: \"agent:agent\"}
  - {src: ~/scripts/*.sh, dest: ~/not-a-directory}
  - {src: ~/none/*, dest: ~/x/}
  - {src: ~/missing, dest: ~/missing}
  - {src: ~/scripts, dest: ~/scripts2}
  - {src: ~/one.txt, dest: ~/theirs, owner: \"root:root\"}
  - {src: ~/one.txt, dest: /etc/hosts}
  - {src: ~/one.txt, dest: /workspace/repository/in}
  - {src: ~/one.txt, dest: /usr/bin/in}
  - {src: ~/last.txt, dest: ~/deep/er/}
",
    );
    user.puts("one.txt", "one\n");
    user.puts("last.txt", "last\n");
    user.puts("scripts/a.sh", "a\n");
    user.puts("scripts/b.sh", "b\n");
    let made = user.make();
    assert_eq!(
        user.inside("cd; stat -c '%a %U' renamed.txt scripts/a.sh scripts/b.sh direct.sh deep/er/last.txt; cat renamed.txt scripts/b.sh direct.sh"),
        "600 agent\n644 agent\n644 agent\n755 agent\n644 agent\none\nb\na\n"
    );
    for (line, said) in [
        (5, "matches 2 files, and `dest` is one file"),
        (6, "nothing matches `~/none/*`"),
        (7, "No such file or directory"),
        (8, "it is a directory"),
        (9, "nobody in this sandbox is `root:root`"),
        (10, "`/etc/hosts` is the sandbox's own"),
        (11, "--copy PATH"),
    ] {
        let begin = format!("not synced: `sync` rule of config.yaml at line {line}: ");
        let told = made.stderr.lines().find_map(|text| text.split_once(&begin));
        assert!(
            told.is_some_and(|(_, rest)| rest.contains(said)),
            "{line} {said}: {made}"
        );
    }
    assert!(made.stderr.contains("not synced: /usr/bin/in: "), "{made}");
    assert_eq!(
        user.inside(
            "cd; ls -A | grep -xe missing -e x -e scripts2 -e theirs -e not-a-directory; true"
        ),
        ""
    );
    user.ends();
}

/// Generated, then `home/`, then the rules.
// covers: S1-56, S1-59, S1-62, S1-63, S1-64
#[test]
fn what_comes_later_counts() {
    let user = User::new("env: {A: b}\nsync:\n  - {src: ~/mine, dest: ~/.vimrc}\n");
    user.puts("mine", "of the rule\n");
    user.puts(".cofferdam/home/.vimrc", "of home\n");
    user.make();
    assert_eq!(
        user.inside("cat ~/.vimrc; grep -c A= ~/.cofferdam-env"),
        "of the rule\n1\n"
    );
    user.puts(".cofferdam/home/.cofferdam-env", "of home\n");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/.cofferdam-env"), "of home\n");
    user.ends();
}

// covers: S1-22, S1-93, S1-95, S1-96, S1-97, S1-98, S1-99, S1-100
#[test]
fn variables_are_in_every_program_and_in_the_file_for_shells() {
    let user = User::new(
        "env:\n  PLAIN: it's $HOME\n  FROM_HOST: $OF_HOST\n  UNSET: $NOT_THERE\n  DOLLAR: $$x\n",
    );
    user.with(
        "OF_HOST",
        "se cret",
        &["create", "box", "--network", "none"],
    )
    .expect_code(0);
    let read =
        "env -i sh -c '. /home/agent/.cofferdam-env; env' | grep -v -e PWD -e _= -e SHLVL | sort";
    assert_eq!(
        user.inside(read),
        "DOLLAR=$x\nFROM_HOST=se cret\nPLAIN=it's $HOME\n"
    );
    let told = user.with(
        "OF_HOST",
        "other",
        &[
            "exec",
            "box",
            "--",
            "sh",
            "-c",
            "echo $PLAIN,$FROM_HOST,${UNSET-none},$DOLLAR",
        ],
    );
    assert_eq!(told.expect_code(0).stdout, "it's $HOME,other,none,$x\n");
    // A run has them too, and no command line shows a value.
    let ran = user.with(
        "OF_HOST",
        "se cret",
        &[
            "run",
            "-q",
            "--no-log",
            "--",
            "sh",
            "-c",
            "test \"$FROM_HOST\" = se\\ cret && ! grep -qa 'se[ ]cret' /proc/[0-9]*/cmdline",
        ],
    );
    ran.expect_code(0);
    // What a sandbox was given by its maker counts in shells too.
    user.create("given", &["--network", "none", "--env", "PLAIN=given"]);
    let both = "echo $PLAIN; . ~/.cofferdam-env; echo $PLAIN; echo $DOLLAR";
    let told = user.exec("given", both).expect_code(0).stdout;
    assert_eq!(told, "given\ngiven\n$x\n");
    user.cofferdam(&["delete", "--force", "given"])
        .expect_code(0);
    user.ends();
}

// covers: S1-28, S1-33, S1-34, S1-70, S1-101, S1-102, S1-103, S1-106, S1-107
#[test]
fn it_is_done_again_where_something_changed_or_somebody_asks() {
    let hook = "on_sync:\n  - {cmd: 'echo $(id -un) $PWD >> count', name: counting}\n  - {cmd: cat a >> count}\n";
    let user = User::new(hook);
    user.puts(".cofferdam/home/a", "first\n");
    user.make();
    let once = "agent /home/agent\nfirst\n";
    assert_eq!(user.inside("cat ~/count"), once);
    // Whoever enters it starts nothing.
    assert_eq!(user.inside("cat ~/count"), once);
    user.puts(".cofferdam/home/a", "second\n");
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    for label in ["counting", "hook sandbox.onSync: cat a >> count"] {
        assert!(synced.stderr.contains(label), "{label}: {synced}");
    }
    assert!(
        synced.stderr.contains("box: 1 file sent, 2 commands run"),
        "{synced}"
    );
    let twice = format!("{once}agent /home/agent\nsecond\n");
    assert_eq!(user.inside("cat ~/count"), twice);
    // Somebody inside changed a file, and without a name it is every one that runs.
    user.inside("echo theirs > ~/a");
    let synced = user.cofferdam(&["sync"]).expect_code(0);
    assert!(synced.stderr.contains("box: 1 file sent"), "{synced}");
    let synced = user.cofferdam(&["sync", "--all", "box"]).expect_code(0);
    assert!(synced.stderr.contains("box: 1 file sent"), "{synced}");
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert!(synced.stderr.contains("box: 0 files sent"), "{synced}");
    // One that was stopped is another life.
    user.inside("rm ~/count");
    user.cofferdam(&["stop", "box"]).expect_code(0);
    let synced = user.cofferdam(&["sync"]).expect_code(0);
    assert!(
        synced.stderr.contains("no sandbox of this repository runs"),
        "{synced}"
    );
    let refused = user.cofferdam(&["sync", "box"]).expect_code(1);
    assert!(
        refused.stderr.contains("`cofferdam start box`"),
        "{refused}"
    );
    user.cofferdam(&["start", "box"]).expect_code(0);
    user.cofferdam(&["pause", "box"]).expect_code(0);
    let refused = user.cofferdam(&["sync", "box"]).expect_code(1);
    assert!(
        refused.stderr.contains("`cofferdam resume box`"),
        "{refused}"
    );
    user.cofferdam(&["resume", "box"]).expect_code(0);
    user.inside("rm ~/count");
    user.cofferdam(&["stop", "box"]).expect_code(0);
    user.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/count"), "agent /home/agent\nsecond\n");
    user.ends();
}

// covers: S1-40, S1-108, S1-109, S1-110, S1-111
#[test]
fn a_command_that_fails_is_the_last_and_all_run_again() {
    let user = User::new(
        "on_sync:\n  - {cmd: echo first >> order}\n  - {cmd: echo out; echo err >&2; test -e mended, name: second}\n  - {cmd: echo third >> order}\n",
    );
    let failed = user
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(1);
    for part in ["sandbox.onSync", "out", "err", "exit code 1"] {
        assert!(failed.stderr.contains(part), "{part}: {failed}");
    }
    assert_eq!(user.inside("cat ~/order; touch ~/mended"), "first\n");
    let synced = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/order"), "first\nfirst\nthird\n");
    assert!(synced.stderr.contains("`cofferdam delete box`"), "{synced}");
    user.ends();
}

// covers: S1-29, S1-30, S1-31, S1-32, S1-79
#[test]
fn init_writes_the_built_in_list_once() {
    let environment = TestEnvironment::with_repository();
    let rules = environment
        .cofferdam(&["net", "rules", "--json"])
        .expect_code(0);
    environment.cofferdam(&["init"]).expect_code(0);
    let home = environment.home().join(".cofferdam");
    assert!(home.join("home").is_dir());
    let written = std::fs::read_to_string(home.join("config.yaml")).unwrap();
    let own = environment
        .cofferdam(&["net", "rules", "--json"])
        .expect_code(0);
    let only = |done: &Done, origin: &str| -> Vec<String> {
        let all: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let all = all["rules"].as_array().unwrap();
        let text = |one: &serde_json::Value| {
            assert_eq!(one["origin"], origin, "{done}");
            one["rule"].as_str().unwrap().to_owned()
        };
        all.iter().map(text).collect()
    };
    let loaded = only(&own, "global");
    assert_eq!(only(&rules, "defaults"), loaded);
    assert!(loaded.len() > 30, "{own}");
    let mine = format!("{written}# mine\n");
    cofferdam::fsx::write_private(&home.join("config.yaml"), mine.as_bytes()).unwrap();
    let again = environment.cofferdam(&["init"]).expect_code(0);
    assert!(again.stderr.contains("stays as it is"), "{again}");
    assert_eq!(
        std::fs::read_to_string(home.join("config.yaml")).unwrap(),
        mine
    );
    environment.cofferdam(&["config", "check"]).expect_code(0);
}

/// What a repository's own file widens waits.
// covers: S1-4, S1-5, S1-7, S1-8, S1-9, S1-10, S1-11, S1-12, S1-14
#[test]
fn a_repository_asks_and_gets_what_was_approved() {
    let user = User::new(
        "env: {A: own, B: own}\nsync:\n  - {src: ~/own, dest: ~/one}\n  - {src: ~/own, dest: ~/two}\n",
    );
    user.puts("own", "own\n");
    user.write(
        ".cofferdam/config.yaml",
        "env: {A: theirs, APP_C: theirs, D: $OF_HOST}\nsync:\n  - {src: theirs, dest: ~/one}\nfirewall: {allow: [{domain: asked.test}]}\n",
    );
    user.write("theirs", "theirs\n");
    let see = "cat ~/one ~/two; echo $A,$B,$APP_C,${D-none}";
    let made = user.make();
    assert!(
        made.stderr.contains("asks for 4 things that wait for you"),
        "{made}"
    );
    assert_eq!(user.inside(see), "own\nown\nown,own,theirs,none\n");

    let asked = user.cofferdam(&["approve"]).expect_code(1);
    for line in [
        "+ env: A is \"theirs\"",
        "+ env: D is $OF_HOST of this machine",
        "+ firewall.allow: asked.test:80,443",
        "+ sync: \"theirs\" to \"~/one\", mode 0644, owner agent:agent",
    ] {
        assert!(asked.stdout.contains(line), "{line}: {asked}");
    }
    let hint = asked.stderr.split("--trust ").nth(1).unwrap();
    let digest = hint.split('`').next().unwrap();
    user.cofferdam(&["approve", "--trust", &"0".repeat(64)])
        .expect_code(1);
    user.cofferdam(&["approve", "--trust", digest])
        .expect_code(0);
    let rules = user.cofferdam(&["net", "rules"]).expect_code(0);
    assert!(rules.stdout.contains("asked.test"), "{rules}");
    user.with("OF_HOST", "host", &["sync", "box"])
        .expect_code(0);
    let told = user.with("OF_HOST", "host", &["exec", "box", "--", "sh", "-c", see]);
    assert_eq!(
        told.expect_code(0).stdout,
        "theirs\nown\ntheirs,own,theirs,host\n"
    );

    // What is asked for later waits again; the rest counts.
    user.write(
        ".cofferdam/config.yaml",
        "env: {A: theirs, E: later}\nfirewall: {allow: [{domain: asked.test}]}\n",
    );
    let shown = user.cofferdam(&["approve", "--list"]).expect_code(0);
    for line in [
        "+ env: E is \"later\"",
        "- env: D is",
        "  env: A is \"theirs\"",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {shown}");
    }
    assert_eq!(user.inside("echo $A,${E-none}"), "theirs,none\n");
    let revoked = user.cofferdam(&["approve", "--revoke"]).expect_code(0);
    assert!(
        revoked.stderr.contains("files stay where they are"),
        "{revoked}"
    );
    assert_eq!(user.inside("echo $A"), "own\n");
    let rules = user.cofferdam(&["net", "rules"]).expect_code(0);
    assert!(!rules.stdout.contains("asked.test"), "{rules}");
    user.ends();
}

/// Everything but a yes is a no.
#[test]
fn who_approves_at_a_terminal_is_asked() {
    let user = User::new("");
    user.write(".cofferdam/config.yaml", "env: {A: theirs}\n");
    let answers = |keys: &str, code: i32, said: &str| {
        let mut terminal = user.on_a_terminal(&["approve"]);
        terminal.expect("env: A is \"theirs\"");
        terminal.expect("approve this? [y/N] ");
        terminal.press(keys);
        terminal.expect(said);
        terminal.ends_with(code);
    };
    for no in ["\r", "n\r", "yess\r", "\u{4}"] {
        answers(no, 1, "nothing was approved");
        user.cofferdam(&["approve"]).expect_code(1);
    }
    // What was shown is what a yes is to, whatever the file says by then.
    let mut terminal = user.on_a_terminal(&["approve"]);
    terminal.expect("env: A is \"theirs\"");
    terminal.expect("approve this? [y/N] ");
    user.write(".cofferdam/config.yaml", "env: {A: theirs, B: later}\n");
    terminal.press("y\r");
    terminal.expect("approved: 1 line");
    terminal.ends_with(0);
    let shown = user.cofferdam(&["approve", "--list"]).expect_code(0);
    for line in ["  env: A is \"theirs\"", "+ env: B is \"later\""] {
        assert!(shown.stdout.contains(line), "{line}: {shown}");
    }
    user.write(".cofferdam/config.yaml", "env: {A: theirs}\n");
    let again = user.cofferdam(&["approve"]).expect_code(0);
    assert!(again.stderr.contains("all of this is approved"), "{again}");
}

#[test]
fn each_value_says_where_it_is_from() {
    let user = User::new("env: {OWN: one}\nlimits:\n  memory: 1g\nhide: [secret]\n");
    user.write(
        ".cofferdam/config.yaml",
        "# theirs\nenv:\n  APP_THEIRS: two\n  OWN: three\n",
    );
    let shown = user.cofferdam(&["config"]).expect_code(0);
    let (own, theirs) = ("config.yaml", ".cofferdam/config.yaml");
    for line in [
        "firewall.allow: the built-in list: `cofferdam net rules` shows it  # built in".to_owned(),
        format!("env.OWN: one  # {own}:1"),
        format!("env.APP_THEIRS: two  # {theirs}:3"),
        format!("limits.memory: 1g  # {own}:3"),
        format!("hide: secret  # {own}:4"),
        format!("# waits for `cofferdam approve`: env: OWN is \"three\"  # {theirs}:4"),
    ] {
        assert!(
            shown.stdout.lines().any(|shown| shown == line),
            "{line}: {shown}"
        );
    }
    let json = user.cofferdam(&["config", "--json"]).expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let values = json["values"].as_array().unwrap();
    let found = values.iter().find(|one| one["key"] == "env.APP_THEIRS");
    let file = user.repository().join(theirs);
    let expected = serde_json::json!({
        "key": "env.APP_THEIRS",
        "value": "two",
        "from": {"file": file.to_str().unwrap(), "line": 3},
    });
    assert_eq!(found, Some(&expected), "{json}");
    // A rule each, which no file has.
    let built_in = values.iter().filter(|one| one["key"] == "firewall.allow");
    let built_in: Vec<_> = built_in.collect();
    assert!(built_in.len() > 30, "{json}");
    for one in built_in {
        assert!(
            one["from"].is_null() && one["value"]["domain"].is_string(),
            "{one}"
        );
    }
    let waiting = serde_json::json!([{"asked": "env: OWN is \"three\"", "line": 4}]);
    assert_eq!(json["waiting"], waiting);
}

/// What a program reads is what the file says, and not how people are told of it.
#[test]
fn values_are_data() {
    let user = User::new(
        "firewall: {allow: [{domain: a.test}, {cidr: 203.0.113.9}]}
sync: [{src: /x, dest: ~/y/, mode: 755}]
env: {PLAIN: $$5, OF_HOST: $OF_HOST}
on_sync: [{cmd: make, name: makes}]
limits: {memory: 1g, cpus: \"1.5\", pids: 500}
run: {iterations: 3, network: none}
hide: [secret]
protect: [ci]
setup: npm ci
gate: {checks: [{cmd: npm test}]}
sandbox: docker
",
    );
    let done = user.cofferdam(&["config", "--json"]).expect_code(0);
    let object: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let file = user.home().join(".cofferdam/config.yaml");
    let mut told = serde_json::Map::new();
    for one in object["values"].as_array().unwrap() {
        assert_eq!(one["from"]["file"], file.to_str().unwrap(), "{one}");
        let (key, line) = (one["key"].as_str().unwrap(), &one["from"]["line"]);
        told.insert(format!("{key} {line} {}", told.len()), one["value"].clone());
    }
    assert_eq!(
        serde_json::Value::Object(told),
        serde_json::json!({
            "firewall.allow 1 0": {"domain": "a.test", "ports": [80, 443]},
            "firewall.allow 1 1": {"cidr": "203.0.113.9", "ports": null},
            "sync 2 2": {"src": "/x", "dest": "~/y/", "mode": "0755", "owner": "agent:agent"},
            "env.OF_HOST 3 3": {"host": "OF_HOST"},
            "env.PLAIN 3 4": "$5",
            "on_sync 4 5": {"cmd": "make", "name": "makes", "root": false},
            "limits.cpus 5 6": 1.5,
            "limits.memory 5 7": 1_073_741_824,
            "limits.pids 5 8": 500,
            "run.iterations 6 9": 3,
            "run.network 6 10": "none",
            "sandbox 11 11": "docker",
            "hide 7 12": "secret",
            "protect 8 13": "ci",
            "setup 9 14": "npm ci",
            "gate.checks 10 15": {"cmd": "npm test", "name": null},
        })
    );
}

/// Each by its key, file and line; and nothing that a sandbox could have after all.
#[test]
fn what_cannot_work_is_a_warning() {
    let config = "sync:
  - {src: ~/missing, dest: ~/a}
  - {src: ~/none/*, dest: ~/b/}
  - {src: ~/there, dest: ~/c}
env: {UNSET: $NOT_THERE, SET: $HOME}
on_sync:
  - {cmd: no-such-program --now}
  - {cmd: ~/bin/none}
  - {cmd: ~/bin/there && own-tool; own-tool}
  - {cmd: own-tool}
  - {cmd: cd /tmp && no-such-program}
  - {cmd: X=1 no-such-program}
  - {cmd: /no/such/program}
  - {cmd: sh -c true, root: true}
setup: ./none.sh
gate: {checks: [{cmd: src/lib.txt}, {cmd: src/none.sh}]}
hide: [src, not-here]
";
    let user = User::new(config);
    user.puts("there", "there");
    user.puts(".cofferdam/home/bin/there", "there");
    user.puts(".cofferdam/home/bin/own-tool", "there");
    let warnings = |expected: &[(&str, u32, &str)], end: &str| {
        let done = user.cofferdam(&["config", "check"]).expect_code(0);
        let lines: Vec<&str> = done.stderr.lines().collect();
        let (last, warnings) = lines.split_last().unwrap();
        assert_eq!(*last, end, "{done}");
        assert_eq!(warnings.len(), expected.len(), "{done}");
        for (key, line, reason) in expected {
            let said = warnings.iter().any(|text| {
                text.starts_with(&format!("warning: `{key}`"))
                    && text.contains(&format!(" of config.yaml at line {line}: "))
                    && text.contains(reason)
            });
            assert!(said, "{key} {line} {reason}: {done}");
        }
    };
    let of_machine = [
        (
            "on_sync",
            7,
            "this machine has no program `no-such-program`",
        ),
        ("on_sync", 13, "this machine has no `/no/such/program`"),
        ("on_sync", 14, "nobody in this sandbox is root"),
    ];
    let always = [
        ("sync", 2, "No such file"),
        ("sync", 3, "nothing matches `~/none/*`"),
        ("env.UNSET", 5, "this machine has no variable `NOT_THERE`"),
        ("on_sync", 8, "nothing brings `~/bin/none`"),
        ("setup", 15, "the repository has no `none.sh`"),
        ("gate.checks", 16, "the repository has no `src/none.sh`"),
        ("hide", 17, "nothing is at `not-here`"),
    ];
    let all = [&always[..], &of_machine].concat();
    warnings(&all, "it can be read; 10 warnings");
    // What an image has nobody knows here, and a dev sandbox in a container has a root.
    user.says(&format!("{config}sandbox: docker\n"));
    warnings(&always, "it can be read; 7 warnings");
    user.says("on_sync: [{cmd: true}]\nenv: {SET: $HOME}\n");
    let done = user.cofferdam(&["config", "check"]).expect_code(0);
    assert!(done.stderr.ends_with("good\n"), "{done}");
}

// covers: S1-35
#[test]
fn a_file_that_cannot_be_read_is_named_and_keeps_nobody_from_working() {
    let user = User::new("env: [\n");
    let made = user.make();
    assert!(made.stderr.contains("config.yaml:"), "{made}");
    assert_eq!(user.inside("echo works"), "works\n");
    let checked = user.cofferdam(&["config", "check"]).expect_code(1);
    assert!(checked.stderr.contains("config.yaml:"), "{checked}");
    user.ends();
}

#[test]
fn what_the_configuration_hides_is_not_seen() {
    let user = User::new("hide: [secret, not-here]\n");
    user.write("secret/key", "key\n");
    user.write(".cofferdam/config.yaml", "hide: [src]\n");
    user.git(&["add", "secret"]);
    user.git(&["commit", "-qm", "secret"]);
    let made = user.make();
    assert!(
        made.stderr
            .contains("note: `hide` names what is not here, and hides nothing by that: not-here (config.yaml:1)\n"),
        "{made}"
    );
    assert_eq!(
        user.inside("ls; cat secret/key src/lib.txt 2>/dev/null; true"),
        "README.md\n"
    );
    user.ends();
}

/// It may be anybody's, and runs before an agent has read a word.
#[test]
fn a_repositorys_command_has_no_value_of_this_machine() {
    let user = User::new(
        "env: {OF_USER: $OF_HOST, PLAIN: text}\non_sync: [{cmd: echo own $OF_USER $PLAIN >> told}]\n",
    );
    user.write(
        ".cofferdam/config.yaml",
        "on_sync:\n  - cmd: echo theirs ${OF_USER-none} $PLAIN >> told\n",
    );
    user.with("OF_HOST", "secret", &["create", "box", "--network", "none"])
        .expect_code(0);
    assert_eq!(user.inside("cat ~/told"), "own secret text\ntheirs none\n");
    user.ends();
}

#[test]
fn a_choice_of_the_configuration_counts_where_the_command_line_makes_none() {
    let user = User::new(
        "limits: {pids: 77}\nrun: {network: none, iterations: 2, strategy: merge-to-head}\n",
    );
    let count =
        "grep 'Max processes' /proc/self/limits >> count; git add count; git commit -qm count";
    let done = user.run(&[], count).expect_code(0);
    let said = user.cofferdam(&["config"]).expect_code(0).stdout;
    for line in [
        "limits.pids: 77  # config.yaml:1\n",
        "run.iterations: 2  # config.yaml:2\n",
        "run.network: none  # config.yaml:2\n",
        "run.strategy: merge-to-head  # config.yaml:2\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let counted = || user.git(&["show", "HEAD:count"]);
    assert_eq!(counted().lines().count(), 2, "{done}");
    // Their init counts too.
    assert!(counted().contains(" 78 "), "{}", counted());
    // What a command line says comes first.
    user.run(&["--max-iterations", "1", "--pids", "88"], count)
        .expect_code(0);
    assert_eq!(counted().lines().count(), 3);
    assert!(counted().contains(" 89 "), "{}", counted());
    // Of runs alone, and not of what is made to stay.
    let network = |name: &str| {
        let status = user.cofferdam(&["status", name, "--json"]).expect_code(0);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        status["network"].as_str().unwrap().to_owned()
    };
    user.run(&["--keep", "--name", "kept"], "true")
        .expect_code(0);
    assert_eq!(network("kept"), "none");
    user.create("box", &[]);
    assert_eq!(network("box"), "allowlist");
    let limits = user.inside("cat /proc/self/limits");
    assert!(limits.contains(" 78 "), "{limits}");
    user.cofferdam(&["delete", "--force", "kept"])
        .expect_code(0);
    user.ends();
}

#[test]
fn a_repositorys_choice_waits_for_its_user() {
    let user = User::new("");
    user.write(
        ".cofferdam/config.yaml",
        "sandbox: docker\nrun: {agent: nobody}\n",
    );
    // It would be no agent, and there is no need of an engine.
    user.run(&[], "true").expect_code(0);
    let asked = user.cofferdam(&["approve"]).expect_code(1);
    for line in ["sandbox: \"docker\"", "run.agent: \"nobody\""] {
        assert!(asked.to_string().contains(line), "{asked}");
    }
    user.says("run: {agent: none}\n");
    let done = user.cofferdam(&["run", "--prompt", "x"]).expect_code(1);
    assert!(
        done.stderr
            .contains("config.yaml:1: run.agent: there is no agent `none`\nhint: write one of "),
        "{done}"
    );
}

// covers: S1-69, S1-113, S1-114
#[test]
fn a_sandbox_that_an_agent_comes_into_has_what_changed() {
    // Never the same twice, and nothing of it counts.
    let user = User::new("on_sync: [{cmd: 'echo synced >> ~/log; date +%N; date +%N >&2'}]\n");
    user.make();
    // What was brought just after it was written is known again once it has been looked at later.
    user.puts(".cofferdam/home/young", "young");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    user.inside("echo synced > ~/log");
    let id = user.listed("box").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let manifest = user
        .home()
        .join(".cofferdam/state")
        .join(id)
        .join("sync.manifest");
    let (young, begun) = (std::fs::read(&manifest).unwrap(), Instant::now());
    while std::fs::read(&manifest).unwrap() == young {
        assert!(begun.elapsed() < Duration::from_secs(120), "it stays young");
        user.run(&["--in", "box"], "true").expect_code(0);
    }
    user.run(&["--in", "box"], "cp ~/log seen").expect_code(0);
    assert_eq!(user.inside("cat ~/log"), "synced\n", "nothing had changed");
    user.puts(".cofferdam/home/new", "new");
    user.run(&["--in", "box"], "cat ~/new >> ~/log")
        .expect_code(0);
    assert_eq!(user.inside("cat ~/log"), "synced\nsynced\nnew");
    user.ends();
}

/// One that prints what it is given and has, and ends by a key.
pub(crate) const CLAUDE: &str = "#!/bin/sh\necho \"here: $* $EDITOR $(cat ~/note) $(tty >/dev/null && echo tty)\"; read -r _; exit 5\n";

// covers: S1-95, S1-136
#[test]
fn claude_opens_in_a_sandbox_that_stays() {
    let user = User::new("env: {EDITOR: vim}\n");
    user.puts(".cofferdam/home/note", "first");
    let bin = user.has_program("claude", CLAUDE);
    let open = |words: &[&str]| {
        let mut command = user.command(words);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        OnTerminal::start(&command, (40, 100))
    };
    let leave = |mut claude: OnTerminal| {
        claude.press("\r");
        claude.ends();
        assert_eq!(claude.child.wait().unwrap().code(), Some(5));
    };
    // It is made, and it is there the next time, with what has changed.
    let mut claude = open(&["claude", "box", "--", "--resume"]);
    claude.expect("here: --resume vim first tty");
    leave(claude);
    assert_eq!(user.state("box"), "active");
    user.puts(".cofferdam/home/note", "second");
    let below = user.repository().join("below");
    std::fs::create_dir_all(&below).unwrap();
    let mut claude = open(&["claude", "box"]);
    claude.expect("here:  vim second tty");
    leave(claude);
    let mut claude = open(&["claude", "box", "--sandbox", "native"]);
    claude.expect("`box` is there already, and stays where it is");
    claude.ends_with(2);
    // One that was stopped is started; a directory means the sandbox of that name.
    user.cofferdam(&["stop", "box"]).expect_code(0);
    let mut claude = open(&["claude", "box"]);
    claude.expect("here:  vim second tty");
    leave(claude);
    // One that stands still, or was never finished, is not gone into.
    let refused = |said: &str| {
        let mut claude = open(&["claude", "box"]);
        claude.expect(said);
        claude.ends_with(1);
    };
    user.cofferdam(&["pause", "box"]).expect_code(0);
    refused("`cofferdam resume box`");
    user.cofferdam(&["resume", "box"]).expect_code(0);
    user.says("env: {EDITOR: vim}\nsetup: exit 3\n");
    user.cofferdam(&["create", "unfinished"]).expect_code(1);
    let mut claude = open(&["claude", "unfinished"]);
    claude.expect("the setup of sandbox `unfinished` failed");
    claude.ends_with(1);
    user.cofferdam(&["delete", "--force", "unfinished"])
        .expect_code(0);
    user.says("env: {EDITOR: vim}\n");
    let mut claude = open(&["claude", "./below"]);
    claude.expect("here:  vim second tty");
    leave(claude);
    assert_eq!(user.state("claude"), "active");
    // In another repository the commands that are named need its directory.
    let other = TestEnvironment::with_repository();
    let place = other.repository();
    let place = place.to_str().unwrap();
    let mut claude = open(&["claude", place]);
    claude.expect(&format!("cofferdam -C {place} shell claude"));
    claude.expect("here:  vim second tty");
    leave(claude);
    user.cofferdam(&["-C", place, "delete", "--force", "claude"])
        .expect_code(0);
    let done = user.cofferdam(&["claude", "./nowhere"]).expect_code(2);
    assert!(
        done.stderr.contains("Claude Code needs a terminal here"),
        "{done}"
    );
    user.cofferdam(&["delete", "--force", "claude"])
        .expect_code(0);
    user.ends();
}

/// Who waits for rules is told so after a while, whatever brings them; and each changes those of its own sandbox alone.
// covers: S1-89, S1-91
#[test]
fn rules_that_take_a_while_are_said_and_are_those_of_one_sandbox() {
    let user = User::new("firewall: {allow: [{domain: first.test}]}\n");
    let bin = user.has_program("claude", CLAUDE);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    for name in ["box", "other"] {
        user.with("PATH", &path, &["create", name]).expect_code(0);
    }
    let home = user.home().join(".cofferdam");
    let rules = |name: &str| {
        let listed = user.listed(name).unwrap();
        let id = listed["id"].as_str().unwrap();
        std::fs::read_to_string(home.join("state").join(id).join("rules")).unwrap()
    };
    let before = rules("other");
    assert!(before.contains("first.test"), "{before}");
    for (number, words) in [
        &["sync", "box"][..],
        &["run", "--in", "box", "--", "true"],
        &["run", "--quiet", "--in", "box", "--", "true"],
        &["claude", "box"],
    ]
    .into_iter()
    .enumerate()
    {
        user.says(&format!(
            "firewall: {{allow: [{{domain: n{number}.test}}]}}\n"
        ));
        let held = std::fs::File::open(home.join("allowed/lock")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "as another process has it")]
        held.lock().unwrap();
        let mut command = user.command(words);
        command.env("PATH", &path);
        let begun = Instant::now();
        let mut shown = OnTerminal::start(&command, (40, 200));
        shown.expect("putting the network rules in force");
        // Nobody is told of what is done in a moment.
        assert!(begun.elapsed() >= Duration::from_secs(2), "{words:?}");
        drop(held);
        if words[0] == "claude" {
            shown.expect("here:");
            shown.press("\r");
        }
        shown.ends();
        let said = shown.text();
        assert_eq!(said.matches("in force…").count(), 1, "{said}");
        assert!(rules("box").contains(&format!("n{number}.test")), "{said}");
        assert_eq!(rules("other"), before, "{said}");
    }
    // Of one that waits for nobody it is the last word.
    let done = user.cofferdam(&["sync", "box"]).expect_code(0);
    assert!(
        done.stderr
            .ends_with("box: the configuration brings nothing into it; network rules in force\n"),
        "{done}"
    );
    assert!(!done.stderr.contains("other"), "{done}");
    user.cofferdam(&["sync"]).expect_code(0);
    assert!(rules("other").contains("n3.test"));
    user.cofferdam(&["delete", "--force", "other"])
        .expect_code(0);
    user.ends();
}

#[test]
fn a_bound_that_cannot_be_read_is_not_left_out() {
    let user = User::new("limits: {memory: 1g}\nhid: [x]\n");
    for words in [&["create", "box"][..], &["run", "--", "true"]] {
        let done = user.cofferdam(words).expect_code(1);
        assert!(
            done.stderr.contains("config.yaml:2:1: hid: unknown field")
                && done
                    .stderr
                    .contains("it says where and how sandboxes are made"),
            "{done}"
        );
    }
    user.says("run: {network: none}\n");
    let refused = user.run(&["--allow", "example.com"], "true").expect_code(2);
    assert!(
        refused
            .stderr
            .contains("`--allow` is for `--network allowlist` only"),
        "{refused}"
    );
    // What is said of one agent is not said to another.
    user.says("run: {agent: clod}\n");
    user.run(&[], "true").expect_code(0);
    let checked = user.cofferdam(&["config", "check"]).expect_code(1);
    assert!(
        checked
            .stderr
            .contains("run.agent: there is no agent `clod`"),
        "{checked}"
    );
    let done = user.cofferdam(&["run", "--prompt", "x"]).expect_code(1);
    assert!(
        done.stderr.contains("run.agent: there is no agent `clod`"),
        "{done}"
    );
    // What is meant for a worktree does not run in the checkout.
    user.says("run: {strategy: head}\n");
    user.write("uncommitted", "precious\n");
    user.run(&["--on-worktree-ready", "rm -f uncommitted"], "true")
        .expect_code(0);
    assert!(user.repository().join("uncommitted").exists());
}
