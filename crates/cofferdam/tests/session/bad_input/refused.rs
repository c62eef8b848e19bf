//! Repositories that cannot be brought home as they are: refused once, kept, named, and never tried
//! again; honest commits beside them come home.

use std::time::{Duration, Instant};

use cofferdam::RunReport;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::Landing;
use cofferdam::session::manage::ManageError;
use cofferdam_lab::sample::Sample;

use super::{HEAD, whole_ok};
use crate::support::{Env, gc, run_ok, target};

const MERGE: BranchStrategy = BranchStrategy::MergeToHead;

/// `d` is the git directory, `b` the branch.
fn script(text: &str) -> String {
    format!("d=$(git rev-parse --absolute-git-dir); b=$(git symbolic-ref HEAD)\n{text}")
}

/// The sandbox is over: `gc` has nothing to do and no complaint, and its user can let go of it.
fn is_over(env: &Env, report: &RunReport) {
    for _ in 0..2 {
        let done = gc(env);
        assert!(done.recovered.is_empty(), "{done:?}");
        assert!(done.problems.is_empty(), "{done:?}");
    }
    let kept = target(env, &report.name).try_delete(false).unwrap_err();
    // Files of its own that its git cannot speak of count as work, too.
    let known = matches!(
        kept,
        ManageError::KeptWork { .. }
            | ManageError::Refused { .. }
            | ManageError::UncommittedWork { .. }
    );
    assert!(known, "{kept}");
    assert!(env.home.sandbox(report.id).exists());
    target(env, &report.name).delete();
    env.assert_no_state();
    run_ok(env.script(MERGE, "git commit -qm next --allow-empty"));
}

#[test]
fn a_broken_repository_is_kept_and_never_tried_again() {
    let scripts = [
        "git commit -qm work --allow-empty; cd $d/objects; find . -type f -exec chmod u+w {} + -exec sh -c 'for f; do echo x > $f; done' _ {} +",
        "git commit -qm work --allow-empty; cd $d/objects; rm -rf ??",
        "git commit -qm work --allow-empty; rm -rf $d/refs; ln -s . $d/refs",
        "echo 1111111111111111111111111111111111111111 > $d/$b",
    ];
    for text in scripts {
        let env = Env::new();
        let began = Instant::now();
        let report = whole_ok(&env, env.script(MERGE, &script(text)), &[]);
        assert!(began.elapsed() < Duration::from_secs(30), "{text}");
        let Landing::Refused { pack, why } = &report.landing else {
            panic!("{text}: {}", report.landing)
        };
        assert!(why.len() > 20, "{why}");
        // All that there is of it.
        assert!(pack.as_ref().unwrap().join("objects").is_dir(), "{text}");
        assert_eq!(env.subjects("main"), ["first"], "{text}");
        is_over(&env, &report);
    }
}

#[test]
fn honest_commits_beside_what_is_odd_come_home() {
    let odd = [
        "echo garbage > $d/HEAD",
        "rm $d/HEAD; ln -s /etc/passwd $d/HEAD",
        "rm $d/HEAD; mkfifo $d/HEAD",
        "rm $d/HEAD; truncate -s 4G $d/HEAD",
        "echo no-id > $d/refs/heads/odd",
        "printf 'no id\\n' > \"$d/refs/heads/$(printf 'a\\nlanded: b')\"",
        "mkfifo $d/refs/heads/pipe",
        "mkdir -p $d/refs/heads/$(seq -s / 60)",
        "echo 1111111111111111111111111111111111111111 > $d/refs/heads/missing",
        "echo 'no line of git' > $d/packed-refs",
        "truncate -s 1G $d/packed-refs",
        "printf '[core\\n broken' > $d/config",
        "printf '[extensions]\\n\\tworktreeConfig = maybe\\n[core]\\n\\trepositoryformatversion = 7\\n' >> $d/config",
        "printf '[include]\\n\\tpath = /dev/zero\\n' >> $d/config",
        "echo garbage > $d/shallow",
        "mkdir -p $d/objects/info; echo garbage > $d/objects/info/commit-graph; echo garbage > $d/objects/pack/multi-pack-index",
    ];
    for (number, text) in odd.into_iter().enumerate() {
        let env = Env::new();
        let text = script(&format!("git commit -qm honest --allow-empty\n{text}"));
        let strategy = if number % 4 == 0 { HEAD } else { MERGE };
        let report = whole_ok(&env, env.script(strategy, &text), &["refs/heads/main"]);
        let Landing::Landed { .. } = &report.landing else {
            panic!("{text}: {}", report.landing)
        };
        assert!(
            env.subjects("main").contains(&"honest".to_owned()),
            "{text}"
        );
        let done = gc(&env);
        assert!(
            done.problems.is_empty() && done.recovered.is_empty(),
            "{done:?}"
        );
        let told = env.said();
        // There a line end is `\n`, and one that was made safe `\\n`.
        let is_odd = text.contains("landed: b");
        assert_eq!(told.contains(r"\\nlanded"), is_odd, "{told}");
        assert!(!told.replace(r"\\", "").contains(r"\nlanded"), "{told}");
    }
    let env = Env::new();
    let text = script("git commit -qm honest --allow-empty; echo garbage > $d/config");
    let report = whole_ok(
        &env,
        env.copy(CopyStrategy::MergeToHead, &text),
        &["refs/heads/main"],
    );
    assert!(matches!(report.landing, Landing::Landed { .. }));
}

/// What the gate cannot or will not look through, each beside an honest branch.
#[test]
fn bombs_are_refused_and_honest_branches_beside_them_come_home() {
    let bombs = [
        // 10^8 files in a few objects.
        (
            "a tree bomb",
            r"
            t=$(echo x | git hash-object -w --stdin)
            t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\t%s\n' $t $i; done | git mktree)
            for n in 1 2 3 4 5 6 7; do
                t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\t%s\n' $t $i; done | git mktree)
            done",
        ),
        // As deep as no program walks.
        (
            "a deep tree",
            r#"
            t=$(perl -e '
                use Digest::SHA qw(sha1); use Compress::Zlib;
                sub put { my ($k, $c) = @_; my $o = "$k " . length($c) . "\0" . $c; my $i = sha1($o);
                    my $h = unpack("H*", $i); my $p = "$ENV{d}/objects/" . substr($h, 0, 2); mkdir $p;
                    open(F, ">", "$p/" . substr($h, 2)); print F compress($o); close F; $i }
                my $t = put("blob", "x"); my $m = "100644";
                for (1..20000) { $t = put("tree", "$m a\0$t"); $m = "40000" }
                print unpack("H*", $t)')"#,
        ),
        // 64 MiB of targets.
        (
            "symlinks",
            r#"
            t=$(perl -e 'print "blob\nmark :$_\ndata 4000\n", sprintf("%04000d", $_), "\n" for 1..17000;
                print "commit refs/heads/links\ncommitter A <a\@b> 1 +0000\ndata 1\nx\n";
                print "M 120000 :$_ l$_\n" for 1..17000' | git fast-import --quiet; git rev-parse links^{tree}; git update-ref -d refs/heads/links)"#,
        ),
    ];
    let mut sample = Sample::new("bombs");
    for (name, bomb) in sample.of(bombs, 3) {
        let text = format!(
            "export d; base=$(git rev-parse HEAD)
            git checkout -q -b honest; git commit -qm honest --allow-empty; git checkout -q -
            {bomb}
            test -n \"$t\" || exit 7
            git update-ref $b $(git commit-tree -p $base -m bomb $t)"
        );
        check_bomb(name, &script(&text));
    }
    let parents = "
        base=$(git rev-parse HEAD); tree=$(git rev-parse HEAD^{tree})
        git checkout -q -b honest; git commit -qm honest --allow-empty; git checkout -q -
        git update-ref $b $({ echo tree $tree; perl -e 'print \"commit refs/heads/p$_\\ncommitter A <a\\@b> 1 +0000\\ndata \", length($_), \"\\n$_\\nfrom $ARGV[0]\\n\" for 1..2000' $base | git fast-import --quiet
            git for-each-ref --format='parent %(objectname)' 'refs/heads/p*'
            printf 'author A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nmany\\n'; } | git hash-object -t commit -w --stdin)
        git for-each-ref --format='delete %(refname)' 'refs/heads/p*' | git update-ref --stdin";
    check_bomb("parents", &script(parents));
}

fn check_bomb(name: &str, text: &str) {
    let env = Env::new();
    let mut options = env.script(MERGE, text);
    options.session.timeouts.collect = Duration::from_secs(240);
    let report = whole_ok(&env, options, &["refs/heads/main"]);
    // The sandbox's own branch may not land, so the honest one beside it does not take its place.
    let refused = match &report.landing {
        Landing::Refused { why, .. } => why.clone(),
        other => panic!("{name}: {other}"),
    };
    assert!(refused.len() > 10, "{name}: {refused}");
    let honest = report.beside.iter().find(|one| one.names == ["honest"]);
    let honest = honest.unwrap_or_else(|| panic!("{name}: {report:#?}"));
    assert_eq!(env.subjects(&honest.at).last().unwrap(), "honest", "{name}");
    is_over(&env, &report);
}
