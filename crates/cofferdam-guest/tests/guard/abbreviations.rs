//! Which abbreviations mean what is refused: git is asked, every one that is installed.

use crate::scene::{SKIPPABLE, Scene, Through, gits};

/// A line, what is added to it in every length, and the hooks that say no.
const LINES: &[(&str, &str, &str)] = &[
    ("git commit -am x", "--no-verify", SKIPPABLE),
    ("git merge side", "--no-verify", SKIPPABLE),
    ("git pull", "--no-verify", SKIPPABLE),
    ("git rebase --autostash side", "--no-verify", SKIPPABLE),
    ("git am ../side.patch", "--no-verify", SKIPPABLE),
    ("git push origin side", "--no-verify", SKIPPABLE),
    ("git push origin main", "--force", ""),
    ("git push origin main", "--force-with-lease", ""),
    ("git push origin", "--mirror", ""),
    // The last one counts, however short.
    ("git commit -am x --no-verify", "--verify", SKIPPABLE),
    ("git push origin main --force", "--no-force", ""),
];

// covers: S3-74 S3-97
#[test]
fn abbreviations_are_those_that_git_takes() {
    for git in gits() {
        let scene = Scene::with(&git);
        for (line, option, failing) in LINES {
            let written_out = format!("{line} {option}");
            let real = scene.outcome(&written_out, Through::Real, failing);
            if real.errors.starts_with("error: unknown option") {
                // `am` of git 2.39 does not know it.
                continue;
            }
            let mut refused = Vec::new();
            for length in 3..=option.len() {
                let line = format!("{line} {}", &option[..length]);
                let real = scene.outcome(&line, Through::Real, failing);
                let guarded = scene.outcome(&line, Through::Guard, failing);
                let is_refused = guarded.is_refused();
                assert_eq!(
                    is_refused,
                    real.state != scene.before,
                    "{}: {line}: {real:?}",
                    git.display()
                );
                if is_refused {
                    assert_eq!(guarded.state, scene.before, "{line}");
                    refused.push(length);
                } else {
                    assert_eq!(guarded, real, "{line}");
                }
            }
            // The control: an option that is written out means what it says, which is refused or takes back what is.
            let takes_back = line.contains("--no-verify") || line.contains("--force");
            assert_eq!(
                refused.contains(&option.len()),
                !takes_back,
                "{line} {option}"
            );
        }
    }
}
