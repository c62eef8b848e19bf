//! What is there inside: mounts and their rights, the owners of files, the network.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cofferdam::names::SandboxId;
use cofferdam::sandbox::{Access, ExecRequest, Mount, MountSource, SandboxError};

use crate::world::{both, create, fails, finish, is_root, mount, ok, spec};

both! {
    async fn only_what_is_mounted_is_there() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".cargo/bin")).unwrap();
        fs::create_dir_all(home.path().join(".ssh")).unwrap();
        fs::write(home.path().join(".ssh/id_rsa"), "secret").unwrap();
        fs::write(home.path().join(".cargo/credentials.toml"), "secret").unwrap();
        let tool = home.path().join(".cargo/bin/tool");
        fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{0}/.cargo/bin:{0}/.ssh:/usr/bin", home.path().display());
        let mut spec = spec();
        spec.search_path = Some(path.into());
        spec.caller_home = Some(home.path().into());
        let sandbox = create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, "tool").await, "tool\n");
        let home = home.path().display();
        fails(&*sandbox, &format!("ls {home}/.ssh")).await;
        assert_eq!(ok(&*sandbox, &format!("ls -A {home} {home}/.cargo")).await.matches("secret").count(), 0);
        assert_eq!(ok(&*sandbox, &format!("ls -A {home}/.cargo")).await, "bin\n");
        fails(&*sandbox, &format!("touch {home}/.cargo/bin/new")).await;
        // The test's home lies in /tmp: what is made there is made in the private one.
        ok(&*sandbox, &format!("touch {home}/new")).await;
        assert!(!Path::new(&format!("{home}/new")).exists());
        for place in ["/", "/usr", "/etc", "/dev", "/opt", "/proc", "/home", "/.cofferdam", "/workspace"] {
            fails(&*sandbox, &format!("touch {place}/new")).await;
        }
        for place in ["/tmp", "/var/tmp", "/run", "/home/agent", "/dev/shm", "$HOME"] {
            ok(&*sandbox, &format!("touch {place}/new && ls {place}/new")).await;
        }
        for gone in ["/root", "/sys", "/boot", "/srv", "/var/lib", "/var/run/docker.sock"] {
            fails(&*sandbox, &format!("ls {gone}")).await;
        }
        assert_eq!(ok(&*sandbox, "ls /proc/self/fd").await.lines().count(), 4, "0 to 2 and ls's own");
        assert_eq!(ok(&*sandbox, "echo a > /dev/stdout; echo b | cat /dev/stdin; : < /dev/null > /dev/null").await, "a\nb\n");
        assert_eq!(ok(&*sandbox, "grep -v lo: /proc/net/dev | tail -n +3; umask").await, "0022\n");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn files_land_with_the_owner_of_the_directory() {
        let mut owners = vec![rustix::process::geteuid().as_raw()];
        if is_root() {
            owners.push(4321);
        }
        for owner in owners {
            let tree = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(tree.path(), Some(owner), Some(owner)).unwrap();
            fs::write(tree.path().join("old"), "old").unwrap();
            std::os::unix::fs::chown(tree.path().join("old"), Some(owner), None).unwrap();
            fs::set_permissions(tree.path().join("old"), fs::Permissions::from_mode(0o600)).unwrap();
            let locked = tempfile::tempdir().unwrap();
            fs::write(locked.path().join("f"), "f").unwrap();
            let mut spec = spec();
            spec.workdir = "/workspace/repo".into();
            spec.mounts = vec![
                mount(tree.path(), "/workspace/repo", Access::ReadWrite),
                mount(locked.path(), "/.cofferdam/git", Access::ReadOnly),
            ];
            let sandbox = create(&spec).await.unwrap();
            let script = "cat old; echo new > old; mkdir -p a/b; echo x > a/b/c; ln -s x l; stat -c %u old a; pwd";
            assert_eq!(ok(&*sandbox, script).await, "old1000\n1000\n/workspace/repo\n");
            assert_eq!(ok(&*sandbox, "cat /.cofferdam/git/f").await, "f");
            fails(&*sandbox, "echo x > /.cofferdam/git/f").await;
            fails(&*sandbox, "rm -f /.cofferdam/git/f").await;
            sandbox.close().await.unwrap();
            for name in ["old", "a", "a/b", "a/b/c", "l"] {
                let found = fs::symlink_metadata(tree.path().join(name)).unwrap();
                assert_eq!(found.uid(), owner, "{name}");
            }
            assert_eq!(fs::read_to_string(tree.path().join("old")).unwrap(), "new\n");
        }
    }
}

both! {
    async fn mounts_go_where_they_are_told() {
        let tree = tempfile::tempdir().unwrap();
        let odd = tree.path().join(OsString::from_vec(b"a \"b\"\n'c\\\xff,:$(x)".to_vec()));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("f"), "odd").unwrap();
        fs::create_dir(tree.path().join("hidden")).unwrap();
        fs::write(tree.path().join("hidden/secret"), "s").unwrap();
        fs::write(tree.path().join("file"), "below").unwrap();
        fs::write(tree.path().join("over"), "above").unwrap();
        std::os::unix::fs::symlink(&odd, tree.path().join("link")).unwrap();
        let target = PathBuf::from(OsString::from_vec(b"/workspace/t \"q\"\n'\xfe".to_vec()));
        let over = Mount { source: MountSource::Nothing, target: "/workspace/r/hidden".into(), access: Access::ReadOnly };
        let mut base = spec();
        base.mounts = vec![
            mount(&odd, &target, Access::ReadWrite),
            mount(tree.path(), "/workspace/r", Access::ReadWrite),
            over,
            mount(tree.path().join("over"), "/workspace/r/file", Access::ReadOnly),
            mount(tree.path().join("over"), "/.cofferdam/new/file", Access::ReadOnly),
        ];
        let sandbox = create(&base).await.unwrap();
        let request = ExecRequest::new([OsStr::new("cat"), target.join("f").as_os_str()]);
        let run = sandbox.exec(request).await.unwrap();
        assert_eq!(finish(run).await.1, "odd");
        let mut request = ExecRequest::new(["sh", "-c", "cat f; echo new > g"]);
        request.directory = Some(target.clone());
        let run = sandbox.exec(request).await.unwrap();
        assert_eq!(finish(run).await.1, "odd");
        assert_eq!(fs::read_to_string(odd.join("g")).unwrap(), "new\n");
        assert_eq!(ok(&*sandbox, "ls -A /workspace/r/hidden; cat /workspace/r/file /.cofferdam/new/file").await, "aboveabove");
        fails(&*sandbox, "touch /workspace/r/hidden/x").await;
        fails(&*sandbox, "rmdir /workspace/r/hidden").await;
        sandbox.close().await.unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("file")).unwrap(), "below");

        let refused = |mount: Mount| {
            let mut spec = base.clone();
            spec.id = SandboxId::random().unwrap();
            spec.mounts.push(mount);
            async move { create(&spec).await.unwrap_err() }
        };
        let error = refused(mount(&odd, "/workspace/r/not/there", Access::ReadOnly)).await;
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("/workspace/r/not/there")), "{error}");
        assert!(!tree.path().join("not").exists(), "nothing is made in a host directory");
        let error = refused(mount(&odd, "/workspace/r/link/x", Access::ReadOnly)).await;
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("symlink")), "{error}");
        for target in ["/workspace/../x", "/", "relative"] {
            let error = refused(mount(&odd, target, Access::ReadOnly)).await;
            assert!(matches!(&error, SandboxError::Unsupported { .. }), "{target}: {error}");
        }
        for source in ["link", "missing"] {
            let error = refused(mount(tree.path().join(source), "/workspace/new", Access::ReadOnly)).await;
            assert!(error.to_string().contains(source), "{error}");
        }
    }
}

both! {
    async fn a_mount_over_itself_changes_rights_and_follows_no_symlink() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(dir.path().join("work/a/b/c")).unwrap();
        fs::create_dir_all(dir.path().join("outside/b")).unwrap();
        fs::write(dir.path().join("outside/b/secret"), "s").unwrap();
        let again = |target: &str, access| Mount { source: MountSource::Target, target: target.into(), access };
        let mut spec = spec();
        spec.mounts = vec![
            mount(dir.path().join("work"), "/w", Access::ReadWrite),
            again("/w/a", Access::ReadWrite),
            again("/w/a/b", Access::ReadOnly),
        ];
        let sandbox = create(&spec).await.unwrap();
        ok(&*sandbox, "touch /w/x /w/a/x").await;
        assert!(fails(&*sandbox, "touch /w/a/b/x").await.contains("Read-only"));
        assert!(fails(&*sandbox, "mv /w/a /w/old").await.contains("busy"));
        sandbox.close().await.unwrap();
        // Who works in the same directory at the same time may have exchanged it.
        fs::rename(dir.path().join("work/a"), dir.path().join("work/old")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), dir.path().join("work/a")).unwrap();
        for first in [1, 2] {
            let mut spec = spec.clone();
            spec.id = SandboxId::random().unwrap();
            spec.mounts.drain(1..first);
            let error = create(&spec).await.unwrap_err();
            assert!(error.to_string().contains("cannot mount"), "{error}");
        }
    }
}

both! {
    async fn what_lies_below_a_mount_is_left_out() {
        let mut spec = spec();
        spec.mounts = vec![mount("/dev", "/workspace/dev", Access::ReadOnly)];
        match create(&spec).await {
            // The file system of /dev cannot map owners: read-only it is mounted as it is.
            Ok(sandbox) => {
                assert!(is_root());
                ok(&*sandbox, "test -e /workspace/dev/null").await;
                assert_eq!(ok(&*sandbox, "ls -A /workspace/dev/pts").await, "");
                fails(&*sandbox, ": < /workspace/dev/null").await;
            }
            // An ordinary user cannot take it apart from what covers it.
            Err(SandboxError::Unsupported { what, .. }) => {
                assert!(!is_root() && what.contains("mounted below"), "{what}");
            }
            Err(error) => panic!("{error}"),
        }
        spec.mounts = vec![mount("/dev", "/workspace/dev", Access::ReadWrite)];
        let error = create(&spec).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Unsupported { what, .. } if what.contains("/dev")), "{error}");
    }
}

both! {
    async fn loopback_works_and_nothing_else() {
        let sandbox = create(&spec()).await.unwrap();
        let serve = "use IO::Socket::INET; $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die; \
                     $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die; print \"ok\"";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{serve}'")).await, "ok");
        let out = "use IO::Socket::INET; IO::Socket::INET->new(PeerAddr => \"192.0.2.1:80\", Timeout => 2) and print \"out\"; print $!+0";
        assert_eq!(ok(&*sandbox, &format!("perl -e '{out}'")).await, "101", "ENETUNREACH");
        sandbox.close().await.unwrap();
    }
}
