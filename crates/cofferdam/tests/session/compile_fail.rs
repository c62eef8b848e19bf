//! What must not compile does not, for the reason that it is there for.
//!
//! The compiler is called with the library that is already built beside this program: a package of their
//! own would build every dependency again.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the compiler says of a file of `tests/compile_fail`: a line for each error.
fn compile(name: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let place = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test that starts the compiler")]
    let done = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "--emit",
            "metadata",
            "--cap-lints",
            "allow",
        ])
        .args(["--error-format", "short", "--color", "never"])
        .arg("--extern")
        .arg(format!("cofferdam={}", library(built).display()))
        .arg("-L")
        .arg(format!("dependency={}", built.display()))
        .arg("--out-dir")
        .arg(place.path())
        .arg(format!("{name}.rs"))
        .current_dir(source)
        .output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    let errors = said.lines().filter(|line| line.contains(": error"));
    let errors: Vec<String> = errors.map(str::to_owned).collect();
    assert_eq!(done.status.success(), errors.is_empty(), "{name}: {said}");
    errors
}

/// The newest of the library's builds: cargo has just made it for this program, or found it fresh.
fn library(built: &Path) -> PathBuf {
    let files = std::fs::read_dir(built).unwrap().flatten();
    let builds = files.filter(|file| {
        let (path, name) = (file.path(), file.file_name());
        name.as_encoded_bytes().starts_with(b"libcofferdam-")
            && path
                .extension()
                .is_some_and(|extension| extension == "rlib")
    });
    let newest = builds.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    newest.unwrap().path()
}

// covers: S2-2 S2-3 S2-4 S2-12 S2-13
#[test]
fn what_must_not_compile_does_not_compile() {
    assert_eq!(compile("control"), <[&str; 0]>::default());
    for (name, wanted) in [
        (
            "bare_provider",
            &[
                "7:62: error[E0277]: the trait bound `Contained: From<cofferdam::sandbox::native::Native>` is not satisfied",
            ][..],
        ),
        ("isolated_head", &["6:29: error[E0308]: mismatched types"]),
        (
            "no_sandbox",
            &[
                "12:51: error[E0277]: the trait bound `Contained: From<NoSandbox>` is not satisfied",
                "13:31: error[E0277]: the trait bound `Contained: From<NoSandbox>` is not satisfied",
            ],
        ),
        (
            "private_copy_head",
            &["7:61: error[E0308]: mismatched types"],
        ),
        (
            "provider_at_the_root",
            &[
                "3:5: error[E0432]: unresolved import `cofferdam::Native`",
                "4:5: error[E0432]: unresolved import `cofferdam::sandbox::Native`",
            ],
        ),
        (
            "strategy_later",
            &[
                "8:13: error[E0616]: field `strategy` of struct `cofferdam::sandbox::BindMount` is private",
            ],
        ),
        (
            "whole_literals",
            &[
                "22:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "23:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "24:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "25:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "26:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "27:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "33:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "34:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "35:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "36:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "37:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "43:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "44:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "45:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "54:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "55:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "56:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "57:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "58:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "59:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "60:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "66:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "67:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "68:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "69:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "70:9: error[E0639]: cannot create non-exhaustive struct using struct expression",
                "75:11: error[E0004]: non-exhaustive patterns: `_` not covered",
            ],
        ),
    ] {
        let errors = compile(name);
        assert_eq!(errors.len(), wanted.len(), "{name}: {errors:?}");
        for (said, error) in errors.iter().zip(wanted) {
            assert!(said.starts_with(&format!("{name}.rs:{error}")), "{said}");
        }
    }
}
