//! Renames in an overlay. Root's kernel makes them all; an ordinary user's refuses those of directories of a layer, and
//! there the guest makes them. What a program is told is the same.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::sandbox::{Detached, ExecRequest, Exit, Sandbox, TerminalSize};

use crate::layers::Layers;
use tokio::io::AsyncReadExt;

use crate::world::{both, create, eventually, finish, is_root, ok, sh, spec, start};

async fn over(layers: &Layers) -> Arc<dyn Sandbox> {
    let mut spec = spec();
    spec.mounts = vec![layers.mount()];
    create(&spec).await.unwrap()
}

/// Layers of its own with so many files below `many/`, and a sandbox over them.
async fn fresh(files: usize) -> (Layers, Arc<dyn Sandbox>) {
    let layers = Layers::new();
    many(&layers, files);
    let sandbox = over(&layers).await;
    (layers, sandbox)
}

/// One rename by renameat2(2) with these flags, and by rename(2) where there are none: the error's number, 0 where there is
/// none.
const PERL: &str = r#"
    use POSIX ();
    sub at { my ($a, $old, $b, $new, $flags) = @_; syscall(316, $a, $old, $b, $new, $flags) < 0 ? $!+0 : 0 }
    sub mv { my ($old, $new, $flags) = @_; $flags ? at(-100, $old, -100, $new, $flags) : syscall(82, $old, $new) < 0 ? $!+0 : 0 }
    sub say { print join(" ", @_), "\n" }
    chdir "/workspace/r" or die;
"#;

/// What a script prints, whose files are in the overlay.
async fn perl(sandbox: &dyn Sandbox, script: &str) -> String {
    let script = format!("cat > /tmp/p <<'END'\n{PERL}\n{script}\nEND\nperl /tmp/p");
    ok(sandbox, &script).await
}

/// So many files of a layer below `many/`.
pub(crate) fn many(layers: &Layers, count: usize) {
    for number in 0..count {
        let directory = layers.low().join(format!("many/d{}", number % 10));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number}")), "content").unwrap();
    }
}

/// Names in the upper directory of trees that have not got theirs yet.
fn unfinished(layers: &Layers) -> Vec<std::path::PathBuf> {
    let all = fs::read_dir(layers.upper()).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    all.filter(|path| {
        path.to_string_lossy()
            .contains(".cofferdam-unfinished-rename-")
    })
    .collect()
}

fn files_below(path: &std::path::Path) -> usize {
    let Ok(all) = fs::read_dir(path) else {
        return 1;
    };
    all.map(|entry| files_below(&entry.unwrap().path())).sum()
}

both! {
    async fn a_rename_is_told_as_the_kernel_tells_it() {
        let (_layers, sandbox) = fresh(0).await;
        let told = perl(&*sandbox, r#"
            mkdir "empty"; mkdir "full"; mkdir "full/x"; mkdir "fresh"; symlink "dir", "link"; mkdir "shut"; chmod 0555, "shut";
            say "missing", mv("nothing", "x"), mv("dir", "nowhere/x"), mv("", "x"), mv("dir", "");
            say "itself", mv("dir", "dir/sub/x"), mv("dir/sub", "dir"), mv("dir", "dir");
            say "dots", mv("dir/.", "x"), mv("dir/sub/..", "x"), mv("dir", ".");
            say "kinds", mv("dir", "a"), mv("a", "dir"), mv("a/", "x"), mv("link/", "x"), mv("a/b", "x");
            say "there", mv("dir", "full"), mv("dir", "full", 1), mv("dir", "empty", 1), mv("a", "b", 1);
            say "flags", mv("dir", "x", 8), mv("dir", "x", 3), mv("fresh", "full", 2);
            say "rights", mv("dir", "shut/x"), mv("dir", "/x"), mv("dir", "/tmp/x");
            say "long", mv("dir", "x" x 300), mv("x" x 5000, "y");
            say "left", join " ", sort glob "*";
        "#).await;
        let wanted = "missing 2 2 2 2\nitself 22 39 0\ndots 16 16 16\nkinds 20 21 20 20 20\nthere 39 17 17 17\n\
            flags 22 22 0\nrights 13 18 18\nlong 36 36\nleft a b dir empty fresh full link shut\n";
        assert_eq!(told, wanted);
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn a_directory_is_renamed_wherever_it_is_named_from() {
        let (layers, sandbox) = fresh(0).await;
        let told = perl(&*sandbox, r#"
            open my $f, ">", "dir/new"; print $f "new"; close $f; mkdir "empty"; mkdir "deep"; mkdir "deep/er"; symlink "deep/er", "way";
            say mv("dir", "empty"), -e "dir" ? "there" : "gone";
            say mv("empty/sub/", "sub//"), mv("/workspace/r/sub", "/workspace/../workspace/r/empty/sub"), mv("empty", "way/in"), mv("way/in", "./dir");
            chdir "dir"; say mv("sub", "../deep/sub"), mv("../deep/sub", "sub"); chdir "..";
            opendir my $d, "dir"; opendir my $e, "deep";
            say at(fileno $d, "sub", fileno $e, "one", 0), at(fileno $e, "one", fileno $d, "sub", 1), at(fileno $d, "c", fileno $e, "c", 0), at(99, "a", -100, "x", 0), at(fileno $e, "/workspace/r/deep/c", fileno $d, "c", 0);
            my ($sub, $two) = ("sub", "two"); say syscall(264, fileno $d, $sub, -100, $two), mv("two", "dir/sub");
        "#).await;
        assert_eq!(told, "0 gone\n0 0 0 0\n0 0\n0 0 0 9 0\n0 0\n");
        let list = ok(&*sandbox, "cd /workspace/r && find . -type f | sort | while read f; do echo \"$f=$(cat $f)\"; done").await;
        assert_eq!(list, "./a=high a\n./b=low b\n./dir/c=low c\n./dir/new=new\n./dir/sub/d=d\n");
        assert_eq!(unfinished(&layers), Vec::<std::path::PathBuf>::new());
        sandbox.close().await.unwrap();
        // The same for whoever mounts it again.
        let sandbox = over(&layers).await;
        assert_eq!(ok(&*sandbox, "cat /workspace/r/dir/new /workspace/r/dir/sub/d").await, "newd");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn a_renamed_directory_keeps_all_that_it_has() {
        let (_layers, sandbox) = fresh(0).await;
        // How large a directory is that has been copied up is its file system's affair.
        let state = "find . -mindepth 1 ! -name . -printf '%P %y %#m %T@ %l ' \\( -type d -printf '\\n' -o -printf '%s\\n' \\) | sort";
        let told = ok(&*sandbox, &format!(r#"
            cd /workspace/r/dir
            exec 3< c 4>> grown
            ln -s c link; ln -s /nowhere dangling; mkfifo pipe; echo x > one; ln one two; echo secret > shut; chmod 000 shut
            mkdir -p closed/in; echo y > closed/in/y; chmod 700 closed; touch -d @1000000000.123456789 closed/in/y closed/in; chmod 500 closed/in
            echo run > run; chmod 755 run; python3 -c 'import os; os.setxattr("sub", "user.k", b"v"); os.setxattr("c", "user.k", b"w")'
            touch -d @1100000000 sub closed .
            {state} > /tmp/before; stat -c '%a %Y' . >> /tmp/before
            cd .. && perl -e 'rename("dir", "moved") or die $!' && cd moved
            {state} > /tmp/after; stat -c '%a %Y' . >> /tmp/after
            diff /tmp/before /tmp/after && stat -c %h one two && test one -ef two && echo more >> one && cat two
            echo late >&4; cat grown; cat <&3; echo
            python3 -c 'import os; print(os.getxattr("sub", "user.k"), os.getxattr("c", "user.k"))'
        "#)).await;
        assert_eq!(told, "2\n2\nx\nmore\nlate\nlow c\nb'v' b'w'\n");
        assert_eq!(ok(&*sandbox, "ls /workspace/r").await, "a\nb\nmoved\n");
        ok(&*sandbox, "chmod -R u+rwx /workspace/r").await;
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn git_moves_a_directory_and_back() {
        let (_layers, sandbox) = fresh(0).await;
        let told = ok(&*sandbox, "cd /workspace/r && git init -q -b main . && git add . && git -c user.name=a -c user.email=a@b commit -qm one \
            && git mv dir lib && git status --porcelain && git mv lib/sub top && git mv top lib/sub && git mv lib dir && git status --porcelain && echo same").await;
        assert_eq!(told, "R  dir/c -> lib/c\nR  dir/sub/d -> lib/sub/d\nsame\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn many_files_move_and_several_directories_at_once() {
        let layers = Layers::new();
        many(&layers, 2000);
        for number in 0..8 {
            fs::create_dir_all(layers.low().join(format!("p{number}/in"))).unwrap();
            fs::write(layers.low().join(format!("p{number}/in/f")), "f").unwrap();
        }
        let sandbox = over(&layers).await;
        let before = Instant::now();
        let told = perl(&*sandbox, r#"
            for my $n (0..7) { next if fork; my $bad = 0; for (1..5) { $bad |= mv("p$n", "q$n"); $bad |= mv("q$n", "p$n") } exit $bad; }
            my $bad = mv("many", "lots"); while (wait > 0) { $bad |= $? } say $bad;
        "#).await;
        println!("with 2,000 files: {:?}", before.elapsed());
        assert_eq!(told, "0\n");
        assert_eq!(ok(&*sandbox, "cd /workspace/r && find lots -type f | wc -l && cat p?/in/f && echo && ls").await.split_whitespace().collect::<Vec<_>>().join(" "), "2000 ffffffff a b dir lots p0 p1 p2 p3 p4 p5 p6 p7");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// A signal takes a program out of its wait: with SA_RESTART it asks again, and is told what became of it. In the kernel a signal
    /// and an answer may meet so that the answer counts as given and is not heard: of 1,000 that has happened to one, on a busy machine to some.
    async fn a_rename_is_not_lost_among_signals() {
        let (_layers, sandbox) = fresh(1000).await;
        let told = perl(&*sandbox, r#"
            use IO::Handle; my $heard = 0; my $me = $$;
            pipe my $told, my $tell; $_->blocking(0) for $told, $tell;
            my $act = POSIX::SigAction->new(sub { $heard++; syswrite $tell, "x" }, POSIX::SigSet->new, POSIX::SA_RESTART());
            # Its own code runs between two of the program's steps: within one perl can crash. Of signals that wait for that, 120 end it.
            $act->safe(1); POSIX::sigaction(POSIX::SIGUSR1(), $act);
            my $child = fork; if (!$child) {
                my $waits = 0;
                while (getppid == $me) {
                    if ($waits < 100) { kill "USR1", $me; $waits++ }
                    select undef, undef, undef, 0.001;
                    $waits = 0 if sysread $told, my $heard, 4096;
                }
                exit
            }
            select undef, undef, undef, 0.001 until $heard;
            my @done = map { (mv("many", "lots"), mv("lots", "many")) } 1..3;
            my $lost = grep { my $there = mv("dir", "own"); my $back = mv("own", "dir"); $there || $back } 1..500;
            my $twice = grep { mkdir "ta"; mv("ta", "tb"); my $again = mv("ta", "tb"); rmdir "tb"; $again != 2 } 1..300;
            kill "KILL", $child; waitpid $child, 0; say @done, $heard > 0, $lost, $twice;
        "#).await;
        let told: Vec<u32> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(told[..7], [0, 0, 0, 0, 0, 0, 1], "{told:?}");
        // Of 1,000 and of 300. Without asking again it is hundreds.
        assert!(told[7] <= 25 && told[8] <= 25, "{told:?}");
        assert_eq!(ok(&*sandbox, "find /workspace/r/many -type f | wc -l").await, "1000\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// Who asks twice is not taken for one that did not hear.
    async fn what_is_renamed_is_not_there_to_be_renamed_again() {
        let (_layers, sandbox) = fresh(0).await;
        let told = perl(&*sandbox, r#"
            my @done = map { my $done = mv("dir", "taken"); system "rm", "-r", "taken"; $done } 1..3;
            say @done;
        "#).await;
        assert_eq!(told, "0 2 2\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn who_dies_while_it_is_renamed_leaves_nothing_half_moved() {
        let (layers, sandbox) = fresh(3000).await;
        let rename = "perl -e 'chdir \"/workspace/r\"; rename($ARGV[0], $ARGV[1]) or die $!' many lots";
        if is_root() {
            ok(&*sandbox, rename).await;
        } else {
            // The program dies: it is done all the same.
            let run = start(&*sandbox, &format!("exec {rename}")).await;
            eventually("it is at work", || !unfinished(&layers).is_empty()).await;
            drop(run);
            eventually("it is done", || unfinished(&layers).is_empty() && layers.upper().join("lots").exists()).await;
            let gone = || fs::symlink_metadata(layers.upper().join("many")).is_ok_and(|found| !found.is_dir());
            eventually("the old one is gone", gone).await;
            assert_eq!(ok(&*sandbox, "cd /workspace/r && find lots -type f | wc -l && test ! -e many").await, "3000\n");
            ok(&*sandbox, "cd /workspace/r && mv lots many").await;
        }
        sandbox.close().await.unwrap();
        if is_root() {
            return;
        }
        // Who renames dies, whose name says who it is: a program's rights suffice. The program hears of it, and the target is whole or not there.
        let (_layers, sandbox) = fresh(3000).await;
        let (exit, out, err) = sh(&*sandbox, &format!("perl -e '$| = 1; print \"ready\\n\"; do {{ ($n) = glob \"/workspace/r/.cofferdam-unfinished-rename-*\" }} until $n; $n =~ /(\\d+)$/; kill 9, $1' > /tmp/ready & until test -s /tmp/ready; do :; done; {rename}")).await;
        assert!(!exit.success() && err.contains("Input/output error"), "{exit} {out} {err}");
        let whole = ok(&*sandbox, "cd /workspace/r && find many -type f | wc -l && test ! -e lots && echo .cofferdam-unfinished-rename-*").await;
        assert!(whole.starts_with("3000\n.cofferdam-unfinished-rename-") && !whole.contains('*'), "{whole}");
        ok(&*sandbox, "cd /workspace/r && rm -r .cofferdam-unfinished-rename-* && perl -e 'rename(\"many\", \"lots\") or die $!' && test $(find lots -type f | wc -l) = 3000").await;
        sandbox.close().await.unwrap();
    }
}

/// An ordinary user's sandbox is paused while it renames. Layers with `many` in them.
pub(crate) async fn is_paused_in_the_middle(sandbox: &dyn Sandbox, layers: &Layers) {
    let rename = "exec perl -e 'chdir \"/workspace/r\"; rename(\"many\", \"lots\") or die $!'";
    let run = start(sandbox, rename).await;
    eventually("it is at work", || !unfinished(layers).is_empty()).await;
    for _ in 0..3 {
        sandbox.pause().await.unwrap();
        let before = files_below(&layers.upper());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(files_below(&layers.upper()), before, "it goes on");
        sandbox.resume().await.unwrap();
    }
    sandbox.freeze().await.unwrap();
    sandbox.thaw().await.unwrap();
    let (exit, _, err) = finish(run).await;
    assert!(exit.success(), "{exit} {err}");
    let left = ok(
        sandbox,
        "cd /workspace/r && find lots -type f | wc -l && ls -A",
    )
    .await;
    assert_eq!(left, "4000\na\nb\ndir\nlots\n");
}

both! {
    /// Who renames for a program stands still with it, and nothing is lost of either.
    async fn a_rename_stands_still_with_everything_else() {
        if !is_root() {
            let (layers, sandbox) = fresh(4000).await;
            is_paused_in_the_middle(&*sandbox, &layers).await;
            sandbox.close().await.unwrap();
        }
    }
}

both! {
    /// What means something else for each process is not looked up by init as its own.
    async fn a_path_through_init_leads_nowhere() {
        let (_layers, sandbox) = fresh(0).await;
        let told = perl(&*sandbox, r#"
            chdir "/tmp"; my $r = "workspace/r";
            say map { my $way = $_; my @got = (mv("$way/$r/dir", "$way/$r/x"), mv("/$r/dir", "$way/$r/x"), mv("$way/$r/dir", "/$r/x")); @got }
                "/proc/1/root", "/proc/1/cwd", "/proc/self/cwd", "/proc/thread-self/cwd", "/proc/1/task/1/root";
            say -d "/$r/dir" ? "there" : "gone";
        "#).await;
        assert_eq!(told, "13 13 13 13 13 13 2 2 2 2 2 2 13 13 13\nthere\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn a_flood_of_renames_starves_nobody() {
        let (_layers, sandbox) = fresh(0).await;
        let flood = start(&*sandbox, r#"cd /workspace/r && for n in 1 2 3 4; do perl -e '
            open F, ">", "x$ARGV[0]"; for (1..2500) { rename("x$ARGV[0]", "y$ARGV[0]") or die $!; rename("y$ARGV[0]", "x$ARGV[0]") or die $! }' $n & done; wait"#).await;
        let flood = tokio::spawn(finish(flood));
        let (mut longest, mut count) = (Duration::ZERO, 0);
        while !flood.is_finished() {
            let before = Instant::now();
            let (exit, out, _) = sh(&*sandbox, "echo answers").await;
            assert!(exit.success() && out == "answers\n");
            longest = longest.max(before.elapsed());
            count += 1;
        }
        println!("{count} answers, the slowest after {longest:?}");
        assert!(longest < Duration::from_secs(5), "{longest:?}");
        assert!(flood.await.unwrap().0.success());
        assert_eq!(ok(&*sandbox, "ls /workspace/r").await, "a\nb\ndir\nx1\nx2\nx3\nx4\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn who_may_not_be_traced_renames_as_without_us() {
        let (_layers, sandbox) = fresh(0).await;
        let told = perl(&*sandbox, r#"
            syscall(157, 4, 0, 0, 0, 0) == 0 or die; say mv("a", "moved"), mv("moved", "a"); my $got = mv("dir", "other");
            say $got == 0 || $got == 18 ? "fine" : $got; mv("other", "dir");
        "#).await;
        assert_eq!(told, "0 0\nfine\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// With a terminal, detached, and as the grandchild of one that has ended.
    async fn however_a_program_was_started_it_renames() {
        let (_layers, sandbox) = fresh(0).await;
        let move_it = |from: &str, to: &str| format!("cd /workspace/r && perl -e 'rename(\"{from}\", \"{to}\") or die $!'");
        let mut request = ExecRequest::new(["sh", "-c", &move_it("dir", "one")]);
        request.terminal = Some(TerminalSize { rows: 24, columns: 80 });
        let mut run = sandbox.exec(request).await.unwrap();
        let mut said = String::new();
        run.take_terminal().unwrap().output.read_to_string(&mut said).await.unwrap();
        assert_eq!((run.wait().await.unwrap(), &*said), (Exit::Code(0), ""));
        ok(&*sandbox, "mkdir /workspace/r/dir; touch /workspace/r/dir/x; mv /workspace/r/one/sub /workspace/r/dir/").await;
        let files = tempfile::tempdir().unwrap();
        let mut request = ExecRequest::new(["sh", "-c", &move_it("one", "two")]);
        request.detached = Some(Detached { output: files.path().join("output"), end: files.path().join("end") });
        let mut run = sandbox.exec(request).await.unwrap();
        assert_eq!(run.wait().await.unwrap(), Exit::Code(0), "{:?}", fs::read_to_string(files.path().join("output")));
        ok(&*sandbox, &format!("(setsid sh -c 'until test -e /tmp/go; do sleep 0.01; done; {}' > /tmp/said 2>&1 &)", move_it("two", "three").replace('\'', "'\\''"))).await;
        ok(&*sandbox, "touch /tmp/go; until test -e /workspace/r/three/c && test ! -e /workspace/r/two; do sleep 0.01; done").await;
        sandbox.close().await.unwrap();
    }
}

both! {
    /// A program may stop and end who renames, as it may everything that has its rights. It gets no more of it, and others
    /// are served.
    async fn who_renames_has_what_a_program_has() {
        if is_root() {
            return;
        }
        let (_layers, sandbox) = fresh(4000).await;
        let told = perl(&*sandbox, r#"
            my $child = fork; if (!$child) { exit mv("many", "lots") }
            my $n; do { ($n) = glob ".cofferdam-unfinished-rename-*" } until $n; my ($pid) = $n =~ /(\d+)$/; kill "STOP", $pid or die;
            open my $f, "<", "/proc/$pid/status" or die; my %has = map { /^(\w+):\s+(\S+)/ ? ($1, $2) : () } <$f>;
            say map { $has{$_} } qw(Seccomp NoNewPrivs CapEff CapPrm CapBnd Uid);
            say((opendir my $d, "/proc/$pid/fd") ? "open" : $!+0, (open my $m, "<", "/proc/$pid/mem") ? "open" : $!+0, syscall(101, 16, $pid, 0, 0) < 0 ? $!+0 : "traced");
            say mv("dir", "other"), mv("other", "dir");
            kill "CONT", $pid; waitpid $child, 0; say $? >> 8;
        "#).await;
        assert_eq!(told, "2 1 0000000000000000 0000000000000000 0000000000000000 1000\n13 13 1\n0 0\n0\n");
        sandbox.close().await.unwrap();
    }
}
