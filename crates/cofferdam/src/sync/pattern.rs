//! Patterns for the names of files, as Go's `filepath.Glob` reads them: `*`, `?`, classes, and `\` before what is meant as it is. There
//! is no `**`, and a dot at the beginning of a name is a character as any other.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Not a pattern: a class or an escape has no end, or a class is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no pattern: a `[` has no `]`, or `\\` is its last character")]
pub(super) struct BadPattern;

/// Whether a source is a pattern and not a path.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern without its first parts that are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parted<'a> {
    /// The directory that these parts name, as it is written; empty where there is none.
    pub(super) directory: &'a str,
    rest: &'a str,
}

/// `text`: relative, of slashes and patterns.
pub(super) fn parted(text: &str) -> Parted<'_> {
    let mut end = 0;
    for part in text.split_inclusive('/') {
        if has_meta(part) || !part.ends_with('/') {
            break;
        }
        end += part.len();
    }
    Parted {
        directory: &text[..end],
        rest: &text[end..],
    }
}

impl Parted<'_> {
    /// The names below that directory, which is `base`, sorted directory by directory; one that cannot be read has none.
    pub(super) fn matching(&self, base: &Path) -> Result<Vec<PathBuf>, BadPattern> {
        let patterns = self.rest.split('/').map(Pattern::read);
        let mut found = vec![PathBuf::new()];
        for pattern in patterns.collect::<Result<Vec<_>, _>>()? {
            let below = |path: &PathBuf| names(base, path, &pattern);
            found = found.iter().flat_map(below).collect();
        }
        Ok(found)
    }
}

fn has_meta(part: &str) -> bool {
    part.contains(['*', '?', '[', '\\'])
}

fn names(base: &Path, path: &Path, pattern: &Pattern) -> Vec<PathBuf> {
    let entries = fs::read_dir(base.join(path))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<OsString> = entries
        .map(|entry| entry.file_name())
        .filter(|name| pattern.matches(name.as_bytes()))
        .collect();
    names.sort();
    names.into_iter().map(|name| path.join(name)).collect()
}

/// One name's.
#[derive(Debug)]
struct Pattern(Vec<Token>);

#[derive(Debug)]
enum Token {
    Any,
    One,
    Text(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    fn read(text: &str) -> Result<Self, BadPattern> {
        let mut tokens = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            tokens.push(match c {
                '*' => Token::Any,
                '?' => Token::One,
                '\\' => Token::Text(rest.next().ok_or(BadPattern)?),
                '[' => {
                    let negated = rest.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
                        let low = escaped(&mut rest)?;
                        let high = if rest.next_if_eq(&'-').is_some() {
                            escaped(&mut rest)?
                        } else {
                            low
                        };
                        ranges.push((low, high));
                    }
                    Token::Class { negated, ranges }
                }
                c => Token::Text(c),
            });
        }
        Ok(Self(tokens))
    }

    /// The last `*` may take one character more whenever what follows it does not fit.
    fn matches(&self, name: &[u8]) -> bool {
        let (mut token, mut at) = (0, 0);
        let mut star = None;
        loop {
            match self.0.get(token) {
                Some(Token::Any) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                None if at == name.len() => return true,
                Some(one) => {
                    if let Some(length) = one.fits(&name[at..]) {
                        token += 1;
                        at += length;
                        continue;
                    }
                }
                None => {}
            }
            match star {
                Some((any, from)) if from < name.len() => {
                    star = Some((any, from + 1));
                    (token, at) = (any + 1, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    /// How many bytes of `text` it takes.
    fn fits(&self, text: &[u8]) -> Option<usize> {
        let (found, length) = first(text)?;
        let is_it = match self {
            Self::Any => return None,
            Self::One => true,
            Self::Text(c) => {
                let mut bytes = [0; 4];
                return text
                    .starts_with(c.encode_utf8(&mut bytes).as_bytes())
                    .then(|| c.len_utf8());
            }
            Self::Class { negated, ranges } => {
                let within = ranges
                    .iter()
                    .any(|&(low, high)| low <= found && found <= high);
                within != *negated
            }
        };
        is_it.then_some(length)
    }
}

/// A character of a class: `-`, `]` and `\` are themselves only after a `\`.
fn escaped(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<char, BadPattern> {
    match rest.next().ok_or(BadPattern)? {
        '-' | ']' => Err(BadPattern),
        '\\' => rest.next().ok_or(BadPattern),
        c => Ok(c),
    }
}

/// The first character and its length; a byte that is none counts as one.
fn first(text: &[u8]) -> Option<(char, usize)> {
    let chunk = text.get(..text.len().min(4))?;
    if chunk.is_empty() {
        return None;
    }
    let valid = match std::str::from_utf8(chunk) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&chunk[..error.valid_up_to()]).unwrap_or_default(),
    };
    let found = valid.chars().next();
    Some(found.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the documentation of `path/filepath` says, and what its words leave open as its programs do it.
    // covers: S1-20
    #[test]
    fn names_fit_as_they_do_in_go() {
        let cases: &[(&str, &str, Option<bool>)] = &[
            ("abc", "abc", Some(true)),
            ("*", "abc", Some(true)),
            ("*", "", Some(true)),
            ("*", ".hidden", Some(true)),
            ("*c", "abc", Some(true)),
            ("a*", "a", Some(true)),
            ("a*", "abc", Some(true)),
            ("a*b*c*d*e*", "axbxcxdxe", Some(true)),
            ("a*b*c*d*e*", "axbxcxdxexxx", Some(true)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Some(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Some(false)),
            ("**", "abc", Some(true)),
            ("*.sh", "run.sh", Some(true)),
            ("*.sh", "run.sh.old", Some(false)),
            ("ab[c]", "abc", Some(true)),
            ("ab[b-d]", "abc", Some(true)),
            ("ab[e-g]", "abc", Some(false)),
            ("ab[^c]", "abc", Some(false)),
            ("ab[^b-d]", "abc", Some(false)),
            ("ab[^e-g]", "abc", Some(true)),
            ("[!c]", "!", Some(true)),
            ("a\\*b", "a*b", Some(true)),
            ("a\\*b", "ab", Some(false)),
            ("a?b", "a☺b", Some(true)),
            ("a[^a]b", "a☺b", Some(true)),
            ("a???b", "a☺b", Some(false)),
            ("a[^a][^a][^a]b", "a☺b", Some(false)),
            ("[a-ζ]*", "α", Some(true)),
            ("*[a-ζ]", "A", Some(false)),
            ("[\\]a]", "]", Some(true)),
            ("[\\-]", "-", Some(true)),
            ("[x\\-]", "x", Some(true)),
            ("[x\\-]", "-", Some(true)),
            ("[x\\-]", "z", Some(false)),
            ("[\\-x]", "a", Some(false)),
            ("[d-b]", "c", Some(false)),
            ("*x", "xxx", Some(true)),
            ("", "", Some(true)),
            ("", "a", Some(false)),
            ("[]a]", "]", None),
            ("[-]", "-", None),
            ("[x-]", "x", None),
            ("[-x]", "x", None),
            ("\\", "a", None),
            ("[a-b-c]", "a", None),
            ("[", "a", None),
            ("[^", "a", None),
            ("[^bc", "a", None),
            ("a[", "a", None),
            ("a[", "ab", None),
            ("[]", "a", None),
            ("[a-", "a", None),
            ("[\\", "a", None),
        ];
        for &(pattern, name, expected) in cases {
            let found = Pattern::read(pattern).map(|read| read.matches(name.as_bytes()));
            assert_eq!(found.ok(), expected, "{pattern:?} {name:?}");
        }
        let one = Pattern::read("a?b").unwrap();
        assert!(one.matches(b"a\xffb") && !one.matches(b"a\xff\xffb"));
    }

    // covers: S1-51
    #[test]
    fn files_are_found_part_by_part_in_order() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        for path in [
            "a/x.sh",
            "a/.x.sh",
            "a/y.sh",
            "a/y.txt",
            "b/x.sh",
            "b/deep/x.sh",
            "c[1]/z.sh",
        ] {
            let path = top.join(path);
            crate::fsx::private_dir(path.parent().unwrap()).unwrap();
            crate::fsx::write_private(&path, b"").unwrap();
        }
        let found = |pattern: &str| {
            let parted = parted(pattern);
            let found = parted.matching(&top.join(parted.directory))?;
            let found = found
                .iter()
                .map(|path| Path::new(parted.directory).join(path));
            Ok(found.collect())
        };
        let check = |pattern: &str, expected: &[&str]| {
            let found: Result<Vec<PathBuf>, BadPattern> = found(pattern);
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(found.unwrap(), expected, "{pattern}");
        };
        check(
            "*/*.sh",
            &["a/.x.sh", "a/x.sh", "a/y.sh", "b/x.sh", "c[1]/z.sh"],
        );
        check("*/x.sh", &["a/x.sh", "b/x.sh"]);
        check("a//[xy].sh", &["a/x.sh", "a/y.sh"]);
        check("?/deep/*", &["b/deep/x.sh"]);
        check("**/x.sh", &["a/x.sh", "b/x.sh"]);
        check("c\\[1]/*", &["c[1]/z.sh"]);
        check("a/x.sh/*", &[]);
        check("a*/", &[]);
        check("none/*", &[]);
        for bad in ["a[", "x/a[/b*", "*/[]"] {
            let found: Result<Vec<PathBuf>, _> = found(bad);
            assert_eq!(found, Err(BadPattern), "{bad}");
        }
        assert!(is_pattern("a*") && is_pattern("[") && !is_pattern("a\\b"));
    }
}
