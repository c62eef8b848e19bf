//! A test that cannot run here says so: it is counted and named as skipped, never as passed.
//!
//! The test's own program knows only passed and failed. `scripts/test` names a file in [`FILE`], and prints
//! at its end what was written to it.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests take what to do from `scripts/test` by the environment, and fail by panicking"
)]

use std::fs::OpenOptions;
use std::io::Write;

/// The file to which a line is added for each thing that was skipped.
const FILE: &str = "COFFERDAM_TEST_SKIPPED";
/// Set where everything must run: a skip is a failure then.
const FORBIDDEN: &str = "COFFERDAM_TEST_NO_SKIP";

/// Records that the test around it, or a part of it, does not run here, and why. It does not return from
/// the test: `return skip!("only root can …");` does.
#[macro_export]
macro_rules! skip {
    ($($why:tt)+) => {{
        fn here() {}
        $crate::skip::record(::std::any::type_name_of_val(&here), &::std::format!($($why)+))
    }};
}

/// What [`skip!`](crate::skip!) does, for the function that `place` is in.
#[track_caller]
pub fn record(place: &str, why: &str) {
    let test = name(place);
    assert!(!is_forbidden(), "{test} was to run, and cannot: {why}");
    eprintln!("skipped: {test}: {why}");
    if let Some(path) = std::env::var_os(FILE) {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written =
            file.and_then(|mut file| file.write_all(format!("{test}\t{why}\n").as_bytes()));
        if let Err(error) = written {
            panic!(
                "cannot say in {} that {test} was skipped: {error}",
                path.display()
            );
        }
    }
}

/// Whether everything must run.
pub fn is_forbidden() -> bool {
    std::env::var_os(FORBIDDEN).is_some()
}

/// `wall::place::a_test` of `wall::place::a_test::{{closure}}::here`.
fn name(place: &str) -> &str {
    let mut name = place.strip_suffix("::here").unwrap_or(place);
    while let Some(shorter) = name.strip_suffix("::{{closure}}") {
        name = shorter;
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_function_around_is_named() {
        fn around() -> &'static str {
            let inside = || {
                fn here() {}
                std::any::type_name_of_val(&here)
            };
            super::name(inside())
        }
        assert!(around().ends_with("skip::tests::the_function_around_is_named::around"));
    }
}
