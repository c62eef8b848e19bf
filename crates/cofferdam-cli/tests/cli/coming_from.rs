//! What `docs/coming-from.md` promises to people who come from another tool is there: each command with each option, each
//! name of the library, each tool of the server, each page.

use std::path::{Path, PathBuf};

use clap::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What Sandcastle 0.12.0 calls its functions, options, results and errors, as who comes from there knows them.
const OF_SANDCASTLE: &str = "run interactive createSandbox createWorktree close exec asyncDispose worktreePath onLine docker podman noSandbox vercel \
     daytona createBindMountSandboxProvider createIsolatedSandboxProvider sandboxHomedir imageName containerUid containerGid \
     userns selinuxLabel devices groups mounts hostPath sandboxPath readonly cpus network env maxOutputTailChars agent \
     claudeCode codex pi opencode copilot cursor AgentProvider buildPrintCommand buildInteractiveArgs parseStreamLine \
     parseSessionUsage model effort variant thinking permissionMode approvalsReviewer captureSessions sessionStorage cwd \
     prompt promptFile promptArgs maxIterations branchStrategy baseBranch copyToWorktree hooks.host hooks.sandbox \
     onWorktreeReady onSandboxReady sudo timeoutMs name logging verbose onAgentStreamEvent completionSignal \
     idleTimeoutSeconds completionTimeoutSeconds resumeSession forkSession signal timeouts copyToWorktreeMs gitSetupMs \
     commitCollectionMs mergeToHostMs Output.object Output.string maxRetries result.resume result.fork result.iterations \
     sessionId sessionFilePath usage result.completionSignal result.stdout result.commits result.branch logFilePath \
     preservedWorktreePath exitCode StructuredOutputError CwdError transferClaudeSession transferCodexSession \
     encodeProjectPath claudeHostSessionPath claudeSandboxSessionPath findClaudeSessionOnHost findCodexSessionOnHost \
     --image-name --template --agent --model --sandbox --issue-tracker --create-label --build-image --install-template-deps \
     --dockerfile --containerfile build-image remove-image";

/// The second cells of the tables.
fn ours(page: &str) -> Vec<String> {
    let rows = (page.lines()).filter(|line| line.starts_with("| ") && *line != "| there | here |");
    let cell = |row: &str| {
        row.rsplit_once(" |")
            .unwrap()
            .0
            .rsplit_once(" | ")
            .unwrap()
            .1
            .to_owned()
    };
    rows.map(cell).collect()
}

/// What stands between backticks.
pub(crate) fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// All sources below this directory, one after another.
fn sources(directory: &Path) -> String {
    let mut all = String::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    all
}

/// What is wrong with `cofferdam a b --flag VALUE …`, and the command that it is.
pub(crate) fn command<'a>(root: &'a Command, span: &str) -> Result<&'a Command, String> {
    let mut found = root;
    let mut words = span.split(' ').skip(1).peekable();
    while let Some(next) = words.peek().and_then(|word| found.find_subcommand(word)) {
        found = next;
        words.next();
    }
    let rest: Vec<&str> = words.collect();
    let takes_words = found.get_positionals().next().is_some();
    match rest.first() {
        Some(word) if !word.starts_with('-') && !takes_words => Err(format!("no command: {span}")),
        _ => Ok(found),
    }
}

pub(crate) fn has(command: &Command, flag: &str) -> bool {
    let name = flag.trim_start_matches('-');
    command
        .get_arguments()
        .any(|argument| argument.get_long() == Some(name))
}

/// Whether something of the library has this name, wherever it stands.
fn is_public(library: &str, uses: &[&str], name: &str) -> bool {
    let kinds = ["fn", "async fn", "struct", "enum", "trait", "mod"];
    let mut words = uses
        .iter()
        .flat_map(|names| names.split(|c: char| !c.is_alphanumeric()));
    kinds.iter().any(|kind| {
        let start = format!("pub {kind} {name}");
        let mut declared = library.split(&start).skip(1);
        declared.any(|rest| !rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()))
    }) || words.any(|one| one == name)
}

/// Whether a public type of the library has this field, variant or method. The sources are as `rustfmt` has them.
fn is_member(library: &str, of: &str, name: &str) -> bool {
    let mut lines = library.lines();
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_suffix(" {") else {
            continue;
        };
        // What begins with `impl` is for the last name of its line.
        let (kind, subject) = match head.strip_prefix("impl") {
            Some(rest) => ("impl", rest.rsplit(' ').next()),
            None => match *head.split(' ').collect::<Vec<_>>() {
                ["pub", kind @ ("struct" | "enum" | "trait"), subject, ..] => (kind, Some(subject)),
                _ => continue,
            },
        };
        let subject = subject.and_then(|one| one.split(['<', ':']).next());
        if subject != Some(of) {
            continue;
        }
        let body = lines.by_ref().take_while(|line| *line != "}");
        let own = body.filter_map(|line| line.strip_prefix("    "));
        let marks: &[&str] = match kind {
            "struct" => &["pub "],
            "enum" => &[""],
            "trait" => &["fn ", "async fn "],
            _ => &["pub fn ", "pub async fn ", "pub const fn "],
        };
        let is_it = |line: &str| {
            let declared = marks.iter().filter_map(|mark| line.strip_prefix(mark));
            let rests = declared.filter_map(|rest| rest.strip_prefix(name));
            { rests }.any(|rest| rest.starts_with([':', '(', '<', ',', ' ']))
        };
        if { own }.any(is_it) {
            return true;
        }
    }
    false
}

#[test]
fn a_name_is_looked_for_where_it_is_said_to_be() {
    let library = sources(&top().join("crates/cofferdam/src"));
    for (of, name) in [
        ("RunOptions", "caller"),
        ("Caller", "cancel"),
        ("Session", "close"),
        ("BindMount", "or_layers"),
        ("Attendant", "attend"),
        ("BranchStrategy", "Head"),
    ] {
        assert!(is_member(&library, of, name), "{of}::{name}");
    }
    for (of, name) in [
        ("RunOptions", "cancel"),
        ("Caller", "canc"),
        ("Session", "cancel"),
        ("Nothing", "close"),
    ] {
        assert!(!is_member(&library, of, name), "{of}::{name}");
    }
}

#[test]
fn all_that_sandcastle_has_is_on_the_page() {
    let page = std::fs::read_to_string(top().join("docs/coming-from.md")).unwrap();
    let (_, table) = page.split_once("## From Sandcastle\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let cells = table.lines().filter_map(|line| line.split(" | ").next());
    let theirs = cells.collect::<Vec<_>>().join("\n");
    // `init --model` is `--model` too, and `.exec()` is `exec`.
    let there: Vec<&str> = spans(&theirs)
        .into_iter()
        .flat_map(|span| span.split(' '))
        .map(|word| word.trim_start_matches('.').trim_end_matches("()"))
        .collect();
    let missing: Vec<&str> = OF_SANDCASTLE
        .split_whitespace()
        .filter(|name| !there.contains(name))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
fn all_that_the_page_for_newcomers_names_is_there() {
    let page = std::fs::read_to_string(top().join("docs/coming-from.md")).unwrap();
    let library = sources(&top().join("crates/cofferdam/src"));
    let uses = library.split("pub use ").skip(1);
    let uses: Vec<&str> = uses.map(|rest| rest.split(';').next().unwrap()).collect();
    let server = sources(&top().join("crates/cofferdam-cli/src/commands/mcp"));
    let mut root = cofferdam_cli::command();
    root.build();
    let mut wrong = Vec::new();
    let mut looked = 0;
    for cell in ours(&page) {
        // An option alone is one of a command that its cell names before, else one of `run`.
        let mut of = root.find_subcommand("run").unwrap();
        for span in spans(&cell) {
            looked += 1;
            let words: Vec<&str> = span.split(' ').collect();
            if words[0] == "cofferdam" && words.len() > 1 {
                match command(&root, span) {
                    Ok(found) => of = found,
                    Err(why) => wrong.push(why),
                }
            }
            // What stands behind `--` is another program's.
            let own = words.iter().take_while(|word| **word != "--");
            let flags = own.filter(|word| word.starts_with("--"));
            wrong.extend(
                flags
                    .filter(|flag| {
                        (words[0] == "cofferdam" || words[0].starts_with("--")) && !has(of, flag)
                    })
                    .map(|flag| format!("{span}: no {flag} of {}", of.get_name())),
            );
            if let Some((path, name)) = span.rsplit_once("::") {
                let of = path.rsplit("::").next().unwrap_or_default();
                let there = if of.starts_with(char::is_uppercase) {
                    is_member(&library, of, name)
                } else {
                    is_public(&library, &uses, name)
                };
                if !there {
                    wrong.push(format!("nothing public is {span}"));
                }
            }
            if span.starts_with("sandbox-") && !server.contains(&format!("= \"{span}\";")) {
                wrong.push(format!("no tool {span}"));
            }
        }
        for link in cell.split("](").skip(1) {
            let name = link.split(')').next().unwrap();
            if !top().join("docs").join(name).is_file() {
                wrong.push(format!("no page {name}"));
            }
        }
    }
    assert!(looked > 120, "{looked}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
