//! Places in a sandbox, as agents name them, and what is there.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use cofferdam::sandbox::browse::{Content, Kind, Peek, Sight, Thing};
use cofferdam::session::Session;
use cofferdam::text::printable_line;

use super::failure::Failure;

/// The longest that one look may take.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// An absolute path inside: a relative one is below the top of the repository. `.` and `..` are taken as they are written.
pub(super) fn absolute(session: &Session, path: &str) -> Result<PathBuf, Failure> {
    if path.contains('\0') {
        return Err(Failure::new(
            "a path has a zero byte in it",
            "`sandbox-ls` tells what is there.",
        ));
    }
    Ok(plain(&session.workdir()?.join(path)))
}

/// Refuses a path below the repository's place on the host, where a sandbox has the repository somewhere else.
pub(super) async fn is_inside(session: &Session, path: &Path) -> Result<(), Failure> {
    let (top, host) = (session.workdir()?, &session.record().repository);
    let Ok(below) = path.strip_prefix(host) else {
        return Ok(());
    };
    // The same place may be there for another reason.
    if path.starts_with(&top) || matches!(find(session, host, 0).await, Ok(Ok(_))) {
        return Ok(());
    }
    let (top, below) = (top.to_string_lossy(), below.to_string_lossy());
    let name = if below.is_empty() { "." } else { &*below };
    Err(Failure::new(
        format!(
            "the repository is at {} in the sandbox",
            printable_line(&top)
        ),
        format!("Name it from there on: {}", printable_line(name)),
    ))
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => _ = plain.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// As an agent names it: below the top of the repository where it is there.
pub(super) fn shown(session: &Session, path: &Path) -> String {
    let top = session.workdir().unwrap_or_default();
    let path = match path.strip_prefix(&top) {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    };
    path.to_string_lossy().into_owned()
}

/// Looks at a place, within a bound.
pub(super) async fn look(
    session: &Session,
    place: &Peek<'_>,
    hear: &mut (dyn FnMut(Sight) -> ControlFlow<()> + Send),
) -> Result<(), Failure> {
    let looked = session.browse(place, hear);
    match tokio::time::timeout(LIMIT, looked).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(too_long(place.path)),
    }
}

pub(super) fn too_long(path: &Path) -> Failure {
    let (path, limit) = (path.display(), LIMIT.as_secs());
    Failure::new(
        format!("looking at {path} takes longer than {limit} s"),
        "Name a directory further down.",
    )
}

/// What is at a path, behind all links.
#[derive(Debug)]
pub(super) struct There {
    pub(super) path: PathBuf,
    pub(super) thing: Thing,
    pub(super) content: Vec<u8>,
}

/// With the bytes that a file holds, `most` of them and one more. `Err`: nothing is there, and that is where it would be.
pub(super) async fn find(
    session: &Session,
    path: &Path,
    most: u64,
) -> Result<Result<There, PathBuf>, Failure> {
    let place = Peek::at(path).with_content(Content {
        offset: 0,
        length: most.saturating_add(1),
        largest: u64::MAX,
    });
    let (mut real, mut thing) = (None, None);
    let (mut content, mut error) = (Vec::new(), None);
    look(session, &place, &mut |sight| {
        match sight {
            Sight::At(path) => real = Some(PathBuf::from(OsString::from_vec(path))),
            Sight::Thing(one) => thing = Some(one),
            Sight::Part(bytes) => content.extend(bytes),
            Sight::Unread { error: number, .. } => error = Some(number),
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .await?;
    match (thing, error) {
        (Some(thing), None) => {
            // What is changed is behind all links.
            let path = real.unwrap_or_else(|| path.to_owned());
            Ok(Ok(There {
                path,
                thing,
                content,
            }))
        }
        (None, Some(number)) if is_missing(number) => {
            let mut is_link = false;
            let place = Peek::at(path).unfollowed();
            look(session, &place, &mut |sight| {
                is_link |= matches!(sight, Sight::Thing(_));
                ControlFlow::Continue(())
            })
            .await?;
            if is_link {
                return Err(cannot(
                    session,
                    "use",
                    path,
                    "it is a link that leads nowhere",
                ));
            }
            Ok(Err(path.to_owned()))
        }
        (_, number) => {
            let why = number.map_or_else(|| "it does not say".to_owned(), why);
            Err(cannot(session, "read", path, &why))
        }
    }
}

/// The text of a file that is there.
pub(super) async fn text(
    session: &Session,
    path: &str,
    most: u64,
) -> Result<(There, String), Failure> {
    let path = absolute(session, path)?;
    let there = match find(session, &path, most).await? {
        Ok(there) => there,
        Err(path) => {
            is_inside(session, &path).await?;
            return Err(Failure::new(
                format!(
                    "there is no file {}",
                    printable_line(&shown(session, &path))
                ),
                "`sandbox-ls` and `sandbox-glob` tell what is there.",
            ));
        }
    };
    let shown = printable_line(&shown(session, &there.path));
    match there.thing.kind {
        Kind::File => {}
        Kind::Directory => {
            return Err(Failure::new(
                format!("{shown} is a directory"),
                "`sandbox-ls` tells what is in it.",
            ));
        }
        _ => {
            return Err(Failure::new(
                format!("{shown} is no file"),
                "`sandbox-ls` tells what is there; a program of `sandbox-exec` can use it.",
            ));
        }
    }
    if there.content.len() as u64 > most {
        return Err(Failure::new(
            format!("{shown} has more than {most} bytes"),
            "Look at parts of it with `sandbox-exec` and `sed -n '1,100p'`, or `grep`.",
        ));
    }
    match String::from_utf8(there.content) {
        Ok(text) if !text.contains('\0') => Ok((
            There {
                content: Vec::new(),
                ..there
            },
            text,
        )),
        _ => Err(Failure::new(
            format!("{shown} is no text in UTF-8"),
            "Use `sandbox-exec` with a program that knows what it is.",
        )),
    }
}

pub(super) fn cannot(session: &Session, what: &str, path: &Path, why: &str) -> Failure {
    let path = printable_line(&shown(session, path));
    Failure::new(
        format!("cannot {what} {path}: {why}"),
        "`sandbox-ls` tells what is there; what is below the top of the repository and in /tmp you can change.",
    )
}

pub(super) fn why(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}

/// ENOENT and ENOTDIR.
fn is_missing(number: i32) -> bool {
    [2, 20].contains(&number)
}

/// Below `place`, as an agent names it.
pub(super) fn below(session: &Session, place: &Path, path: &[u8]) -> String {
    if path.is_empty() {
        return shown(session, place);
    }
    shown(session, &place.join(std::ffi::OsStr::from_bytes(path)))
}
