//! `init` with a template: its commands do what they say.

use std::os::unix::fs::symlink;
use std::path::Path;

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::containers::{IMAGE, World, own, worlds};
use crate::environment::{Done, TestEnvironment};
use crate::fake_engine::with_engine;
use crate::images::BASE;

pub(crate) const TEMPLATES: [&str; 5] = [
    "blank",
    "simple-loop",
    "sequential-reviewer",
    "parallel-planner",
    "parallel-planner-with-review",
];
/// It does what a prompt of a template asks for; the backlog is a directory with a file for each open item. It fails at the first try of
/// item 3, when all of it is committed, and then finds nothing to do.
const AGENT: &str = r#"
prompt=$(cat)
work() {
    if [ -e "done-$1.txt" ]; then return; fi
    echo "$1" > "done-$1.txt"
    git rm -q "backlog/$1"; git add .; git commit -qm "item $1"
    [ "$1" != 3 ] || exit 1
}
case $prompt in
    'Plan the next work'*)
        waiting=$(printf '%s\n' "$prompt" | sed -n 's/^These branches.*: //p')
        review=
        case $prompt in *'"review"'*) review=', "review": {"prompt_file": "review.md"}' ;; esac
        tasks=
        for item in $(ls backlog 2>/dev/null); do
            case "$(printf '%s\n' "$prompt")" in *"cofferdam/task-$item"*) continue ;; esac
            tasks="$tasks${tasks:+, }{\"name\": \"task-$item\", \"prompt_file\": \"work.md\", \"args\": {\"ID\": \"$item\", \"TITLE\": \"\"}$review}"
        done
        echo "<plan>{\"tasks\": [$tasks]}</plan>" ;;
    'Work on item '*) work "$(printf '%s\n' "$prompt" | sed -n '1s/^Work on item \([0-9]*\) .*/\1/p')" ;;
    'Work on one open item'*)
        item=$(printf '%s\n' "$prompt" | sed '/^Look at/q' | grep -m 1 '^[0-9]') || { echo '<promise>COMPLETE</promise>'; exit 0; }
        work "$item" ;;
    'Review the work'*)
        name=$(printf '%s\n' "$prompt" | sed -n '1s:.*cofferdam/\([a-z0-9-]*\).*:\1:p')
        echo yes > "reviewed-$name-$(git rev-list --count HEAD)"; git add .; git commit -qm "review of $name" ;;
    'Mine'*) touch made; git add .; git commit -qm made ;;
    *) echo "what is this: $prompt"; exit 9 ;;
esac
"#;

/// It does what a prompt says, by the words that stand in it, whatever program the backlog has.
const READER: &str = r#"
prompt=$(cat)
said() { printf '%s\n' "$prompt"; }
# The command that stands behind these words.
after() { said | sed -n "s/.*$1 \`\([^\`]*\)\`.*/\1/p" | head -n 1; }
with_id() { eval "$(printf '%s\n' "$1" | sed "s/\bID\b/$2/")"; }
items() { said | grep -oE '"(number|id)": ?("[^"]*"|[0-9]+)' | sed 's/.*: *//; s/"//g'; }
work() {
    view=$(after 'Look at an item with')
    if [ -n "$view" ]; then seen=$(with_id "$view" "$1"); else seen=$prompt; fi
    case $seen in *"body of $1"*) ;; *) echo "what is item $1? $seen"; exit 8 ;; esac
    echo "$1" > "done-$1.txt"; git add "done-$1.txt"; git commit -qm "item $1"
    close=$(after 'Then close [a-z ]*with')
    if [ -n "$close" ]; then
        with_id "$close" "$1" || exit 7
    else
        said | grep -q 'Leave the item open' || exit 6
    fi
    case $prompt in *'commit what that changes in `.beads`'*) git commit -qm "$1 is closed" -- .beads ;; esac
}
case $prompt in
    'Plan the next work'*)
        review=
        case $prompt in *'"review"'*) review=', "review": {"prompt_file": "review.md"}' ;; esac
        tasks=
        for item in $(items); do
            case $prompt in *"cofferdam/task-$item"*) continue ;; esac
            tasks="$tasks${tasks:+, }{\"name\": \"task-$item\", \"prompt_file\": \"work.md\", \"args\": {\"ID\": \"$item\", \"TITLE\": \"x\"}$review}"
        done
        echo "<plan>{\"tasks\": [$tasks]}</plan>" ;;
    'Work on item '*) work "$(said | sed -n '1s/^Work on item \([^ ]*\) .*/\1/p')" ;;
    'Work on one open item'*)
        item=$(items | head -n 1)
        if [ -n "$item" ]; then work "$item"; else echo '<promise>COMPLETE</promise>'; fi ;;
    'Review the work'*) ;;
    *) echo "what is this: $prompt"; exit 9 ;;
esac
"#;
/// As the real one answers where nobody has a terminal; its issues are files of two lines.
const GH: &str = r#"#!/bin/sh
[ "$GH_TOKEN" = token ] || { echo 'gh: To use GitHub CLI in automation, set the GH_TOKEN environment variable.' >&2; exit 4; }
[ "$GH_REPO" = acme/tool ] || { echo 'none of the git remotes configured for this repository point to a known GitHub host' >&2; exit 1; }
command="$1 $2"
shift 2
case $command in
    'issue list')
        [ "$*" = '--state open --limit 100 --json number,title,labels' ] || { echo "unknown: $*" >&2; exit 1; }
        found=
        for issue in $(ls /mnt/issues/open | sort -rn); do
            found="$found${found:+,}{\"labels\":[],\"number\":$issue,\"title\":\"$(sed -n 1p "/mnt/issues/open/$issue")\"}"
        done
        echo "[$found]" ;;
    'issue view')
        issue=/mnt/issues/open/$1
        shift
        [ "$*" = '--json title,body,labels,comments' ] || { echo "unknown: $*" >&2; exit 1; }
        [ -e "$issue" ] || { echo 'GraphQL: Could not resolve to an issue' >&2; exit 1; }
        echo "{\"body\":\"$(sed -n 2p "$issue")\",\"comments\":[],\"labels\":[],\"title\":\"$(sed -n 1p "$issue")\"}" ;;
    'issue close')
        [ "$2" = --comment ] && [ -n "$3" ] || exit 1
        mv "/mnt/issues/open/$1" "/mnt/issues/closed/$1"
        echo "closed issue acme/tool#$1" >&2 ;;
    *) echo "unknown command: $command" >&2; exit 1 ;;
esac
"#;
/// The same of Beads, whose items are lines of a file in the repository.
const BD: &str = r#"#!/bin/sh
items=.beads/issues.jsonl
[ -e $items ] || { echo 'Error: no beads database found' >&2; exit 1; }
command=$1
shift
case $command in
    ready)
        [ "$*" = --json ] || { echo "unknown: $*" >&2; exit 1; }
        echo '['
        grep '"status":"open"' $items | sed '$!s/$/,/'
        echo ']' ;;
    show) sed -n "s/.*\"id\":\"$1\",\"title\":\"\([^\"]*\)\",\"description\":\"\([^\"]*\)\".*/$1: \1\n\nDescription:\n\2/p" $items ;;
    close)
        [ "$2" = --reason ] && [ -n "$3" ] || exit 1
        sed -i "/\"id\":\"$1\"/s/\"status\":\"open\"/\"status\":\"closed\"/" $items ;;
    *) echo "unknown command: $command" >&2; exit 1 ;;
esac
"#;

/// A user with `cofferdam` on their `PATH`, an agent and a backlog of these items.
pub(crate) fn world(items: &[&str]) -> TestEnvironment {
    world_of(AGENT, items)
}

fn world_of(agent: &str, items: &[&str]) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let bin = environment.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_cofferdam"), bin.join("cofferdam")).unwrap();
    environment.write("agent.sh", agent);
    for item in items {
        environment.write(&format!("backlog/{item}"), "to do\n");
    }
    environment.git(&["add", "."]);
    environment.git(&["commit", "-qm", "backlog"]);
    environment
}

pub(crate) fn typed(environment: &TestEnvironment, line: &str) -> Done {
    environment.shell(&format!("PATH=~/bin:$PATH; {line}"))
}

pub(crate) fn init(
    environment: &TestEnvironment,
    template: &str,
    backlog: &str,
    agent: &str,
) -> Done {
    let mut words = vec!["init", ".", "--template", template, "--agent", agent];
    words.extend(["--sandbox", "native", "--backlog", backlog]);
    environment.cofferdam(&words).expect_code(0)
}

/// What it said comes next.
pub(crate) fn next(done: &Done) -> Vec<String> {
    let (_, after) = done.stderr.split_once("next:\n").unwrap();
    let lines = after.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Types what comes next, and fills in what is the user's. The last command's end is returned.
fn follow(environment: &TestEnvironment, template: &str, agent: &str) -> (String, Done) {
    let done = init(environment, template, "custom", agent);
    let mut last = None;
    for line in next(&done) {
        let line = line.replace("PROGRAM", "sh ./agent.sh");
        let line = format!("export EDITOR='cp mine'; {line}");
        let done = typed(environment, &line);
        if line.contains("grep -rn") {
            let directory = format!(".cofferdam/prompts/{template}");
            if template != "blank" {
                assert!(done.stdout.contains(&directory), "{done}");
            }
            typed(
                environment,
                &format!(
                    "for file in {directory}/*.md; do sed -i -e 's/!`echo .FILL-IN: a command that lists[^`]*`/!`ls backlog 2>\\/dev\\/null || true`/' \
                     -e 's/!`echo .FILL-IN: a command that shows[^`]*`/!`cat backlog\\/{{{{ID}}}} || true`/' -e 's/`FILL-IN[^`]*`/`git rm`/' $file; done; \
                     ! grep -rn FILL-IN {directory}"
                ),
            )
            .expect_code(0);
        }
        last = Some((line, done));
    }
    last.unwrap()
}

/// The same where a program that the user has below their home is the backlog's. `options` are for each command that makes a sandbox.
fn follow_with(
    environment: &TestEnvironment,
    template: &str,
    backlog: &str,
    options: &str,
) -> Done {
    let done = init(environment, template, backlog, "command");
    let typed = |line: &str| {
        let before = "export GH_TOKEN=token; PATH=~/.local/bin:$PATH";
        typed(environment, &format!("{before}; {line}"))
    };
    let mut last = None;
    for line in next(&done) {
        if line.starts_with("cofferdam approve") {
            let asked = typed(&line).expect_code(1);
            assert!(asked.stdout.contains("GH_TOKEN"), "{asked}");
            let (_, digest) = asked.stderr.split_once("--trust ").unwrap();
            let digest = digest.split('`').next().unwrap();
            typed(&format!("cofferdam approve --trust {digest}")).expect_code(0);
            continue;
        }
        let line = if line.starts_with("cofferdam prompt check") {
            format!("{line} {options}")
        } else {
            line.replace("-- PROGRAM", &format!("{options} -- sh ./agent.sh"))
        };
        last = Some(typed(&line).expect_code(0));
    }
    last.unwrap()
}

/// A program in a directory of their home that sandboxes show.
fn has(environment: &TestEnvironment, program: &str, text: &str) {
    let bin = environment.home().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    cofferdam::fsx::write_with_mode(&bin.join(program), text.as_bytes(), 0o755).unwrap();
}

fn files(environment: &TestEnvironment, pattern: &str) -> String {
    typed(environment, &format!("echo {pattern}"))
        .stdout
        .trim()
        .to_owned()
}

// covers: S2-34
#[test]
fn the_blank_one_does_what_its_user_writes() {
    let environment = world(&[]);
    environment.write("mine", "Mine: {{SOURCE_BRANCH}}\n");
    let (_, done) = follow(&environment, "blank", "command");
    assert!(done.expect_code(0).stdout.starts_with("landed: 1 commit"));
    environment.git(&["show", "HEAD:made"]);
}

// covers: S2-34, S2-35
#[test]
fn a_loop_works_until_nothing_is_left() {
    let environment = world(&["1", "2", "4"]);
    let (line, done) = follow(&environment, "simple-loop", "command");
    done.expect_code(0);
    assert!(
        line.contains("cofferdam merge loop && cofferdam gc"),
        "{line}"
    );
    assert_eq!(
        files(&environment, "done-*"),
        "done-1.txt done-2.txt done-4.txt"
    );
    assert!(!environment.repository().join("backlog").exists());
    environment.expect_clean();
    // The same another time, with a new item.
    environment.write("backlog/5", "more\n");
    environment.git(&["add", "."]);
    environment.git(&["commit", "-qm", "more"]);
    let again = init(&environment, "simple-loop", "custom", "command");
    let lines = next(&again);
    assert!(
        !lines.iter().any(|line| line.contains("git add")),
        "{again}"
    );
    for line in &lines[1..] {
        typed(&environment, &line.replace("PROGRAM", "sh ./agent.sh")).expect_code(0);
    }
    assert!(environment.repository().join("done-5.txt").exists());
}

#[test]
fn items_one_after_the_other_are_reviewed_and_merged() {
    let environment = world(&["1", "2", "3"]);
    let (line, done) = follow(&environment, "sequential-reviewer", "command");
    // Item 3 fails at its first try, and what was committed of it waits.
    done.expect_code(1);
    assert_eq!(files(&environment, "done-*"), "done-1.txt done-2.txt");
    let done = typed(&environment, &line).expect_code(0);
    assert!(done.stdout.ends_with("nothing is left to do\n"), "{done}");
    assert_eq!(
        files(&environment, "done-*"),
        "done-1.txt done-2.txt done-3.txt"
    );
    let reviews = environment.git(&["log", "--format=%s", "--grep=^review of item"]);
    assert_eq!(reviews.lines().count(), 3, "{reviews}");
    environment.expect_clean();
}

/// `gh` is found where the prompts' expressions run, has what was approved, and says of an issue what it is about.
#[test]
fn issues_of_github_are_worked_on_and_closed() {
    for template in [
        "simple-loop",
        "sequential-reviewer",
        "parallel-planner-with-review",
    ] {
        let environment = world_of(READER, &[]);
        environment.git(&["remote", "add", "origin", "git@github.com:acme/tool.git"]);
        has(&environment, "gh", GH);
        let issues = environment.temporary().join("issues");
        let (open, closed) = (issues.join("open"), issues.join("closed"));
        for place in [&open, &closed] {
            cofferdam::fsx::private_dir(place).unwrap();
        }
        for number in [3, 12] {
            let text = format!("Title {number}\nThe body of {number}.\n");
            let place = open.join(number.to_string());
            cofferdam::fsx::write_private(&place, text.as_bytes()).unwrap();
        }
        let mount = format!("--mount {}:/mnt/issues:rw", issues.display());
        let done = follow_with(&environment, template, "github", &mount);
        let found = files(&environment, "done-*");
        assert_eq!(found, "done-12.txt done-3.txt", "{template}: {done}");
        let count = |place: &Path| place.read_dir().unwrap().count();
        assert_eq!((count(&open), count(&closed)), (0, 2), "{template}: {done}");
        environment.expect_clean();
    }
}

/// Two open items of Beads, in lines side by side.
fn world_of_beads() -> TestEnvironment {
    let environment = world_of(READER, &[]);
    has(&environment, "bd", BD);
    let items = ["bd-1", "bd-2"].map(|id| {
        format!(
            r#"{{"id":"{id}","title":"Title {id}","description":"The body of {id}.","status":"open","priority":2}}"#
        )
    });
    environment.write(".beads/issues.jsonl", &format!("{}\n", items.join("\n")));
    environment.git(&["add", ".beads"]);
    environment.git(&["commit", "-qm", "items"]);
    environment
}

/// What `bd close` changes is in the repository, so that only a commit brings it home. Two branches that did it side by side could not both
/// be merged.
#[test]
fn items_of_beads_are_closed_with_their_work() {
    for template in TEMPLATES.into_iter().filter(|name| *name != "blank") {
        let environment = world_of_beads();
        let done = follow_with(&environment, template, "beads", "");
        let found = files(&environment, "done-*");
        assert_eq!(found, "done-bd-1.txt done-bd-2.txt", "{template}: {done}");
        let left = environment.read(".beads/issues.jsonl");
        let count = left.matches(r#""status":"closed""#).count();
        assert_eq!(count, 2, "{template}: {left}");
        assert_eq!(environment.git(&["status", "--porcelain"]), "");
        assert_eq!(
            environment.git(&["branch", "--list", "cofferdam/task-*"]),
            ""
        );
        environment.expect_clean();
    }
}

/// Killed after its merges and before any item was closed. Options of an agent are none of what closes it.
#[test]
fn a_planner_that_died_closes_what_is_merged() {
    let environment = world_of_beads();
    init(&environment, "parallel-planner", "beads", "command");
    typed(&environment, "git add .cofferdam && git commit -qm prompts").expect_code(0);
    environment.write(
        "../home/dying/cofferdam",
        "#!/bin/sh\ncase \"$*\" in *--merge-to-head*) kill -9 $PPID; exit 9 ;; esac\nexec ~/bin/cofferdam \"$@\"\n",
    );
    typed(&environment, "chmod +x ~/dying/cofferdam").expect_code(0);
    let line = "sh .cofferdam/prompts/parallel-planner/run.sh --agent command -- sh ./agent.sh";
    let tools = "PATH=~/.local/bin:$PATH";
    let died = environment.shell(&format!("{tools}; PATH=~/dying:$PATH; {line}; true"));
    let merged = environment.git(&["ls-files", "done-*"]);
    assert_eq!(merged, "done-bd-1.txt\ndone-bd-2.txt", "{died}");
    let closed = |environment: &TestEnvironment| {
        let items = environment.read(".beads/issues.jsonl");
        items.matches(r#""status":"closed""#).count()
    };
    assert_eq!(closed(&environment), 0, "{died}");
    let done = typed(&environment, &format!("{tools}; {line}")).expect_code(0);
    assert_eq!(closed(&environment), 2, "{done}");
    for id in ["bd-1", "bd-2"] {
        let grep = format!("--grep=^item {id}$");
        let commits = environment.git(&["log", "--format=%s", &grep]);
        assert_eq!(commits, format!("item {id}"));
    }
    environment.expect_clean();
}

/// The first time one merge is in the way of a file of the user's, and one task fails. Neither is lost, nor done twice.
#[test]
fn what_is_finished_is_merged_also_when_it_was_missed() {
    for template in ["parallel-planner", "parallel-planner-with-review"] {
        let environment = world(&["1", "2", "3"]);
        environment.write("done-1.txt", "the user's own\n");
        let (line, done) = follow(&environment, template, "command");
        let done = done.expect_code(1);
        assert!(done.stderr.contains("not all tasks ended well"), "{done}");
        assert!(
            done.stderr.contains("cofferdam/task-1 is not merged yet"),
            "{done}"
        );
        assert_eq!(environment.read("done-1.txt"), "the user's own\n");
        let merged = environment.git(&["ls-files", "done-*"]);
        assert_eq!(merged, "done-2.txt");
        // Of the plan only what failed is done again; the file is still in the way.
        let done = typed(&environment, &line).expect_code(1);
        assert!(done.stdout.contains("done before"), "{done}");
        assert!(done.stderr.contains("nothing is left to plan"), "{done}");
        assert_eq!(
            environment.git(&["ls-files", "done-*"]),
            "done-2.txt\ndone-3.txt"
        );
        // No plan knows of it any more. Git does.
        let logs = environment.repository().join(".cofferdam/logs");
        assert!(!logs.join(format!("{template}.json")).exists());
        std::fs::remove_file(environment.repository().join("done-1.txt")).unwrap();
        let done = typed(&environment, &line).expect_code(0);
        assert!(done.stderr.contains("nothing is left to do"), "{done}");
        assert_eq!(
            files(&environment, "done-*"),
            "done-1.txt done-2.txt done-3.txt"
        );
        for item in ["item 1", "item 2", "item 3"] {
            let grep = format!("--grep=^{item}$");
            assert_eq!(environment.git(&["log", "--format=%s", &grep]), item);
        }
        let reviews = environment.git(&["log", "--format=%s", "--grep=^review of task"]);
        let count = if template == "parallel-planner" { 0 } else { 3 };
        assert_eq!(reviews.lines().count(), count, "{reviews}");
        assert_eq!(environment.git(&["branch", "--list", "cofferdam/*"]), "");
        environment.expect_clean();
    }
}

/// Killed after its tasks ended and before anything was merged.
#[test]
fn a_planner_that_died_goes_on_with_what_is_finished() {
    let environment = world(&["1", "2"]);
    init(&environment, "parallel-planner", "custom", "command");
    // Who dies at the first merge.
    environment.write(
        "../home/dying/cofferdam",
        "#!/bin/sh\nif [ $1 = merge ]; then kill -9 $PPID; exit 9; fi\nexec ~/bin/cofferdam \"$@\"\n",
    );
    typed(&environment, "chmod +x ~/dying/cofferdam").expect_code(0);
    let line = "sh .cofferdam/prompts/parallel-planner/run.sh -- sh ./agent.sh";
    let (_, fill) = (
        "",
        "sed -i -e 's/!`echo .FILL-IN: a command that lists[^`]*`/!`ls backlog || true`/' -e 's/!`echo .FILL-IN[^`]*`//' .cofferdam/prompts/parallel-planner/*.md; git add .cofferdam; git commit -qm p",
    );
    typed(&environment, fill).expect_code(0);
    let died = environment.shell(&format!("PATH=~/dying:$PATH; {line}; true"));
    assert_eq!(environment.git(&["ls-files", "done-*"]), "", "{died}");
    assert_eq!(
        environment
            .git(&["branch", "--list", "cofferdam/task-*"])
            .lines()
            .count(),
        2
    );
    // Somebody has thrown the plan away meanwhile.
    std::fs::remove_file(
        environment
            .repository()
            .join(".cofferdam/logs/parallel-planner.json"),
    )
    .unwrap();
    typed(&environment, line).expect_code(0);
    assert_eq!(
        environment.git(&["ls-files", "done-*"]),
        "done-1.txt\ndone-2.txt"
    );
    environment.expect_clean();
}

/// A `cofferdam` that does this and nothing else, before the other one on a `PATH`, and a line's end with it.
fn with_instead(environment: &TestEnvironment, script: &str, line: &str) -> Done {
    environment.write(
        "../home/instead/cofferdam",
        &format!("#!/bin/sh\n{script}\n"),
    );
    typed(environment, "chmod +x ~/instead/cofferdam").expect_code(0);
    environment.shell(&format!("PATH=~/instead:$PATH; {line}"))
}

/// Who has more than ten items is told that there may be more.
#[test]
fn ten_items_are_all_that_one_command_does() {
    let environment = world(&[]);
    init(&environment, "sequential-reviewer", "custom", "command");
    let script = "case $1 in
        run) [ \"$(git rev-list --count HEAD)\" = \"$LAST\" ] ||
            git update-ref refs/heads/cofferdam/item \"$(git commit-tree -p HEAD -m item 'HEAD^{tree}')\" ;;
        merge) git merge -q --ff-only cofferdam/item ;;
    esac";
    let before = environment.git(&["rev-list", "--count", "HEAD"]);
    let before: usize = before.parse().unwrap();
    let line = |last: usize| {
        format!("export LAST={last}; sh .cofferdam/prompts/sequential-reviewer/run.sh")
    };
    let done = with_instead(&environment, script, &line(before + 12)).expect_code(0);
    let says = "ten items are done: the same command goes on with more\n";
    assert_eq!(done.stdout, says, "{done}");
    let count = || environment.git(&["rev-list", "--count", "HEAD"]);
    assert_eq!(count(), (before + 10).to_string());
    let done = with_instead(&environment, script, &line(before + 12)).expect_code(0);
    assert_eq!(done.stdout, "nothing is left to do\n", "{done}");
    assert_eq!(count(), (before + 12).to_string());
}

/// So many tasks at once are nothing that a planner knows, and an agent's own arguments are its own.
#[test]
fn jobs_are_of_a_plans_tasks() {
    let environment = world(&[]);
    init(&environment, "parallel-planner", "custom", "command");
    let script = "echo \"$*\" >> ~/said
    last=
    for word; do [ \"$last\" != --output-file ] || echo '{\"tasks\": [{\"name\": \"task-1\"}]}' > \"$word\"; last=$word; done";
    for (options, jobs, rest) in [
        ("", "3", ""),
        (" --jobs 5", "5", ""),
        (" --jobs=5 --max-cost 2", "5", " --max-cost 2"),
        (" --max-cost 2 --jobs 5", "5", " --max-cost 2"),
        (" -- sh -c 'a b' --jobs 5", "3", " -- sh -c a b --jobs 5"),
    ] {
        let line = format!("rm -f ~/said; sh .cofferdam/prompts/parallel-planner/run.sh{options}");
        // Nothing was merged, as nothing was done.
        with_instead(&environment, script, &line).expect_code(1);
        let said = typed(&environment, "grep '^run ' ~/said")
            .expect_code(0)
            .stdout;
        let lines: Vec<&str> = said.lines().collect();
        let [plans, works] = lines[..] else {
            panic!("{options}: {said}");
        };
        let (_, own) = plans.split_once("parallel-planner.json").unwrap();
        assert_eq!(own, rest, "{options}");
        let begins = format!("run --plan - --jobs {jobs} --again ");
        assert!(
            works.starts_with(&begins) && works.ends_with(rest),
            "{options}: {works}"
        );
        assert_eq!(
            works.matches("--jobs").count(),
            plans.matches("--jobs").count() + 1
        );
    }
}

/// Where nothing was built before, and no engine says otherwise.
#[test]
fn a_container_needs_the_base_and_then_its_image() {
    let environment = world(&[]);
    let nowhere = environment.temporary().join("no-engine");
    let steps = |backlog: &str| {
        let mut words = vec!["init", ".", "--template", "simple-loop"];
        words.extend([
            "--agent",
            "codex",
            "--sandbox",
            "docker",
            "--backlog",
            backlog,
        ]);
        let done = with_engine(&environment, "docker", &nowhere, &words).expect_code(0);
        let lines = next(&done).into_iter();
        let builds = lines.filter(|line| line.contains("build"));
        builds.collect::<Vec<_>>()
    };
    let base =
        "cofferdam build-base --sandbox docker   # once, for all repositories; it takes minutes";
    for backlog in ["github", "beads"] {
        let image = format!(
            "cofferdam init . --build --template simple-loop --agent codex --sandbox docker --backlog {backlog}"
        );
        assert_eq!(steps(backlog), [base.to_owned(), image]);
    }
    // Its Dockerfile is another one by then.
    let image = "cofferdam build --sandbox docker   # it shows the Dockerfile, and the command that builds just that";
    assert_eq!(steps("custom"), [base, image]);
    // Without a container nothing is built.
    let done = init(&environment, "simple-loop", "github", "codex");
    let lines = next(&done);
    assert!(!lines.iter().any(|line| line.contains("build")), "{done}");
}

/// What is printed, typed, on an image that is called the base.
#[test]
fn the_steps_to_a_container_end_with_merged_work() {
    let _turn = Turn::of_image(BASE).unwrap();
    if !worlds().iter().any(|world| world.engine == "docker") {
        return;
    }
    if own("docker", &["image", "inspect", BASE]).is_ok() {
        skip!("docker: the machine has {BASE}");
        return;
    }
    let mut environment = world(&[]);
    environment.knows_engines();
    let engine = "docker";
    let world = World {
        environment,
        engine,
    };
    let environment = &world.environment;
    environment.write("mine", "Mine: {{SOURCE_BRANCH}}\n");
    own(engine, &["tag", IMAGE, BASE]).unwrap();
    let words = ["init", ".", "--template", "blank", "--agent", "command"];
    let words = [&words[..], &["--sandbox", engine]].concat();
    let done = environment.cofferdam(&words).expect_code(0);
    let lines = next(&done);
    let builds = |line: &&String| line.contains("build");
    assert_eq!(lines.iter().filter(builds).count(), 1, "{done}");
    for line in &lines {
        let line = line.replace("PROGRAM", "sh ./agent.sh");
        let line = format!("export EDITOR='cp mine'; {line}");
        let done = typed(environment, &line).expect_code(0);
        if line.contains(" --build ") {
            assert!(done.stdout.starts_with("built: cofferdam-"), "{done}");
            // It does not send its user in a circle.
            let again = next(&done);
            assert_eq!(again.iter().filter(builds).count(), 0, "{done}");
        }
    }
    environment.git(&["show", "HEAD:made"]);
    environment.cofferdam(&["gc"]).expect_code(0);
    let removed = environment.cofferdam(&[engine, "remove-image"]);
    assert!(removed.expect_code(0).stderr.contains("removed"));
    own(engine, &["rmi", BASE]).unwrap();
    world.expect_clean();
}
