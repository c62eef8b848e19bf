//! What a check has: the files of the commits, the image of their sandbox, and nothing of its user's.

use crate::containers;
use crate::images::dockerfile;
use crate::lives::Lives;

const FEATURE: &str = "dev-feature";
const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";

/// Whether nothing is there of what the sandbox that pushes has.
const NOTHING: &str = "test ! -e /repo-shelf && test ! -e /commandhistory && test ! -e ~/.claude/.credentials.json \
    && test -z \"$SECRET\" && test \"$(grep -c : /proc/net/dev)\" = 1 && ! git push -q host HEAD:refs/heads/feature \
    && test \"$(git rev-list --count --all HEAD)\" = 1 && test \"$(git log -1 --format=%an%ae%at)\" = cofferdam0 && test -z \"$(git status --short)\"";
const ALL: &str = "test -e /repo-shelf && test -e /commandhistory && test -s ~/.claude/.credentials.json && test \"$SECRET\" = x";

#[test]
fn nothing_of_its_user_is_there() {
    let lives = Lives::new();
    lives.git(&["branch", "feature"]);
    let configure = |check: &str, limits: &str| {
        let checks = format!("gate: {{checks: [{{cmd: '{check}'}}]}}\n");
        lives.configure(&format!("env: {{SECRET: x}}\n{limits}{checks}"));
    };
    configure(NOTHING, "");
    lives
        .cofferdam(&["start", "--branch", "feature"])
        .expect_code(0);
    let login = "mkdir -p ~/.claude && echo login > ~/.claude/.credentials.json";
    lives
        .exec(FEATURE, &format!("{login} && {ALL}"))
        .expect_code(0);
    let push = |subject: &str| {
        let script = format!("{COMMIT} {subject} && git push -q host feature");
        lives.exec(FEATURE, &script)
    };
    push("one").expect_code(0);
    // The limits that the configuration has for every sandbox.
    let many = "for i in $(seq 80); do sleep 1 & done; wait";
    configure(many, "");
    push("two").expect_code(0);
    configure(many, "limits: {pids: 40}\n");
    let refused = push("three").expect_code(1);
    assert!(refused.stderr.contains("the check `for i in"), "{refused}");
    lives
        .cofferdam(&["delete", "--force", FEATURE])
        .expect_code(0);
}

/// What passed in an image is known of that image alone, whatever its name is.
#[test]
fn a_check_has_the_image_of_its_sandbox() {
    for world in containers::worlds() {
        let made = |text: &str| {
            let text = format!("FROM {}\nRUN echo {text} > /made\n", containers::IMAGE);
            dockerfile(&world.environment, &text);
            world.build_trusted().expect_code(0);
        };
        let configure = |wanted: &str| {
            let cmd = format!("grep -qx {wanted} /made");
            let text = format!("gate: {{checks: [{{cmd: '{cmd}'}}]}}\n");
            world.environment.configure(&text);
        };
        let start = world.environment.git(&["rev-parse", "HEAD"]);
        let work = || {
            world
                .environment
                .git(&["reset", "--quiet", "--hard", start.trim()]);
            let run = ["run", "--sandbox", world.engine, "--network", "none"];
            let work = "echo work > work; git add work; git commit -qm work";
            let words = ["--merge-to-head", "--name", "one", "--", "sh", "-c", work];
            let done = world.cofferdam(&[&run[..], &words[..]].concat());
            let checked = done.stderr.contains("sandbox.check");
            let landed = world.environment.git(&["rev-parse", "HEAD"]) != start;
            world.cofferdam(&["delete", "--force", "one"]);
            (checked, landed, done)
        };
        made("one");
        configure("one");
        let (checked, landed, done) = work();
        assert!(checked && landed, "{done}");
        let (checked, landed, done) = work();
        assert!(!checked && landed, "{done}");
        made("two");
        let (checked, landed, done) = work();
        assert!(checked && !landed, "{done}");
        configure("two");
        let (checked, landed, done) = work();
        assert!(checked && landed, "{done}");
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}
