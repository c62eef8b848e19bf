//! Directories that are made in a checkout for a sandbox's time: to its git they are not there.

use crate::lives::Lives;

#[test]
fn no_git_inside_wants_them_away() {
    for options in [&["--mode", "bind"][..], &["--head"]] {
        let lives = Lives::with("box", &[options, &["--network", "none"]].concat());
        let script = "echo more >> README.md; echo new > new; git stash -u && test -z \"$(git status --porcelain)\" && \
                      git stash pop && git clean -fd && test ! -e new && git checkout -q README.md";
        lives.exec("box", script).expect_code(0);
        // They are what keeps an agent from putting something there.
        let put = lives.exec("box", "echo x > .cofferdam/config.yaml");
        assert_ne!(put.status.code(), Some(0), "{put}");
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
    }
}
