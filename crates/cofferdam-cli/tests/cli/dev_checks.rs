//! What a check of a push from a dev container has: the files of the commits, and nothing of its user's.

use crate::containers::{making, worlds};

/// The sandbox on the branch `feature`.
const FEATURE: &str = "dev-feature";
/// Whether nothing is there of what the sandbox that pushes has.
const NOTHING: &str = "test ! -e /repo-shelf && test ! -e /commandhistory && test ! -e ~/.claude/.credentials.json \
    && test -z \"$SECRET\" && test \"$(grep -c : /proc/net/dev)\" = 1 && ! git push -q host HEAD:refs/heads/feature";
const ALL: &str = "test -e /repo-shelf && test -e /commandhistory && test -s ~/.claude/.credentials.json && test \"$SECRET\" = x";

#[test]
fn nothing_of_its_user_is_in_a_check_in_a_container() {
    for world in worlds() {
        world.environment.git(&["branch", "feature"]);
        let configure = |check: &str| {
            let checks = format!("gate: {{checks: [{{cmd: '{check}'}}]}}\n");
            let text = format!("env: {{SECRET: x}}\n{checks}");
            world.environment.configure(&text);
        };
        let push = |subject: &str| {
            let script = format!(
                "echo {subject} > new; git add new; git commit -qm {subject} && git push -q host feature"
            );
            world.exec_in(FEATURE, &script)
        };
        let on_host = || {
            let subject = ["log", "-1", "--format=%s", "feature", "--"];
            world.environment.git(&subject)
        };
        configure(NOTHING);
        let start = making("start", world.engine, &["--branch", "feature"]);
        world.cofferdam(&start).expect_code(0);
        let login = "mkdir -p ~/.claude && echo login > ~/.claude/.credentials.json";
        world
            .exec_in(FEATURE, &format!("{login} && {ALL}"))
            .expect_code(0);
        push("one").expect_code(0);
        assert_eq!(on_host(), "one", "{}", world.engine);

        // The control: what the sandbox has, the check has not.
        configure(ALL);
        let refused = push("two").expect_code(1);
        let why = "its checks did not succeed";
        assert!(refused.stderr.contains(why), "{refused}");
        assert_eq!(on_host(), "one", "{}", world.engine);
        configure("test \"$(cat ne*)\" = three");
        push("three").expect_code(0);
        assert_eq!(on_host(), "three", "{}", world.engine);
        world
            .cofferdam(&["delete", "--force", FEATURE])
            .expect_code(0);
        world.expect_clean();
    }
}
