//! The comments by which tests claim requirements: `// covers: S2-17 S2-18`, above a test function
//! among its attributes and comments.

use std::path::{Path, PathBuf};

use crate::register::Id;

/// One test's claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: Id,
    /// `crates/cofferdam/tests/gate.rs::name`.
    pub(crate) test: String,
}

/// All claims in the sources below `top`, in the order of their files; errors name file and line.
pub(crate) fn scan(top: &Path) -> Result<Vec<Claim>, Vec<String>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requirements");
    let mut files = Vec::new();
    rust_files(&top.join("crates"), &mut files);
    files.sort();
    let (mut claims, mut errors) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| !file.starts_with(&own)) {
        let name = file.strip_prefix(top).unwrap_or(file).display().to_string();
        in_source(&name, &crate::read(file), &mut claims, &mut errors);
    }
    if errors.is_empty() {
        Ok(claims)
    } else {
        Err(errors)
    }
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && entry.file_name() != "target" {
            rust_files(&path, found);
        } else if kind.is_file() && path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

fn in_source(file: &str, source: &str, claims: &mut Vec<Claim>, errors: &mut Vec<String>) {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(comment) = line.strip_prefix("//") else {
            continue;
        };
        let Some(ids) = comment
            .trim_start_matches(['/', ' '])
            .strip_prefix("covers:")
        else {
            continue;
        };
        let Some(test) = test_around(&lines, at) else {
            errors.push(format!("{file}:{}: `covers` is not above a test", at + 1));
            continue;
        };
        for id in ids.split([' ', ',']).filter(|id| !id.is_empty()) {
            claims.push(Claim {
                id: Id::new(id),
                test: format!("{file}::{test}"),
            });
        }
    }
}

/// The name of the test function to whose comments and attributes line `at` belongs.
fn test_around(lines: &[&str], at: usize) -> Option<String> {
    let belongs = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    let above = lines[..at].iter().rev().take_while(belongs);
    let below = lines[at..].iter().take_while(belongs);
    let count = below.clone().count();
    let is_test = above
        .chain(below)
        .any(|line| line.starts_with("#[") && line.contains("test"));
    let name = lines.get(at + count)?.split_once("fn ")?.1;
    let name = name
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (is_test && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
fn check(source: &str, want: &[&str]) {
    let (mut claims, mut errors) = (Vec::new(), Vec::new());
    in_source("f.rs", source, &mut claims, &mut errors);
    let mut got: Vec<String> = claims
        .iter()
        .map(|claim| format!("{} {}", claim.id, claim.test))
        .collect();
    got.extend(errors);
    assert_eq!(got, want, "{source}");
}

#[test]
fn claims_stand_above_tests() {
    check(
        "// covers: S1-1 S2-3\n#[test]\nfn a() {}",
        &["S1-1 f.rs::a", "S2-3 f.rs::a"],
    );
    check(
        "  #[tokio::test]\n  /// covers: S1-1, S1-2\n  /// why\n  async fn b() {}",
        &["S1-1 f.rs::b", "S1-2 f.rs::b"],
    );
    check(
        "// covers: S1-1\nfn not_a_test() {}",
        &["f.rs:1: `covers` is not above a test"],
    );
    check(
        "// covers: S1-1\n\n#[test]\nfn far() {}",
        &["f.rs:1: `covers` is not above a test"],
    );
    check("// this covers: nothing\n#[test]\nfn c() {}", &[]);
}
