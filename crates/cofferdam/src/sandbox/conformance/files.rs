//! Files in, and what changed out.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use cofferdam_guest::protocol::files::{self, Entry};

use super::trial::{Trial, ok};
use super::{Failure, Outcome, ensure};
use crate::sandbox::Sandbox;

const PLACE: &str = "/tmp/work";
const LARGEST: u64 = 1 << 20;

fn file(path: &str, content: &str) -> (Entry, Vec<u8>) {
    let entry = Entry::File {
        path: path.into(),
        mode: 0o644,
        size: content.len() as u64,
    };
    (entry, content.into())
}

fn link(path: &str, target: &str) -> (Entry, Vec<u8>) {
    let (path, target) = (path.into(), target.into());
    (Entry::Link { path, target }, Vec::new())
}

/// A pipe's end that gives these bytes.
fn giving(bytes: Vec<u8>) -> Result<OwnedFd, Failure> {
    let (read, mut write) = std::io::pipe()?;
    std::thread::spawn(move || {
        // Whoever reads may stop at any time.
        let _ = write.write_all(&bytes);
    });
    Ok(read.into())
}

/// What comes out of a pipe.
type Taken = tokio::task::JoinHandle<std::io::Result<Vec<u8>>>;

/// A pipe's end, and what comes to it.
fn taking() -> Result<(OwnedFd, Taken), Failure> {
    let (mut read, write) = std::io::pipe()?;
    let taken = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).map(|_| bytes)
    });
    Ok((write.into(), taken))
}

async fn put(sandbox: &dyn Sandbox, entries: &[(Entry, Vec<u8>)]) -> Result<Vec<u8>, Failure> {
    let mut stream = Vec::new();
    for (entry, content) in entries
        .iter()
        .chain([&(Entry::End { left: 0 }, Vec::new())])
    {
        files::write(&mut stream, entry)?;
        stream.extend_from_slice(content);
    }
    let (known, taken) = taking()?;
    sandbox
        .unpack(Path::new(PLACE), true, giving(stream)?, known)
        .await?;
    all(taken).await
}

async fn all(taken: Taken) -> Result<Vec<u8>, Failure> {
    let done = taken.await;
    Ok(done.map_err(|error| Failure(error.to_string()))??)
}

/// What is otherwise than `known`, a line each.
async fn changes(sandbox: &dyn Sandbox, known: &[u8]) -> Result<Vec<String>, Failure> {
    let (to, taken) = taking()?;
    sandbox
        .snapshot(Path::new(PLACE), LARGEST, giving(known.to_vec())?, to)
        .await?;
    let bytes = all(taken).await?;
    let mut bytes = bytes.as_slice();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = Vec::new();
    loop {
        match files::read(&mut bytes)? {
            Entry::File { path, mode, size } => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let (content, rest) = (bytes.split_at_checked(size))
                    .ok_or_else(|| Failure("the stream of changes is cut".to_owned()))?;
                bytes = rest;
                lines.push(format!("{mode:o} {} {:?}", text(&path), text(content)));
            }
            Entry::Link { path, target } => {
                lines.push(format!("{} -> {}", text(&path), text(&target)));
            }
            Entry::Gone { path } => lines.push(format!("gone {}", text(&path))),
            Entry::Left { path, .. } => lines.push(format!("left {}", text(&path))),
            Entry::Directory { path, .. } => lines.push(format!("directory {}", text(&path))),
            Entry::End { .. } => {
                lines.sort();
                return Ok(lines);
            }
        }
    }
}

pub(super) async fn files_go_in_and_what_changed_comes_out(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let tree = [
        file("a", "one"),
        file("d/b", "two"),
        link("d/l", "../a"),
        file("gone", ""),
    ];
    let known = put(&*sandbox, &tree).await?;
    let seen = ok(
        &*sandbox,
        "cd /tmp/work; cat a d/b; readlink d/l; stat -c %a a",
    )
    .await?;
    ensure!(seen == "onetwo../a\n644\n", "what went in is {seen:?}");
    let found = changes(&*sandbox, &known).await?;
    ensure!(found.is_empty(), "nothing changed, and {found:?} comes out");
    let text = "cd /tmp/work; echo more >>a; chmod +x d/b; rm gone; ln -sfn a d/l; echo x >new";
    ok(&*sandbox, text).await?;
    let expected = [
        "644 a \"onemore\\n\"",
        "644 new \"x\\n\"",
        "755 d/b \"two\"",
        "d/l -> a",
        "gone gone",
    ];
    for _ in 0..2 {
        let found = changes(&*sandbox, &known).await?;
        ensure!(found == expected, "what changed is {found:?}");
    }
    Ok(Outcome::Passed)
}

pub(super) async fn nothing_is_followed_out_of_it(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    ok(
        &*sandbox,
        "mkdir -p /tmp/outside; echo as-it-was >/tmp/outside/file",
    )
    .await?;
    let known = put(&*sandbox, &[file("kept", "x")]).await?;
    let text = "cd /tmp/work; ln -s /tmp/outside out; ln -s /etc/passwd passwd; mkfifo pipe; ln /tmp/outside/file second";
    ok(&*sandbox, text).await?;
    let found = changes(&*sandbox, &known).await?;
    let content = found
        .iter()
        .any(|line| line.contains("root:") || line.contains("out/file"));
    ensure!(!content, "a link was followed: {found:?}");
    for link in ["out -> /tmp/outside", "passwd -> /etc/passwd"] {
        ensure!(
            found.iter().any(|line| line == link),
            "no {link:?} in {found:?}"
        );
    }
    // Inwards neither.
    let into = put(&*sandbox, &[file("out/file", "written through")]).await;
    let seen = ok(&*sandbox, "cat /tmp/outside/file").await?;
    ensure!(
        seen == "as-it-was\n",
        "it was written through a link: {into:?}"
    );
    Ok(Outcome::Passed)
}
