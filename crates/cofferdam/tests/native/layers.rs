//! Overlays: what lies over one another, and where changes go.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cofferdam::sandbox::{Access, Mount, MountSource, Sandbox, SandboxError};
use rustix::fs::{CWD, FileType, Mode};

use crate::living::Living;
use crate::world::*;

/// Layers at odd names, and a directory for changes.
pub(crate) struct Layers {
    room: tempfile::TempDir,
}

impl Layers {
    pub(crate) fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let layers = Self { room };
        for directory in [&layers.low(), &layers.high()] {
            fs::create_dir(directory).unwrap();
        }
        for name in ["upper", "work"] {
            fs::create_dir_all(layers.changes().join(name)).unwrap();
        }
        let low = layers.low();
        fs::create_dir_all(low.join("dir/sub")).unwrap();
        for (name, text) in [
            ("a", "low a"),
            ("b", "low b"),
            ("dir/c", "low c"),
            ("dir/sub/d", "d"),
            ("gone", "gone"),
        ] {
            fs::write(low.join(name), text).unwrap();
        }
        fs::write(layers.high().join("a"), "high a").unwrap();
        rustix::fs::mknodat(
            CWD,
            layers.high().join("gone"),
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        )
        .unwrap();
        layers
    }

    fn odd(&self, name: &str) -> PathBuf {
        let name = [name.as_bytes(), b" :,=\\\n\xff"].concat();
        self.room.path().join(OsString::from_vec(name))
    }

    pub(crate) fn low(&self) -> PathBuf {
        self.odd("low")
    }

    fn high(&self) -> PathBuf {
        self.odd("high")
    }

    fn changes(&self) -> PathBuf {
        self.odd("changes")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.changes().join("upper")
    }

    pub(crate) fn mount(&self) -> Mount {
        Mount {
            source: MountSource::Layers {
                lower: vec![self.high(), self.low()],
                upper: Some(self.changes()),
            },
            target: "/workspace/r".into(),
            access: Access::ReadWrite,
        }
    }

    /// What was changed, to be looked at and not to be changed.
    fn look(&self) -> Mount {
        let lower = vec![self.upper(), self.high(), self.low()];
        let source = MountSource::Layers { lower, upper: None };
        Mount {
            source,
            target: "/workspace/r".into(),
            access: Access::ReadOnly,
        }
    }
}

const LIST: &str =
    "cd /workspace/r && find . -type f | sort | while read f; do echo \"$f=$(cat $f)\"; done";

/// Every name below a directory, with its time of change.
fn state(top: &Path) -> Vec<(PathBuf, i64, i64)> {
    let (mut all, mut waiting) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                waiting.push(path.clone());
            }
            all.push((path, found.ctime(), found.ctime_nsec()));
        }
    }
    all.sort();
    all
}

both! {
    async fn what_is_changed_is_in_the_upper_directory_alone() {
        let layers = Layers::new();
        let before = (state(&layers.low()), state(&layers.high()));
        let mut spec = spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        let list = ok(&*sandbox, LIST).await;
        assert_eq!(list, "./a=high a\n./b=low b\n./dir/c=low c\n./dir/sub/d=d\n");
        assert_eq!(ok(&*sandbox, "stat -c %u:%g /workspace/r /workspace/r/a /workspace/r/dir").await, "1000:1000\n".repeat(3));
        ok(&*sandbox, "cd /workspace/r && echo new > new && echo more >> b && rm a && mv dir/c c && mkdir made && mv made moved && rm -r dir/sub && mkdir dir/sub && echo e > dir/sub/e && chmod 755 c && ln -s b link").await;
        let list = ok(&*sandbox, LIST).await;
        let wanted = "./b=low bmore\n./c=low c\n./dir/sub/e=e\n./new=new\n";
        assert_eq!(list, wanted);
        // Neither the host's names nor its devices are shown, and nothing of the layers can be reached.
        let seen = ok(&*sandbox, "grep ' /workspace/r ' /proc/self/mountinfo").await;
        assert!(!seen.contains("changes") && !seen.contains(&*layers.room.path().to_string_lossy()), "{seen}");
        assert!(seen.contains("nosuid") && seen.contains("nodev"), "{seen}");
        assert_eq!(ok(&*sandbox, "ls -A / | grep -vE '^(bin|dev|etc|home|lib.*|opt|proc|run|sbin|tmp|usr|var|workspace|\\.cofferdam|nix)$' || true").await, "");
        sandbox.close().await.unwrap();
        assert_eq!((state(&layers.low()), state(&layers.high())), before);
        assert_eq!(fs::read_to_string(layers.upper().join("new")).unwrap(), "new\n");
        assert!(fs::symlink_metadata(layers.upper().join("a")).unwrap().file_type().is_char_device());
        let own = rustix::process::geteuid().as_raw();
        for name in ["new", "b", "dir", "a"] {
            assert_eq!(fs::symlink_metadata(layers.upper().join(name)).unwrap().uid(), own, "{name}");
        }
        // The same is there for whoever looks, who can change nothing.
        let mut spec = crate::world::spec();
        spec.mounts = vec![layers.look()];
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, LIST).await, wanted);
        fails(&*sandbox, "touch /workspace/r/x").await;
        fails(&*sandbox, "rm /workspace/r/new").await;
        sandbox.close().await.unwrap();
        // And again for a sandbox that goes on with it.
        let mut spec = crate::world::spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, LIST).await, wanted);
        ok(&*sandbox, "rm -rf /workspace/r/*").await;
        assert_eq!(ok(&*sandbox, LIST).await, "");
        sandbox.close().await.unwrap();
        assert_eq!((state(&layers.low()), state(&layers.high())), before);
    }
}

both! {
    /// Programs rename directories, and do not all copy where that fails.
    async fn a_directory_of_a_layer_is_renamed() {
        let layers = Layers::new();
        let mut spec = spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        ok(&*sandbox, "cd /workspace/r && perl -e 'rename(\"dir\", \"moved\") or die $!' && perl -e 'rename(\"moved/sub\", \"sub\") or die $!'").await;
        let wanted = "./a=high a\n./b=low b\n./moved/c=low c\n./sub/d=d\n";
        assert_eq!(ok(&*sandbox, LIST).await, wanted);
        sandbox.close().await.unwrap();
        let mut spec = crate::world::spec();
        spec.mounts = vec![layers.look()];
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, LIST).await, wanted);
        sandbox.close().await.unwrap();
    }
}

both! {
    /// What an agent writes into the attributes that the kernel keeps there changes no layer and no later mount.
    async fn attributes_of_the_kernels_own_are_not_an_agents() {
        let layers = Layers::new();
        let mut spec = spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        // What is one's own is written, and says that this would be.
        let set = |name: &str, path: &str| format!(
            "python3 -c 'import os; os.setxattr(\"/workspace/r/{path}\", \"{name}\", b\"y\"); print(os.getxattr(\"/workspace/r/{path}\", \"{name}\"))'"
        );
        assert_eq!(ok(&*sandbox, &set("user.own", "b")).await, "b'y'\n");
        for family in ["user", "trusted"] {
            for (name, path) in [("opaque", "dir"), ("whiteout", "b"), ("redirect", "dir/sub"), ("metacopy", "b")] {
                let attribute = format!("{family}.overlay.{name}");
                let tried = format!("{} 2>&1; echo done", set(&attribute, path));
                let said = ok(&*sandbox, &tried).await;
                // Either the kernel refuses, or it keeps it under a name that is none of its own.
                let known = said.starts_with("b'y'\n") || said.contains("PermissionError") || said.contains("OSError");
                assert!(known && said.ends_with("done\n"), "{attribute}: {said}");
            }
        }
        sandbox.close().await.unwrap();
        let mut spec = crate::world::spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, LIST).await, "./a=high a\n./b=low b\n./dir/c=low c\n./dir/sub/d=d\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// The end of an overlay waits until all of the file system is on the disk. That is for who lives on with their files.
    async fn one_that_ends_with_its_maker_waits_for_no_disk() {
        let layers = Layers::new();
        let waits = async |sandbox: &dyn Sandbox| {
            let seen = ok(sandbox, "grep ' /workspace/r ' /proc/self/mountinfo").await;
            assert!(seen.contains(" - overlay "), "{seen}");
            !seen.contains("volatile")
        };
        let mut spec = spec();
        spec.mounts = vec![layers.mount()];
        let sandbox = create(&spec).await.unwrap();
        assert!(!waits(&*sandbox).await);
        ok(&*sandbox, "echo changed > /workspace/r/b").await;
        sandbox.close().await.unwrap();
        // It can be made to live on.
        let mut living = Living::new();
        living.spec.mounts = vec![layers.mount()];
        let sandbox = living.create().await;
        assert!(waits(&*sandbox).await);
        assert_eq!(ok(&*sandbox, "cat /workspace/r/b").await, "changed\n");
        sandbox.close().await.unwrap();
        let sandbox = create(&spec).await.unwrap();
        assert!(!waits(&*sandbox).await);
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn what_is_missing_is_named() {
        for part in ["low", "upper", "work", "changes"] {
            let layers = Layers::new();
            let path = match part {
                "low" => layers.low(),
                "changes" => layers.changes(),
                part => layers.changes().join(part),
            };
            fs::set_permissions(layers.room.path(), fs::Permissions::from_mode(0o755)).unwrap();
            fs::remove_dir_all(&path).unwrap();
            let mut spec = spec();
            spec.mounts = vec![layers.mount()];
            let error = create(&spec).await.unwrap_err();
            assert!(matches!(error, SandboxError::Start(_) | SandboxError::Unsupported { .. }), "{error:?}");
            assert!(error.to_string().contains("mount") || error.to_string().contains("lay directories"), "{part}: {error}");
        }
    }
}
