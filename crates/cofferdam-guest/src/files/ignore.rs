//! Rules of ignore files, as git reads them (gitignore(5)): they say which new files are left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use cofferdam_guest::protocol::files::LONGEST_RULES;

use super::{READ, split};
use crate::sys;

/// One comparison takes at most so many steps: who writes a pattern that takes more has one that fits nothing.
const MOST_STEPS: u32 = 50_000;
/// More lines of one file are not read.
const MOST_PATTERNS: usize = 20_000;

/// The text of a directory's own ignore file; none where it has none that is read.
pub(super) fn own_rules(at: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let file = sys::open_at(at.as_raw_fd(), c".gitignore", READ, 0).ok()?;
    let stat = sys::stat_at(file.as_fd(), c"").ok()?;
    if stat.kind != libc::S_IFREG || stat.size > LONGEST_RULES as u64 {
        return None;
    }
    let mut text = Vec::new();
    let mut file = File::from(file).take(LONGEST_RULES as u64);
    file.read_to_end(&mut text).ok()?;
    Some(text)
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    /// By directory.
    files: HashMap<Vec<u8>, Vec<Pattern>>,
    /// What comes after all of them.
    last: Vec<Pattern>,
}

#[derive(Debug, PartialEq, Eq)]
struct Pattern {
    /// Without what is said by the rest.
    text: Vec<u8>,
    /// It takes back what earlier ones say.
    takes_back: bool,
    directories_only: bool,
    /// It is compared with the path from its file's directory on, not with the name alone.
    whole: bool,
}

impl Rules {
    pub(super) fn give(&mut self, directory: Option<Vec<u8>>, text: &[u8]) {
        match directory {
            Some(directory) => self.replace(directory, text),
            None => self.last = parse(text),
        }
    }

    /// The rules of a directory's own file.
    pub(super) fn replace(&mut self, directory: Vec<u8>, text: &[u8]) {
        self.files.insert(directory, parse(text));
    }

    /// Of a path whose directories are not ignored.
    pub(super) fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        let (mut directory, name) = split(path);
        loop {
            if let Some(patterns) = self.files.get(directory) {
                let skip = if directory.is_empty() {
                    0
                } else {
                    directory.len() + 1
                };
                if let Some(says) = last_word(patterns, &path[skip..], name, is_directory) {
                    return says;
                }
            }
            if directory.is_empty() {
                return last_word(&self.last, path, name, is_directory).unwrap_or(false);
            }
            directory = split(directory).0;
        }
    }
}

/// What the last pattern that fits says.
fn last_word(patterns: &[Pattern], path: &[u8], name: &[u8], is_directory: bool) -> Option<bool> {
    let fits = |pattern: &&Pattern| {
        let text = if pattern.whole { path } else { name };
        (is_directory || !pattern.directories_only) && fits(&pattern.text, text)
    };
    let last = patterns.iter().rev().find(fits)?;
    Some(!last.takes_back)
}

fn parse(text: &[u8]) -> Vec<Pattern> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n').filter_map(pattern);
    lines.take(MOST_PATTERNS).collect()
}

fn pattern(line: &[u8]) -> Option<Pattern> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let line = without_blanks(line);
    let (takes_back, line) = match line.strip_prefix(b"!") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (directories_only, line) = match line.strip_suffix(b"/") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let whole = line.contains(&b'/');
    let line = line.strip_prefix(b"/").unwrap_or(line);
    (!line.is_empty()).then(|| Pattern {
        text: line.to_vec(),
        takes_back,
        directories_only,
        whole,
    })
}

/// Without blanks at its end, unless a backslash keeps one.
fn without_blanks(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at = (at + 2).min(line.len());
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut steps = MOST_STEPS;
    matches(pattern, text, true, &mut steps)
}

/// As wildmatch of git's, where a `/` is matched by itself and by `**` alone. `begins`: the pattern is at its beginning
/// or behind a `/`.
fn matches(mut pattern: &[u8], mut text: &[u8], mut begins: bool, steps: &mut u32) -> bool {
    loop {
        let Some(left) = steps.checked_sub(1) else {
            return false;
        };
        *steps = left;
        let Some((&first, rest)) = pattern.split_first() else {
            return text.is_empty();
        };
        match (first, text.split_first()) {
            (b'*', _) => {
                let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
                let after = &pattern[stars..];
                let slash = after.first() == Some(&b'/');
                if stars > 1 && begins && (slash || after.is_empty()) {
                    return any_depth(after, text, steps);
                }
                return within_a_name(after, text, steps);
            }
            (b'?', Some((&other, left))) if other != b'/' => (pattern, text) = (rest, left),
            (b'[', Some((&other, left))) if other != b'/' => match class(rest, other) {
                Some((true, after)) => (pattern, text) = (after, left),
                _ => return false,
            },
            (b'\\', Some((&other, left))) => match rest.split_first() {
                Some((&literal, after)) if literal == other => (pattern, text) = (after, left),
                _ => return false,
            },
            (b'?' | b'[' | b'\\', _) => return false,
            (literal, Some((&other, left))) if literal == other => (pattern, text) = (rest, left),
            _ => return false,
        }
        begins = first == b'/';
    }
}

/// Behind `**` between slashes or ends: any number of names, none too where a `/` follows.
fn any_depth(after: &[u8], text: &[u8], steps: &mut u32) -> bool {
    let Some(after) = after.strip_prefix(b"/") else {
        return true;
    };
    let mut text = text;
    loop {
        if matches(after, text, true, steps) {
            return true;
        }
        match text.iter().position(|&byte| byte == b'/') {
            Some(at) if *steps > 0 => text = &text[at + 1..],
            _ => return false,
        }
    }
}

/// Behind `*`: any part of one name.
fn within_a_name(after: &[u8], text: &[u8], steps: &mut u32) -> bool {
    for at in 0..=text.len() {
        if matches(after, &text[at..], false, steps) {
            return true;
        }
        if *steps == 0 || text.get(at).is_none_or(|&byte| byte == b'/') {
            return false;
        }
    }
    false
}

/// Whether a class has this byte, and what follows the class. None where it has no end.
fn class(mut pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    if negated {
        pattern = &pattern[1..];
    }
    let (mut found, mut is_first) = (false, true);
    loop {
        let (&first, rest) = pattern.split_first()?;
        pattern = rest;
        if first == b']' && !is_first {
            return Some((found != negated, pattern));
        }
        is_first = false;
        if first == b'['
            && let Some(named) = pattern.strip_prefix(b":")
            && let Some(end) = named.windows(2).position(|two| two == b":]")
        {
            found |= named_class(&named[..end], byte)?;
            pattern = &named[end + 2..];
            continue;
        }
        let low = literal(first, &mut pattern)?;
        match pattern {
            [b'-', high, ..] if *high != b']' => {
                pattern = &pattern[2..];
                let high = literal(*high, &mut pattern)?;
                found |= (low..=high).contains(&byte);
            }
            _ => found |= low == byte,
        }
    }
}

fn literal(byte: u8, rest: &mut &[u8]) -> Option<u8> {
    if byte != b'\\' {
        return Some(byte);
    }
    let (&escaped, after) = rest.split_first()?;
    *rest = after;
    Some(escaped)
}

/// None where there is no such class.
fn named_class(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "git itself is asked")]
mod tests {
    use super::*;

    const LINES: &[&str] = &[
        "a",
        "/a",
        "a/",
        "a/b",
        "a/*",
        "a/**",
        "**/b",
        "a/**/b",
        "*.o",
        "*",
        "!b",
        "\\!b",
        "\\#x",
        "#x",
        "x ",
        "x\\ ",
        "b?",
        "[ab]",
        "[!a]",
        "[a-b]b",
        "a*b",
        "*/b",
        "**",
        "a**b",
        "[[:digit:]]",
        "[]a]",
        "[a",
        "\\a",
        "a\\",
        "sub/*.o",
        "a\r",
        "/*/b",
        "**/a/b",
        "/",
        "//a",
        "[a-]",
        "***/b",
    ];
    const PATHS: &[&str] = &[
        "a",
        "b",
        "ab",
        "bb",
        "!b",
        "#x",
        "x",
        "x ",
        "1",
        "]",
        "[a",
        "x.o",
        "a/b",
        "b/a",
        "b/b",
        "a/x.o",
        "sub/x.o",
        "a/b/b",
        "b/a/b",
        "sub/a/b",
        "sub/b/a/x",
        "a/ab/b",
        "-",
        "a\\",
    ];

    /// Git itself is asked.
    fn by_git(place: &std::path::Path, text: &str) -> Vec<bool> {
        use std::io::Write;
        std::fs::write(place.join(".gitignore"), text).unwrap();
        let mut git = std::process::Command::new("git")
            .args(["check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"])
            .current_dir(place)
            .env_clear()
            .envs([("PATH", "/usr/local/bin:/usr/bin:/bin")])
            .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let all = PATHS.iter().map(|path| format!("{path}\0"));
        let all: String = all.collect();
        git.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
        let done = git.wait_with_output().unwrap();
        let words: Vec<&[u8]> = done.stdout.split(|&byte| byte == 0).collect();
        // Source, line, pattern, path.
        let says = words.chunks_exact(4);
        says.map(|four| !four[2].is_empty() && !four[2].starts_with(b"!"))
            .collect()
    }

    /// As a walk asks: nothing below what is ignored.
    fn by_us(rules: &Rules, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| (at, true));
        let mut ends = ends.chain([(path.len(), false)]);
        ends.any(|(at, is_directory)| rules.ignores(&path.as_bytes()[..at], is_directory))
    }

    #[test]
    fn rules_are_read_as_git_reads_them() {
        let place = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("git")
            .args(["init", "-q"])
            .arg(place.path())
            .status();
        assert!(made.unwrap().success());
        let texts = LINES.iter().map(|one| format!("{one}\n"));
        // Each alone, and some after each other.
        let pairs = LINES.iter().step_by(9).flat_map(|first| {
            let both = |second: &&str| format!("{first}\n{second}\n");
            LINES.iter().map(both).collect::<Vec<_>>()
        });
        for text in texts.chain(pairs) {
            let mut rules = Rules::default();
            rules.replace(Vec::new(), text.as_bytes());
            let theirs = by_git(place.path(), &text);
            assert_eq!(theirs.len(), PATHS.len(), "{text:?}");
            for (path, theirs) in PATHS.iter().zip(theirs) {
                assert_eq!(by_us(&rules, path), theirs, "{text:?} {path:?}");
            }
        }
    }

    #[test]
    fn the_nearest_file_has_the_last_word() {
        let mut rules = Rules::default();
        rules.give(None, b"*.log\n");
        rules.give(Some(Vec::new()), b"*.tmp\n!kept.log\n");
        rules.give(Some(b"sub".to_vec()), b"!*.tmp\nown\n");
        assert!(rules.ignores(b"x.log", false));
        assert!(!rules.ignores(b"sub/kept.log", false));
        assert!(rules.ignores(b"x.tmp", false));
        assert!(!rules.ignores(b"sub/x.tmp", false));
        assert!(rules.ignores(b"sub/deep/own", true));
        assert!(!rules.ignores(b"own", true));
        // A file of its own takes the place of what was given.
        rules.replace(b"sub".to_vec(), b"");
        assert!(rules.ignores(b"sub/x.tmp", false));
    }

    /// A pattern that is made to take long fits nothing, and soon.
    #[test]
    fn a_pattern_takes_only_so_many_steps() {
        let mut rules = Rules::default();
        let text = "*a".repeat(200) + "b";
        rules.replace(Vec::new(), text.as_bytes());
        let began = std::time::Instant::now();
        assert!(!rules.ignores(&b"a".repeat(250), false));
        assert!(began.elapsed().as_secs() < 5);
    }

    #[test]
    fn fuzz_ignore_rules() {
        let seeds: Vec<_> = LINES.iter().map(|line| line.as_bytes().to_vec()).collect();
        cofferdam_lab::fuzz::mutate("ignore rules", &seeds, |text| {
            let mut rules = Rules::default();
            rules.replace(Vec::new(), text);
            for path in PATHS {
                _ = rules.ignores(path.as_bytes(), false);
            }
        });
    }
}
