//! What README shows, done word for word.

use std::os::unix::fs::symlink;

use cofferdam::fsx;
use cofferdam::session::manage::GcOptions;
use regex::Regex;

use crate::coming_from::{command, has, spans};
use crate::environment::Done;
use crate::lives::Lives;

/// The lines of the first block under this heading, as a person types them.
pub(crate) fn block(heading: &str) -> Vec<String> {
    blocks(heading).swap_remove(0)
}

/// Those of each block of its part.
pub(crate) fn blocks(heading: &str) -> Vec<Vec<String>> {
    let text = read("README.md");
    let (_, text) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let text = text.split("\n#").next().unwrap();
    let typed = |line: &str| line.strip_prefix("$ ").map(str::to_owned);
    let lines = |block: &str| {
        let whole = block.replace("\\\n", "");
        whole.lines().map(|line| typed(line).unwrap()).collect()
    };
    text.split("```console\n")
        .skip(1)
        .map(|rest| lines(rest.split_once("\n```\n").unwrap().0))
        .collect()
}

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(path.join(name)).unwrap()
}

#[test]
fn what_gc_keeps_unless_told_is_what_is_said() {
    assert_eq!(GcOptions::default().keep_trees, 10 << 30);
    assert!(read("README.md").contains("`cofferdam gc` keeps all of it within 10 GiB\n"));
    assert!(read("docs/cli.md").contains("10g unless given\n"));
}

#[test]
fn its_numbers_are_those_of_the_benchmarks() {
    let (readme, table) = (read("README.md"), read("docs/benchmarks.md"));
    let row = |start: &str| {
        let row = table.lines().find(|line| line.starts_with(start));
        let cells = row.unwrap().split('|').map(|cell| cell.trim().to_owned());
        cells.collect::<Vec<_>>()
    };
    let whole = row(
        "| layers: `cofferdam run --agent command -- true`, the whole command, tree known, 100,000 files |",
    );
    let said = format!(
        "takes {} where there are 100,000\nfiles and {} where there are 100 ",
        whole[2], whole[4]
    );
    assert!(readme.contains(&said), "{said}");
    let git = row("| layers: the same | ");
    let milliseconds: f64 = git[4].strip_suffix(" ms").unwrap().parse().unwrap();
    let said = format!(
        "`git worktree add` of the 100,000 took {:.0} s there",
        milliseconds / 1000.0
    );
    assert!(readme.contains(&said), "{said}");
}

/// The table has a line for each thing that the script times, and no other: it was printed by one run of this
/// script. What is the same in two lines took about as long in both.
#[test]
fn the_table_is_of_this_benchmark() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(top.join(name)).unwrap();
    let (script, page) = (read("scripts/bench"), read("docs/benchmarks.md"));
    let table = page.split("<!-- bench -->").nth(1).unwrap();
    let table = table.split("<!-- /bench -->").next().unwrap();
    let rows: Vec<Vec<&str>> = (table.lines())
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what |"))
        .map(|line| {
            line.split(" | ")
                .map(|cell| cell.trim_matches(['|', ' ']))
                .collect()
        })
        .collect();
    let listed: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let named = script.split("{\"name\": ").skip(1);
    let named: Vec<&str> = named
        .filter_map(|rest| {
            rest.trim_start_matches('f')
                .strip_prefix('"')?
                .split('"')
                .next()
        })
        .collect();
    assert!(named.len() > 40, "{named:?}");
    // A number that the machine decides stands in braces.
    let is = |row: &&str, name: &str| match (name.split_once('{'), name.rsplit_once('}')) {
        (Some((before, _)), Some((_, behind))) => row.starts_with(before) && row.ends_with(behind),
        _ => *row == name,
    };
    for name in &named {
        let lines = listed.iter().filter(|row| is(row, name)).count();
        assert_eq!(lines, 1, "{name}");
    }
    assert_eq!(listed.len(), named.len());
    let run = rows
        .iter()
        .position(|row| row[0].starts_with("layers: `cofferdam run"));
    let run = run.unwrap();
    assert_eq!(rows[run + 1][0], "layers: the same");
    let milliseconds = |row: usize| {
        rows[row][1]
            .strip_suffix(" ms")
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let (one, other) = (milliseconds(run), milliseconds(run + 1));
    assert!(one < other * 1.5 && other < one * 1.5, "{one} {other}");
}

/// Called like a real agent: it commits what it was asked, and has done all when there are four commits.
pub(crate) const AGENT: &str = r#"#!/bin/sh
cat >> prompt.txt
echo "$@" >> prompt.txt
git add prompt.txt
git commit -qm fixed
said='More is to be done.'
[ "$(git rev-list --count HEAD)" -lt 4 ] || said='<promise>COMPLETE</promise>'
case $0 in
*/codex)
    echo "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"$said\"}}"
    echo '{"type":"turn.completed"}' ;;
*) echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"$said\"}" ;;
esac
"#;

/// A user with these programs in `~/.local/bin`, and `cofferdam` among them.
fn user() -> Lives {
    let lives = Lives::new();
    let bin = lives.home().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_cofferdam"), bin.join("cofferdam")).unwrap();
    let make = "#!/bin/sh\necho \"making $1\"\n[ $1 != watch ] || until [ -e ~/enough ]; do sleep 0.05; done\necho \"made $1\"\n";
    for (name, script) in [("make", make), ("claude", AGENT), ("codex", AGENT)] {
        fsx::write_with_mode(&bin.join(name), script.as_bytes(), 0o755).unwrap();
    }
    let keys = "ANTHROPIC_API_KEY=secret\nOPENAI_API_KEY=secret\n";
    lives.write(".cofferdam/.env", keys);
    lives
}

/// With these programs in their `PATH`.
fn typed(lives: &Lives, line: &str) -> Done {
    lives.shell(&format!("PATH=~/.local/bin:$PATH; {line}"))
}

/// The command that the line's comment names for the way back.
fn way_back(line: &str) -> &str {
    let (_, rest) = line.split_once("; `cofferdam ").unwrap();
    let end = rest.find('`').unwrap();
    let start = line.len() - rest.len() - "cofferdam ".len();
    &line[start..line.len() - rest.len() + end]
}

#[test]
fn a_sandbox_that_stays_as_readme_has_it() {
    let lives = user();
    let typed = |line: &str| typed(&lives, line).expect_code(0);
    let lines = block("### A sandbox that stays");
    let mut verbs = Vec::new();
    for line in &lines {
        let verb = line.split(' ').nth(1).unwrap();
        verbs.push(verb);
        let is = |state: &str| assert_eq!(lives.state("fix"), state, "{line}");
        match verb {
            // The only one that wants a person's terminal; the line is the command and its comment.
            "shell" => {
                assert!(line.starts_with("cofferdam shell fix  "), "{line}");
                let mut shell = lives.on_a_terminal(&["shell", "fix"]);
                shell.press("echo in''side\r");
                shell.expect("inside");
                shell.press("exit\r");
                shell.ends_with(0);
                continue;
            }
            // So does this one; `configured` opens it.
            "claude" => {
                assert!(line.starts_with("cofferdam claude fix  "), "{line}");
                continue;
            }
            // It goes on for as long as the program does.
            "logs" => drop(lives.exec("fix", "touch ~/enough").expect_code(0)),
            _ => {}
        }
        let done = typed(line);
        let said = |text: &str| assert!(done.stdout.contains(text), "{line}: {done}");
        match verb {
            "create" => {
                said("created: fix on cofferdam/fix,");
                is("active");
            }
            "exec" if line.contains(" --detach ") => {
                let id = done.stdout.trim();
                assert_eq!(id, "1.3", "{done}");
            }
            "exec" => assert_eq!(done.stdout, "making test\nmade test\n"),
            // What `logs` waited for has ended.
            "kill" => assert_eq!(done.stderr.lines().next(), Some("1.3 had ended before")),
            "logs" => assert_eq!(done.stdout, "making watch\nmade watch\n"),
            "run" => said("landed: 1 commit on cofferdam/fix,"),
            "status" => said("\nstate:   active\nbranch:  cofferdam/fix\n"),
            "diff" => said("\n+make the tests pass"),
            "merge" => {
                assert_eq!(lives.git(&["log", "-1", "--format=%s", "main"]), "fixed");
                is("active");
            }
            "pause" => {
                is("paused");
                typed(way_back(line));
                is("active");
            }
            "stop" => {
                is("stopped");
                typed(way_back(line));
                is("active");
            }
            "delete" => assert_eq!(lives.listed("fix"), None),
            other => panic!("nobody knows what `{other}` is to do: {line}"),
        }
    }
    let all = "create shell exec exec logs kill run claude status diff merge pause stop delete";
    assert_eq!(verbs.join(" "), all);
    lives.expect_clean();
}

/// What README shows first, but for ids of commits and times.
#[test]
fn its_opening_session_is_what_is_printed() {
    let readme = read("README.md");
    let (_, shown) = readme.split_once("<!-- session -->\n```text\n$ ").unwrap();
    let (shown, _) = shown.split_once("```\n<!-- /session -->").unwrap();
    let (line, shown) = shown.split_once('\n').unwrap();
    let lives = user();
    lives.write("TODO.md", "# Open\n\n- [ ] add.sh\n- [ ] sub.sh\n");
    let agent = r#"#!/bin/sh
case $(sed -n 's/^- \[ \] \([a-z]*\)\.sh$/\1/p' TODO.md | head -n 1) in
add) task=add sign=+ ;;
*) task=sub sign=- ;;
esac
echo "The next task is $task.sh."
printf '#!/bin/sh\necho $(($1 %s $2))\n' "$sign" > $task.sh
echo "It works: 6 $sign 3 = $(sh $task.sh 6 3)"
sed -i "s/\[ \] $task/[x] $task/" TODO.md
git add -A
git commit -qm "$task.sh: two numbers, one result"
[ $task = add ] || echo '<promise>COMPLETE</promise>'
"#;
    lives.write("my-agent.sh", agent);
    let commit = "chmod +x my-agent.sh; git add TODO.md my-agent.sh; git commit -qm tasks; cp -r . ~/project";
    lives.shell(commit).expect_code(0);
    let done = typed(&lives, &format!("cd ~/project; {line} 2>&1")).expect_code(0);
    let plain = |text: &str| {
        let mut seen: Vec<String> = Vec::new();
        let ids = Regex::new(r"\b[0-9a-f]{10}\b").unwrap();
        let text = ids.replace_all(text, |id: &regex::Captures<'_>| {
            let known = seen.iter().position(|one| one == &id[0]);
            let number = known.unwrap_or_else(|| {
                seen.push(id[0].to_owned());
                seen.len() - 1
            });
            format!("(commit {number})")
        });
        let times = Regex::new(r"\b[0-9.]+ m?s\b").unwrap();
        times.replace_all(&text, "(time)").into_owned()
    };
    let home = lives.home();
    let printed = done.stdout.replace(home.to_str().unwrap(), "/home/you");
    assert_eq!(plain(&printed), plain(shown));
    let next = done.stdout.lines().last().unwrap();
    let next = next.strip_prefix("next: ").unwrap();
    let log = typed(&lives, &format!("cd ~/project; {next}")).expect_code(0);
    assert!(log.stdout.contains("\n+++ b/sub.sh\n"), "{log}");
}

#[test]
fn runs_of_an_agent_as_readme_has_them() {
    let lives = user();
    lives.write(".cofferdam/prompts/fix.md", "Fix issue {{ISSUE}}.\n");
    lives.write(
        "my-agent.sh",
        "#!/bin/sh\ngit commit -q --allow-empty -m own\n",
    );
    let commit = "chmod +x my-agent.sh; git add my-agent.sh; git commit -qm agent";
    lives.shell(commit).expect_code(0);
    let here = "And once it is [installed](#install), in any repository of yours, with Claude Code, Codex, or any program that changes files and commits:";
    let lines = block(here);
    for (line, subject) in lines.iter().zip(["fixed", "own"]) {
        typed(&lives, line).expect_code(0);
        assert_eq!(lives.git(&["log", "-1", "--format=%s"]), subject, "{line}");
    }
    assert_eq!(lines.len(), 2);
    assert!(lives.read("prompt.txt").starts_with("make the tests pass"));

    lives.git(&["reset", "-q", "--hard", "HEAD~2"]);
    let lines = block("## Run an agent");
    assert_eq!(lines.len(), 1);
    let done = typed(&lives, &lines[0]).expect_code(0);
    // Three more were allowed.
    assert!(done.stderr.contains("iteration 2 of 5\n"), "{done}");
    assert!(done.stdout.contains("2 iterations, "), "{done}");
    assert!(
        done.stdout.contains(", the agent signalled completion\n"),
        "{done}"
    );
    assert_eq!(lives.read("prompt.txt").matches("Fix issue 17.").count(), 2);
    lives.expect_clean();
}

/// What README has between backticks, on one line.
fn said() -> Vec<String> {
    let readme = read("README.md");
    // Without its blocks.
    let text: Vec<&str> = readme.split("\n```").step_by(2).collect();
    let text = text.join("\n");
    spans(&text)
        .iter()
        .map(|span| span.replace('\n', " "))
        .collect()
}

#[test]
fn prompts_as_readme_has_them() {
    let lives = user();
    let said = said();
    let span = |start: &str| said.iter().find(|span| span.starts_with(start)).unwrap();
    lives.write("README.md", "other words\n");
    typed(&lives, span("git diff | cofferdam run ")).expect_code(0);
    assert!(lives.read("prompt.txt").contains("\n+other words\n"));
    typed(&lives, span("make test 2>&1 | cofferdam run ")).expect_code(0);
    let prompt = lives.read("prompt.txt");
    let (_, behind) = prompt.split_once("fix this\n").unwrap();
    assert!(behind.contains("making test\nmade test\n"), "{prompt}");
    lives.write("FILE", "On {{TARGET_BRANCH}}.\n");
    let done = typed(&lives, span("cofferdam prompt check FILE")).expect_code(0);
    assert!(done.stdout.contains("On main.\n"), "{done}");
    assert_eq!(lives.read("README.md"), "other words\n");
}

#[test]
fn completions_and_pages_as_readme_has_them() {
    let lives = user();
    let said = said();
    let span = |start: &str| said.iter().find(|span| span.starts_with(start)).unwrap();
    let line = span("cofferdam completions ");
    let (command, shells) = line.rsplit_once(' ').unwrap();
    let shells: Vec<&str> = shells.split('|').collect();
    assert_eq!(shells, ["bash", "zsh", "fish"]);
    for shell in shells {
        let done = typed(&lives, &format!("{command} {shell}")).expect_code(0);
        assert!(done.stdout.contains("cofferdam"), "{done}");
    }
    typed(&lives, span("cofferdam man ")).expect_code(0);
    assert!(
        lives
            .home()
            .join(".local/share/man/man1/cofferdam-run.1")
            .is_file()
    );
}

#[test]
fn files_and_settings_as_readme_has_them() {
    let lives = user();
    lives.puts(".gitconfig", "[user]\n\tname = Somebody\n");
    let lines = block("### Your files and settings");
    let done: Vec<Done> = lines
        .iter()
        .map(|line| typed(&lives, line).expect_code(0))
        .collect();
    assert_eq!(done.len(), 3);
    assert!(done[2].stdout.contains("firewall"), "{}", done[2]);
    let inside = typed(
        &lives,
        "cofferdam run --network none -- git config --global user.name",
    )
    .expect_code(0);
    assert!(inside.stderr.contains("  | Somebody\n"), "{inside}");
}

#[test]
fn the_network_as_readme_has_it() {
    let lives = user();
    typed(&lives, "cofferdam run -q -- true").expect_code(0);
    let lines = block("### Network");
    let mut verbs = Vec::new();
    for line in &lines {
        let verb = line.split("  ").next().unwrap();
        verbs.push(verb);
        // What was opened is closed again by then.
        let code = i32::from(verb.starts_with("cofferdam net test "));
        let done = typed(&lives, line).expect_code(code);
        let rules = typed(&lives, "cofferdam net rules").expect_code(0);
        let opened = rules.stdout.contains("files.example.com");
        assert_eq!(
            opened,
            verb.starts_with("cofferdam allow "),
            "{line}: {done}"
        );
    }
    assert_eq!(verbs.len(), 5, "{verbs:?}");
}

/// What an agent left, in the ways that README has for it, each by itself.
#[test]
fn uncommitted_work_as_readme_has_it() {
    let readme = read("README.md");
    let (_, text) = readme.split_once("\n```sh\n").unwrap();
    let lines: Vec<&str> = text.split_once("\n```\n").unwrap().0.lines().collect();
    let script = "echo a > committed; git add .; git commit -qm work; echo b > left";
    let mut verbs = Vec::new();
    for line in &lines {
        let verb = line.split(' ').nth(1).unwrap();
        verbs.push(verb);
        let lives = user();
        let run =
            format!("cofferdam run -q --branch own --name NAME --network none -- sh -c '{script}'");
        typed(&lives, &run).expect_code(0);
        let done = typed(&lives, line).expect_code(0);
        match verb {
            "diff" => assert!(done.stdout.contains("\n+++ b/left\n"), "{done}"),
            "apply" => {
                let staged = || lives.git(&["diff", "--cached", "--name-only"]);
                assert_eq!(staged(), "committed\nleft");
                assert!(line.contains("`--undo`"), "{line}");
                typed(&lives, "cofferdam apply --undo NAME").expect_code(0);
                assert_eq!(staged(), "");
            }
            "worktree" => {
                let path = std::path::Path::new(done.stdout.trim_end());
                assert_eq!(std::fs::read_to_string(path.join("left")).unwrap(), "b\n");
            }
            "start" => {
                let inside = typed(&lives, "cofferdam exec NAME -- cat left").expect_code(0);
                assert_eq!(inside.stdout, "b\n");
            }
            other => panic!("nobody knows what `{other}` is to do: {line}"),
        }
    }
    assert_eq!(verbs, ["diff", "apply", "worktree", "start"]);
}

/// Whatever command README names anywhere is there, with its options.
#[test]
fn each_command_in_readme_is_there() {
    let readme = read("README.md");
    let blocks = readme.split("\n```").skip(1).step_by(2);
    let typed =
        blocks.flat_map(|block| block.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
    let typed = typed.map(|line| line.trim_start_matches("$ ").to_owned());
    let mut root = cofferdam_cli::command();
    root.build();
    let mut looked = 0;
    for line in typed.chain(said()) {
        let line = line.split(" # ").next().unwrap().trim();
        let parts = line
            .split(" | ")
            // In `Cargo.toml` it is no command.
            .filter(|part| part.starts_with("cofferdam ") && !part.starts_with("cofferdam = "));
        for part in parts {
            looked += 1;
            let own = part.split(" -- ").next().unwrap();
            let found = command(&root, own).unwrap();
            for flag in own.split(' ').filter(|word| word.starts_with("--")) {
                assert!(
                    has(found, flag),
                    "{part}: no {flag} of {}",
                    found.get_name()
                );
            }
        }
    }
    assert!(looked > 70, "{looked}");
    // What is typed in a clone.
    for (line, path) in [
        ("$ scripts/test ", "scripts/test"),
        (
            "$ cargo install --path crates/cofferdam-cli ",
            "crates/cofferdam-cli/Cargo.toml",
        ),
    ] {
        assert!(readme.contains(line) && !read(path).is_empty(), "{line}");
    }
}
