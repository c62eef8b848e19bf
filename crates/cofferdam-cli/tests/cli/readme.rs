//! What README shows of a sandbox that stays, done word for word.

use std::os::unix::fs::symlink;

use cofferdam::fsx;
use cofferdam::session::manage::GcOptions;

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
    let lines = |block: &str| block.lines().map(|line| typed(line).unwrap()).collect();
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

/// A user with these programs in `~/.local/bin`, and `cofferdam` among them.
fn user() -> Lives {
    let lives = Lives::new();
    let bin = lives.home().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_cofferdam"), bin.join("cofferdam")).unwrap();
    let make = "#!/bin/sh\necho \"making $1\"\n[ $1 != watch ] || until [ -e ~/enough ]; do sleep 0.05; done\necho \"made $1\"\n";
    let claude = "#!/bin/sh\ncat > prompt.txt\necho \"$@\" >> prompt.txt\ngit add prompt.txt\ngit commit -qm fixed\n";
    for (name, script) in [("make", make), ("claude", claude)] {
        fsx::write_with_mode(&bin.join(name), script.as_bytes(), 0o755).unwrap();
    }
    lives.write(".cofferdam/.env", "ANTHROPIC_API_KEY=secret\n");
    lives
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
    let typed = |line: &str| {
        lives
            .shell(&format!("PATH=~/.local/bin:$PATH; {line}"))
            .expect_code(0)
    };
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
                assert!(id.starts_with("1.") && !id.contains('\n'), "{done}");
            }
            "exec" => assert_eq!(done.stdout, "making test\nmade test\n"),
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
    let all = "create shell exec exec logs run claude status diff merge pause stop delete";
    assert_eq!(verbs.join(" "), all);
    lives.expect_clean();
}
