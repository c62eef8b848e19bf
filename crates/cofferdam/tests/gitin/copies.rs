//! `--copy`: paths of the user's checkout in a worktree.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cofferdam::git::copies::{Copied, CopyError, copy_into};

use crate::support::never;

struct Tops {
    dir: tempfile::TempDir,
}

impl Tops {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["from", "to", "outside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn copy(&self, paths: &[&str]) -> Result<Copied, CopyError> {
        let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
        copy_into(&self.path("to"), &self.path("from"), &paths, &[], &never()).await
    }
}

#[tokio::test]
async fn files_trees_modes_times_and_links() {
    let tops = Tops::new();
    let script = tops.put("from/node modules/bin/run", "#!");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o555)).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = std::fs::File::open(&script).unwrap();
    file.set_modified(old).unwrap();
    tops.put("from/node modules/pkg/.git/config", "x");
    symlink("/etc/passwd", tops.path("from/node modules/link")).unwrap();
    tops.put("from/.env", "new");
    tops.put("to/.env", "old");
    tops.put("from/not-named", "x");
    let copied = tops
        .copy(&[".env", "./node modules/", "absent", "a/b/absent"])
        .await
        .unwrap();
    assert_eq!(copied.files, 3);
    assert_eq!(copied.missing, ["absent", "a/b/absent"].map(PathBuf::from));
    assert_eq!(copied.skipped, [Path::new("node modules/pkg/.git")]);
    assert_eq!(std::fs::read(tops.path("to/.env")).unwrap(), b"new");
    let found = std::fs::metadata(tops.path("to/node modules/bin/run")).unwrap();
    assert_eq!(
        (found.mode() & 0o777, found.mtime()),
        (0o555, 1_000_000_000)
    );
    assert_eq!(
        std::fs::read_link(tops.path("to/node modules/link")).unwrap(),
        Path::new("/etc/passwd")
    );
    assert!(!tops.path("to/not-named").exists());
    // Again over itself.
    assert_eq!(tops.copy(&["node modules"]).await.unwrap().files, 2);
}

#[tokio::test]
async fn nothing_leads_out() {
    let tops = Tops::new();
    tops.put("outside/secret", "secret");
    tops.put("from/ok", "ok");
    symlink(tops.path("outside"), tops.path("from/door")).unwrap();
    let absolute = tops.path("outside/secret");
    for bad in [
        "../outside/secret",
        "a/../../x",
        absolute.to_str().unwrap(),
        "",
        ".",
        ".git/config",
        "sub/.GIT",
        ".cofferdam/x",
        "door/secret",
    ] {
        let error = tops.copy(&["ok", bad]).await.unwrap_err();
        assert!(matches!(error, CopyError::Refused { .. }), "{bad}: {error}");
        assert!(!tops.path("to/ok").exists(), "{bad}");
    }
    // The worktree has a symlink where a directory is to be.
    symlink(tops.path("outside"), tops.path("to/dir")).unwrap();
    tops.put("from/dir/file", "x");
    assert!(tops.copy(&["dir/file"]).await.is_err());
    assert!(!tops.path("outside/file").exists());
    // A symlink as a file's name is replaced, not written through.
    symlink(tops.path("outside/secret"), tops.path("to/ok")).unwrap();
    tops.copy(&["ok"]).await.unwrap();
    assert_eq!(
        std::fs::read(tops.path("outside/secret")).unwrap(),
        b"secret"
    );
    assert_eq!(std::fs::read(tops.path("to/ok")).unwrap(), b"ok");
    // The positive control: an absolute path below the top.
    let inside = tops.path("from/ok");
    tops.copy(&[inside.to_str().unwrap()]).await.unwrap();
}

#[tokio::test]
async fn cancelling_ends_it() {
    let tops = Tops::new();
    tops.put("from/dir/file", "x");
    let cancel = never();
    cancel.cancel();
    let paths = [PathBuf::from("dir")];
    let done = copy_into(&tops.path("to"), &tops.path("from"), &paths, &[], &cancel).await;
    assert!(matches!(done, Err(CopyError::Cancelled)));
}
