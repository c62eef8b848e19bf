//! The kinds of machines there are, as their kernel and systemd lay them out: what is chosen, and what is written
//! where. The files are plain ones; a kernel that has the controllers free for version 2 is not at hand everywhere.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// As Debian 12, Fedora and Ubuntu 22.04 have it.
const UNIFIED: &str = "\
proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
cgroup2 TOP cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0
tmpfs /run tmpfs rw,nosuid,nodev 0 0
";
/// As Ubuntu 20.04 and Debian 10 have it: every controller in version 1, and version 2 for systemd's own use.
const HYBRID: &str = "\
tmpfs TOP tmpfs ro,nosuid,nodev,noexec,mode=755 0 0
cgroup2 TOP/unified cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0
cgroup TOP/systemd cgroup rw,nosuid,nodev,noexec,relatime,xattr,name=systemd 0 0
cgroup TOP/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0
cgroup TOP/cpuset cgroup rw,nosuid,nodev,noexec,relatime,cpuset 0 0
cgroup TOP/memory cgroup rw,nosuid,nodev,noexec,relatime,memory 0 0
";
const HYBRID_OWN: &str = "\
5:memory:/user.slice/user-1000.slice/session-3.scope
4:cpuset:/
3:cpu,cpuacct:/user.slice
1:name=systemd:/user.slice/user-1000.slice/session-3.scope
0::/user.slice/user-1000.slice/session-3.scope
";

struct Tree {
    directory: tempfile::TempDir,
    machine: Machine,
    id: SandboxId,
}

impl Tree {
    /// With these files below the top; the group's own files are the kernel's to make.
    fn new(mounts: &str, own: &str, files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().to_str().unwrap();
        let machine = Machine {
            mounts: mounts.replace("TOP", top),
            own: own.to_owned(),
        };
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            set(&path, text).unwrap();
        }
        Self {
            directory,
            machine,
            id: SandboxId::random().unwrap(),
        }
    }

    fn hierarchies(&self, controller: Controller) -> Vec<(String, Version)> {
        let found = self.machine.hierarchies(controller).into_iter();
        found
            .map(|(path, version)| {
                let below = path.strip_prefix(self.directory.path()).unwrap();
                (below.to_str().unwrap().to_owned(), version)
            })
            .collect()
    }

    fn create(&self) -> Result<Group, SandboxError> {
        let limits = Limits {
            memory: Some(64 << 20),
            cpus: Some(0.5),
            ..Limits::default()
        };
        Group::create_on(&self.machine, self.id, &limits)
    }

    /// What a file says; `ID` in its path is the sandbox's.
    #[track_caller]
    fn says(&self, path: &str, text: &str) {
        let path = path.replace("ID", &self.id.to_string());
        let found = fs::read_to_string(self.directory.path().join(&path));
        assert_eq!(found.ok().as_deref(), Some(text), "{path}");
    }
}

#[test]
fn one_hierarchy_of_version_2() {
    let own = "0::/user.slice/user-1000.slice/session-3.scope\n";
    let files = [
        ("cgroup.controllers", "cpuset cpu io memory hugetlb pids\n"),
        ("cgroup.subtree_control", "memory pids\n"),
    ];
    let tree = Tree::new(UNIFIED, own, &files);
    for controller in [Controller::Memory, Controller::Cpu] {
        let own = "user.slice/user-1000.slice/session-3.scope".to_owned();
        assert_eq!(
            tree.hierarchies(controller),
            [(String::new(), Version::Two), (own, Version::Two)]
        );
    }
    let group = tree.create().unwrap();
    // One directory for both, and each controller handed down where it was not.
    assert_eq!(group.directories.len(), 1);
    tree.says("cgroup.subtree_control", "+cpu");
    tree.says("cofferdam/cgroup.subtree_control", "+cpu");
    tree.says("cofferdam/ID/memory.max", "67108864");
    tree.says("cofferdam/ID/memory.swap.max", "0");
    tree.says("cofferdam/ID/cpu.max", "50000 100000");
    group.add(4711).unwrap();
    tree.says("cofferdam/ID/cgroup.procs", "4711");
}

#[test]
fn version_1_beside_a_version_2_without_controllers() {
    let files = [
        ("unified/cgroup.controllers", "\n"),
        ("cpu,cpuacct/cgroup.procs", ""),
        ("memory/cgroup.procs", ""),
    ];
    let tree = Tree::new(HYBRID, HYBRID_OWN, &files);
    assert_eq!(
        tree.hierarchies(Controller::Memory),
        [
            ("memory".to_owned(), Version::One),
            (
                "memory/user.slice/user-1000.slice/session-3.scope".to_owned(),
                Version::One
            ),
        ]
    );
    // Not that of cpuset, whose name begins the same.
    assert_eq!(
        tree.hierarchies(Controller::Cpu),
        [
            ("cpu,cpuacct".to_owned(), Version::One),
            ("cpu,cpuacct/user.slice".to_owned(), Version::One),
        ]
    );
    let group = tree.create().unwrap();
    assert_eq!(group.directories.len(), 2);
    tree.says("memory/cofferdam/ID/memory.limit_in_bytes", "67108864");
    tree.says(
        "memory/cofferdam/ID/memory.memsw.limit_in_bytes",
        "67108864",
    );
    tree.says("cpu,cpuacct/cofferdam/ID/cpu.cfs_period_us", "100000");
    tree.says("cpu,cpuacct/cofferdam/ID/cpu.cfs_quota_us", "50000");
    assert!(!tree.directory.path().join("unified/cofferdam").exists());
    group.add(4711).unwrap();
    for hierarchy in ["memory", "cpu,cpuacct"] {
        tree.says(&format!("{hierarchy}/cofferdam/ID/cgroup.procs"), "4711");
    }
}

/// A machine whose administrator left some controllers to version 2.
#[test]
fn each_controller_where_it_is() {
    let mounts = HYBRID.replace(",cpu,cpuacct 0", ",cpuacct 0");
    let files = [
        ("unified/cgroup.controllers", "cpu\n"),
        ("unified/cgroup.subtree_control", ""),
        ("memory/cgroup.procs", ""),
    ];
    let tree = Tree::new(&mounts, HYBRID_OWN, &files);
    let group = tree.create().unwrap();
    assert_eq!(group.directories.len(), 2);
    tree.says("memory/cofferdam/ID/memory.limit_in_bytes", "67108864");
    tree.says("unified/cofferdam/ID/cpu.max", "50000 100000");
    tree.says("unified/cgroup.subtree_control", "+cpu");
}

/// The top is not ours to write, our own group is: a delegated one.
#[test]
fn a_delegated_group() {
    let own = "0::/user.slice/user@1000.service/app.slice/run.scope\n";
    let inside = "user.slice/user@1000.service/app.slice/run.scope";
    let controllers = format!("{inside}/cgroup.controllers");
    let files = [
        ("cgroup.controllers", "cpu memory\n"),
        (controllers.as_str(), "cpu memory\n"),
        // In the place of our group at the top: nothing can be made below it, as without the right to.
        ("cofferdam", ""),
    ];
    let tree = Tree::new(UNIFIED, own, &files);
    tree.create().unwrap();
    tree.says(&format!("{inside}/cofferdam/ID/memory.max"), "67108864");
    tree.says(&format!("{inside}/cofferdam/ID/cpu.max"), "50000 100000");
}

#[test]
fn a_machine_without_a_controller_says_which() {
    let files = [
        ("cgroup.controllers", "cpu pids\n"),
        ("cgroup.subtree_control", ""),
    ];
    let tree = Tree::new(UNIFIED, "0::/\n", &files);
    let error = tree.create().unwrap_err();
    assert!(
        matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("cannot limit memory")),
        "{error}"
    );
    // A group of a container's own: its path is the top, which is not tried twice.
    assert_eq!(
        tree.hierarchies(Controller::Cpu),
        [(String::new(), Version::Two)]
    );
}

/// Where root's sandboxes are at work, their group is at the top already: it is not an ordinary user's.
#[test]
fn another_users_group_at_the_top() {
    let own = "0::/user.slice/user@1000.service/app.slice/run.scope\n";
    let inside = "user.slice/user@1000.service/app.slice/run.scope";
    let controllers = format!("{inside}/cgroup.controllers");
    let files = [
        ("cgroup.controllers", "cpu memory\n"),
        (controllers.as_str(), "cpu memory\n"),
        ("cofferdam/cgroup.procs", ""),
    ];
    let tree = Tree::new(UNIFIED, own, &files);
    let theirs = tree.directory.path().join("cofferdam");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o555)).unwrap();
    let group = tree.create().unwrap();
    // So that the tree can be removed.
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o755)).unwrap();
    // Root may write wherever it is: for it the first place is the right one.
    let place = if rustix::process::geteuid().is_root() {
        theirs
    } else {
        tree.directory.path().join(inside).join("cofferdam")
    };
    assert_eq!(group.directories, [place.join(tree.id.to_string())]);
}

/// Below the group that this process is in, whose limits go on; else at the top; else nowhere, and it is said why.
#[test]
fn where_programs_can_be_frozen() {
    let own = "0::/user.slice/run.scope\n";
    let inside = "user.slice/run.scope";
    let members = format!("{inside}/cgroup.procs");
    let place = |tree: &Tree| {
        let place = freezer::place(&tree.machine).map_err(|error| error.to_string())?;
        let below = place.strip_prefix(tree.directory.path()).unwrap();
        Ok::<_, String>(below.to_str().unwrap().to_owned())
    };
    let both = [("cgroup.procs", ""), (members.as_str(), "")];
    let tree = Tree::new(UNIFIED, own, &both);
    assert_eq!(place(&tree).as_deref(), Ok(inside));
    let tree = Tree::new(UNIFIED, own, &both[..1]);
    assert_eq!(place(&tree).as_deref(), Ok(""));
    // Outside of what a container shows.
    let tree = Tree::new(UNIFIED, "0::/../other\n", &both);
    assert_eq!(place(&tree).as_deref(), Ok(""));
    let hybrid = [("unified/cgroup.procs", "")];
    let tree = Tree::new(HYBRID, HYBRID_OWN, &hybrid);
    assert_eq!(place(&tree).as_deref(), Ok("unified"));
    let why = place(&Tree::new(UNIFIED, own, &[])).unwrap_err();
    assert!(why.contains("cgroup.procs"), "{why}");
    let why = place(&Tree::new("", own, &[])).unwrap_err();
    assert!(why.contains("version 2"), "{why}");
}

/// With limits of version 2 it is below theirs: a program that left them would have none.
#[test]
fn what_can_be_frozen_keeps_its_limits() {
    let state = tempfile::tempdir().unwrap();
    let files = [
        ("cgroup.controllers", "cpu memory\n"),
        ("cgroup.subtree_control", "cpu memory\n"),
        ("cgroup.procs", ""),
        ("other/cgroup.procs", ""),
    ];
    let tree = Tree::new(UNIFIED, "0::/other\n", &files);
    let top = tree.directory.path();
    let ours = |place: &str| top.join(place).join("cofferdam").join(tree.id.to_string());
    let limited = tree.create().unwrap();
    set(&limited.directories[0].join("cgroup.freeze"), "0").unwrap();
    let noted = || fs::read_to_string(state.path().join("group")).unwrap();
    for (limits, place) in [(&limited.directories[..], ""), (&[], "other")] {
        let made = freezer::make(&tree.machine, tree.id, limits, Agent::Caller, state.path());
        assert_eq!(made.unwrap(), ours(place));
        assert!(ours(place).join("programs").is_dir());
        assert_eq!(noted(), ours(place).to_str().unwrap());
    }
    // The kernel's own file is the mark of a group; here it is an ordinary one, which keeps its directory.
    assert_eq!(
        freezer::leftovers(&tree.machine, tree.id, Some(state.path())),
        [ours("")]
    );
    freezer::remove(&ours("other")).unwrap();
    assert!(!ours("other").exists() && !top.join("other/cofferdam").exists());
}
