//! Every parameter of every tool of `cofferdam mcp` does what its description says: one that no case here is about fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lives::Lives;
use crate::mcp_client::Client;

/// What has not come by then does not come.
const LIMIT: Duration = Duration::from_secs(30);

/// A user with a repository, the sandboxes `one` and `two` in it, and which parameters were given to which tools.
struct Scene {
    lives: Lives,
    client: Client,
    given: BTreeSet<(String, String)>,
}

/// A tool, parameters of it, and what sees their effect.
type Case = (&'static str, &'static [&'static str], fn(&mut Scene));

const CASES: &[Case] = &[
    ("sandbox-create", &["name"], create_name),
    ("sandbox-create", &["base"], create_base),
    ("sandbox-exec", &["sandbox"], exec_sandbox),
    ("sandbox-exec", &["command", "program"], exec_program),
    ("sandbox-exec", &["directory"], exec_directory),
    ("sandbox-exec", &["environment"], exec_environment),
    ("sandbox-exec", &["timeout"], exec_timeout),
    ("sandbox-exec", &["background"], exec_background),
    ("sandbox-output", &["sandbox", "id", "offset"], output),
    ("sandbox-kill", &["sandbox", "id", "force"], kill),
    ("sandbox-read", &["sandbox", "path"], read_path),
    ("sandbox-read", &["first_line", "lines"], read_lines),
    (
        "sandbox-write",
        &["sandbox", "path", "content"],
        write_content,
    ),
    ("sandbox-write", &["executable"], write_executable),
    (
        "sandbox-edit",
        &["sandbox", "path", "old", "new"],
        edit_once,
    ),
    ("sandbox-edit", &["all"], edit_all),
    ("sandbox-edit", &["patch"], edit_patch),
    ("sandbox-ls", &["sandbox", "path"], ls_path),
    ("sandbox-ls", &["depth"], ls_depth),
    ("sandbox-ls", &["all"], ls_all),
    ("sandbox-ls", &["offset"], ls_offset),
    (
        "sandbox-glob",
        &["sandbox", "pattern", "path"],
        glob_pattern,
    ),
    ("sandbox-glob", &["all"], glob_all),
    ("sandbox-glob", &["offset"], glob_offset),
    (
        "sandbox-grep",
        &["sandbox", "pattern", "path"],
        grep_pattern,
    ),
    ("sandbox-grep", &["files"], grep_files),
    ("sandbox-grep", &["ignore_case"], grep_ignore_case),
    ("sandbox-grep", &["context"], grep_context),
    ("sandbox-grep", &["all"], grep_all),
    ("sandbox-grep", &["offset"], grep_offset),
    ("sandbox-list", &["offset"], list_offset),
    ("sandbox-diff", &["sandbox", "stat"], diff_stat),
    ("sandbox-diff", &["path"], diff_path),
    ("sandbox-diff", &["offset"], diff_offset),
    ("sandbox-ports", &["sandbox", "offset"], ports),
];

#[test]
fn each_does_what_it_says() {
    let lives = Lives::new();
    lives.write(".gitignore", "ignored/\n");
    lives.git(&["add", "-A"]);
    lives.git(&["commit", "-qm", "files"]);
    let mut client = Client::start(&lives);
    for name in ["one", "two"] {
        client.tool("sandbox-create", &json!({"name": name}));
    }
    let there = parameters(&client.ask("tools/list", &json!({})));
    let of_case = |&(tool, names, _): &Case| {
        let pair = move |&name: &&str| (tool.to_owned(), name.to_owned());
        names.iter().map(pair).collect::<Vec<_>>()
    };
    let tried: BTreeSet<_> = CASES.iter().flat_map(of_case).collect();
    let missing: Vec<_> = there.symmetric_difference(&tried).collect();
    assert!(
        missing.is_empty(),
        "there, or tried, and not both: {missing:?}"
    );
    let mut scene = Scene {
        lives,
        client,
        given: BTreeSet::new(),
    };
    for case in CASES {
        scene.given.clear();
        (case.2)(&mut scene);
        for pair in of_case(case) {
            assert!(
                scene.given.contains(&pair),
                "the case of {pair:?} gives none"
            );
        }
    }
    let Scene { lives, client, .. } = scene;
    drop(client);
    let all = ["one", "two", "a-name", "of-a-tag", "of-now"];
    let delete = [&["delete", "--force"], &all[..]].concat();
    lives.cofferdam(&delete).expect_code(0);
}

/// OpenCode warns its user of each other one, on every start.
#[test]
fn schemas_have_formats_that_clients_know() {
    let lives = Lives::new();
    let told = Client::start(&lives).ask("tools/list", &json!({}));
    let text = told.to_string();
    assert!(text.contains("\"minimum\":0"), "{text}");
    let formats = text.split("\"format\":\"").skip(1);
    for format in formats.filter_map(|rest| rest.split('"').next()) {
        let known = ["int32", "int64", "double"];
        assert!(known.contains(&format), "{format}: {text}");
    }
}

/// The tools and their parameters, as a client is told of them.
fn parameters(told: &Value) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for tool in told["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object();
        for parameter in properties.into_iter().flat_map(|all| all.keys()) {
            found.insert((name.to_owned(), parameter.clone()));
        }
    }
    found
}

impl Scene {
    fn note(&mut self, tool: &str, arguments: &Value) {
        for name in arguments.as_object().unwrap().keys() {
            self.given.insert((tool.to_owned(), name.clone()));
        }
    }

    /// What a tool tells as data.
    #[track_caller]
    fn told(&mut self, tool: &str, arguments: &Value) -> Value {
        self.note(tool, arguments);
        let call = json!({"name": tool, "arguments": arguments});
        let told = self.client.ask("tools/call", &call);
        assert_ne!(told["isError"], true, "{tool} {arguments}: {told}");
        told["structuredContent"].clone()
    }

    /// The text of one that fails.
    #[track_caller]
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        self.note(tool, arguments);
        self.client.error(tool, arguments)
    }

    /// What a line for the shell prints in a sandbox.
    #[track_caller]
    fn prints(&mut self, sandbox: &str, command: &str) -> String {
        let told = self.told(
            "sandbox-exec",
            &json!({"sandbox": sandbox, "command": command}),
        );
        assert_eq!(told["exit_code"], 0, "{command}: {told}");
        told["output"].as_str().unwrap().to_owned()
    }

    /// A file of what a branch holds.
    #[track_caller]
    fn on_branch(&self, sandbox: &str, path: &str) -> String {
        self.lives
            .git(&["show", &format!("cofferdam/{sandbox}:{path}")])
    }

    /// What a program in the background has printed, once that is this much.
    #[track_caller]
    fn output_with(&mut self, id: &Value, text: &str) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let told = self.told("sandbox-output", &json!({"sandbox": "one", "id": id}));
            if told["output"].as_str().unwrap().contains(text) {
                return told;
            }
            assert!(Instant::now() < until, "no {text:?}: {told}");
        }
    }

    /// How one ended.
    #[track_caller]
    fn end_of(&mut self, id: &Value) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let told = self.told("sandbox-output", &json!({"sandbox": "one", "id": id}));
            if told["running"] == false {
                return told;
            }
            assert!(Instant::now() < until, "it goes on: {told}");
        }
    }
}

/// The field of each member of a list.
fn each<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let members = list.as_array().unwrap().iter();
    members.map(|one| one[field].as_str().unwrap()).collect()
}

fn create_name(scene: &mut Scene) {
    let made = scene.told("sandbox-create", &json!({"name": "A name!"}));
    assert_eq!(made["name"], "a-name");
    assert_eq!(scene.lives.state("a-name"), "active");
}

fn create_base(scene: &mut Scene) {
    let first = scene.lives.git(&["rev-parse", "HEAD^"]);
    let now = scene.lives.git(&["rev-parse", "HEAD"]);
    scene.lives.git(&["tag", "v1", "HEAD^"]);
    let made = scene.told("sandbox-create", &json!({"name": "of a tag", "base": "v1"}));
    assert_eq!(made["base"], json!(first));
    let branch = scene.lives.git(&["rev-parse", "cofferdam/of-a-tag"]);
    assert_eq!(branch, first);
    assert_eq!(
        scene.prints("of-a-tag", "ls -A | grep -vx .git"),
        "README.md\nsrc\n"
    );
    let made = scene.told("sandbox-create", &json!({"name": "of now"}));
    assert_eq!(made["base"], json!(now));
    assert_eq!(scene.prints("of-now", "cat .gitignore"), "ignored/\n");
}

fn exec_sandbox(scene: &mut Scene) {
    scene.prints("two", "echo of two > whose");
    assert_eq!(scene.on_branch("two", "whose"), "of two");
    assert_eq!(scene.prints("one", "ls whose 2>/dev/null; true"), "");
}

fn exec_program(scene: &mut Scene) {
    let words = json!(["printf", "%s|", "$HOME", "a b", "*", "; ls"]);
    let ran = scene.told("sandbox-exec", &json!({"sandbox": "one", "program": words}));
    assert_eq!(ran["output"], "$HOME|a b|*|; ls|");
    let line = "echo $((1 + 2)); exit 7";
    let ran = scene.told("sandbox-exec", &json!({"sandbox": "one", "command": line}));
    assert_eq!(
        (&ran["output"], &ran["exit_code"]),
        (&json!("3\n"), &json!(7))
    );
    let both = json!({"sandbox": "one", "command": "touch ran", "program": ["touch", "ran"]});
    for arguments in [
        both,
        json!({"sandbox": "one"}),
        json!({"sandbox": "one", "program": []}),
    ] {
        let refused = scene.refused("sandbox-exec", &arguments);
        assert!(
            refused.contains("one of `command` and `program`"),
            "{refused}"
        );
    }
    assert_eq!(scene.prints("one", "ls ran 2>/dev/null; true"), "");
}

fn exec_directory(scene: &mut Scene) {
    let top = scene.prints("one", "pwd");
    for (directory, prints) in [
        ("src", format!("{}/src\n", top.trim_end())),
        ("/tmp", "/tmp\n".to_owned()),
    ] {
        let arguments = json!({"sandbox": "one", "command": "pwd", "directory": directory});
        let ran = scene.told("sandbox-exec", &arguments);
        assert_eq!(ran["output"], json!(prints));
    }
    let arguments = json!({"sandbox": "one", "program": ["cat", "lib.txt"], "directory": "src"});
    assert_eq!(
        scene.told("sandbox-exec", &arguments)["output"],
        "one\ntwo\n"
    );
}

fn exec_environment(scene: &mut Scene) {
    let variables = json!({"GIVEN": "a b", "OTHER": ""});
    let command = "echo \"$GIVEN|${OTHER-unset}|${NOT-unset}\"";
    let arguments = json!({"sandbox": "one", "command": command, "environment": variables});
    assert_eq!(
        scene.told("sandbox-exec", &arguments)["output"],
        "a b||unset\n"
    );
    // Of that call alone.
    assert_eq!(scene.prints("one", command), "|unset|unset\n");
}

fn exec_timeout(scene: &mut Scene) {
    let command = "echo begun; sleep 1000";
    let began = Instant::now();
    let arguments = json!({"sandbox": "one", "command": command, "timeout": 1});
    let ran = scene.told("sandbox-exec", &arguments);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        (&ran["timed_out"], &ran["signal"], &ran["output"]),
        (&json!(true), &json!(9), &json!("begun\n"))
    );
    let arguments = json!({"sandbox": "one", "command": "sleep 2; echo done", "timeout": 60});
    let ran = scene.told("sandbox-exec", &arguments);
    assert_eq!(
        (&ran["timed_out"], &ran["output"]),
        (&json!(false), &json!("done\n"))
    );
}

fn exec_background(scene: &mut Scene) {
    let command = "while [ ! -e /tmp/go ]; do sleep 0.02; done; echo gone on";
    let arguments = json!({"sandbox": "one", "command": command, "background": true});
    // Waiting for it would be for ever.
    let ran = scene.told("sandbox-exec", &arguments);
    assert_eq!(
        (&ran["exit_code"], &ran["output"]),
        (&Value::Null, &json!(""))
    );
    scene.prints("one", "touch /tmp/go");
    let told = scene.end_of(&ran["id"]);
    assert_eq!(
        (&told["output"], &told["exit_code"]),
        (&json!("gone on\n"), &json!(0))
    );
    let arguments = json!({"sandbox": "one", "command": "echo waited for", "background": false});
    assert_eq!(
        scene.told("sandbox-exec", &arguments)["output"],
        "waited for\n"
    );
}

fn output(scene: &mut Scene) {
    let mut begin = |sandbox: &str, text: &str| {
        let command = format!("printf {text}; sleep 1000");
        let arguments = json!({"sandbox": sandbox, "command": command, "background": true});
        scene.told("sandbox-exec", &arguments)["id"].clone()
    };
    let (first, second) = (begin("one", "0123456789"), begin("one", "other"));
    scene.output_with(&second, "other");
    let told = scene.output_with(&first, "0123456789");
    assert_eq!((&told["offset"], &told["next"]), (&json!(0), &json!(10)));
    let arguments = json!({"sandbox": "one", "id": first, "offset": 7});
    let told = scene.told("sandbox-output", &arguments);
    assert_eq!(
        (&told["output"], &told["offset"]),
        (&json!("789"), &json!(7))
    );
    let arguments = json!({"sandbox": "two", "id": first});
    let refused = scene.refused("sandbox-output", &arguments);
    assert!(
        refused.contains("the sandbox 'two' knows no program"),
        "{refused}"
    );
    for id in [first, second] {
        scene.told(
            "sandbox-kill",
            &json!({"sandbox": "one", "id": id, "force": true}),
        );
    }
}

fn kill(scene: &mut Scene) {
    let command = "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.02; done";
    let mut begin = || {
        let arguments = json!({"sandbox": "one", "command": command, "background": true});
        let id = scene.told("sandbox-exec", &arguments)["id"].clone();
        scene.output_with(&id, "up");
        id
    };
    let [asked, forced] = [(); 2].map(|()| begin());
    let elsewhere = json!({"sandbox": "two", "id": asked});
    let refused = scene.refused("sandbox-kill", &elsewhere);
    assert!(
        refused.contains("the sandbox 'two' knows no program"),
        "{refused}"
    );
    scene.told(
        "sandbox-kill",
        &json!({"sandbox": "one", "id": forced, "force": true}),
    );
    let end = scene.end_of(&forced);
    assert_eq!(
        (&end["signal"], &end["output"]),
        (&json!(9), &json!("up\n"))
    );
    // The other one has heard nothing of it.
    let told = scene.told("sandbox-output", &json!({"sandbox": "one", "id": asked}));
    assert_eq!(told["running"], true);
    let told = scene.told("sandbox-kill", &json!({"sandbox": "one", "id": asked}));
    assert_eq!(told["had_ended"], false);
    let end = scene.end_of(&asked);
    assert_eq!(end["exit_code"], 3);
    assert!(
        end["output"].as_str().unwrap().ends_with("asked\n"),
        "{end}"
    );
    let told = scene.told("sandbox-kill", &json!({"sandbox": "one", "id": asked}));
    assert_eq!(told["had_ended"], true);
}

fn read_path(scene: &mut Scene) {
    scene.prints(
        "two",
        "echo of two > README.md; echo outside > /tmp/outside",
    );
    for (sandbox, path, holds) in [
        ("one", "README.md", "hello\n"),
        ("two", "README.md", "of two\n"),
        ("two", "src/lib.txt", "one\ntwo\n"),
        ("two", "/tmp/outside", "outside\n"),
    ] {
        let read = scene.told("sandbox-read", &json!({"sandbox": sandbox, "path": path}));
        assert_eq!(
            (&read["path"], &read["content"]),
            (&json!(path), &json!(holds))
        );
    }
}

fn read_lines(scene: &mut Scene) {
    scene.prints("one", "seq 10 > /tmp/numbers");
    for (more, from, holds) in [
        (json!({}), 1, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"),
        (json!({"first_line": 8}), 8, "8\n9\n10\n"),
        (json!({"lines": 2}), 1, "1\n2\n"),
        (json!({"first_line": 4, "lines": 3}), 4, "4\n5\n6\n"),
        (json!({"first_line": 10, "lines": 5}), 10, "10\n"),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "/tmp/numbers"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let read = scene.told("sandbox-read", &arguments);
        assert_eq!(
            (&read["content"], &read["first_line"]),
            (&json!(holds), &json!(from))
        );
    }
}

fn write_content(scene: &mut Scene) {
    for content in ["first\n", "no end of its line", ""] {
        let arguments = json!({"sandbox": "two", "path": "written/file", "content": content});
        let wrote = scene.told("sandbox-write", &arguments);
        assert_eq!(wrote["created"], content == "first\n");
        assert_eq!(scene.prints("two", "cat written/file"), content);
        assert_eq!(scene.on_branch("two", "written/file"), content.trim_end());
    }
    assert_eq!(scene.prints("one", "ls written 2>/dev/null; true"), "");
}

fn write_executable(scene: &mut Scene) {
    let mut write = |content: &str, executable: Value| {
        let mut arguments = json!({"sandbox": "one", "path": "script", "content": content});
        if !executable.is_null() {
            arguments["executable"] = executable;
        }
        scene.told("sandbox-write", &arguments);
        let may = scene.prints("one", "test -x script && echo yes || echo no");
        let entry = scene.lives.git(&["ls-tree", "cofferdam/one", "script"]);
        (may, entry.split(' ').next().unwrap().to_owned())
    };
    let [yes, no] = [("yes\n", "100755"), ("no\n", "100644")]
        .map(|(may, mode)| (may.to_owned(), mode.to_owned()));
    assert_eq!(write("1\n", Value::Null), no);
    assert_eq!(write("2\n", json!(true)), yes);
    // As it is.
    assert_eq!(write("3\n", Value::Null), yes);
    assert_eq!(write("4\n", json!(false)), no);
}

fn edit_once(scene: &mut Scene) {
    scene.prints("one", "printf 'a\\nb\\n' > edited");
    scene.prints("two", "printf 'a\\nb\\n' > edited");
    let arguments = json!({"sandbox": "two", "path": "edited", "old": "a\n", "new": "A\nA\n"});
    let edited = scene.told("sandbox-edit", &arguments);
    assert_eq!(
        (&edited["paths"], &edited["replaced"]),
        (&json!(["edited"]), &json!(1))
    );
    assert_eq!(scene.on_branch("two", "edited"), "A\nA\nb");
    assert_eq!(scene.on_branch("one", "edited"), "a\nb");
}

fn edit_all(scene: &mut Scene) {
    scene.prints("one", "printf 'x y x\\nx\\n' > many");
    let mut arguments = json!({"sandbox": "one", "path": "many", "old": "x", "new": "z"});
    for all in [Value::Null, json!(false)] {
        if !all.is_null() {
            arguments["all"] = all;
        }
        let refused = scene.refused("sandbox-edit", &arguments);
        assert!(refused.contains("3 times"), "{refused}");
        assert_eq!(scene.prints("one", "cat many"), "x y x\nx\n");
    }
    arguments["all"] = json!(true);
    let edited = scene.told("sandbox-edit", &arguments);
    assert_eq!(edited["replaced"], 3);
    assert_eq!(scene.on_branch("one", "many"), "z y z\nz");
}

fn edit_patch(scene: &mut Scene) {
    scene.prints("one", "printf 'one\\n' > patched");
    let patch = "--- a/patched\n+++ b/patched\n@@ -1 +1 @@\n-one\n+two\n";
    let edited = scene.told("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
    assert_eq!(edited["paths"], json!(["patched"]));
    assert_eq!(scene.on_branch("one", "patched"), "two");
    let both =
        json!({"sandbox": "one", "patch": patch, "path": "patched", "old": "two", "new": "x"});
    let refused = scene.refused("sandbox-edit", &both);
    assert!(
        refused.contains("either `path`, `old` and `new`"),
        "{refused}"
    );
    assert_eq!(scene.prints("one", "cat patched"), "two\n");
    // Without lines behind or before what is changed: found by the lines that it has.
    scene.prints("one", "printf '1\\n2\\n3\\n4\\n5\\n6\\n' > patched");
    for (patch, becomes) in [
        (
            "@@ -2,2 +2,2 @@\n 2\n-3\n+three\n",
            "1\n2\nthree\n4\n5\n6\n",
        ),
        (
            "@@ -1,2 +1,2 @@\n-4\n+four\n 5",
            "1\n2\nthree\nfour\n5\n6\n",
        ),
        ("@@ -2 +2 @@\n-2\n+two", "1\ntwo\nthree\nfour\n5\n6\n"),
    ] {
        let patch = format!("--- a/patched\n+++ b/patched\n{patch}");
        scene.told("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
        assert_eq!(scene.prints("one", "cat patched"), becomes, "{patch}");
    }
    // Nor do numbers count that are wrong.
    let patch = "--- a/patched\n+++ b/patched\n@@ -1,5 +1,7 @@\n 1\n-two\n+2\n";
    scene.told("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
    assert_eq!(scene.prints("one", "head -n 2 patched"), "1\n2\n");
    let patch = patch.replace("-two\n+2\n", "-2\n+two\n");
    scene.told("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
    // What is no diff is told so, and what its paths are to be.
    for (patch, why) in [
        (
            "*** Begin Patch\n*** Update File: patched\n",
            "Error: this is no unified diff: it begins with `*** Begin Patch`\nNothing was changed. Use `path`, `old` and `new` ",
        ),
        ("nothing", "Error: this is no unified diff: no line of it "),
        (
            "--- src/lib.txt\n+++ src/lib.txt\n@@ -1 +1 @@\n-one\n+1\n",
            "write `--- a/src/lib.txt` and `+++ b/src/lib.txt`",
        ),
        ("--- a/patched\n+++ b/patched\n", "does not apply"),
    ] {
        let refused = scene.refused("sandbox-edit", &json!({"sandbox": "one", "patch": patch}));
        assert!(refused.contains(why), "{refused}");
        assert!(!refused.contains("--allow"), "{refused}");
    }
    // Lines that are not there are not, and no line goes in by its number alone.
    for (patch, why) in [
        ("@@ -2 +2 @@\n-zwei\n+x\n", "does not apply"),
        (
            "@@ -2,0 +3 @@\n+x\n",
            "`@@ -2,0 +3 @@` has no line that is there",
        ),
    ] {
        let patch = format!("--- a/patched\n+++ b/patched\n{patch}");
        let patch = json!({"sandbox": "one", "patch": patch});
        let refused = scene.refused("sandbox-edit", &patch);
        assert!(refused.contains(why), "{refused}");
    }
}

fn ls_path(scene: &mut Scene) {
    scene.prints(
        "two",
        "mkdir -p listed /tmp/listed; echo 1 > listed/of-two; echo 22 > /tmp/listed/there",
    );
    for (path, entry, size) in [("listed", "of-two", 2), ("/tmp/listed", "there", 3)] {
        let listed = scene.told("sandbox-ls", &json!({"sandbox": "two", "path": path}));
        assert_eq!(each(&listed["entries"], "path"), [entry]);
        assert_eq!(listed["entries"][0]["size"], size);
    }
    let top = scene.told("sandbox-ls", &json!({"sandbox": "two"}));
    assert!(each(&top["entries"], "path").contains(&"listed"), "{top}");
    scene.refused("sandbox-ls", &json!({"sandbox": "one", "path": "listed"}));
}

fn ls_depth(scene: &mut Scene) {
    scene.prints("one", "mkdir -p deep/a/b/c; echo 1 > deep/a/b/c/d");
    for (depth, last) in [
        (Value::Null, "a"),
        (json!(1), "a"),
        (json!(2), "a/b"),
        (json!(4), "a/b/c/d"),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "deep"});
        if !depth.is_null() {
            arguments["depth"] = depth.clone();
        }
        let listed = scene.told("sandbox-ls", &arguments);
        let paths = each(&listed["entries"], "path");
        assert_eq!(paths.last(), Some(&last), "{depth}: {paths:?}");
        assert_eq!(paths.len(), last.split('/').count(), "{depth}: {paths:?}");
    }
}

/// All of a list, and without its first one.
fn without_first(scene: &mut Scene, tool: &'static str, arguments: &Value, list: &str) {
    let whole = scene.told(tool, arguments)[list].clone();
    let mut arguments = arguments.clone();
    arguments["offset"] = json!(1);
    let rest = scene.told(tool, &arguments)[list].clone();
    let (whole, rest) = (whole.as_array().unwrap(), rest.as_array().unwrap());
    assert!(whole.len() > 1, "{whole:?}");
    assert_eq!(rest[..], whole[1..]);
    arguments["offset"] = json!(whole.len() + 10);
    assert_eq!(scene.told(tool, &arguments)[list], json!([]));
}

fn ls_offset(scene: &mut Scene) {
    scene.prints(
        "one",
        "mkdir -p parts; for n in 1 2 3; do echo x > parts/$n; done",
    );
    let arguments = json!({"sandbox": "one", "path": "parts"});
    without_first(scene, "sandbox-ls", &arguments, "entries");
}

fn glob_offset(scene: &mut Scene) {
    let arguments = json!({"sandbox": "one", "pattern": "parts/*"});
    without_first(scene, "sandbox-glob", &arguments, "paths");
}

fn grep_offset(scene: &mut Scene) {
    let arguments = json!({"sandbox": "one", "pattern": "x", "path": "parts"});
    without_first(scene, "sandbox-grep", &arguments, "lines");
}

fn list_offset(scene: &mut Scene) {
    let mut names = |arguments: Value| {
        let listed = scene.told("sandbox-list", &arguments);
        let names = each(&listed["sandboxes"], "name");
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = names(json!({}));
    assert!(whole.len() > 1, "{whole:?}");
    assert_eq!(names(json!({"offset": 1})), whole[1..]);
}

/// What is there that an ignore file covers, and beside it.
fn with_ignored(scene: &mut Scene) {
    scene.prints(
        "one",
        "mkdir -p all/ignored; echo found > all/ignored/file; echo found > all/file",
    );
}

fn ls_all(scene: &mut Scene) {
    with_ignored(scene);
    let mut list = |more: Value| {
        let mut arguments = json!({"sandbox": "one", "path": "all"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let told = scene.told("sandbox-ls", &arguments);
        each(&told["entries"], "path").join(" ")
    };
    assert_eq!(list(json!({})), "file");
    assert_eq!(list(json!({"all": false})), "file");
    assert_eq!(list(json!({"all": true})), "file ignored");
}

fn glob_pattern(scene: &mut Scene) {
    scene.prints(
        "two",
        "mkdir -p glob/x/y; touch glob/a.rs glob/b.txt glob/x/c.rs glob/x/y/d.rs",
    );
    for (pattern, path, fit) in [
        ("glob/*.rs", None, json!(["glob/a.rs"])),
        ("glob/{a,b}.*", None, json!(["glob/a.rs", "glob/b.txt"])),
        (
            "**/*.rs",
            Some("glob/x"),
            json!(["glob/x/c.rs", "glob/x/y/d.rs"]),
        ),
        ("*.rs", Some("glob/x"), json!(["glob/x/c.rs"])),
        ("?.nothing", Some("glob/x"), json!([])),
    ] {
        let mut arguments = json!({"sandbox": "two", "pattern": pattern});
        if let Some(path) = path {
            arguments["path"] = json!(path);
        }
        assert_eq!(
            scene.told("sandbox-glob", &arguments)["paths"],
            fit,
            "{pattern}"
        );
    }
    let elsewhere = json!({"sandbox": "one", "pattern": "glob/*.rs"});
    assert_eq!(scene.told("sandbox-glob", &elsewhere)["paths"], json!([]));
}

fn glob_all(scene: &mut Scene) {
    with_ignored(scene);
    for (all, fit) in [
        (None, json!(["all/file"])),
        (Some(false), json!(["all/file"])),
        (Some(true), json!(["all/file", "all/ignored/file"])),
    ] {
        let mut arguments = json!({"sandbox": "one", "pattern": "all/**/file"});
        if let Some(all) = all {
            arguments["all"] = json!(all);
        }
        assert_eq!(scene.told("sandbox-glob", &arguments)["paths"], fit);
    }
}

/// The lines that `sandbox-grep` tells, those that fit marked.
fn lines(told: &Value) -> Vec<String> {
    let lines = told["lines"].as_array().unwrap().iter();
    let line = |line: &Value| {
        let mark = if line["fits"] == true { ':' } else { '-' };
        format!(
            "{}{mark}{}",
            line["path"].as_str().unwrap(),
            line["text"].as_str().unwrap()
        )
    };
    lines.map(line).collect()
}

fn grep_pattern(scene: &mut Scene) {
    scene.prints("two", "mkdir -p grep/x; echo needle 17 > grep/a; echo 'needle x' > grep/x/b; echo needle 18 > grep/x/c");
    let mut find = |more: Value| {
        let mut arguments = json!({"sandbox": "two", "pattern": "^needle [0-9]+$"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        lines(&scene.told("sandbox-grep", &arguments))
    };
    assert_eq!(find(json!({})), ["grep/a:needle 17", "grep/x/c:needle 18"]);
    assert_eq!(find(json!({"path": "grep/x"})), ["grep/x/c:needle 18"]);
    assert_eq!(find(json!({"path": "grep/a"})), ["grep/a:needle 17"]);
    assert_eq!(find(json!({"pattern": "needle x"})), ["grep/x/b:needle x"]);
    assert_eq!(find(json!({"sandbox": "one"})), [""; 0]);
}

fn grep_files(scene: &mut Scene) {
    scene.prints(
        "one",
        "mkdir -p which/x; for f in a.rs b.txt x/c.rs; do echo fits > which/$f; done",
    );
    for (files, fit) in [
        (
            None,
            &["which/a.rs:fits", "which/b.txt:fits", "which/x/c.rs:fits"][..],
        ),
        (Some("which/*.rs"), &["which/a.rs:fits"]),
        (Some("**/*.rs"), &["which/a.rs:fits", "which/x/c.rs:fits"]),
        (Some("*.rs"), &[]),
    ] {
        let mut arguments = json!({"sandbox": "one", "pattern": "^fits$"});
        if let Some(files) = files {
            arguments["files"] = json!(files);
        }
        assert_eq!(
            lines(&scene.told("sandbox-grep", &arguments)),
            fit,
            "{files:?}"
        );
    }
}

fn grep_ignore_case(scene: &mut Scene) {
    scene.prints("one", "printf 'Case\\ncase\\nother\\n' > case");
    for (ignore, fit) in [
        (None, &["case:case"][..]),
        (Some(false), &["case:case"]),
        (Some(true), &["case:Case", "case:case"]),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "case", "pattern": "case"});
        if let Some(ignore) = ignore {
            arguments["ignore_case"] = json!(ignore);
        }
        assert_eq!(lines(&scene.told("sandbox-grep", &arguments)), fit);
    }
}

fn grep_context(scene: &mut Scene) {
    scene.prints("one", "printf 'a\\nb\\nc\\nd\\ne\\n' > around");
    for (context, fit) in [
        (None, &["around:c"][..]),
        (Some(0), &["around:c"]),
        (Some(1), &["around-b", "around:c", "around-d"]),
        (
            Some(9),
            &["around-a", "around-b", "around:c", "around-d", "around-e"],
        ),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "around", "pattern": "c"});
        if let Some(context) = context {
            arguments["context"] = json!(context);
        }
        assert_eq!(lines(&scene.told("sandbox-grep", &arguments)), fit);
    }
}

fn grep_all(scene: &mut Scene) {
    with_ignored(scene);
    for (all, fit) in [
        (None, &["all/file:found"][..]),
        (Some(false), &["all/file:found"]),
        (Some(true), &["all/file:found", "all/ignored/file:found"]),
    ] {
        let mut arguments = json!({"sandbox": "one", "path": "all", "pattern": "found"});
        if let Some(all) = all {
            arguments["all"] = json!(all);
        }
        assert_eq!(lines(&scene.told("sandbox-grep", &arguments)), fit);
    }
}

fn diff_path(scene: &mut Scene) {
    scene.prints(
        "two",
        "mkdir -p of; echo x > of/text; head -c 3000 /dev/urandom > of/binary; echo x > beside",
    );
    for path in ["of", "of/.", "/workspace/repository/of"] {
        let told = scene.told("sandbox-diff", &json!({"sandbox": "two", "path": path}));
        let diff = told["diff"].as_str().unwrap();
        assert!(diff.contains("a/of/text"), "{diff}");
        assert!(
            diff.contains("Binary files a/of/binary and b/of/binary differ\n"),
            "{diff}"
        );
        assert!(!diff.contains("beside"), "{diff}");
    }
    let refused = scene.refused("sandbox-diff", &json!({"sandbox": "two", "path": "/etc"}));
    assert!(refused.contains("it is not in the repository"), "{refused}");
}

fn diff_stat(scene: &mut Scene) {
    scene.prints("two", "echo changed > README.md");
    for (stat, has, has_not) in [
        (None, "\n-hello\n+changed\n", "insertion"),
        (Some(false), "\n-hello\n+changed\n", "insertion"),
        (Some(true), " README.md ", "+changed"),
    ] {
        let mut arguments = json!({"sandbox": "two"});
        if let Some(stat) = stat {
            arguments["stat"] = json!(stat);
        }
        let told = scene.told("sandbox-diff", &arguments);
        let diff = told["diff"].as_str().unwrap();
        assert!(
            diff.contains(has) && !diff.contains(has_not),
            "{stat:?}: {diff}"
        );
    }
    let other = scene.told("sandbox-diff", &json!({"sandbox": "one"}));
    assert!(
        !other["diff"].as_str().unwrap().contains("+changed"),
        "{other}"
    );
}

fn diff_offset(scene: &mut Scene) {
    // Longer than one answer.
    scene.prints("one", "seq 20000 > long");
    let (mut whole, mut offset, mut parts) = (String::new(), json!(0), 0);
    let size = loop {
        let told = scene.told("sandbox-diff", &json!({"sandbox": "one", "offset": offset}));
        let part = told["diff"].as_str().unwrap();
        assert_ne!(part, "", "nothing from {offset} on");
        whole.push_str(part);
        parts += 1;
        if told["next"].is_null() {
            break told["size"].clone();
        }
        assert_eq!(told["next"], json!(whole.len()));
        offset = told["next"].clone();
    };
    assert!(parts > 2, "{parts}");
    assert_eq!(size, json!(whole.len()));
    let own = scene.lives.git(&["diff", "main...cofferdam/one"]);
    assert_eq!(whole.trim_end(), own);
}

fn ports(scene: &mut Scene) {
    let server = "use IO::Socket::INET; my @s = map { IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:$_\") or die } 8124, 8125; $| = 1; print \"up\\n\"; sleep 1000";
    let program = json!(["perl", "-e", server]);
    let arguments = json!({"sandbox": "one", "program": program, "background": true});
    let id = scene.told("sandbox-exec", &arguments)["id"].clone();
    scene.output_with(&id, "up");
    let told = scene.told("sandbox-ports", &json!({"sandbox": "one"}));
    assert_eq!(told["ports"], json!([8124, 8125]));
    without_first(scene, "sandbox-ports", &json!({"sandbox": "one"}), "ports");
    let told = scene.told("sandbox-ports", &json!({"sandbox": "two"}));
    assert_eq!((&told["ports"], &told["name"]), (&json!([]), &json!("two")));
    scene.told(
        "sandbox-kill",
        &json!({"sandbox": "one", "id": id, "force": true}),
    );
}
