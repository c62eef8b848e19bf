//! What is known of runs when they are over, what an agent gives back, and bounds.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::{Done, TestEnvironment, finish};
use crate::lives::{Lives, OnTerminal};

/// The last line of `run --json -- sh -c SCRIPT`.
#[track_caller]
fn report(environment: &TestEnvironment, options: &[&str], script: &str, code: i32) -> Value {
    let words = [&["run", "--json"], options, &["--", "sh", "-c", script]].concat();
    let done = environment.cofferdam(&words).expect_code(code);
    serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
}

fn listed(environment: &TestEnvironment) -> Value {
    let done = environment.cofferdam(&["runs", "--json"]).expect_code(0);
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn a_run_is_known_when_its_sandbox_is_gone() {
    let environment = TestEnvironment::with_repository();
    let none = environment.cofferdam(&["runs"]).expect_code(0);
    assert_eq!(none.stdout, "");
    assert!(none.stderr.contains("no agent has run here"), "{none}");
    let script = "echo a > a; git add a; git commit -qm a; echo '<promise>COMPLETE</promise>'";
    let first = report(&environment, &["--name", "one"], script, 0);
    let id = first["report"]["run"].as_str().unwrap();
    report(&environment, &["--name", "two"], "exit 3", 1);
    let all = listed(&environment);
    let told = |n: usize| {
        (
            all[n]["name"].as_str().unwrap(),
            all[n]["outcome"].as_str().unwrap(),
        )
    };
    assert_eq!((told(0), told(1)), (("two", "failed"), ("one", "complete")));
    assert_eq!(all[1]["ended"]["commits"], 1);
    let table = environment.cofferdam(&["runs"]).expect_code(0).stdout;
    assert!(table.starts_with("RUN") && table.contains(id), "{table}");
    for name in [id, "one"] {
        let shown = environment.cofferdam(&["runs", "show", name]);
        let shown = shown.expect_code(0);
        assert!(
            shown.stdout.contains(&format!("run:     {id}\n")),
            "{shown}"
        );
        assert!(
            shown.stdout.contains("start:   1: exit code 0\n"),
            "{shown}"
        );
    }
    let log = environment.cofferdam(&["logs", id]).expect_code(0);
    assert!(log.stdout.contains("COMPLETE"), "{log}");
    // A program of anybody's has no conversation.
    let refused = environment.cofferdam(&["continue", "one"]).expect_code(1);
    assert!(
        refused
            .stderr
            .contains("had no conversation that could go on"),
        "{refused}"
    );
    environment
        .cofferdam(&["runs", "remove", id])
        .expect_code(0);
    assert_eq!(listed(&environment).as_array().unwrap().len(), 1);
    let gone = environment.cofferdam(&["runs", "show", id]).expect_code(1);
    assert!(gone.stderr.contains("`cofferdam runs`"), "{gone}");
}

/// One whose command was killed says so, and is not taken for one that goes on.
#[test]
fn a_run_that_was_killed_is_told_as_interrupted() {
    let environment = TestEnvironment::with_repository();
    let mut child = environment
        .command(&["run", "--name", "one", "--", "sh", "-c", "sleep 600"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while listed(&environment)[0]["outcome"] != "at work" {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let refused = environment.cofferdam(&["runs", "remove", &id]);
    let refused = refused.expect_code(1);
    assert!(refused.stderr.contains("goes on"), "{refused}");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!(listed(&environment)[0]["outcome"], "interrupted");
    environment.cofferdam(&["gc"]).expect_code(0);
    environment
        .cofferdam(&["runs", "remove", &id])
        .expect_code(0);
}

#[test]
fn an_agent_gives_data_back() {
    let environment = TestEnvironment::with_repository();
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    environment.write("s.json", &schema.to_string());
    let options = ["--output-tag", "plan", "--output-schema", "s.json"];
    let say = |text: &str| format!("echo '<plan>{text}</plan>'");
    let good = report(&environment, &options, &say("{\"n\": 1}"), 0);
    assert_eq!(good["report"]["output"], json!({"n": 1}));
    let text = report(&environment, &["--output-tag", "plan"], &say("yes"), 0);
    assert_eq!(text["report"]["output"], "yes");
    let fails = |options: &[&str], script: &str| -> Done {
        let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
        environment.cofferdam(&words)
    };
    let wrong = fails(&options, &say("{\"n\": \"x\"}")).expect_code(1);
    assert!(
        wrong.stderr.contains("the agent gave no usable <plan>"),
        "{wrong}"
    );
    assert!(wrong.stderr.contains("it said: {\"n\": \"x\"}"), "{wrong}");
    let none = fails(&options, "true").expect_code(1);
    assert!(none.stderr.contains("say in the prompt"), "{none}");
    environment.write("s.json", "{\"type\": 7}");
    let bad = fails(&options, "true").expect_code(1);
    assert!(bad.stderr.contains("it is no JSON Schema"), "{bad}");
    let bad = fails(&["--output-tag", "a b"], "true").expect_code(2);
    assert!(bad.stderr.contains("no name of a tag"), "{bad}");
}

/// Scripts tell a limit that passes by itself from a failure.
#[test]
fn bounds_and_limits_have_ends_of_their_own() {
    let environment = TestEnvironment::with_repository();
    let run = |options: &[&str], script: &str| {
        let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
        environment.cofferdam(&words)
    };
    let commit = "git commit -q --allow-empty -m kept; ";
    let done = run(&["--max-time", "1s"], &format!("{commit}sleep 600")).expect_code(1);
    assert!(
        done.stderr.contains("has used up its budget of 1 s"),
        "{done}"
    );
    assert!(done.stderr.contains("`--max-time`"), "{done}");
    assert!(done.stderr.contains("cofferdam log"), "{done}");
    let limit = format!("{commit}echo '429 Too Many Requests' >&2; exit 1");
    let done = run(&[], &limit).expect_code(75);
    assert!(
        done.stderr.contains("a limit of the model's was reached"),
        "{done}"
    );
    assert!(done.stderr.contains("`--wait-for-quota`"), "{done}");
    // It may not wait so long.
    run(&["--wait-for-quota=1s"], &limit).expect_code(75);
    for bad in ["--max-cost=0", "--max-cost=x", "--max-time=x"] {
        run(&[bad], "true").expect_code(2);
    }
}

/// Commits, and says how long its conversation is.
pub(crate) const CLAUDE: &str = r#"#!/bin/sh
cat > prompt
projects=~/.claude/projects/$(pwd | tr -c 'a-zA-Z0-9\n' -)
mkdir -p "$projects"
file=$projects/01234567-89ab-cdef-0123-456789abcdef.jsonl
echo line >> "$file"
git add -A; git commit -qm "$(wc -l < "$file")"
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"01234567-89ab-cdef-0123-456789abcdef"}'
"#;

/// What the agent committed before its command was killed is what it goes on from, wherever its files were, with the conversation of the
/// iteration that had ended.
#[test]
fn one_that_was_killed_is_gone_on_from_where_it_was() {
    for mode in ["layer", "bind", "copy"] {
        let user = Claude::that_does(
            "if grep -q more /tmp/prompt; then test -e work && test -e \"$project/$id.jsonl\" && git commit -q --allow-empty -m more; result false done; exit; fi
            if test -e work; then touch /meet/second; sleep 600; fi
            echo work > work; git add work; git commit -qm work; echo '{}' > \"$project/$id.jsonl\"; result false done",
        );
        let shared = user.0.temporary().join("shared");
        cofferdam::fsx::private_dir(&shared).unwrap();
        let mount = format!("{}:/meet:rw", shared.display());
        let agent = [
            "--agent",
            "claude-code",
            "--prompt",
            "x",
            "--max-iterations",
            "2",
        ];
        let words = ["run", "--name", "one", "--network", "open", "--mode", mode];
        let mount = ["--mount", mount.as_str()];
        let mut child = user
            .command(&[&words[..], &agent, &mount].concat())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !shared.join("second").exists() {
            assert!(began.elapsed() < Duration::from_secs(50), "{mode}");
            std::thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        let done = user
            .does(&["continue", "one", "--prompt", "more", "--network", "open"])
            .expect_code(0);
        assert!(done.stderr.contains("1 commit"), "{mode}: {done}");
        let log = user.0.git(&["log", "--format=%s", "cofferdam/one"]);
        assert_eq!(log, "more\nwork\nstart", "{mode}: {done}");
    }
}

/// Where the sandbox of a run is still there, its agent goes on in it.
#[test]
fn one_that_is_still_there_is_gone_on_in() {
    let lives = Lives::new();
    lives.write("../bin/claude", CLAUDE);
    let bin = lives.repository().join("../bin").canonicalize().unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("claude"), mode).unwrap();
    let run = |words: &[&str]| {
        let mut command = lives.command(words);
        let search = format!("{}:/usr/bin:/bin", bin.display());
        command
            .env("PATH", search)
            .env("ANTHROPIC_API_KEY", "k")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let first = ["run", "--keep", "--name", "box", "--network", "open"];
    let agent = ["--agent", "claude-code", "--prompt", "begin"];
    run(&[&first[..], &agent].concat()).expect_code(0);
    // Somebody has gone on in it since: what is there is not put back.
    lives
        .exec(
            "box",
            "cd ~/.claude/projects/*/ && for f in *.jsonl; do echo more >> \"$f\"; done",
        )
        .expect_code(0);
    let done = run(&["continue", "box", "--prompt", "more"]).expect_code(0);
    assert!(done.stderr.contains("box goes on"), "{done}");
    let log = lives.cofferdam(&["log", "box"]).expect_code(0).stdout;
    let subjects: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert_eq!(subjects, ["1", "3"], "{log}");
    let refused = run(&["continue", "box", "--agent", "codex"]).expect_code(2);
    assert!(
        refused
            .stderr
            .contains("is one of claude-code, not of codex"),
        "{refused}"
    );
    assert_eq!(listed(&lives).as_array().unwrap().len(), 2);
    lives
        .cofferdam(&["delete", "--force", "--purge", "box"])
        .expect_code(0);
    assert_eq!(listed(&lives), json!([]));
    // Whose branch was checked out since, goes on there, whatever its first prompt was made of.
    lives.write("begin.md", "{{WHAT}}\n");
    lives.git(&["add", "begin.md"]);
    lives.git(&["commit", "-qm", "prompt"]);
    let first = ["run", "--name", "two", "--branch", "work"];
    let open = ["--network", "open"];
    let template = ["--prompt-file", "begin.md", "--arg", "WHAT=begin"];
    run(&[&first[..], &open, &agent[..2], &template].concat()).expect_code(0);
    assert_eq!(lives.git(&["show", "work:prompt"]), "begin");
    lives.git(&["checkout", "-q", "work"]);
    run(&[&["continue", "two", "--prompt", "more"], &open[..]].concat()).expect_code(0);
    assert_eq!(lives.git(&["log", "--format=%s", "main..work"]), "2\n1");
    assert_eq!(lives.git(&["show", "work:prompt"]), "more");
}

/// A user with a program that is called like Claude Code and does this, and with files of their own agents.
pub(crate) struct Claude(Lives);

impl Claude {
    pub(crate) fn that_does(script: &str) -> Self {
        let lives = Lives::new();
        let begins = "#!/bin/sh\ntest -t 0 || cat > /tmp/prompt\nid=01234567-89ab-cdef-0123-456789abcdef\n\
            project=~/.claude/projects/$(pwd | tr -c 'a-zA-Z0-9\\n' -)\nmkdir -p \"$project\"\n\
            result() { printf '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":%s,\"result\":\"%s\",\"session_id\":\"%s\"}\\n' \"$1\" \"$2\" $id; }\n";
        lives.has_program("claude", &format!("{begins}{script}\n"));
        Self(lives)
    }

    pub(crate) fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.0.command(words);
        let path = format!("{}/tools/bin:/usr/bin:/bin", self.0.home().display());
        command.env("PATH", path).env("ANTHROPIC_API_KEY", "k");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn does(&self, words: &[&str]) -> Done {
        finish(self.command(words).spawn().unwrap())
    }

    fn runs(&self, options: &[&str]) -> Done {
        let agent = [
            "run",
            "--network",
            "open",
            "--agent",
            "claude-code",
            "--prompt",
            "x",
        ];
        self.does(&[&agent[..], options].concat())
    }
}

/// An agent that has used more than it may is ended, and its commits are kept.
#[test]
fn tokens_and_cost_have_bounds() {
    let message = r#"{"type":"assistant","message":{"id":"m","content":[],"usage":{"input_tokens":700,"output_tokens":50}},"session_id":"s"}"#;
    let cost = r#"{"type":"result","subtype":"success","is_error":false,"result":"","total_cost_usd":0.75,"usage":{"input_tokens":700,"output_tokens":50},"session_id":"s"}"#;
    let commit = "git commit -q --allow-empty -m kept";
    for (said, bound, within, is_over) in [
        (
            message,
            ["--max-tokens", "700"],
            ["--max-tokens", "750"],
            "750 tokens",
        ),
        (
            cost,
            ["--max-cost", "0.70"],
            ["--max-cost", "0.75"],
            "0.70 USD",
        ),
    ] {
        let user = Claude::that_does(&format!("{commit}; echo '{said}'; sleep 600"));
        let done = user
            .runs(&[&bound[..], &["--branch", "work"]].concat())
            .expect_code(1);
        assert!(
            done.stderr.contains("has used up its budget of"),
            "{is_over}: {done}"
        );
        assert!(done.stderr.contains(bound[0]), "{done}");
        assert_eq!(user.0.git(&["log", "-1", "--format=%s", "work"]), "kept");
        // What is not over it goes on to its end, and is told afterwards.
        let user = Claude::that_does(&format!("{commit}; echo '{said}'; result false done"));
        user.runs(&within).expect_code(0);
        let table = user.0.cofferdam(&["runs"]).expect_code(0);
        let id = listed(&user.0)[0]["id"].as_str().unwrap().to_owned();
        let shown = user.0.cofferdam(&["runs", "show", &id]).expect_code(0);
        let costs = bound[0] == "--max-cost";
        assert!(table.stdout.contains(" 750 "), "{table}");
        assert_eq!(table.stdout.contains(" 0.75 USD "), costs, "{table}");
        assert!(shown.stdout.contains("commits: 1\n"), "{shown}");
        assert!(shown.stdout.contains("tokens:  750\n"), "{shown}");
        assert_eq!(
            shown.stdout.contains("cost:    0.75 USD\n"),
            costs,
            "{shown}"
        );
    }
}

/// So they have however the agent came to work.
#[test]
fn tokens_are_bounded_in_every_way() {
    let used = r#"{"type":"assistant","message":{"id":"m","content":[],"usage":{"input_tokens":700,"output_tokens":50}},"session_id":"s"}"#;
    for (asked, bound, code) in [("much", "700", 1), ("enough", "750", 0)] {
        let user = Claude::that_does(&format!(
            "asked=$(cat /tmp/prompt)
            if [ $asked != x ]; then git commit -q --allow-empty -m kept; echo '{used}'; fi
            if [ $asked = much ]; then sleep 600; fi
            echo '{{}}' > \"$project/$id.jsonl\"; result false done"
        ));
        user.runs(&["--branch", "talk", "--name", "talk"])
            .expect_code(0);
        user.does(&["create", "box", "--network", "open"])
            .expect_code(0);
        let plan = format!("tasks: [{{name: task, prompt: {asked}}}]\n");
        user.0.write("plan.yaml", &plan);
        let agent = ["--agent", "claude-code", "--max-tokens", bound];
        let open = ["--network", "open"];
        let prompt = ["--prompt", asked];
        for (branch, words) in [
            ("talk", [&["continue", "talk"], &prompt[..], &open].concat()),
            (
                "cofferdam/box",
                [&["run", "--in", "box"], &prompt[..]].concat(),
            ),
            (
                "cofferdam/task",
                [&["run", "--plan", "plan.yaml"], &open[..]].concat(),
            ),
        ] {
            let done = user.does(&[&words[..], &agent].concat()).expect_code(code);
            let says = "has used up its budget of 700 tokens";
            assert_eq!(done.stderr.contains(says), code == 1, "{branch}: {done}");
            let subject = user.0.git(&["log", "-1", "--format=%s", branch]);
            assert_eq!(subject, "kept", "{branch}: {done}");
        }
    }
}

/// A plan's bounds are those of each run: of every task, and of every review.
#[test]
fn each_run_of_a_plan_has_the_whole_budget() {
    let used = r#"{"type":"result","subtype":"success","is_error":false,"result":"","total_cost_usd":0.75,"usage":{"input_tokens":700,"output_tokens":50},"session_id":"s"}"#;
    for (tokens, cost, code) in [("750", "0.75", 0), ("749", "0.75", 1), ("750", "0.74", 1)] {
        let user = Claude::that_does(&format!(
            "git commit -q --allow-empty -m \"$(cat /tmp/prompt)\"; echo '{used}'; result false done"
        ));
        let tasks = "tasks: [{name: one, prompt: work, review: {prompt: look}}, {name: two, prompt: work}]\n";
        user.0.write("plan.yaml", tasks);
        let words = ["run", "--plan", "plan.yaml", "--network", "open"];
        let agent = ["--agent", "claude-code"];
        let bounds = ["--max-tokens", tokens, "--max-cost", cost];
        let done = user.does(&[&words[..], &agent, &bounds].concat());
        let done = done.expect_code(code);
        let runs = listed(&user.0).as_array().unwrap().len();
        // The control: one alone is over less, and its task fails before its review.
        let (reviewed, all) = if code == 0 {
            ("look\nwork\nstart", 3)
        } else {
            ("work\nstart", 2)
        };
        let subjects = user.0.git(&["log", "--format=%s", "cofferdam/one"]);
        assert_eq!((subjects.as_str(), runs), (reviewed, all), "{done}");
    }
}

/// The model says until when: then its agent goes on in the same conversation.
#[test]
fn a_limit_is_waited_for() {
    let user = Claude::that_does(
        r#"if [ -e "$project/$id.jsonl" ]; then
            for word; do case $word in "$id") git commit -q --allow-empty -m "went on: $(cat /tmp/prompt)";; esac; done
            result false done
        else
            echo '{}' > "$project/$id.jsonl"
            result true "usage limit reached|$(date +%s)"; exit 1
        fi"#,
    );
    let done = user.runs(&["--wait-for-quota"]).expect_code(0);
    assert!(
        done.stderr.contains("a limit of the model's was reached"),
        "{done}"
    );
    assert!(done.stderr.contains("it goes on in 1 min"), "{done}");
    let subject = user.0.git(&["log", "-1", "--format=%s"]);
    assert!(subject.contains("went on"), "{subject}");
}

/// What a run prints is seen while it goes on, until its end.
#[test]
fn the_log_of_a_run_is_followed() {
    let environment = TestEnvironment::with_repository();
    environment.write("go", "");
    let script = "echo first; while [ -e go ]; do sleep 0.02; done; echo second";
    let words = ["run", "--head", "--", "sh", "-c", script];
    let mut run = environment.command(&words);
    run.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().unwrap();
    let began = Instant::now();
    while listed(&environment)[0]["outcome"] != "at work" {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let mut follows = environment.command(&["logs", &id, "--follow"]);
    let mut follows = follows.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(follows.stdout.take().unwrap()));
    let mut next = |end: &str| {
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.ends_with(end))
    };
    assert!(next("first"));
    assert_eq!(follows.try_wait().unwrap(), None);
    std::fs::remove_file(environment.repository().join("go")).unwrap();
    assert!(next("second"));
    assert!(run.wait().unwrap().success());
    assert!(follows.wait().unwrap().success());
}

/// What a subagent did is a part of the conversation, and goes with it.
#[test]
fn what_a_subagent_said_goes_on_too() {
    let user = Claude::that_does(
        r#"sub=$project/$id/subagents/agent-1.jsonl
        git commit -q --allow-empty -m "heard: $(cat "$sub" 2>/dev/null)"
        mkdir -p "$project/$id/subagents"; echo '{}' > "$project/$id.jsonl"; echo 'the word is walnut' > "$sub"
        result false done"#,
    );
    user.runs(&["--name", "one"]).expect_code(0);
    let words = ["continue", "one", "--network", "open", "--prompt", "more"];
    user.does(&words).expect_code(0);
    let subjects = user.0.git(&["log", "-2", "--format=%s", "--all"]);
    assert!(subjects.contains("heard: the word is walnut"), "{subjects}");
}

#[test]
fn one_that_is_told_nothing_goes_on_where_it_was() {
    let user = Claude::that_does(
        r#"git commit -q --allow-empty -m "$(cat /tmp/prompt) $(cat "$project/$id.jsonl")"
        echo said > "$project/$id.jsonl"; result false done"#,
    );
    user.runs(&["--name", "one"]).expect_code(0);
    user.does(&["continue", "one", "--network", "open"])
        .expect_code(0);
    let log = user.0.git(&["log", "--format=%s"]);
    assert_eq!(log, "Go on where you were. said\nx\nstart");
}

/// Several can go on from one, each in a copy of its own.
#[test]
fn a_copy_leaves_the_conversation_as_it_was() {
    let user = Claude::that_does(
        r#"for word; do if [ "$word" = --fork-session ]; then
            own=$id; id=89abcdef-0123-4567-89ab-cdef01234567; cp "$project/$own.jsonl" "$project/$id.jsonl"
        fi; done
        echo "$(cat /tmp/prompt)" >> "$project/$id.jsonl"
        git commit -q --allow-empty -m "$(tr '\n' ' ' < "$project/$id.jsonl")"; result false done"#,
    );
    user.runs(&["--name", "box", "--keep"]).expect_code(0);
    let run = listed(&user.0)[0]["id"].as_str().unwrap().to_owned();
    let said = || {
        let own = "cat ~/.claude/projects/*/01234567-89ab-cdef-0123-456789abcdef.jsonl";
        user.0.exec("box", own).expect_code(0).stdout
    };
    let goes_on = |options: &[&str]| {
        user.does(&[&["continue", &run], options].concat())
            .expect_code(0);
        let log = user.0.git(&["log", "-1", "--format=%s", "cofferdam/box"]);
        (log, said())
    };
    let told = |log: &str, said: &str| (log.to_owned(), said.to_owned());
    let first = goes_on(&["--fork", "--prompt", "two"]);
    assert_eq!(first, told("x two", "x\n"));
    let shown = user.0.cofferdam(&["runs", "show", "box"]).expect_code(0);
    let after = format!("after:   a copy of {run}\n");
    assert!(shown.stdout.contains(&after), "{shown}");
    let second = goes_on(&["--fork", "--prompt", "three"]);
    assert_eq!(second, told("x three", "x\n"));
    // The control: without a copy it is another one afterwards.
    let last = goes_on(&["--prompt", "four"]);
    assert_eq!(last, told("x four", "x\nfour\n"));
}

/// As with `--in`: what is there already was made without it.
#[test]
fn a_sandbox_that_is_there_gets_no_options_of_its_making() {
    let user = Claude::that_does(r#"echo said > "$project/$id.jsonl"; result false done"#);
    user.runs(&["--name", "box", "--keep"]).expect_code(0);
    for (flag, options) in [
        ("--env", &["--env", "A=b"][..]),
        ("--mount", &["--mount", "/usr/share"]),
        ("--network", &["--network", "none"]),
        ("--allow", &["--allow", "example.com"]),
        ("--hide", &["--hide", "x"]),
        ("--memory", &["--memory", "1g"]),
        ("--copy", &["--copy", "x"]),
        ("--on-host-ready", &["--on-host-ready", "true"]),
        ("--name", &["--name", "other"]),
        ("--keep", &["--keep"]),
    ] {
        let words = [&["continue", "box", "--prompt", "more"], options].concat();
        let refused = user.does(&words).expect_code(2);
        let said = format!("`{flag}` is for a sandbox that is made");
        assert!(refused.stderr.contains(&said), "{refused}");
        let next = "cofferdam delete box";
        assert!(refused.stderr.contains(next), "{refused}");
    }
    assert_eq!(listed(&user.0).as_array().unwrap().len(), 1);
    user.does(&["continue", "box", "--prompt", "more"])
        .expect_code(0);
}

#[test]
fn a_conversation_is_exported_into_a_new_directory() {
    let user = Claude::that_does(r#"echo said > "$project/$id.jsonl"; result false done"#);
    user.runs(&["--name", "one"]).expect_code(0);
    let run = listed(&user.0)[0]["id"].as_str().unwrap().to_owned();
    let words = ["runs", "export", "one", "out"];
    let out = user.0.repository().join("out");
    let exported = user.0.cofferdam(&words).expect_code(0).stderr;
    assert_eq!(exported, format!("1 file in {}\n", out.display()));
    let files = || {
        let all = "cd out && grep -r '' .";
        user.0.shell(all).expect_code(0).stdout
    };
    let before = files();
    let is_whole = before.starts_with("./1/projects/") && before.ends_with(".jsonl:said\n");
    assert!(is_whole, "{before}");
    user.0.write("file", "");
    for name in ["out", "file"] {
        let refused = user.0.cofferdam(&["runs", "export", "one", name]);
        let at = user.0.repository().join(name);
        let says = format!(
            "error: {} is there already, and nothing is written into it\n\
             hint: name a directory that is not there yet: `cofferdam runs export {run} DIR`\n",
            at.display()
        );
        assert_eq!(refused.expect_code(1).stderr, says);
    }
    assert_eq!(files(), before);
    // What the hint says works.
    let words = ["runs", "export", "one", "none/new"];
    let refused = user.0.cofferdam(&words).expect_code(1);
    let parent = user.0.repository().join("none");
    let says = format!(
        "error: {to} cannot be made: the directory that it is to be in is not there\n\
         hint: make that one first: `mkdir -p -- {} && cofferdam runs export {run} -- {to}`\n",
        parent.display(),
        to = parent.join("new").display()
    );
    assert_eq!(refused.stderr, says);
    user.0.shell("mkdir -p none").expect_code(0);
    user.0.cofferdam(&words).expect_code(0);
}

/// A run whose conversation is not there any more is not gone on with as if it were.
#[test]
fn one_whose_conversation_made_room_says_so() {
    let user = Claude::that_does(
        r#"echo started >> started; git add started; git commit -qm work
        echo '{}' > "$project/$id.jsonl"; result false done"#,
    );
    user.runs(&["--name", "one"]).expect_code(0);
    let run = listed(&user.0)[0]["id"].as_str().unwrap().to_owned();
    let runs = user.0.home().join(".cofferdam/runs");
    let kept = runs.join(&run).join("conversations");
    assert!(kept.is_dir());
    std::fs::remove_dir_all(kept).unwrap();
    let words = ["continue", "one", "--network", "open", "--prompt", "more"];
    let refused = user.does(&words).expect_code(1);
    assert!(
        refused.stderr.contains("made room for newer ones"),
        "{refused}"
    );
    assert!(
        refused
            .stderr
            .contains("cofferdam run --agent claude-code --branch"),
        "{refused}"
    );
    assert_eq!(listed(&user.0).as_array().unwrap().len(), 1);
    // One that stays and has lost it.
    user.runs(&["--name", "box", "--keep"]).expect_code(0);
    let run = listed(&user.0)[0]["id"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(runs.join(&run).join("conversations")).unwrap();
    user.0
        .exec("box", "rm -r ~/.claude/projects")
        .expect_code(0);
    let words = ["continue", "box", "--prompt", "more"];
    let refused = user.does(&words).expect_code(1);
    assert!(
        refused.stderr.contains("has made room for newer ones"),
        "{refused}"
    );
    user.0
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}

/// Whatever agents do, what their programs keep on this machine is its user's, byte for byte.
#[test]
fn the_users_own_directories_of_agents_stay_as_they_are() {
    let user = Claude::that_does(
        r#"echo '{}' > "$project/$id.jsonl"; mkdir -p ~/.codex; echo mine > ~/.codex/auth.json; echo mine > ~/.claude.json
        echo mine > ~/.claude/settings.json; echo mine > ~/.claude/.credentials.json
        git commit -q --allow-empty -m work; result false done"#,
    );
    for (path, text) in [
        (".claude/settings.json", "{}"),
        (".claude/projects/p/1.jsonl", "{\"own\":1}"),
        (
            ".claude/.credentials.json",
            "{\"claudeAiOauth\":{\"accessToken\":\"a\"}}",
        ),
        (".claude.json", "{\"own\":true}"),
        (".codex/auth.json", "{\"OPENAI_API_KEY\":\"k\"}"),
        (".codex/sessions/1.jsonl", "{}"),
    ] {
        user.0.puts(path, text);
    }
    let all = || {
        let line = "cd; find .claude .claude.json .codex -printf '%p %m %s %T@ %u\\n' | sort; \
                    find .claude .claude.json .codex -type f | sort | xargs sha256sum";
        user.0.shell(line).expect_code(0).stdout
    };
    let before = all();
    assert!(before.contains(".codex/auth.json"), "{before}");
    user.runs(&["--name", "one"]).expect_code(0);
    let words = ["continue", "one", "--network", "open", "--prompt", "more"];
    user.does(&words).expect_code(0);
    let words = ["interactive", "--network", "open", "--agent", "claude-code"];
    let mut terminal = OnTerminal::start(&user.command(&words), (24, 80));
    terminal.ends();
    assert_eq!(all(), before, "{}", terminal.text());
}

/// A program that is no agent has its words for a task, no conversation, and a log that is named.
#[test]
fn a_run_of_a_program_says_what_there_is_of_it() {
    let environment = TestEnvironment::with_repository();
    let run = report(&environment, &["--name", "one"], "echo some output", 0);
    let id = run["report"]["run"].as_str().unwrap();
    assert_eq!(listed(&environment)[0]["task"], "sh -c echo some output");
    let shown = environment.cofferdam(&["runs", "show", "one"]);
    let shown = shown.expect_code(0).stdout;
    let log = shown.lines().find(|line| line.starts_with("log:")).unwrap();
    let path = listed(&environment)[0]["log"].as_str().unwrap().to_owned();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 1000, "{size}");
    assert!(log.ends_with(&format!("one.log ({size} B)")), "{log}");
    std::fs::remove_file(&path).unwrap();
    let shown = environment.cofferdam(&["runs", "show", "one"]);
    let shown = shown.expect_code(0).stdout;
    assert!(shown.contains("one.log (it was removed)"), "{shown}");
    let refused = environment.cofferdam(&["runs", "export", "one", "out"]);
    let refused = refused.expect_code(1).stderr;
    assert!(
        refused.contains("nothing was kept of a conversation"),
        "{refused}"
    );
    assert!(
        refused.contains(&format!("cofferdam logs {id}")),
        "{refused}"
    );
    assert!(!environment.repository().join("out").exists());
    // Whoever asks for the sandbox itself is told where its run is.
    for words in [["status", "one"], ["logs", "one"]] {
        let gone = environment.cofferdam(&words).expect_code(1).stderr;
        assert!(
            gone.contains("sandbox `one` has ended and is gone"),
            "{gone}"
        );
        assert!(gone.contains("`cofferdam runs show one`"), "{gone}");
        assert!(gone.contains(&format!("`cofferdam logs {id}`")), "{gone}");
        let other = environment.cofferdam(&[words[0], "other"]).expect_code(1);
        assert!(
            other.stderr.contains("Sandbox 'other' not found."),
            "{other}"
        );
    }
}
