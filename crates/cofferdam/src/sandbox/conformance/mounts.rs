//! Directories of the host's inside.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::trial::{Trial, finish, mount, ok, put, refused};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Access, ExecRequest, Mount, MountSource, SandboxError};

pub(super) async fn what_is_written_is_the_callers(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let shared = trial.with_workspace(&mut spec)?;
    put(&shared.join("from-outside"), "outside\n")?;
    let sandbox = trial.create(&spec).await?;
    let seen = ok(
        &*sandbox,
        "pwd; cat from-outside; echo inside >from-inside; mkdir -p a/b; echo more >>from-outside; chmod 0700 a",
    );
    ensure!(
        seen.await? == "/workspace\noutside\n",
        "a file of the host's reads otherwise"
    );
    let inside = shared.join("from-inside");
    ensure!(
        fs::read(&inside)? == b"inside\n",
        "what was written inside reads otherwise"
    );
    ensure!(
        fs::read(shared.join("from-outside"))? == b"outside\nmore\n",
        "what was changed inside reads otherwise"
    );
    let caller = rustix::process::geteuid().as_raw();
    for path in [inside, shared.join("a/b")] {
        let owner = path.metadata()?.uid();
        ensure!(owner == caller, "{} is user {owner}'s", path.display());
    }
    // Both ways, while it is there.
    put(&shared.join("later"), "later\n")?;
    ensure!(
        ok(&*sandbox, "cat later").await? == "later\n",
        "a later file is not seen"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn what_is_read_only_stays_so(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let tree = trial.directory("tree")?;
    fs::create_dir_all(tree.join("deep"))?;
    put(&tree.join("deep/file"), "as it was\n")?;
    let mut spec = trial.spec()?;
    spec.mounts
        .push(mount(&tree, "/workspace", Access::ReadOnly));
    let sandbox = trial.create(&spec).await?;
    ensure!(
        ok(&*sandbox, "cat /workspace/deep/file").await? == "as it was\n",
        "a file of a read-only directory cannot be read"
    );
    let scripts = [
        "echo x >/workspace/new",
        "echo x >>/workspace/deep/file",
        "rm /workspace/deep/file",
        "mv /workspace/deep /workspace/other",
        "chmod 0777 /workspace/deep/file",
        "touch -d 2001-01-01 /workspace/deep/file",
        "ln /workspace/deep/file /workspace/second",
        "mount -o remount,rw /workspace",
        "umount /workspace",
    ];
    refused(&*sandbox, &scripts).await?;
    ensure!(
        fs::read(tree.join("deep/file"))? == b"as it was\n" && !tree.join("new").exists(),
        "a read-only directory was written to"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn later_ones_lie_over_earlier_ones(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let shared = trial.with_workspace(&mut spec)?;
    for name in ["guarded/deep", "hidden", "other"] {
        fs::create_dir_all(shared.join(name))?;
    }
    put(&shared.join("file"), "file\n")?;
    put(&shared.join("hidden/secret"), "secret\n")?;
    let elsewhere = trial.directory("elsewhere")?;
    put(&elsewhere.join("x"), "elsewhere\n")?;
    let again = |source, target: &str| Mount {
        source,
        target: target.into(),
        access: Access::ReadOnly,
    };
    spec.mounts.extend([
        // One that begins deeper, and lies below all the same.
        Mount {
            access: Access::ReadWrite,
            ..again(MountSource::Target, "/workspace/guarded/deep")
        },
        again(MountSource::Target, "/workspace/guarded"),
        again(MountSource::Target, "/workspace/file"),
        again(MountSource::Nothing, "/workspace/hidden"),
        mount(&elsewhere, "/workspace/other", Access::ReadOnly),
    ]);
    let sandbox = trial.create(&spec).await?;
    let seen = ok(&*sandbox, "ls -A hidden; cat file other/x; echo new >new").await?;
    ensure!(
        seen == "file\nelsewhere\n",
        "what lies over it is not seen: {seen:?}"
    );
    let scripts = [
        "echo >guarded/x",
        "echo >guarded/deep/x",
        "echo >file",
        "echo >hidden/x",
        "echo >other/y",
        "mv guarded away",
        "rm -r hidden",
        "rmdir hidden",
        "mv file away",
        "umount hidden",
    ];
    refused(&*sandbox, &scripts).await?;
    sandbox.close().await?;
    let mut left: Vec<_> = (fs::read_dir(&shared)?.flatten())
        .map(|entry| entry.file_name())
        .collect();
    left.sort();
    ensure!(
        left == ["file", "guarded", "hidden", "new", "other"]
            && fs::read(shared.join("hidden/secret"))? == b"secret\n",
        "on the host there is {left:?} afterwards"
    );
    Ok(Outcome::Passed)
}

pub(super) async fn what_is_not_there_is_refused(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let missing = trial.place.join("missing");
    let mut spec = trial.spec()?;
    spec.mounts
        .push(mount(&missing, "/workspace", Access::ReadWrite));
    match trial.try_to_create(&spec).await {
        Ok(sandbox) => {
            sandbox.close().await?;
            Err(Failure(
                "a directory that is not there was mounted".to_owned(),
            ))
        }
        Err(error) => {
            let said = error.to_string();
            ensure!(
                said.contains("missing"),
                "the error does not name it: {said}"
            );
            ensure!(!missing.exists(), "it was made on the host");
            Ok(Outcome::Passed)
        }
    }
}

pub(super) async fn a_symlink_is_not_followed(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let tree = trial.directory("tree")?;
    put(&tree.join("file"), "x")?;
    let link = trial.place.join("link");
    symlink(&tree, &link)?;
    symlink(&tree, tree.join("inner"))?;
    let mounts = [
        vec![mount(&link, "/workspace", Access::ReadWrite)],
        vec![
            mount(&tree, "/workspace", Access::ReadWrite),
            mount(
                trial.directory("other")?,
                "/workspace/inner",
                Access::ReadWrite,
            ),
        ],
    ];
    for mounts in mounts {
        let mut spec = trial.spec()?;
        spec.mounts.clone_from(&mounts);
        if let Ok(sandbox) = trial.try_to_create(&spec).await {
            sandbox.close().await?;
            return Err(Failure(format!("a symlink was followed: {mounts:?}")));
        }
    }
    Ok(Outcome::Passed)
}

pub(super) async fn paths_are_taken_as_they_are(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let names = [
        "with space",
        "with:colon",
        "with'quote",
        "with\\back",
        "wïth",
        "-dash",
        "$HOME",
        "a=b",
    ];
    for name in names {
        let directory = trial.directory(name)?;
        put(&directory.join("is"), name)?;
        let target = format!("/workspace/{name}");
        spec.mounts.push(mount(directory, target, Access::ReadOnly));
    }
    let sandbox = trial.create(&spec).await?;
    for name in names {
        let mut request = ExecRequest::new(["cat"]);
        request
            .arguments
            .push(format!("/workspace/{name}/is").into());
        let seen = finish(sandbox.exec(request).await?).await?;
        ensure!(seen.out == name, "{name:?} is {seen:?} inside");
    }
    Ok(Outcome::Passed)
}

pub(super) async fn paths_that_it_cannot_take_are_refused_by_name(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    for name in [
        "with\nline",
        "with,comma",
        "with\"quotes\"",
        "with,ro",
        "with,source=/etc",
    ] {
        let directory = trial.directory(name)?;
        put(&directory.join("is"), name)?;
        let mut spec = trial.spec()?;
        let target = format!("/workspace/{name}");
        spec.mounts
            .push(mount(directory, &target, Access::ReadOnly));
        match trial.try_to_create(&spec).await {
            Ok(sandbox) => {
                let request = ExecRequest::new(["cat".to_owned(), format!("{target}/is")]);
                let seen = finish(sandbox.exec(request).await?).await?;
                sandbox.close().await?;
                ensure!(seen.out == name, "{name:?} is {seen:?} inside");
            }
            Err(SandboxError::Unsupported { what, .. }) => {
                ensure!(
                    what.contains("with"),
                    "the error does not name {name:?}: {what}"
                );
            }
            Err(error) => return Err(Failure(format!("{name:?}: {error}"))),
        }
    }
    Ok(Outcome::Passed)
}
