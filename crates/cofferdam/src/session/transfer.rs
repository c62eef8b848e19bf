//! Source in and commits out for isolated providers: the private clone travels whole, with its
//! packs, and a pack comes back over a stream.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::collect::error::CollectError;
use super::error::{RunErrorKind, step};
use super::inside::{Inside, InsideError, Output};
use crate::fsx::FileError;
use crate::git::private_clone::{
    HOOKS, INSIDE_VAULT, PrivateClone, PrivateHead, PrivateRefs, STASH,
};
use crate::git::{ObjectFormat, Oid};
use crate::sandbox::{ExecRequest, IsolatedSandbox};

/// Copies workspace (what `--copy` named), private clone, hooks and vault to where a mounting
/// provider would have mounted them.
pub(super) async fn send(
    state: &Path,
    workspace: &Path,
    workdir: &Path,
    sandbox: &dyn IsolatedSandbox,
) -> Result<(), RunErrorKind> {
    let (clone, git) = (PrivateClone::at(state), workdir.join(".git"));
    let parts = [
        (workspace.to_owned(), workdir.to_owned()),
        (clone.vault, INSIDE_VAULT.into()),
        (clone.git_dir, git.clone()),
        (clone.hooks, git.join(HOOKS)),
    ];
    for (source, target) in parts {
        sandbox
            .copy_in(&source, &target)
            .await
            .map_err(step("transfer into the sandbox"))?;
    }
    Ok(())
}

/// The branch that holds what was in no commit when an isolated sandbox was collected: its files go
/// with it, and nothing else would keep them.
pub(super) const UNCOMMITTED: &str = "cofferdam-uncommitted";

/// Commits what is in no commit to [`UNCOMMITTED`], beside the agent's index and branches.
pub(super) async fn commit_the_rest(
    sandbox: &dyn IsolatedSandbox,
    workdir: &Path,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let script = format!(
        "test -z \"$(git status --porcelain --ignore-submodules=all)\" && exit 0
        dir=$(git rev-parse --absolute-git-dir) && cp \"$dir/index\" \"$dir/cofferdam-index\" &&
        export GIT_INDEX_FILE=\"$dir/cofferdam-index\" && git add -A && tree=$(git write-tree) &&
        commit=$(git commit-tree -p HEAD -m 'uncommitted work of the sandbox' \"$tree\") &&
        git update-ref refs/heads/{UNCOMMITTED} \"$commit\""
    );
    let environment = BTreeMap::new();
    let inside = Inside {
        sandbox,
        arguments: vec![
            "/bin/sh".into(),
            "-c".into(),
            in_directory(workdir, &format!("{{ {script}\n}}")),
        ],
        directory: None,
        environment: &environment,
        limit: Duration::from_secs(120),
        output: Output::Captured(4 << 20),
    };
    let done = inside
        .run(cancel)
        .await
        .map_err(|error| error.to_string())?;
    if done.exit.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).trim_end().to_owned())
}

/// HEAD, refs and stashes as the sandbox's own git tells them. Hostile: only well-formed answers count,
/// and the gate checks what they lead to.
pub(super) async fn refs(
    sandbox: &dyn IsolatedSandbox,
    workdir: &Path,
    format: ObjectFormat,
    cancel: &CancellationToken,
) -> Result<PrivateRefs, CollectError> {
    let stash = String::from_utf8_lossy(STASH);
    let script = format!(
        "git rev-parse HEAD && git rev-parse --symbolic-full-name HEAD && \
                  git for-each-ref --format='%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname)' && \
                  {{ git reflog --format='%H {stash}' refs/stash -- 2> /dev/null || true; }}"
    );
    let environment = BTreeMap::new();
    let inside = Inside {
        sandbox,
        arguments: vec![
            "/bin/sh".into(),
            "-c".into(),
            in_directory(workdir, &script),
        ],
        directory: None,
        environment: &environment,
        limit: Duration::from_secs(60),
        output: Output::Captured(4 << 20),
    };
    let done = inside.run(cancel).await.map_err(|error| match error {
        InsideError::Cancelled => CollectError::Cancelled,
        InsideError::Sandbox(error) => error.into(),
        error => CollectError::Foreign(error.to_string()),
    })?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let odd = || CollectError::Foreign("its git does not say where HEAD is".to_owned());
    let mut lines = text.lines();
    let of_format = |text: &str| {
        text.parse::<Oid>()
            .ok()
            .filter(|_| text.len() == format.hex_len())
    };
    let commit = lines.next().and_then(of_format).ok_or_else(odd)?;
    let name = lines.next().ok_or_else(odd)?;
    let mut refs: BTreeMap<Vec<u8>, Oid> = BTreeMap::new();
    let mut others = Vec::new();
    for (oid, name) in lines.filter_map(|line| line.split_once(' ')) {
        match of_format(oid) {
            Some(oid) if name.starts_with("refs/") => {
                refs.insert(name.as_bytes().to_vec(), oid);
            }
            Some(oid) => others.push((name.as_bytes().to_vec(), oid)),
            None => {}
        }
    }
    let head = if name == "HEAD" {
        PrivateHead::Detached(commit)
    } else {
        refs.insert(name.as_bytes().to_vec(), commit);
        PrivateHead::Symbolic(name.as_bytes().to_vec())
    };
    Ok(PrivateRefs {
        head: Some(head),
        refs,
        others,
        odd: Vec::new(),
    })
}

/// Has the sandbox's git write a pack, and passes it on.
pub(super) async fn pack(
    sandbox: &dyn IsolatedSandbox,
    workdir: &Path,
    revisions: String,
    to: OwnedFd,
    cancel: &CancellationToken,
) -> Result<(), CollectError> {
    let script = "exec git pack-objects --revs --thin --stdout --delta-base-offset -q";
    let script = in_directory(workdir, script);
    let mut request = ExecRequest::new(["/bin/sh".into(), "-c".into(), script]);
    request.stdin = true;
    let work = async {
        let mut execution = sandbox.exec(request).await?;
        if let Some(mut stdin) = execution.take_stdin() {
            let _ = stdin.write_all(revisions.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
        let mut file = std::fs::File::from(to);
        if let Some(mut stdout) = execution.take_stdout() {
            let mut chunk = vec![0u8; 64 << 10];
            loop {
                let got = stdout.read(&mut chunk).await.unwrap_or(0);
                if got == 0 {
                    break;
                }
                // The gate reads at the other end; a gate that stopped reading has its reason.
                let piece = chunk[..got].to_vec();
                let written = tokio::task::spawn_blocking(move || {
                    let done = file.write_all(&piece);
                    (file, done)
                });
                let (back, done) = written
                    .await
                    .map_err(|error| CollectError::Foreign(error.to_string()))?;
                file = back;
                if let Err(source) = done {
                    return Err(FileError::new("write", "the pack's pipe", source).into());
                }
            }
        }
        drop(file);
        let exit = execution.wait().await?;
        if exit.success() {
            Ok(())
        } else {
            Err(CollectError::Pack {
                exit,
                stderr: String::new(),
            })
        }
    };
    tokio::select! {
        () = cancel.cancelled() => Err(CollectError::Cancelled),
        done = work => done,
    }
}

/// `cd` to a path that is quoted for the shell.
fn in_directory(workdir: &Path, script: &str) -> OsString {
    let quoted = workdir.to_string_lossy().replace('\'', "'\\''");
    format!("cd '{quoted}' && {script}").into()
}
