//! Files into a sandbox, and what changed in it: whoever is inside may do to the tree whatever they like.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use cofferdam::sandbox::{Access, Sandbox, SandboxError};
use cofferdam_guest::protocol::files::{self, Entry, Known};
use cofferdam_lab::opens::Opens;
use cofferdam_lab::skip;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::living::Living;
use crate::world::{both, create, eventually, fails, mount, ok, spec, start, status_of};

const LARGEST: u64 = 1 << 20;
const END: Entry = Entry::End { left: 0 };

fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (read.into(), write.into())
}

/// A pipe's end that gives these bytes, however many they are.
fn giving(bytes: Vec<u8>) -> OwnedFd {
    let (read, write) = pipe();
    std::thread::spawn(move || {
        // Whoever reads may stop at any time.
        _ = std::fs::File::from(write).write_all(&bytes);
    });
    read
}

async fn all(from: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut from = pipe::Receiver::from_owned_fd(from).unwrap();
    from.read_to_end(&mut bytes).await.unwrap();
    bytes
}

fn file(path: &str, content: &str) -> (Entry, Vec<u8>) {
    let entry = Entry::File {
        path: path.into(),
        mode: 0o644,
        size: content.len() as u64,
    };
    (entry, content.into())
}

fn link(path: &str, target: &str) -> (Entry, Vec<u8>) {
    let entry = Entry::Link {
        path: path.into(),
        target: target.into(),
    };
    (entry, Vec::new())
}

fn stream(entries: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (entry, content) in entries {
        files::write(&mut bytes, entry).unwrap();
        bytes.extend_from_slice(content);
    }
    bytes
}

/// What is known of it then.
async fn unpack(
    sandbox: &dyn Sandbox,
    directory: &str,
    entries: &[(Entry, Vec<u8>)],
) -> Result<Vec<u8>, SandboxError> {
    let (from, to) = pipe();
    let given = giving(stream(entries));
    let asked = sandbox.unpack(Path::new(directory), true, given, to);
    let (done, known) = tokio::join!(asked, all(from));
    done.map(|()| known)
}

async fn put(sandbox: &dyn Sandbox, directory: &str, some: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut entries = some.to_vec();
    entries.push((END, Vec::new()));
    unpack(sandbox, directory, &entries).await.unwrap()
}

async fn changes(
    sandbox: &dyn Sandbox,
    directory: &str,
    known: Vec<u8>,
) -> Result<Vec<String>, SandboxError> {
    let (from, to) = pipe();
    let asked = sandbox.snapshot(Path::new(directory), LARGEST, giving(known), to);
    let (done, bytes) = tokio::join!(asked, all(from));
    done.map(|()| shown(&bytes))
}

/// A line for each entry, sorted.
fn shown(mut bytes: &[u8]) -> Vec<String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let mut lines = Vec::new();
    loop {
        lines.push(match files::read(&mut bytes).unwrap() {
            Entry::File { path, mode, size } => {
                let content = text(bytes[..usize::try_from(size).unwrap()].to_vec());
                bytes = &bytes[usize::try_from(size).unwrap()..];
                format!("{mode:o} {} {content:?}", text(path))
            }
            Entry::Link { path, target } => format!("{} -> {}", text(path), text(target)),
            Entry::Gone { path } => format!("gone {}", text(path)),
            Entry::Left { path, why } => format!("left {}: {why:?}", text(path)),
            Entry::Directory { .. } => panic!("directories are no change"),
            Entry::End { left } => {
                assert!(bytes.is_empty());
                if left > 0 {
                    lines.push(format!("{left} left"));
                }
                lines.sort();
                return lines;
            }
        });
    }
}

fn nothing_known() -> Vec<u8> {
    let mut bytes = Vec::new();
    files::write(&mut bytes, &Known::End).unwrap();
    bytes
}

both! {
    async fn files_go_in_and_what_changed_comes_out() {
        let sandbox = create(&spec()).await.unwrap();
        let tree = [
            file("a", "one"),
            file("d/b", "two"),
            link("d/l", "../a"),
            (Entry::Directory { path: b"empty".to_vec(), mode: 0o700 }, Vec::new()),
            file("gone", ""),
        ];
        let known = put(sandbox.as_ref(), "/tmp/work", &tree).await;
        let seen = ok(sandbox.as_ref(), "cd /tmp/work; cat a d/b; readlink d/l; stat -c '%U %a' a d empty").await;
        assert_eq!(seen, "onetwo../a\nagent 644\nagent 755\nagent 700\n");
        assert_eq!(changes(sandbox.as_ref(), "/tmp/work", known.clone()).await.unwrap(), [""; 0]);
        ok(sandbox.as_ref(), "cd /tmp/work; echo more >> a; chmod +x d/b; rm gone; ln -sfn a d/l; echo x > new; rmdir empty").await;
        let expected = ["644 a \"onemore\\n\"", "644 new \"x\\n\"", "755 d/b \"two\"", "d/l -> a", "gone gone"];
        assert_eq!(changes(sandbox.as_ref(), "/tmp/work", known.clone()).await.unwrap(), expected);
        // As often as it is asked.
        assert_eq!(changes(sandbox.as_ref(), "/tmp/work", known).await.unwrap(), expected);
        sandbox.close().await.unwrap();
    }
}

both! {
    /// By the kernel's own count: as many files are opened as changed, however many there are.
    async fn only_what_changed_is_read() {
        let shared = tempfile::tempdir().unwrap();
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut spec = spec();
        spec.mounts = vec![mount(shared.path(), "/disk", Access::ReadWrite)];
        let sandbox = create(&spec).await.unwrap();
        let sandbox = sandbox.as_ref();
        for (directory, files) in [("small", 10), ("large", 400)] {
            let at = format!("/disk/{directory}");
            let entries: Vec<_> = (0..files).map(|n| file(&format!("d{}/f{n}", n % 10), "x")).collect();
            let known = put(sandbox, &at, &entries).await;
            let mut rest = &known[..];
            let first = files::read::<Known>(&mut rest).unwrap();
            if matches!(&first, Known::Path { print, .. } if print.content.is_some()) {
                return skip!("that files are not read: the times of this file system do not tell of each change");
            }
            let opens = Opens::of((0..10).map(|number| shared.path().join(directory).join(format!("d{number}")))).unwrap();
            let opened = || opens.names().len();
            assert_eq!(changes(sandbox, &at, known.clone()).await.unwrap(), [""; 0]);
            assert_eq!(opened(), 0, "of {files} nothing changed");
            ok(sandbox, &format!("cd {at}; for n in 1 4 7; do echo y >> d$n/f$n; done; rm d2/f2; echo z > d3/new")).await;
            opened();
            assert_eq!(changes(sandbox, &at, known).await.unwrap().len(), 5);
            assert_eq!(opened(), 4, "of {files}");
            // The control: of what nothing is known everything is read.
            changes(sandbox, &at, nothing_known()).await.unwrap();
            assert_eq!(opened(), files);
        }
        sandbox.close().await.unwrap();
    }
}

/// Maps a file, reads it, and writes through the mapping, by which its time may not change.
const MAPS: &str = r#"
import mmap, sys, time
for path in sys.argv[1:]:
    with open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0]
            mapped[0:3] = b"two"
"#;

both! {
    /// On each kind of file system, what was written through a mapping is a change.
    async fn what_was_written_through_a_mapping_has_changed() {
        let shared = tempfile::tempdir().unwrap();
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mounts = vec![mount(shared.path(), "/disk", Access::ReadWrite)];
        let mut spec = spec();
        spec.mounts = mounts;
        let sandbox = create(&spec).await.unwrap();
        let sandbox = sandbox.as_ref();
        let python = "/usr/bin/python3";
        if ok(sandbox, &format!("test -x {python} && echo there || true")).await.is_empty() {
            return skip!("there is no python3 inside");
        }
        for directory in ["/tmp/work", "/dev/shm/work", "/disk/work"] {
            let tree = [file("a", "one"), file("b", "one"), file("c", "two"), link("l", "a")];
            let known = put(sandbox, directory, &tree).await;
            assert_eq!(changes(sandbox, directory, known.clone()).await.unwrap(), [""; 0], "{directory}");
            ok(sandbox, &format!("{python} -c '{MAPS}' {directory}/a")).await;
            assert_eq!(changes(sandbox, directory, known).await.unwrap(), ["644 a \"two\""], "{directory}");
        }
        let _ = sandbox.close().await;
    }
}

both! {
    /// Neither way leads through a link, and no pipe makes anybody wait.
    async fn nothing_is_followed_and_nothing_waits() {
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let known = put(sandbox, "/tmp/work", &[file("d/a", "a"), file("e/b", "b"), file("c", "c")]).await;
        ok(sandbox, "mkdir /tmp/else; echo secret > /tmp/else/a; cd /tmp/work; rm -r d; ln -s /tmp/else d;
            rm e/b; mkfifo e/b .gitignore; rm c; ln -s /tmp/else/a c; ln -s /tmp/else out").await;
        for directory in ["/tmp/work/d", "/tmp/work/out", "/tmp/work/../else", "/tmp//else", "tmp/else", "/", "/tmp/work/none"] {
            let refused = changes(sandbox, directory, nothing_known()).await;
            assert!(matches!(refused, Err(SandboxError::Files { .. })), "{directory}: {refused:?}");
        }
        // The link at `d` is the change, and what it leads to is none.
        let expected = ["2 left", "c -> /tmp/else/a", "d -> /tmp/else", "gone d/a", "left .gitignore: NoFile", "left e/b: NoFile", "out -> /tmp/else"];
        assert_eq!(changes(sandbox, "/tmp/work", known).await.unwrap(), expected);
        for path in ["d/new", "out/new", "d/deep/er", "../new", "/tmp/else/new", "x/../../else/new", ".", ""] {
            let refused = unpack(sandbox, "/tmp/work", &[file(path, "x"), (END, Vec::new())]).await;
            assert!(matches!(refused, Err(SandboxError::Files { .. })), "{path}: {refused:?}");
        }
        assert_eq!(ok(sandbox, "ls /tmp/else").await, "a\n");
        // What is in the way is replaced and not written through.
        put(sandbox, "/tmp/work", &[file("c", "own"), file("e/b", "own"), link(".gitignore", "c")]).await;
        assert_eq!(ok(sandbox, "cd /tmp/work; cat c e/b; cat /tmp/else/a").await, "ownownsecret\n");
        let _ = fails(sandbox, "test -e /tmp/new").await;
    }
}

both! {
    async fn what_cannot_travel_is_told() {
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let known = put(sandbox, "/tmp/work", &[file("a", "a")]).await;
        ok(sandbox, "cd /tmp/work; truncate -s 2G large; mkdir closed; echo x > closed/x; chmod 0 closed; chmod 0 a;
            mkdir -p .git sub/.GiT; echo x > .git/config; echo x > sub/.GiT/x;
            d=$(printf 'd%.0s' $(seq 250)); for n in $(seq 16); do mkdir $d; cd $d; done; echo deep > file").await;
        let lines = changes(sandbox, "/tmp/work", known).await.unwrap();
        let (long, short): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.len() > 1000);
        assert_eq!(short, ["4 left", "left a: Unreadable", "left closed: Unreadable", "left large: TooLarge"]);
        assert!(long.len() == 1 && long[0].ends_with(": NoPath"), "{long:?}");
        ok(sandbox, "cd /tmp/work; rm -rf d*; chmod 700 closed; rm -r closed large; for n in $(seq 300); do mkfifo p$n; done").await;
        let lines = changes(sandbox, "/tmp/work", nothing_known()).await.unwrap();
        assert_eq!(lines.iter().filter(|line| line.starts_with("left ")).count(), files::MOST_LEFT);
        assert!(lines.contains(&"301 left".to_owned()), "{lines:?}");
    }
}

both! {
    async fn a_stream_that_is_cut_is_refused() {
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let whole = [file("a", "content"), file("b", "x")];
        for some in [&whole[..], &whole[..1], &[]] {
            let refused = unpack(sandbox, "/tmp/work", some).await;
            assert!(matches!(refused, Err(SandboxError::Files { .. })), "{refused:?}");
        }
        let (entry, _) = file("c", "longer than what comes");
        let refused = unpack(sandbox, "/tmp/work", &[(entry, b"short".to_vec())]).await;
        assert!(matches!(refused, Err(SandboxError::Files { .. })), "{refused:?}");
        for noise in [vec![0xff; 999], Vec::new()] {
            let refused = changes(sandbox, "/tmp/work", noise).await;
            assert!(matches!(refused, Err(SandboxError::Files { .. })), "{refused:?}");
        }
    }
}

both! {
    /// Who carries goes on where everything else stands still, and nobody else does.
    async fn files_are_carried_while_everything_stands_still() {
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let entries: Vec<_> = (0..2000).map(|n| file(&format!("d{}/f{n}", n % 7), "x")).collect();
        let known = put(sandbox, "/tmp/work", &entries).await;
        let _counts = start(sandbox, "n=0; while :; do n=$((n+1)); echo $n > /tmp/work/count; done").await;
        while ok(sandbox, "cat /tmp/work/count 2> /dev/null || true").await.is_empty() {}
        for _ in 0..5 {
            sandbox.freeze().await.unwrap();
            let first = changes(sandbox, "/tmp/work", known.clone()).await.unwrap();
            assert_eq!(first.len(), 1, "{first:?}");
            // It takes longer than the time in which what wakes up is seen.
            put(sandbox, "/tmp/other", &entries).await;
            assert_eq!(changes(sandbox, "/tmp/work", nothing_known()).await.unwrap().len(), 2001);
            assert_eq!(changes(sandbox, "/tmp/work", known.clone()).await.unwrap(), first);
            sandbox.thaw().await.unwrap();
        }
        let counted = ok(sandbox, "cat /tmp/work/count").await;
        while ok(sandbox, "cat /tmp/work/count").await == counted {}
    }
}

/// Init's children, as the host sees them.
fn children(init: u32) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    all.split_ascii_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

both! {
    /// A transfer that nobody reads from costs nobody else anything, and ends with whoever asked for it.
    async fn a_transfer_that_hangs_is_alone_and_has_no_rights() {
        let living = Living::new();
        let sandbox = living.create().await;
        let known = put(sandbox.as_ref(), "/tmp/work", &[file("a", &"x".repeat(500_000))]).await;
        ok(sandbox.as_ref(), "echo >> /tmp/work/a").await;
        let init = living.init();
        let mut hanging = Vec::new();
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..17 {
            let (from, to) = pipe();
            hanging.push(from);
            let (sandbox, known) = (Arc::clone(&sandbox), giving(known.clone()));
            let ask = async move { sandbox.snapshot(Path::new("/tmp/work"), LARGEST, known, to).await };
            if number < 16 {
                waiting.spawn(ask);
                eventually("it carries", || children(init).len() > number).await;
            } else {
                let refused = ask.await.unwrap_err();
                assert!(refused.to_string().contains("temporarily unavailable"), "{refused}");
            }
        }
        let carrier = children(init)[0];
        eventually("it is confined", || status_of(carrier, "Seccomp") == "2").await;
        assert_eq!(status_of(carrier, "CapEff"), "0000000000000000");
        assert_eq!(status_of(carrier, "CapBnd"), "0000000000000000");
        assert_eq!(status_of(carrier, "NoNewPrivs"), "1");
        assert!(!status_of(carrier, "Uid").split_whitespace().any(|id| id == "0"));
        if crate::world::is_root() {
            // None of init's connections.
            let sockets = |pid: u32| {
                let all = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
                let all = all.map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap_or_default());
                all.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
            };
            assert_eq!((sockets(carrier), sockets(init) > 0), (0, true));
        }
        let inside = ok(sandbox.as_ref(), "for p in /proc/[0-9]*; do grep -q '^NSpid.*' $p/status; ls $p/fd > /dev/null 2>&1 || echo closed; done").await;
        assert!(inside.lines().count() >= 16, "{inside}");
        assert_eq!(ok(sandbox.as_ref(), "echo goes on").await, "goes on\n");
        // One who lets go is told apart from those who wait.
        hanging.remove(0);
        let one = waiting.join_next().await.unwrap().unwrap();
        assert!(matches!(one, Err(SandboxError::Files { .. })), "{one:?}");
        eventually("fifteen are left", || children(init).len() == 15).await;
        waiting.shutdown().await;
        drop(sandbox);
        eventually("none is left", || children(init).is_empty()).await;
        let again = living.open().await;
        assert_eq!(ok(again.as_ref(), "echo still").await, "still\n");
        again.close().await.unwrap();
    }
}

/// Stops or kills every process that carries files, again and again: they are children of the first one, and no program's.
const FIGHTS: &str = "while :; do for one in /proc/[0-9]*; do pid=${one#/proc/}; \
    [ $pid != 1 ] && [ $pid != $$ ] && [ \"$(cat $one/comm 2>/dev/null)\" = \"$(cat /proc/1/comm)\" ] && \
    echo >> /tmp/found && kill -$SIGNAL $pid; done; done 2>/dev/null";

both! {
    /// Whoever waits for files is told, and nothing of it stays in the way of the next one.
    async fn who_stops_or_kills_what_carries_files_holds_nobody_up() {
        for signal in ["STOP", "KILL"] {
            let sandbox = create(&spec()).await.unwrap();
            let mut fights = start(&*sandbox, &format!("SIGNAL={signal}; {FIGHTS}")).await;
            // The stream does not end by itself, nor does anybody stop to read what is told.
            let (entries, _open) = pipe();
            let (_known, into) = pipe();
            let done = sandbox.unpack(Path::new("/tmp"), false, entries, into).await;
            assert!(
                matches!(done, Err(SandboxError::CarrierEnded { .. })),
                "{signal}: {done:?}"
            );
            sandbox.signal(fights.number().unwrap(), 9).await.unwrap();
            fights.wait().await.unwrap();
            // The control: they were found.
            assert_ne!(ok(&*sandbox, "cat /tmp/found").await, "");
            put(&*sandbox, "/tmp/d", &[file("a", "one")]).await;
            assert_eq!(ok(&*sandbox, "cat /tmp/d/a").await, "one");
        }
    }
}

both! {
    /// A stop that happens once costs nobody their files.
    async fn what_carries_files_goes_on_when_it_was_stopped() {
        let sandbox = create(&spec()).await.unwrap();
        let (entries, open) = pipe();
        let (_known, into) = pipe();
        let asked = sandbox.unpack(Path::new("/tmp/d"), false, entries, into);
        let stops = async {
            let once = FIGHTS.replace("kill -$SIGNAL $pid", "kill -STOP $pid && exit");
            ok(&*sandbox, &once).await;
            let sent = stream(&[file("a", "one"), (END, Vec::new())]);
            std::fs::File::from(open).write_all(&sent).unwrap();
        };
        let (done, ()) = tokio::join!(asked, stops);
        done.unwrap();
        assert_eq!(ok(&*sandbox, "cat /tmp/d/a").await, "one");
    }
}
