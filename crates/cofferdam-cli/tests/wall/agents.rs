//! The real agents behind the list that is built in, and one rule more for their model: they work, what they
//! report to others stays in, and what the list names but nobody answers does not stop them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cofferdam_lab::lab::Reply;
use cofferdam_lab::model::{Model, Tool, Turn};
use serde_json::Value;

use crate::trial::Trial;
use crate::user::{Done, User};

const HOST: &str = "host.cofferdam.internal";

/// A program: its name, the variables of its key and its model's address, and what the address ends with.
const PROGRAMS: [(&str, &str, &str, &str); 2] = [
    ("claude-code", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    ("codex", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
];

pub(crate) fn default_list(trial: &mut Trial<'_>) {
    let user = trial.bench.stranger("agents");
    let listed = listed(&user);
    // There is no internet for what the list names.
    for name in &listed {
        let lab = &trial.bench.control;
        lab.name(name, vec![Reply::NoSuchName]).unwrap();
    }
    for program in PROGRAMS {
        let (name, ..) = program;
        // Without the wall it asks for more than its model, and reports to names that the list has not: Codex by
        // itself, Claude Code where its user said so.
        let mark = trial.bench.control.mark().unwrap();
        let done = run(&user, program, "open", "127.0.0.1", &["--network", "open"]);
        let asked = asked_since(trial, mark);
        let beyond: BTreeSet<&String> = asked.difference(&listed).collect();
        trial.fires(name, !beyond.is_empty(), &(&asked, &done));

        let mark = trial.bench.control.mark().unwrap();
        let done = run(&user, program, "walled", HOST, &[]);
        let landed = done.code == Some(0) && done.stdout.contains("landed: 1 commit");
        trial.works(name, landed, &done);
        let asked = asked_since(trial, mark);
        let out: Vec<&String> = asked.difference(&listed).collect();
        trial.refuses(name, out.is_empty(), &out);
        let visits = trial.bench.control.since(mark).unwrap().visits;
        trial.refuses(name, visits.is_empty(), &visits);
        let log = user.cofferdam(&["net", "log", &format!("{name}-walled"), "--json"]);
        let entries = || {
            log.stdout
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
        };
        let with = |verdict: &str| -> BTreeSet<String> {
            let those = entries().filter(|entry| entry["verdict"] == verdict);
            those
                .filter_map(|entry| Some(entry["name"].as_str()?.to_owned()))
                .collect()
        };
        let refused = with("refused");
        let told = beyond.iter().any(|name| refused.contains(*name));
        trial.refuses("what is said of it", told, &(&beyond, &refused));
        // The list is in force: of what it names nothing was refused, and some of it was tried in vain.
        let wrongly: Vec<&String> = refused.intersection(&listed).collect();
        trial.works("the list", wrongly.is_empty(), &wrongly);
        trial.works(
            "its model",
            with("allowed").contains(HOST),
            &with("allowed"),
        );
    }
    trial.allowed_works();
}

/// Has Claude Code send its telemetry to a collector; Codex takes no notice.
const TELEMETRY: [&str; 6] = [
    "CLAUDE_CODE_ENABLE_TELEMETRY=1",
    "OTEL_METRICS_EXPORTER=otlp",
    "OTEL_LOGS_EXPORTER=otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://telemetry.test:4318",
    "OTEL_METRIC_EXPORT_INTERVAL=500",
];

/// The names of the built-in list.
fn listed(user: &User) -> BTreeSet<String> {
    let rules = user.cofferdam(&["net", "rules", "--json"]).stdout;
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let rules = rules["rules"].as_array().unwrap().iter();
    let names = rules.map(|rule| rule["rule"].as_str().unwrap());
    names
        .map(|rule| rule.split(':').next().unwrap().to_owned())
        .collect()
}

/// Whose addresses were asked for outside.
fn asked_since(trial: &Trial<'_>, mark: cofferdam_lab::lab::control::Mark) -> BTreeSet<String> {
    let queries = trial.bench.control.since(mark).unwrap().queries;
    let names = queries
        .into_iter()
        .map(|query| query.name.to_ascii_lowercase());
    names.filter(|name| name != HOST).collect()
}

fn run(
    user: &User,
    (name, key, address, end): (&str, &str, &str, &str),
    how: &str,
    host: &str,
    options: &[&str],
) -> Done {
    let model = Model::start([
        Turn {
            tool: Some(Tool::Shell {
                command: format!("echo {how} >{how}-{name}.txt && git add {how}-{name}.txt && git commit -qm {how}"),
            }),
            ..Turn::default()
        },
        Turn {
            say: "Done.\n<promise>COMPLETE</promise>".to_owned(),
            ..Turn::default()
        },
    ])
    .unwrap();
    let port = model.port();
    let (called, rule) = (format!("{name}-{how}"), format!("{HOST}:{port}"));
    let mut arguments = vec![
        "run", "--agent", name, "--prompt", "work", "--name", &called,
    ];
    for variable in TELEMETRY {
        arguments.extend(["--env", variable]);
    }
    arguments.extend_from_slice(options);
    if options.is_empty() {
        arguments.extend(["--allow", rule.as_str()]);
    }
    let mut command = user.command(&arguments);
    let home = installed();
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        home.join(".npm-global/bin").display()
    );
    command
        .env("COFFERDAM_HOME", user.path(".cofferdam"))
        .env("HOME", home)
        .env("PATH", path)
        .env(key, "the-users-key")
        .env(address, format!("http://{host}:{port}{end}"));
    let output = command.output().unwrap();
    Done {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The home below which `scripts/test --agents` installed them.
fn installed() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = target.parent().unwrap().join("agents/home");
    let there = home.join(".npm-global/bin/claude").exists();
    assert!(
        there,
        "the agent programs are missing: run `scripts/test --agents`"
    );
    home
}
