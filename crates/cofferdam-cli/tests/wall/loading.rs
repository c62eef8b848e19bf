//! Attacks 18, 28, 29: rules that are wrong, too wide or no rules at all. Never more open than before.

use std::fmt::Write as _;
use std::path::Path;

use cofferdam_lab::lab::Reply;
use cofferdam_lab::probe::Task;
use cofferdam_lab::sample;

use crate::bench::{DENIED, at};
use crate::trial::{Trial, http, word};
use crate::user::User;

/// What every run here tries: a denied address, a name of the default list, a name, and metadata.
fn tasks(nonce: &str) -> Vec<Task> {
    let path = format!("/{nonce}");
    vec![
        http("allowed.test:80", "allowed.test", "/"),
        word(&format!("{DENIED}:80"), nonce),
        http("denied.test:80", "denied.test", &path),
        http("169.254.169.254:80", "169.254.169.254", &path),
        word("10.0.0.5:4000", nonce),
        word("192.0.2.2:4000", nonce),
    ]
}

/// The same tasks without the wall get out, so that what follows means something.
fn control(trial: &mut Trial<'_>) {
    let nonce = trial.nonce();
    for task in tasks(&nonce) {
        trial.bench.open.ask(&task);
    }
    let visits = trial.visits(&nonce);
    trial.fires("the same tasks", visits.len() >= 3, &visits);
}

/// Runs with this configuration and these flags. Returns whether what is allowed worked, and what was said.
fn run(trial: &mut Trial<'_>, user: &User, what: &str, options: &[&str]) -> (bool, String) {
    let nonce = trial.nonce();
    let (done, outcomes) = user.once(options, &tasks(&nonce));
    let found = trial.found(&nonce);
    trial.refuses(what, found.is_empty(), &(&found, &done, &outcomes));
    // Refused as a whole, or with everything else in force.
    let ran = !outcomes.is_empty();
    trial.refuses(what, ran || done.code != Some(0), &done);
    let worked = outcomes
        .first()
        .is_some_and(|outcome| outcome.heard.contains("203.0.113.10:80"));
    (worked, done.stderr + &done.stdout)
}

pub(crate) fn broken(trial: &mut Trial<'_>) {
    control(trial);
    let user = trial.bench.stranger("broken");
    let allow = |entry: &str| format!("firewall:\n  allow:\n    - domain: allowed.test\n{entry}");
    for (what, text, words) in [
        ("an unknown key", allow("      prots: [80]\n"), "prots"),
        (
            "an unknown section",
            "firewal:\n  allow: []\n".to_owned(),
            "firewal",
        ),
        (
            "a bad range",
            allow("    - cidr: 203.0.113.0/33\n"),
            "203.0.113.0/33",
        ),
        (
            "a host in a range",
            allow("    - cidr: denied.test\n"),
            "denied.test",
        ),
        ("no mapping", "- denied.test\n".to_owned(), "config.yaml"),
        ("no YAML", "firewall: [\n".to_owned(), "config.yaml"),
        (
            "port 0",
            allow("    - domain: denied.test\n      ports: [0]\n"),
            "ports[0]: `0` is not a port",
        ),
        (
            "port 70000",
            allow("    - domain: denied.test\n      ports: [70000]\n"),
            "70000",
        ),
        (
            "no ports",
            allow("    - domain: denied.test\n      ports: []\n"),
            "ports",
        ),
        (
            "a URL",
            allow("    - domain: http://denied.test/\n"),
            "http://denied.test/",
        ),
    ] {
        user.configure(&text);
        let (_, said) = run(trial, &user, what, &[]);
        trial.refuses(what, said.contains(words), &said);
    }
    // The file contributes nothing; what a flag allows is in force.
    user.configure("firewall: [\n");
    let (worked, said) = run(
        trial,
        &user,
        "a flag beside a broken file",
        &["--allow", "allowed.test"],
    );
    trial.works("a flag beside a broken file", worked, &said);
    user.configure("firewall:\n  allow: []\n");
    let (worked, said) = run(trial, &user, "an empty list", &[]);
    trial.refuses("an empty list", !worked, &said);
    user.configure(allow(
        "    - domain: allowed.test\n    - domain: allowed.test\n",
    ));
    let (worked, said) = run(trial, &user, "duplicates", &[]);
    trial.works("duplicates", worked, &said);
    user.configure(allow("    - domain: never-resolves.test\n"));
    let lab = &trial.bench.control;
    lab.name("never-resolves.test", vec![Reply::NoSuchName])
        .unwrap();
    let (worked, said) = run(trial, &user, "an unresolvable name", &[]);
    trial.works("an unresolvable name", worked, &said);
    lab.name("allowed.test", vec![Reply::Silence]).unwrap();
    run(trial, &user, "no name server", &[]);
    lab.name("allowed.test", vec![at(&[crate::bench::ALLOWED], 60)])
        .unwrap();
    let mut many = allow("");
    // A list is read again at each change: most of this attack's time.
    let number_of_rules = if sample::all() { 100_000 } else { 20_000 };
    for number in 0..number_of_rules {
        writeln!(many, "    - domain: n{number}.many.test").unwrap();
    }
    user.configure(&many);
    let (worked, said) = run(trial, &user, "very many rules", &[]);
    trial.works("very many rules", worked, &said);
}

pub(crate) fn too_wide(trial: &mut Trial<'_>) {
    control(trial);
    let user = trial.bench.stranger("wide");
    for range in [
        "0.0.0.0/0",
        "128.0.0.0/1",
        "::/0",
        "169.254.0.0/16",
        "127.0.0.0/8",
        "10.0.0.0/8",
        "198.18.0.0/15",
        "169.254.169.254/32",
        "::ffff:0:0/96",
    ] {
        let text =
            format!("firewall:\n  allow:\n    - domain: allowed.test\n    - cidr: '{range}'\n");
        user.configure(&text);
        let (_, said) = run(trial, &user, &format!("{range} in the config"), &[]);
        let shown = range.trim_end_matches("/32");
        trial.refuses(range, said.contains(shown), &said);
    }
    user.configure("firewall:\n  allow: []\n");
    for range in [
        "0.0.0.0/0",
        "::/0",
        "127.0.0.0/8",
        "10.0.0.0/8",
        "169.254.0.0/16",
    ] {
        let rule = if range.contains("::") {
            format!("[{range}]")
        } else {
            range.to_owned()
        };
        let options = ["--allow", "allowed.test", "--allow", &rule];
        let (_, said) = run(trial, &user, &format!("{range} as a flag"), &options);
        trial.refuses(range, said.contains(range), &said);
    }
    // Wide and still a rule: metadata is not in it.
    let options = ["--allow", "allowed.test", "--allow", "169.254.0.0/16:80"];
    let (worked, said) = run(trial, &user, "link-local by port", &options);
    trial.works("the rule beside it", worked, &said);
}

pub(crate) fn injection(trial: &mut Trial<'_>) {
    control(trial);
    let user = trial.bench.stranger("injected");
    let canary = user.path("canary");
    let touch = format!("touch {}", canary.display());
    let long = "q.".repeat(150) + "test";
    for (what, name) in [
        ("a command behind it", format!("allowed.test; {touch}")),
        ("a command in it", format!("$({touch})")),
        ("backticks", format!("`{touch}`")),
        ("a pipe", format!("allowed.test|{touch}")),
        ("a line feed", "allowed.test\\ndenied.test".to_owned()),
        ("a NUL", "denied.test\\0.allowed.test".to_owned()),
        (
            "a mark that turns the direction",
            "allowed\\u202e.test".to_owned(),
        ),
        ("300 characters", long),
        ("an option", "--network=open".to_owned()),
        ("everything", "*".to_owned()),
        ("a top-level domain", "*.test".to_owned()),
        ("an empty label", "denied..test".to_owned()),
        ("nothing", String::new()),
    ] {
        let text = format!("firewall:\n  allow:\n    - domain: \"{name}\"\n");
        user.configure(&text);
        let (_, said) = run(trial, &user, what, &[]);
        // The field, and the file it is in.
        let names = said.contains("config.yaml") && said.contains("firewall.allow[0]");
        trial.refuses(what, names, &said);
        trial.refuses(what, !said.contains(['\0', '\u{202e}']), &said);
        let quiet = !canary.exists() && !inside(&user, "canary");
        trial.refuses(what, quiet, &canary);
    }
    user.configure("firewall:\n  allow: []\n");
    for rule in [
        &format!("allowed.test; {touch}"),
        &format!("$({touch})"),
        "allowed.test\ndenied.test",
        "allowed.test denied.test",
        "*",
        "",
    ] {
        let options = ["--allow", rule];
        let (_, said) = run(trial, &user, rule, &options);
        trial.refuses(rule, !canary.exists() && !said.is_empty(), &said);
        let done = user.cofferdam(&["allow", "--global", rule]);
        trial.refuses(rule, done.code != Some(0), &done);
    }
    let (worked, said) = run(trial, &user, "afterwards", &["--allow", "allowed.test"]);
    trial.works("afterwards", worked, &said);
}

/// Whether a file of this name is in the repository, which the sandbox shares.
fn inside(user: &User, name: &str) -> bool {
    Path::new(&user.repository).join(name).exists()
}
