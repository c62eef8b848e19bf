//! Files in, and what changed out.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use cofferdam_guest::protocol::files::{self, Entry, Parcel, Receipt};

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

/// Brings a row of parcels to places anywhere inside. What became of each; none where the row is cut short and that is noticed.
async fn bring(sandbox: &dyn Sandbox, parcels: &[Parcel]) -> Result<Option<Vec<Receipt>>, Failure> {
    let mut stream = Vec::new();
    for parcel in parcels {
        files::write(&mut stream, parcel)?;
    }
    let (to, taken) = taking()?;
    let delivered = sandbox.deliver(giving(stream)?, to).await;
    let bytes = all(taken).await?;
    if delivered.is_err() && parcels.last() != Some(&Parcel::End) {
        return Ok(None);
    }
    delivered?;
    let (mut bytes, mut receipts) = (bytes.as_slice(), Vec::new());
    loop {
        match files::read(&mut bytes)? {
            Receipt::End => return Ok(Some(receipts)),
            receipt => receipts.push(receipt),
        }
    }
}

/// A file's parcels, but for the last one: whether that was all.
fn begun(path: &str, content: &str) -> [Parcel; 2] {
    let path = path.into();
    let file = Parcel::File { path, mode: 0o640 };
    [file, Parcel::Part(content.into())]
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

pub(super) async fn files_get_to_their_places_whole_or_not_at_all(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let text = "mkdir -p /tmp/there /tmp/closed; echo as-it-was >/tmp/there/file; chmod 500 /tmp/closed; ln -s /tmp/there /tmp/way; ln -s /tmp/there/file /tmp/link";
    ok(&*sandbox, text).await?;
    let there = "ls -A /tmp/there; cat /tmp/there/file";
    let as_it_was = "file\nas-it-was\n";
    // What the file should hold is not known to its end, by the sender's word and because that one is gone.
    let [file, part] = begun("tmp/there/file", "new");
    let broken = [file.clone(), part.clone(), Parcel::Broken, Parcel::End];
    let said = bring(&*sandbox, &broken).await?;
    let is_refused = |one: &Receipt| matches!(one, Receipt::Refused { .. });
    ensure!(
        said.as_deref()
            .is_some_and(|all| all.len() == 1 && is_refused(&all[0])),
        "half a file is {said:?}"
    );
    let seen = ok(&*sandbox, there).await?;
    ensure!(seen == as_it_was, "half a file was brought: {seen:?}");
    for cut in [&[file.clone()][..], &[file.clone(), part.clone()]] {
        let said = bring(&*sandbox, cut).await?;
        ensure!(said.is_none(), "a row that is cut short is {said:?}");
        let seen = ok(&*sandbox, there).await?;
        ensure!(seen == as_it_was, "half a file stays: {seen:?}");
    }
    // What is in the way is not followed, and what keeps one file from its place keeps no other.
    let row = [
        begun("tmp/way/in", "through a link"),
        begun("tmp/closed/in", "where nobody writes"),
        begun("tmp/link", "in place of a link"),
        begun("tmp/new/er/file", "in a new directory"),
        [file, part],
    ];
    let row = row
        .into_iter()
        .flat_map(|[file, part]| [file, part, Parcel::Whole]);
    let row: Vec<Parcel> = row.chain([Parcel::End]).collect();
    let said = bring(&*sandbox, &row).await?.unwrap_or_default();
    let refused: Vec<bool> = said.iter().map(is_refused).collect();
    ensure!(
        refused == [true, true, false, false, false],
        "of two places that nobody may write and three good ones: {said:?}"
    );
    let seen = ok(
        &*sandbox,
        "cd /tmp; ls -A there closed; test -L link || cat link; cat new/er/file there/file",
    )
    .await?;
    let expected = "closed:\n\nthere:\nfile\nin place of a linkin a new directorynew";
    ensure!(seen == expected, "what was brought is {seen:?}");
    let seen = ok(
        &*sandbox,
        "cd /tmp; stat -c %a link new/er/file there/file; for one in link new new/er new/er/file there/file; do test $(stat -c %u:%g $one) = $(id -u):$(id -g) || echo $one; done",
    )
    .await?;
    ensure!(seen == "640\n640\n640\n", "the files are {seen:?}");
    // By what it said of them it knows them again.
    let looks = |said: &[Receipt]| -> Vec<Parcel> {
        let paths = ["tmp/link", "tmp/new/er/file", "tmp/there/file"];
        let prints = said.iter().filter_map(|one| match one {
            Receipt::There { print } => Some(*print),
            _ => None,
        });
        let looks = (paths.into_iter().zip(prints)).map(|(path, print)| {
            let path = path.into();
            Parcel::Look { path, print }
        });
        looks.chain([Parcel::End]).collect()
    };
    let again = bring(&*sandbox, &looks(&said)).await?.unwrap_or_default();
    ensure!(
        again == said[2..],
        "{said:?} is {again:?} when it is looked at"
    );
    ok(&*sandbox, "cd /tmp; echo more >>there/file; rm link").await?;
    let changed = bring(&*sandbox, &looks(&said)).await?.unwrap_or_default();
    ensure!(
        changed == [Receipt::Changed, said[3], Receipt::Changed],
        "one is gone, one is as it was, one has more: {changed:?}"
    );
    Ok(Outcome::Passed)
}
