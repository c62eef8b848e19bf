//! What a run did, where things are, and the exact next command.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cofferdam::git::Oid;
use cofferdam::git::refs::EXTRA_STASH;
use cofferdam::names::Slug;
use cofferdam::run_id::RunId;
use cofferdam::session::manage::{Recovered, Stays};
use cofferdam::session::{CommitLine, Iteration, Kept, Landing, RunReport};
use cofferdam::text::printable_line;

use super::again::{Again, after_merge};
use super::from_here::from_here;
use super::human;
use super::opening;
use super::shell::shell_word;
use super::style::{self, paint};
use super::table::fit;

/// So many commits are listed, the newest ones.
const LISTED: usize = 20;
/// So many files are named.
const NAMED: usize = 10;

/// Shows everything that came: neither attributes nor a merge that landed with the rest hide content.
const REVIEW: &str = "git log -p -a --diff-merges=first-parent --no-ext-diff --no-textconv";

/// The summary of a run that succeeded.
pub(crate) fn render(report: &RunReport, colour: bool) -> String {
    let mut out = work(report, colour);
    let end = End::of(report);
    if let Some(path) = &report.preserved_worktree {
        let (place, look) = (place(path), look(&end));
        let _ = writeln!(
            out,
            "uncommitted work of the agent is kept in {place}{look}"
        );
    }
    let label = paint("refused:", style::WARNING, colour);
    out.push_str(&opening::text(&report.refused, Some(&report.name), &label));
    if let Some(next) = next(&end) {
        let (label, next) = (paint("next:", style::HINT, colour), from_here(&next));
        let _ = writeln!(out, "{label} {next}");
    }
    if report.preserved_worktree.is_some() {
        let (name, goes) = (&report.name, what_goes(&end));
        let delete = format!("cofferdam delete --force {name}{goes}");
        let _ = writeln!(out, "when nothing of it is needed: {}", from_here(&delete));
    }
    out
}

/// What it did, without what to do next.
pub(crate) fn work(report: &RunReport, colour: bool) -> String {
    let mut out = String::from("\n");
    out.push_str(&merged(&report.landing, &report.commits, colour));
    if !report.diffstat.trim().is_empty() {
        for line in report.diffstat.lines() {
            let _ = writeln!(out, "  {}", printable_line(line.trim_start()));
        }
    }
    if let Some(line) = taken(&report.taken) {
        let _ = writeln!(out, "{} {line}", paint("yours:", style::WARNING, colour));
    }
    let mut facts = vec![
        human::plural(report.iterations.len(), "iteration"),
        human::duration(report.duration),
    ];
    if report.completion.is_some() {
        facts.push("the agent signalled completion".to_owned());
    }
    let _ = writeln!(out, "{}", facts.join(", "));
    let usage = &report.usage;
    if *usage != cofferdam::agent::Usage::default() {
        let _ = writeln!(
            out,
            "tokens: {} in, {} read from and {} written to the cache, {} out",
            human::count(usage.input_tokens),
            human::count(usage.cache_read_tokens),
            human::count(usage.cache_creation_tokens),
            human::count(usage.output_tokens)
        );
    }
    if let Some(cost) = usage.cost_micro_usd {
        let _ = writeln!(out, "cost: {}", human::dollars(cost));
    }
    if let Some(output) = &report.output {
        let _ = writeln!(out, "output: {output}");
    }
    out.push_str(&conversation(report.run, &report.iterations));
    out
}

/// How to go on with what the agent and its user said.
fn conversation(run: Option<RunId>, iterations: &[Iteration]) -> String {
    let mut last = iterations.iter().rev().filter(|one| one.session.is_some());
    let is_kept = last.next().is_some_and(|one| one.kept > 0);
    let Some(run) = run.filter(|_| is_kept) else {
        return String::new();
    };
    let command = format!("cofferdam continue {run}");
    format!("go on with it: {}\n", from_here(&command))
}

/// Where the commits are, and the newest of them.
pub(crate) fn merged(landed: &Landing, commits: &[CommitLine], colour: bool) -> String {
    let mut out = landing(landed, commits, colour);
    out.push_str(&listed(commits, colour));
    out
}

/// The newest ones, a line each.
fn listed(commits: &[CommitLine], colour: bool) -> String {
    let mut out = String::new();
    let hidden = commits.len().saturating_sub(LISTED);
    if hidden > 0 {
        let _ = writeln!(out, "  ({} before these)", human::plural(hidden, "commit"));
    }
    for commit in &commits[hidden..] {
        let _ = writeln!(out, "  {}", commit_line(commit, colour));
    }
    out
}

/// Where things are after a run that failed or was stopped, and the exact next command.
pub(crate) fn unfinished(kept: &Kept, stopped: bool, colour: bool) -> String {
    let mut out = match &kept.landing {
        Some(Landing::Nothing) if !stopped => String::new(),
        Some(found) => merged(found, &kept.commits, colour),
        None => String::new(),
    };
    if let Some(line) = taken(&kept.taken) {
        let _ = writeln!(out, "{} {line}", paint("yours:", style::WARNING, colour));
    }
    let label = paint("kept:", style::STRONG, colour);
    let end = match (&kept.landing, &kept.name) {
        (Some(landing), Some(name)) => End::of_kept(kept, landing, name),
        _ => None,
    };
    if let Some(path) = &kept.preserved_worktree {
        let look = end.as_ref().map(look).unwrap_or_default();
        let place = place(path);
        let _ = writeln!(out, "{label} uncommitted work in {place}{look}");
    }
    if let Some(path) = &kept.log {
        let _ = writeln!(out, "{label} the run log {}", shell_word(path));
    }
    let refused = paint("refused:", style::WARNING, colour);
    out.push_str(&opening::text(&kept.refused, kept.name.as_ref(), &refused));
    let end = end
        .filter(|end| !matches!(end.landing, Landing::Nothing) || end.preserved_worktree.is_some());
    let next = match (&kept.landing, &kept.id, &kept.name) {
        (None, Some(_), Some(name)) if kept.lives_on => Some(format!(
            "cofferdam collect {name}   # brings home what the agent committed"
        )),
        // Of one that was never whole no agent has worked in it.
        (None, Some(_), Some(name)) if kept.base.is_none() => Some(format!(
            "cofferdam delete {name}   # removes what there is of it"
        )),
        (None, Some(_), _) => {
            Some("cofferdam gc   # brings home what the agent committed".to_owned())
        }
        _ => end.as_ref().and_then(next),
    };
    if let Some(next) = next {
        let _ = writeln!(out, "{} {next}", paint("next:", style::HINT, colour));
    }
    out
}

/// Where the commits are, as one line with what stands in the way.
fn landing(landing: &Landing, commits: &[CommitLine], colour: bool) -> String {
    let count = human::plural(commits.len(), "commit");
    match landing {
        Landing::Nothing => format!(
            "{} the agent made no commit\n",
            paint("nothing:", style::WARNING, colour)
        ),
        Landing::Landed { branch, tip } => format!(
            "{} {count} on {}, which is now at {}\n",
            paint("landed:", style::GOOD, colour),
            printable_line(branch),
            tip.short()
        ),
        Landing::Kept { reference, why } => format!(
            "{} {count} on {}: {}\n",
            paint("kept:", style::WARNING, colour),
            printable_line(reference),
            printable_line(why)
        ),
        Landing::Refused { pack, why } => {
            let kept = pack.as_ref().map_or_else(
                || "were too large to keep".to_owned(),
                |pack| format!("are kept in {}", shell_word(pack)),
            );
            format!(
                "{} {}\n  nothing was moved; the refused commits {kept}\n",
                paint("refused:", style::ERROR, colour),
                printable_line(why),
            )
        }
    }
}

/// As [`merged`], of commits that have no branch and wait for another `cofferdam merge`, which knows them by their sandbox.
pub(crate) fn not_merged(
    landed: &Landing,
    commits: &[CommitLine],
    name: &str,
    colour: bool,
) -> String {
    match landed {
        Landing::Kept { reference, why }
            if is_own(reference)
                && (landed.stop_first().is_some() || landed.waits_for_local_changes()) =>
        {
            let kept = paint("kept:", style::WARNING, colour);
            let (name, why) = (printable_line(name), printable_line(why));
            let count = human::plural(commits.len(), "commit");
            let mut out = format!("{kept} {count} of {name}: {why}\n");
            out.push_str(&listed(commits, colour));
            out
        }
        _ => merged(landed, commits, colour),
    }
}

/// There was something to merge, and it is there.
pub(crate) fn merged_already(name: &str, commits: usize, as_one: bool, colour: bool) -> String {
    format!(
        "{} {} of {} {} on this branch already{}\n",
        paint("nothing to merge:", style::WARNING, colour),
        human::plural(commits, "commit"),
        printable_line(name),
        if commits == 1 { "is" } else { "are" },
        if as_one { ", as one (`--squash`)" } else { "" },
    )
}

/// How a sandbox goes whose branch is merged.
pub(crate) fn after_landing(stays: Option<&Stays>, name: &str, colour: bool) -> String {
    let next = paint("next:", style::HINT, colour);
    let name = shell_word(name);
    let text = match stays {
        None => format!("{next} cofferdam gc   # clears merged sandboxes\n"),
        Some(Stays::Uncommitted(path)) => {
            let (place, look) = (place(path), status(path, &name));
            format!(
                "uncommitted work of the agent is kept in {place}\n{next} {look}\n\
                 when nothing of it is needed: cofferdam delete --force {name}\n"
            )
        }
        Some(Stays::Kept(path)) => {
            let path = shell_word(path);
            format!(
                "what did not come home is kept in {path}\n{next} ls -A {path}\n\
                 when nothing of it is needed: cofferdam delete --force {name}\n"
            )
        }
        Some(Stays::Beside(references)) => {
            let beside = beside(references, "", None).map_or_else(String::new, |line| line + "\n");
            format!(
                "the sandbox stays, as there is more of it than this branch has\n{beside}\
                 when nothing of it is needed: cofferdam delete {name}\n"
            )
        }
    };
    from_here(&text).into_owned()
}

/// Where commits are that are on no branch, and what takes them. `there`: the option for git, with a space before it, where
/// the command does not stand in their repository. `lives`: a sandbox in the checkout and the branch that is checked out there: files of
/// another one lie in the checkout for as long as that is checked out inside.
pub(crate) fn beside(
    references: &[String],
    there: &str,
    lives: Option<(&str, &str)>,
) -> Option<String> {
    let first = shell_word(references.first()?);
    let more = match references.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let take = take(references, there)?;
    let before = lives.map_or_else(String::new, |(name, branch)| {
        format!(
            ", once `cofferdam exec {} -- git switch {}` has taken their files out of the checkout",
            shell_word(name),
            shell_word(branch)
        )
    });
    Some(format!(
        "commits that are not on its branch are at {first}{more}: {take}{before}"
    ))
}

/// How those are looked at and taken.
pub(crate) fn take(references: &[String], there: &str) -> Option<String> {
    let first = references.first()?;
    let is_stash = first.contains(&format!("/{EXTRA_STASH}"));
    let first = shell_word(first);
    if is_stash {
        return Some(format!(
            "see it with `git{there} stash show -p -u {first}`, take it with `git{there} stash apply {first}`"
        ));
    }
    Some(format!(
        "see them with `git{there} log -p HEAD..{first}`, take them with `git{there} merge {first}`"
    ))
}

/// Id and subject of a commit on one line.
pub(crate) fn commit_line(commit: &CommitLine, colour: bool) -> String {
    format!(
        "{} {}",
        paint(commit.id.short(), style::WARNING, colour),
        fit(&commit.subject, 100)
    )
}

/// The user's uncommitted files that are in the commits now, in one line.
pub(crate) fn taken(paths: &[PathBuf]) -> Option<String> {
    let named = named(paths);
    (!paths.is_empty()).then(|| format!("the agent committed uncommitted work of yours: {named}"))
}

/// The first ones as words of a shell, and how many more there are.
pub(crate) fn named(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(shell_word).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(" ") + &more
}

/// A reference of Cofferdam's, which only its own commands know the sandbox of.
pub(crate) fn is_own(reference: &str) -> bool {
    reference.starts_with("refs/cofferdam/")
}

/// The next step after a dead run has come home.
pub(crate) fn after_recovery(one: &Recovered) -> Option<String> {
    let end = End {
        name: &one.name,
        base: &one.base,
        target_branch: &one.target_branch,
        made_branch: one.made_branch.as_deref(),
        lies_there: one.branch == one.target_branch,
        landing: &one.landing,
        preserved_worktree: one.preserved.as_deref(),
        log: None,
    };
    // It is gone, so its commits are on the branch that they were meant for.
    if one.ended && end.waits() {
        return None;
    }
    next(&end)
}

/// How a run ended, as far as the next step depends on it.
struct End<'a> {
    name: &'a str,
    base: &'a Oid,
    target_branch: &'a str,
    made_branch: Option<&'a str>,
    lies_there: bool,
    landing: &'a Landing,
    preserved_worktree: Option<&'a Path>,
    log: Option<&'a Path>,
}

impl<'a> End<'a> {
    fn of(report: &'a RunReport) -> Self {
        Self {
            name: report.name.as_str(),
            base: &report.base,
            target_branch: &report.target_branch,
            made_branch: report.made_branch.as_deref(),
            lies_there: report.source_branch == report.target_branch,
            landing: &report.landing,
            preserved_worktree: report.preserved_worktree.as_deref(),
            log: report.log.as_deref(),
        }
    }

    fn of_kept(kept: &'a Kept, landing: &'a Landing, name: &'a Slug) -> Option<Self> {
        Some(Self {
            name: name.as_str(),
            base: kept.base.as_ref()?,
            target_branch: kept.target_branch.as_deref()?,
            made_branch: kept.made_branch.as_deref(),
            lies_there: kept.branch == kept.target_branch,
            landing,
            preserved_worktree: kept.preserved_worktree.as_deref(),
            log: kept.log.as_deref(),
        })
    }

    fn again(&self) -> Again<'a> {
        Again {
            lies_there: self.lies_there,
            ..Again::of(self.name)
        }
    }

    /// Whether there are commits that what is checked out has not got.
    fn waits(&self) -> bool {
        match self.landing {
            Landing::Landed { branch, .. } => branch != self.target_branch,
            Landing::Kept { .. } => true,
            Landing::Nothing | Landing::Refused { .. } => false,
        }
    }
}

/// Where uncommitted work is kept. What is no worktree is no place for its user to look around in.
pub(crate) fn place(path: &Path) -> String {
    if is_worktree(path) {
        shell_word(path)
    } else {
        "the sandbox".to_owned()
    }
}

/// How uncommitted work is looked at.
fn status(path: &Path, name: &str) -> String {
    if is_worktree(path) {
        format!("git -C {} status", shell_word(path))
    } else {
        format!("cofferdam diff --uncommitted {name}   # `cofferdam apply {name}` brings it here")
    }
}

fn is_worktree(path: &Path) -> bool {
    path.join(".git").is_file()
}

/// The same after the name of the place, where the next step is another.
fn look(end: &End<'_>) -> String {
    match end.preserved_worktree {
        Some(path) if end.waits() => {
            format!("; look at it with: {}", from_here(&status(path, end.name)))
        }
        _ => String::new(),
    }
}

/// What `delete --force` removes beside uncommitted work, as a comment.
fn what_goes(end: &End<'_>) -> String {
    if !end.waits() {
        return String::new();
    }
    let also = end.made_branch.map_or_else(String::new, |branch| {
        format!(", and branch {}", printable_line(branch))
    });
    format!("   # removes that work{also}; unmerged commits can be brought back for 30 days")
}

fn next(end: &End<'_>) -> Option<String> {
    let base = end.base.short();
    // Commits first: the uncommitted work stays where it is.
    if let Some(path) = end.preserved_worktree.filter(|_| !end.waits()) {
        let name = end.name;
        return Some(match end.landing {
            // What stands on them does not come out either.
            Landing::Refused { .. } if !is_worktree(path) => {
                format!(
                    "cofferdam shell {name}   # what is mended there comes home with `cofferdam collect {name}`"
                )
            }
            _ => status(path, name),
        });
    }
    match end.landing {
        Landing::Nothing => {
            let log = end.log?;
            Some(format!("less {}", shell_word(log)))
        }
        Landing::Landed { branch, .. } if *branch == end.target_branch => {
            Some(format!("{REVIEW} {base}..{}", shell_word(branch)))
        }
        // Git's own merge refuses wherever something is staged.
        Landing::Landed { .. } if end.target_branch != "HEAD" => {
            Some(format!("cofferdam merge {}", end.name))
        }
        Landing::Landed { branch, .. } => Some(format!("git merge {}", shell_word(branch))),
        kept @ Landing::Kept { .. } if kept.is_held_back() && end.target_branch != "HEAD" => {
            Some(format!("cofferdam merge {}", end.name))
        }
        kept @ Landing::Kept { .. }
            if kept.waits_for_the_user()
                || kept.is_to_be_looked_at()
                || kept.has_failed_checks() =>
        {
            after_merge(kept, end.again())
        }
        kept @ Landing::Kept { .. }
            if end.target_branch != "HEAD"
                && (kept.stop_first().is_some() || kept.waits_for_local_changes()) =>
        {
            after_merge(kept, end.again())
        }
        // Only a branch can be merged into by name.
        Landing::Kept { reference, .. } if is_own(reference) && end.target_branch != "HEAD" => {
            Some(format!("cofferdam merge {}", end.name))
        }
        kept @ Landing::Kept { .. } => after_merge(kept, end.again()),
        Landing::Refused { .. } => None,
    }
}
