//! What dev sandboxes say of what is not as their user thinks: the object, and the command that helps, which is typed as it is printed.

use crate::lives::Lives;

/// Whoever has one forgotten is told what that means, where they do it and where they would miss it.
#[test]
fn a_login_that_is_not_kept_is_told() {
    let lives = Lives::new();
    let give = "`cofferdam codex-init-config --auth`";
    let logout = lives.cofferdam(&["codex-logout"]).expect_code(0);
    let not_kept = "is not kept until you give one with";
    assert!(logout.stderr.contains(not_kept), "{logout}");
    assert!(logout.stderr.contains(give), "{logout}");
    lives
        .cofferdam(&["start", "--network", "none"])
        .expect_code(0);
    let told = "note: the login of codex in dev is not kept";
    // The control: there is none.
    let left = lives.exec("dev", "true").expect_code(0);
    assert!(!left.stderr.contains(told), "{left}");
    let login =
        "mkdir -p ~/.codex && printf '{\"OPENAI_API_KEY\":\"inside\"}' > ~/.codex/auth.json";
    let left = lives.exec("dev", login).expect_code(0);
    assert!(left.stderr.contains(told), "{left}");
    assert!(left.stderr.contains(give), "{left}");
    lives.puts(".codex/auth.json", "{\"OPENAI_API_KEY\":\"own\"}");
    lives
        .cofferdam(&["codex-init-config", "--auth"])
        .expect_code(0);
    let left = lives.exec("dev", "true").expect_code(0);
    assert!(!left.stderr.contains(told), "{left}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}
