//! Homes on other file systems, and trees that are hard to write there.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cofferdam_lab::skip;

use crate::environment::{Done, TestEnvironment};

/// A directory that is seen through another file system, as a network's.
struct Fuse {
    at: PathBuf,
}

impl Fuse {
    /// None where this machine has no FUSE for who asks.
    fn mount(environment: &TestEnvironment) -> Option<Self> {
        let below = environment.temporary().join("below");
        let this = Self::place(environment)?;
        std::fs::create_dir(&below).unwrap();
        this.show(program("bindfs").arg(&below))
    }

    /// NTFS. To it `a` and `A` are one name, if they are to be.
    fn ntfs(environment: &TestEnvironment, ignores_case: bool) -> Option<Self> {
        let disk = environment.temporary().join("disk");
        let this = Self::place(environment)?;
        std::fs::File::create(&disk)
            .and_then(|file| file.set_len(64 << 20))
            .unwrap();
        let made = program("mkntfs")
            .args(["--force", "--quick", "--quiet"])
            .arg(&disk)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let options = if ignores_case {
            "permissions,ignore_case"
        } else {
            "permissions"
        };
        this.show(program("lowntfs-3g").args(["-o", options]).arg(&disk))
    }

    fn place(environment: &TestEnvironment) -> Option<Self> {
        let mut open = std::fs::File::options();
        open.read(true).write(true).open("/dev/fuse").ok()?;
        let at = environment.temporary().join("fuse");
        std::fs::create_dir(&at).unwrap();
        Some(Self { at })
    }

    fn show(self, by: &mut std::process::Command) -> Option<Self> {
        let done = by.arg(&self.at).status();
        done.unwrap().success().then_some(self)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no program of Cofferdam's own: it makes what Cofferdam finds"
)]
fn program(name: &str) -> std::process::Command {
    std::process::Command::new(name)
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = program("fusermount").arg("-uz").arg(&self.at).status();
    }
}

/// Whoever works inside has another user id, and the files are made for everybody: the caller's umask is not theirs.
#[test]
fn files_and_directories_have_the_same_modes_under_any_umask() {
    let environment = TestEnvironment::with_repository();
    environment.write("deep/er/x", "x\n");
    environment
        .shell("chmod +x deep/er/x; git add -A; git commit -qm deep")
        .expect_code(0);
    let inside = "test \"$(stat -c %a . src deep deep/er src/lib.txt deep/er/x | xargs)\" = '755 755 755 755 644 755'";
    let line = format!(
        "umask 077; '{}' run -q --network none --mode layer -- sh -c '{}'",
        env!("CARGO_BIN_EXE_cofferdam"),
        inside.replace('\'', "'\\''")
    );
    environment.shell(&line).expect_code(0);
    let modes = "find ~/.cofferdam/trees/*/*/files -printf '%y %m\\n' | sort -u";
    let modes = environment.shell(modes).expect_code(0);
    assert_eq!(modes.stdout, "d 755\nf 644\nf 755\n");
}

fn run(environment: &TestEnvironment, home: &Path, options: &[&str], script: &str) -> Done {
    let all = [
        &["run", "--network", "none"],
        options,
        &["--", "sh", "-c", script],
    ]
    .concat();
    let mut command = environment.command(&all);
    command.env("COFFERDAM_HOME", home);
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    crate::environment::finish(command.spawn().unwrap())
}

fn run_doctor(environment: &TestEnvironment, home: &Path) -> Vec<serde_json::Value> {
    let mut command = environment.command(&["doctor", "--json"]);
    command.env("COFFERDAM_HOME", home).stdout(Stdio::piped());
    let done = crate::environment::finish(command.spawn().unwrap());
    serde_json::from_str(&done.stdout).unwrap()
}

const COMMIT: &str = "echo x > n && git add n && git commit -qm n";

#[track_caller]
fn is_refused(done: &Done) {
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.contains("does not map owners"), "{done}");
    let hint = "hint: run as the ordinary user who owns it, or put it on ext4, xfs or btrfs; \
        `COFFERDAM_HOME` says where files of Cofferdam's own are\n";
    assert!(done.stderr.contains(hint), "{done}");
}

/// Root's checkout may be where owners are not mapped: what a sandbox of its own is made from is git's objects.
#[test]
fn a_checkout_where_owners_are_not_mapped_is_only_read() {
    if !rustix::process::geteuid().is_root() {
        return skip!("owners are mapped for root's sandboxes alone");
    }
    let environment = TestEnvironment::with_repository();
    let Some(fuse) = Fuse::mount(&environment) else {
        return skip!("there is no FUSE here");
    };
    let there = fuse.at.join("repository");
    let there = there.to_str().unwrap();
    environment.git(&["clone", "-q", ".", there]);
    let run = |options: &[&str]| {
        let words = [
            &["-C", there, "run", "--network", "none"],
            options,
            &["--", "sh", "-c", COMMIT],
        ];
        environment.cofferdam(&words.concat())
    };
    is_refused(&run(&["--head"]));
    is_refused(&run(&["--mode", "bind"]));
    let done = run(&[]).expect_code(0);
    assert!(done.stderr.contains("mode layer"), "{done}");
    assert_eq!(
        environment.git(&["-C", there, "log", "-1", "--format=%s"]),
        "n"
    );
}

#[test]
fn a_home_where_layers_are_refused_is_worked_in_without_them() {
    let environment = TestEnvironment::with_repository();
    let Some(fuse) = Fuse::mount(&environment) else {
        return skip!("there is no FUSE here for who asks");
    };
    let home = fuse.at.join("home");
    if rustix::process::geteuid().is_root() {
        // Nobody else's ids can be given to files there, and nobody's owner is changed.
        for mode in [
            &[][..],
            &["--mode", "bind"],
            &["--mode", "copy"],
            &["--head"],
        ] {
            is_refused(&run(&environment, &home, mode, COMMIT));
        }
        assert_eq!(environment.git(&["log", "--format=%s"]), "start");
    } else {
        let done = run(&environment, &home, &[], COMMIT).expect_code(0);
        assert!(
            done.stderr
                .contains("mode bind (layers are not possible here: "),
            "{done}"
        );
        assert_eq!(environment.read("n"), "x\n");
    }
    let told = run_doctor(&environment, &home);
    let layers = told.iter().find(|one| one["name"] == "layers").unwrap();
    assert_eq!(layers["status"], "degraded", "{layers}");
    let hint = layers["hint"].as_str().unwrap();
    assert!(hint.contains("`--mode bind`"), "{layers}");
    // Such a file system keeps a name for each open file that is removed: the lock's is the last.
    let left: Vec<_> = std::fs::read_dir(home.join("state")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A commit may have `a` and `A` in one directory, and would lose one of them there.
#[test]
fn where_case_makes_no_difference_there_are_no_layers() {
    const WHY: &str = "the file system takes names that differ in case for one";
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a disk");
    }
    for ignores_case in [true, false] {
        let environment = TestEnvironment::with_repository();
        let Some(fuse) = Fuse::ntfs(&environment, ignores_case) else {
            return skip!("there is no FUSE here");
        };
        std::fs::create_dir(fuse.at.join("a")).unwrap();
        let is_one = std::fs::create_dir(fuse.at.join("A")).is_err();
        assert_eq!(is_one, ignores_case);
        let home = fuse.at.join("home");
        let done = run(&environment, &home, &[], COMMIT);
        // In the control too they are not possible: nobody else's ids can be given to files there.
        let (_, why) = done
            .stderr
            .split_once("mode bind (layers are not possible here: ")
            .unwrap();
        assert_eq!(
            why.lines().next().unwrap().contains(WHY),
            ignores_case,
            "{done}"
        );
        let told = run_doctor(&environment, &home);
        let layers = told.iter().find(|one| one["name"] == "layers").unwrap();
        assert_eq!(layers["status"], "degraded", "{layers}");
        let detail = layers["detail"].as_str().unwrap();
        assert_eq!(detail.contains(WHY), ignores_case, "{layers}");
        assert_eq!(std::fs::read_dir(home.join("trees")).unwrap().count(), 0);
    }
}

/// Something around the command answers its system calls: a sandbox has no say in renames then, which an ordinary user's
/// overlay needs. (mv(1) would have copied, and layers would look possible.)
#[test]
fn where_directories_cannot_be_renamed_there_are_no_layers() {
    if rustix::process::geteuid().is_root() {
        return skip!("renames of an ordinary user's overlay: root's are the kernel's");
    }
    let (prctl, seccomp) = match std::env::consts::ARCH {
        "x86_64" => (157, 317),
        "aarch64" => (167, 277),
        arch => return skip!("a listener for system calls: their numbers on {arch}"),
    };
    // PR_SET_NO_NEW_PRIVS; a filter that lets everything pass, with a listener that stays open.
    let listen = format!(
        "syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die $!; my $pass = pack('SCCL', 6, 0, 0, 0x7fff0000);
        my $fd = syscall({seccomp}, 1, 8, pack('Sx6P', 1, $pass)); $fd >= 0 or die $!;
        open(my $listener, '<&=', $fd) or die $!; fcntl($listener, 2, 0) or die $!; exec @ARGV or die $!"
    );
    let environment = TestEnvironment::with_repository();
    let told = |listen: Option<&str>| {
        let command = env!("CARGO_BIN_EXE_cofferdam");
        let run = ["run", "--agent", "command", "--", "true"];
        let mut program = match listen {
            Some(_) => environment.program("perl"),
            None => environment.program(command),
        };
        if let Some(listen) = listen {
            program.args(["-e", listen, command]);
        }
        program
            .args(run)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        crate::environment::finish(program.spawn().unwrap())
            .expect_code(0)
            .stderr
    };
    // That they are possible outside says nothing of this.
    for _ in 0..2 {
        let said = told(None);
        assert!(said.contains("mode layer"), "{said}");
        let said = told(Some(&listen));
        assert!(
            said.contains("mode bind (layers are not possible here: "),
            "{said}"
        );
    }
}

/// As on a kernel that does not know `userxattr`, or `volatile`: those are all that a flag is set for.
#[test]
fn where_the_kernel_refuses_an_option_there_are_no_layers() {
    // fsconfig(2) with FSCONFIG_SET_FLAG is EINVAL; everything else passes.
    let filter = "syscall(shift() + 0, 38, 1, 0, 0, 0) == 0 or die $!;
        my $code = join '', map { pack 'SCCL', @$_ } [0x20, 0, 0, 0], [0x15, 0, 3, 431], [0x20, 0, 0, 24], [0x15, 0, 1, 0],
            [6, 0, 0, 0x50016], [6, 0, 0, 0x7fff0000];
        syscall(shift() + 0, 1, 0, pack('Sx6P', 6, $code)) == 0 or die $!; exec @ARGV or die $!";
    let (prctl, seccomp) = match std::env::consts::ARCH {
        "x86_64" => ("157", "317"),
        "aarch64" => ("167", "277"),
        arch => return skip!("a filter of system calls: their numbers on {arch}"),
    };
    let environment = TestEnvironment::with_repository();
    let command = env!("CARGO_BIN_EXE_cofferdam");
    let filtered = |words: &[&str]| {
        let mut perl = environment.program("perl");
        perl.args(["-e", filter, prctl, seccomp, command])
            .args(words);
        perl.stdout(Stdio::piped()).stderr(Stdio::piped());
        crate::environment::finish(perl.spawn().unwrap())
    };
    let layered = || {
        let done = environment
            .run(&["--network", "none"], "true")
            .expect_code(0);
        assert!(done.stderr.contains("mode layer"), "{done}");
    };
    // That they are possible without it says nothing of this.
    layered();
    let run = ["run", "--network", "none", "--", "sh", "-c", COMMIT];
    let done = filtered(&run).expect_code(0);
    let (_, why) = done
        .stderr
        .split_once("mode bind (layers are not possible here: ")
        .unwrap_or_else(|| panic!("{done}"));
    let line = why.lines().next().unwrap();
    assert!(line.contains("Invalid argument"), "{done}");
    // Who asks for them by name has no sandbox, and nothing is made for one.
    let refused = filtered(&["create", "box", "--mode", "layer", "--network", "none"]);
    let refused = refused.expect_code(1);
    let says = "error: layers are not possible here: ";
    assert!(refused.stderr.starts_with(says), "{refused}");
    assert!(refused.stderr.contains("Invalid argument"), "{refused}");
    let listed = environment.cofferdam(&["list"]).expect_code(0);
    assert_eq!(listed.stdout, "", "{listed}");
    assert_eq!(environment.read("n"), "x\n");
    // That is not remembered, and without it there are.
    layered();
}

/// A commit with nothing new but a file whose path has so many bytes.
fn commit_long(environment: &TestEnvironment, names: &str) {
    let line = format!(
        "{{ printf 'commit refs/heads/main\\ncommitter a <a@b> 1 +0000\\ndata 1\\nx\\nfrom refs/heads/main^0\\n'; \
        perl -e 'print \"M 100644 inline \", {names}, \"\\ndata 1\\nx\\n\"'; }} | git fast-import --quiet && git read-tree HEAD"
    );
    environment.shell(&line).expect_code(0);
}

/// Up to what the kernel opens by one path: the agent's git sees the file, takes a change of it, and that comes home.
#[test]
fn paths_may_be_as_long_as_the_kernels() {
    const CHANGE: &str = "(for n in $(seq 20); do cd d*; done; for f in f*; do echo y > $f; done)";
    let own = |environment: &TestEnvironment| environment.home().join("own");
    let listed = "git ls-tree -r main | grep ddd | cut -c 1-52";
    for length in [4021, 4022, 4094, 4095] {
        let environment = TestEnvironment::with_repository();
        let names = format!("(\"d\" x 200 . \"/\") x 20, \"f\" x ({length} - 4020)");
        commit_long(&environment, &names);
        let script = format!(
            "test -z \"$(git status --porcelain 2>&1)\" && {CHANGE} && git commit -qam n && test -z \"$(git status --porcelain 2>&1)\""
        );
        run(&environment, &own(&environment), &["-q"], &script).expect_code(0);
        assert_eq!(environment.git(&["log", "-1", "--format=%s", "main"]), "n");
        let is = environment.shell(listed).expect_code(0).stdout;
        let wanted = environment.shell("echo y | git hash-object --stdin").stdout;
        assert_eq!(is, format!("100644 blob {wanted}"), "{length}");
        // Nothing is taken for uncommitted work.
        let left = std::fs::read_dir(own(&environment).join("state")).unwrap();
        assert_eq!(left.count(), 0, "{length}");
    }
    // What git can open nowhere stays in the commit as it is. Where git itself writes the files it says so.
    let environment = TestEnvironment::with_repository();
    commit_long(&environment, "(\"d\" x 200 . \"/\") x 20, \"f\" x 76");
    let before = environment.shell(listed).expect_code(0).stdout;
    let home = own(&environment);
    run(&environment, &home, &["-q"], &format!("{COMMIT}a")).expect_code(0);
    assert_eq!(environment.git(&["log", "-1", "--format=%s", "main"]), "na");
    assert_eq!(environment.shell(listed).stdout, before);
    for mode in ["bind", "copy"] {
        let done = run(&environment, &home, &["-q", "--mode", mode], COMMIT).expect_code(1);
        assert!(done.stderr.contains("unable to create file ddd"), "{done}");
    }
    // A name that no file system of this kernel has.
    commit_long(&environment, "\"n\" x 300");
    let done = run(&environment, &home, &["-q"], COMMIT).expect_code(1);
    assert!(done.stderr.contains("File name too long"), "{done}");
    assert!(done.stderr.contains("hint: "), "{done}");
}
