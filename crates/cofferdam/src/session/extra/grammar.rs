//! `SRC[:DST][:rw]`, and `src=SRC[,dst=DST][,rw]` for paths with colons in them. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::error::ExtraMountError;
use crate::registry::ExtraMount;
use crate::session::inside::AGENT_HOME;
use crate::text::printable_bytes_line;

/// Where something is inside that no place was named for.
const PLACE: &str = "/mnt";

/// Reads one mount. What is relative is below `directory`; `~/` is `user_home` on this machine and `/home/agent/` inside. Looks at
/// no disk. [`ExtraMountError::Words`] where it cannot be understood.
pub fn parse(
    text: &OsStr,
    directory: &Path,
    user_home: Option<&Path>,
) -> Result<ExtraMount, ExtraMountError> {
    let refuse = |why: String| ExtraMountError::Words {
        text: printable_bytes_line(text.as_bytes()),
        why,
    };
    let bytes = text.as_bytes();
    let words = if bytes.starts_with(b"src=") || bytes.starts_with(b"dst=") {
        Words::long(bytes)
    } else {
        Words::short(bytes)
    };
    let Words {
        source,
        target,
        writable,
    } = words.map_err(refuse)?;
    let source = on_this_machine(source, directory, user_home).map_err(refuse)?;
    let target = match target {
        Some(target) => inside(target),
        None => match source.file_name() {
            Some(name) => Ok(Path::new(PLACE).join(name)),
            None => Err("it has no name to be mounted by, so say where: SRC:DST".to_owned()),
        },
    };
    Ok(ExtraMount {
        source,
        target: target.map_err(refuse)?,
        writable,
    })
}

struct Words<'t> {
    source: &'t [u8],
    target: Option<&'t [u8]>,
    writable: bool,
}

impl<'t> Words<'t> {
    fn short(text: &'t [u8]) -> Result<Self, String> {
        let others = [&b"type="[..], b"source=", b"target=", b"volume="];
        if others.iter().any(|word| text.starts_with(word)) {
            return Err("it is written `src=SRC,dst=DST,rw` here".to_owned());
        }
        if text.contains(&b':') && (text.ends_with(b",rw") || text.ends_with(b",ro")) {
            return Err("`:rw` comes after DST, with a colon".to_owned());
        }
        let mut parts: Vec<&[u8]> = text.split(|&byte| byte == b':').collect();
        let writable = parts.len() > 1 && parts.last() == Some(&&b"rw"[..]);
        if writable {
            parts.pop();
        }
        let (source, target) = match parts[..] {
            [source] => (source, None),
            // `SRC::rw`
            [source, b""] if writable => (source, None),
            [_, b"ro"] | [_, _, b"ro"] => {
                return Err("it is read-only unless `:rw` follows, so leave out `:ro`".to_owned());
            }
            [_, b""] => return Err("DST is empty".to_owned()),
            [source, target] => (source, Some(target)),
            [_, _, last] if !last.starts_with(b"/") => {
                return Err(format!(
                    "`{}` is not `rw`, the only word that may follow DST",
                    printable_bytes_line(last)
                ));
            }
            _ => return Err("it has more colons than SRC:DST:rw".to_owned()),
        };
        if source.is_empty() {
            return Err("SRC is empty".to_owned());
        }
        Ok(Self {
            source,
            target,
            writable,
        })
    }

    fn long(text: &'t [u8]) -> Result<Self, String> {
        let (mut source, mut target, mut writable) = (None, None, false);
        for part in text.split(|&byte| byte == b',') {
            let (place, value, name) = if part == b"rw" {
                writable = true;
                continue;
            } else if let Some(value) = part.strip_prefix(b"src=") {
                (&mut source, value, "src")
            } else if let Some(value) = part.strip_prefix(b"dst=") {
                (&mut target, value, "dst")
            } else {
                return Err(format!(
                    "`{}` is none of src=SRC, dst=DST and rw",
                    printable_bytes_line(part)
                ));
            };
            if value.is_empty() {
                return Err(format!("`{name}=` is empty"));
            }
            if place.replace(value).is_some() {
                return Err(format!("`{name}=` is there twice"));
            }
        }
        Ok(Self {
            source: source.ok_or("`src=` is missing")?,
            target,
            writable,
        })
    }
}

fn on_this_machine(
    source: &[u8],
    directory: &Path,
    user_home: Option<&Path>,
) -> Result<PathBuf, String> {
    let rest = match source {
        b"~" => Some(&b""[..]),
        other => other.strip_prefix(b"~/"),
    };
    let Some(rest) = rest else {
        return Ok(directory.join(OsStr::from_bytes(source)));
    };
    let home = user_home.ok_or("`~` means nothing: HOME is not set")?;
    // A slash at the beginning would lead away from the home.
    let rest = Path::new(OsStr::from_bytes(rest));
    Ok(home.join(rest.strip_prefix("/").unwrap_or(rest)))
}

/// As it is written plainly: no `.`, no slash twice or at the end.
fn inside(target: &[u8]) -> Result<PathBuf, String> {
    let whole = match target.strip_prefix(b"~/") {
        Some(rest) => Path::new(AGENT_HOME).join(OsStr::from_bytes(rest)),
        None => PathBuf::from(OsStr::from_bytes(target)),
    };
    if !whole.is_absolute() {
        return Err(format!(
            "`{}` is no place in a sandbox: DST begins with `/` or `~/`",
            printable_bytes_line(target)
        ));
    }
    if whole.components().any(|part| part == Component::ParentDir) {
        return Err("`..` in DST leads elsewhere".to_owned());
    }
    Ok(whole.components().collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read(text: &[u8]) -> Result<ExtraMount, ExtraMountError> {
        parse(
            OsStr::from_bytes(text),
            Path::new("/work"),
            Some(Path::new("/home/u")),
        )
    }

    #[test]
    fn what_is_taken() {
        let check = |text: &str, source: &str, target: &str, writable: bool| {
            let want = ExtraMount {
                source: source.into(),
                target: target.into(),
                writable,
            };
            assert_eq!(read(text.as_bytes()).unwrap(), want, "{text}");
        };
        check("/data", "/data", "/mnt/data", false);
        check("data/", "/work/data/", "/mnt/data", false);
        check(".", "/work/.", "/mnt/work", false);
        check("/data:/in", "/data", "/in", false);
        check("/data:/in/./x//y/", "/data", "/in/x/y", false);
        check("/data:/in:rw", "/data", "/in", true);
        check("/data:rw", "/data", "/mnt/data", true);
        check("/data::rw", "/data", "/mnt/data", true);
        check("rw", "/work/rw", "/mnt/rw", false);
        check("rw:rw", "/work/rw", "/mnt/rw", true);
        check("~/x:~/x", "/home/u/x", "/home/agent/x", false);
        check("~//etc", "/home/u/etc", "/mnt/etc", false);
        check("~x", "/work/~x", "/mnt/~x", false);
        check("src=/a:b,dst=/in", "/a:b", "/in", false);
        check("dst=/in,rw,src=c", "/work/c", "/in", true);
        check("src=/a:b", "/a:b", "/mnt/a:b", false);
        check("/a,b=c:/in", "/a,b=c", "/in", false);
        check("./src=a", "/work/src=a", "/mnt/src=a", false);
        let odd = read(b"/a\xff:/b\xfe").unwrap();
        assert_eq!(odd.source.as_os_str().as_bytes(), b"/a\xff");
        assert_eq!(odd.target.as_os_str().as_bytes(), b"/b\xfe");
    }

    #[test]
    fn what_is_not() {
        let check = |text: &str, want: &str| {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            let shown = text.escape_debug();
            assert_eq!(error, format!("`{shown}` says no mount: {want}"));
        };
        check("", "SRC is empty");
        check(":rw", "SRC is empty");
        check(":/in", "SRC is empty");
        check("/a:", "DST is empty");
        check("/a:/b,rw", "`:rw` comes after DST, with a colon");
        check(
            "type=bind,src=/a",
            "it is written `src=SRC,dst=DST,rw` here",
        );
        check(
            "/a:ro",
            "it is read-only unless `:rw` follows, so leave out `:ro`",
        );
        check(
            "/a:/b:ro",
            "it is read-only unless `:rw` follows, so leave out `:ro`",
        );
        check(
            "/a:/b:RW",
            "`RW` is not `rw`, the only word that may follow DST",
        );
        check("/a:/b:/c", "it has more colons than SRC:DST:rw");
        check("/a:/b:/c:rw", "it has more colons than SRC:DST:rw");
        check(
            "/a:b",
            "`b` is no place in a sandbox: DST begins with `/` or `~/`",
        );
        check(
            "/a:~",
            "`~` is no place in a sandbox: DST begins with `/` or `~/`",
        );
        check("/a:/b/../c", "`..` in DST leads elsewhere");
        check("/a:~/../x", "`..` in DST leads elsewhere");
        check(
            "/",
            "it has no name to be mounted by, so say where: SRC:DST",
        );
        check(
            "..",
            "it has no name to be mounted by, so say where: SRC:DST",
        );
        check("src=/a,dst=", "`dst=` is empty");
        check("src=,dst=/b", "`src=` is empty");
        check("src=/a,src=/b", "`src=` is there twice");
        check("dst=/b", "`src=` is missing");
        check("src=/a,ro", "`ro` is none of src=SRC, dst=DST and rw");
        check("src=/a,", "`` is none of src=SRC, dst=DST and rw");
        let error = parse(OsStr::new("~/x"), Path::new("/"), None).unwrap_err();
        assert!(error.to_string().contains("HOME is not set"), "{error}");
        // Nothing of it reaches a terminal as it is.
        let error = read(b"\x1b[2J:x").unwrap_err().to_string();
        assert!(!error.contains('\x1b'), "{error}");
    }
}
