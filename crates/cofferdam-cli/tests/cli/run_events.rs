//! `run --json` against its schema: lines of real runs, each field of them described.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{Done, TestEnvironment, commit_script, finish};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-events.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What `value` breaks of `schema`, a part of `root`: the words of JSON Schema that the file uses. A field
/// that no line of the schema describes is a fault here, though not for readers.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let keys = schema.as_object().unwrap();
    let inner = |schema, value, at: &str| faults(root, schema, value, at);
    for (key, wanted) in keys {
        match key.as_str() {
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                found.extend(inner(root.pointer(pointer).unwrap(), value, at));
            }
            "oneOf" => {
                let tried: Vec<Vec<String>> = wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| inner(one, value, at))
                    .collect();
                if tried.iter().filter(|faults| faults.is_empty()).count() != 1 {
                    // The nearest one explains most.
                    found.extend(tried.into_iter().min_by_key(Vec::len).unwrap());
                }
            }
            "const" if value != wanted => found.push(format!("{at} is {value}, not {wanted}")),
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                found.push(format!("{at} is {value}, none of {wanted}"));
            }
            "type" => {
                let is = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                let fits = match wanted {
                    Value::String(wanted) => wanted == is,
                    wanted => wanted.as_array().unwrap().iter().any(|wanted| wanted == is),
                };
                if !fits {
                    found.push(format!("{at} is {value}, of type {is}"));
                }
            }
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        found.push(format!("{at} has no {name}"));
                    }
                }
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    match wanted.get(name) {
                        Some(one) => found.extend(inner(one, value, &format!("{at}.{name}"))),
                        None if keys.contains_key("additionalProperties") => {}
                        None => {
                            found
                                .push(format!("{at}.{name} is not in docs/run-events.schema.json"));
                        }
                    }
                }
            }
            "items" => {
                for (index, one) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(inner(wanted, one, &format!("{at}[{index}]")));
                }
            }
            "$schema"
            | "$id"
            | "$defs"
            | "title"
            | "description"
            | "examples"
            | "const"
            | "enum"
            | "additionalProperties" => {}
            other => panic!("this test does not know `{other}`"),
        }
    }
    found
}

/// The events of a run, all of which fit.
#[track_caller]
fn events(environment: &TestEnvironment, options: &[&str], script: &str) -> Vec<Value> {
    let done = environment.run(&[&["--json"], options].concat(), script);
    let lines = all_fit(&done);
    assert!(lines.iter().all(|line| line.get("task").is_none()));
    lines
}

/// What a command printed, line by line.
#[track_caller]
pub(crate) fn all_fit(done: &Done) -> Vec<Value> {
    let schema = schema();
    let lines = done.stdout.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        let mut own = line.clone();
        // Any line may have them, so that no event describes them.
        let fields = own.as_object_mut().unwrap();
        for (name, wanted) in schema["properties"].as_object().unwrap() {
            if let Some(value) = fields.remove(name) {
                let found = faults(&schema, wanted, &value, name);
                assert_eq!(found, Vec::<String>::new(), "{line}");
            }
        }
        let found = faults(&schema, &schema, &own, "line");
        assert_eq!(found, Vec::<String>::new(), "{line}");
    }
    assert!(!lines.is_empty(), "{done}");
    lines
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(name).collect()
}

fn name(event: &Value) -> &str {
    event["event"].as_str().unwrap()
}

#[test]
fn lines_of_runs_fit_the_schema() {
    let environment = TestEnvironment::with_repository();
    let hooks = [
        "--on-worktree-ready",
        "echo host",
        "--on-sandbox-ready",
        "echo inside",
    ];
    let script =
        commit_script(&["a"]) + "echo said; echo problem >&2; echo '<promise>COMPLETE</promise>'";
    let seen = events(
        &environment,
        &[&["--merge-to-head"], &hooks[..]].concat(),
        &script,
    );
    assert_eq!(seen[0]["version"], 1);
    let mut found = names(&seen);
    assert_eq!((found[0], *found.last().unwrap()), ("planned", "finished"));
    found.sort_unstable();
    found.dedup();
    for name in [
        "agent",
        "agent_error",
        "finished",
        "hook_finished",
        "hook_started",
        "iteration_finished",
        "iteration_started",
        "landed",
        "planned",
        "sandbox_ready",
        "step",
    ] {
        assert!(found.contains(&name), "{name}: {found:?}");
    }

    // Kept, refused, failed, cancelled by its own limit, with a notice; and refused by the plan.
    environment.write("README.md", "mine\n");
    events(&environment, &["--head", "--network", "open"], "exit 3");
    environment.git(&["commit", "--quiet", "--all", "--message=mine"]);
    let top = environment.repository();
    let clash = format!(
        "cd '{}'; echo mine too > README.md; git commit -qam clash",
        top.display()
    );
    let options = ["--merge-to-head", "--on-host-ready", &clash];
    let seen = events(
        &environment,
        &options,
        "echo x > README.md; git commit -qam x",
    );
    assert_eq!(seen.last().unwrap()["report"]["landing"]["landing"], "kept");
    let seen = events(
        &environment,
        &["--branch", "x"],
        "ln -s /etc/passwd link; git add link; git commit -qm link; kill -9 $$",
    );
    assert_eq!(seen.last().unwrap()["event"], "failed");
    let seen = events(&environment, &["--idle-timeout", "1s"], "sleep 600");
    let ended = seen
        .iter()
        .find(|one| one["event"] == "iteration_finished")
        .unwrap();
    assert_eq!(
        (&ended["started"], &ended["exit"]),
        (&Value::Bool(true), &Value::Null)
    );
    let seen = events(&environment, &["--branch", "main"], "true");
    assert_eq!(names(&seen), ["failed"]);
}

#[test]
fn the_check_finds_what_does_not_fit() {
    let schema = schema();
    let check = |text: &str| {
        faults(
            &schema,
            &schema,
            &serde_json::from_str(text).unwrap(),
            "line",
        )
    };
    let good = r#"{"version":1,"event":"sandbox_ready","millis":3}"#;
    assert_eq!(check(good), Vec::<String>::new());
    for bad in [
        r#"{"event":"sandbox_ready","millis":3}"#,
        r#"{"version":2,"event":"sandbox_ready","millis":3}"#,
        r#"{"version":1,"event":"sandbox_ready","millis":"3"}"#,
        r#"{"version":1,"event":"sandbox_ready","millis":3,"more":1}"#,
        r#"{"version":1,"event":"nothing"}"#,
    ] {
        assert!(!check(bad).is_empty(), "{bad}");
    }
}

/// A large worktree is counted while it is written, and so are the files of a commit that no sandbox had yet.
#[test]
fn a_large_worktree_tells_how_far_it_is() {
    for (mode, step, often) in [("bind", "worktree", 3), ("layer", "tree", 2)] {
        let environment = TestEnvironment::with_repository();
        // A small one is done before anybody could read it.
        let seen = events(&environment, &["--mode", mode], "true");
        assert!(!names(&seen).contains(&"progress"), "{mode}");
        let line = "mkdir many; for i in $(seq 1200); do echo $i > many/$i; done; git add -A; git commit -qm many";
        environment.shell(line).expect_code(0);
        let seen = events(&environment, &["--mode", mode], "true");
        let progress = seen.iter().filter(|one| one["event"] == "progress");
        let counts: Vec<(u64, u64)> = progress
            .inspect(|one| assert_eq!(one["step"], step))
            .map(|one| (one["done"].as_u64().unwrap(), one["of"].as_u64().unwrap()))
            .collect();
        assert!(counts.is_sorted() && counts.len() >= often, "{counts:?}");
        assert_eq!(counts.last(), Some(&(1202, 1202)));
        // Files of a commit are there from then on; a worktree is written again.
        let seen = events(&environment, &["--mode", mode], "true");
        let again = names(&seen).contains(&"progress");
        assert_eq!(again, mode == "bind", "{mode}");
    }
}

/// Who waits because another command writes files of the repository says so before it goes on.
#[test]
fn a_run_that_waits_for_another_writer_tells_it() {
    let environment = TestEnvironment::with_repository();
    let layer = ["run", "--json", "--mode", "layer", "--", "true"];
    environment.cofferdam(&layer).expect_code(0);
    environment.write("README.md", "another tree\n");
    environment.git(&["commit", "--quiet", "--all", "--message=more"]);
    let trees = environment.home().join(".cofferdam/trees");
    let store = trees.read_dir().unwrap().flatten().map(|one| one.path());
    let store = store.into_iter().find(|one| one.is_dir()).unwrap();
    let writing = std::fs::File::open(store.join("write.lock")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    writing.lock().unwrap();
    let mut command = environment.command(&layer);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let notice = lines
        .by_ref()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .find(|one| one["event"] == "notice")
        .expect("a run that waits says so");
    assert_eq!(notice["notice"], "other_writes", "{notice}");
    writing.unlock().unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().contains("\"finished\""), "{rest:?}");
    finish(child).expect_code(0);
}

/// A hook that takes a while is told line by line, on the host and inside; of one that prints very much its beginning and its end
/// are kept, and it succeeds.
#[test]
fn what_a_hook_prints_is_told_while_it_runs() {
    let environment = TestEnvironment::with_repository();
    let hook = |at: &str| format!("echo {at} works >&2; until [ -e go-{at} ]; do sleep 0.1; done");
    let much = "echo begins; yes | head -c 3000000; echo ends";
    let (host, inside) = (hook("host"), hook("inside"));
    let mut options = vec!["run", "--json", "--head", "--on-host-ready", &host];
    options.extend(["--on-host-ready", much, "--on-sandbox-ready", &inside]);
    options.extend(["--on-sandbox-ready", much, "--", "true"]);
    let mut command = environment.command(&options);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut ended = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let said = event["line"].as_str().unwrap_or_default();
        if let (Some(at), "hook_output") = (said.strip_suffix(" works"), name(&event)) {
            environment.write(&format!("go-{at}"), "");
        }
        if name(&event) == "hook_finished" {
            ended.push(event["output"].as_str().unwrap().to_owned());
        }
    }
    finish(child).expect_code(0);
    assert_eq!(ended.len(), 4, "{ended:?}");
    let (long, short): (Vec<_>, Vec<_>) = ended.iter().partition(|output| output.len() > 1000);
    assert!(short.iter().all(|output| output.ends_with(" works\n")));
    assert_eq!(long.len(), 2);
    for output in long {
        assert!(output.starts_with("begins\ny\n") && output.ends_with("y\nends\n"));
        assert!(output.contains(" bytes are left out "));
        assert!(output.len() < 2 << 20);
    }
}
