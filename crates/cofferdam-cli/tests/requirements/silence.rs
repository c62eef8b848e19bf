//! The library is silent (invariant 7): it never prints, prompts, or reads the environment. Clippy
//! says so too, where it is run; this is said by the tests.

use std::path::Path;

/// Crates whose every source line counts; the guest's own program is one of them.
const SILENT: [&str; 3] = [
    "crates/cofferdam/src",
    "crates/cofferdam-guest/src",
    "crates/cofferdam-wall/src",
];

/// Of executables that only the library starts: what they are to do stands in their arguments, and what the gateway has to
/// complain of goes into a file that its starter gave it.
const STARTED: [(&str, &str); 10] = [
    ("crates/cofferdam-guest/src/main.rs", "env::args_os()"),
    (
        "crates/cofferdam-guest/src/main.rs",
        "writeln!(std::io::stderr(), \"{error}\")",
    ),
    (
        "crates/cofferdam-guest/src/main.rs",
        "writeln!(std::io::stderr(), \"{}\", network.display())",
    ),
    // Of tests alone, as a whole.
    (
        "crates/cofferdam-guest/src/seccomp/profiles.rs",
        "env::var_os(\"COFFERDAM_UPDATE\")",
    ),
    // The `git` of a dev sandbox is a command of people's.
    (
        "crates/cofferdam-guest/src/guard/environment.rs",
        "std::env::vars_os()",
    ),
    (
        "crates/cofferdam-guest/src/guard/mod.rs",
        "std::io::stderr().write_all(text.as_bytes())",
    ),
    // A program that git starts, and speaks with over these.
    ("crates/cofferdam-guest/src/push.rs", "match serve("),
    (
        "crates/cofferdam-guest/src/push.rs",
        "writeln!(io::stderr(), \"{text}\")",
    ),
    (
        "crates/cofferdam-wall/src/bin/cofferdam-gateway.rs",
        "env::args_os()",
    ),
    (
        "crates/cofferdam-wall/src/gateway/complaint.rs",
        "writeln!(io::stderr(), \"cofferdam-gateway: {message}\")",
    ),
];

/// What prints, asks, or reads what only a frontend may read.
const WORDS: [&str; 16] = [
    "print!(",
    "println!(",
    "eprint!(",
    "eprintln!(",
    "dbg!(",
    "io::stdin(",
    "io::stdout(",
    "io::stderr(",
    "env::var(",
    "env::var_os(",
    "env::vars(",
    "env::vars_os(",
    "env::args",
    "env::home_dir(",
    "env::current_dir(",
    "env::temp_dir(",
];

/// Lines of code (no comments, nothing from the first unit test on) with one of [`WORDS`].
fn loud(source: &str) -> Vec<(usize, &str)> {
    let code = source.lines().enumerate();
    code.take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| {
            WORDS.iter().any(|word| {
                line.match_indices(word).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
                })
            })
        })
        .map(|(at, line)| (at + 1, line.trim()))
        .collect()
}

fn in_directory(directory: &Path, seen: &mut usize, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_directory(&path, seen, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *seen += 1;
            let lines = crate::read(&path);
            let may = |text: &str| {
                let mut started = STARTED.iter();
                started.any(|(program, words)| path.ends_with(program) && text.contains(words))
            };
            let bad = |(_, text): &(usize, &str)| !may(text);
            let at = |(line, text)| format!("{}:{line}: {text}", path.display());
            found.extend(loud(&lines).into_iter().filter(bad).map(at));
        }
    }
}

#[test]
fn the_library_never_prints_asks_or_reads_the_environment() {
    let (mut seen, mut found) = (0, Vec::new());
    for directory in SILENT {
        in_directory(&crate::top().join(directory), &mut seen, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(seen > 50, "only {seen} files were looked at");
}

#[test]
fn loud_lines_are_found() {
    let source = "use std::env;\n// println!(1)\n    println!(\"a\");\nsprintln!(b);\n\
                  let x = std::env::var(\"HOME\");\n#[cfg(test)]\nprintln!(\"c\");";
    let found: Vec<usize> = loud(source).into_iter().map(|(line, _)| line).collect();
    assert_eq!(found, [3, 5]);
}
