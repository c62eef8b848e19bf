//! A sandbox is found by others from when it is up, and its branch is still being made then.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::environment::finish;
use crate::lives::Lives;
use crate::living_home::eventually;

/// What a command would have done by then that waits for nobody.
const LONG: Duration = Duration::from_millis(1500);

#[test]
fn who_ends_it_waits_until_its_branch_is_there() {
    let lives = Lives::new();
    let place = lives.temporary();
    let (asked, go) = (place.join("asked"), place.join("go"));
    // A git that stands still where it is to make that branch.
    let text = format!(
        "#!/bin/sh\n\
         case \" $* \" in *' update-ref '*) ;; *) exec /usr/bin/env PATH=/usr/bin:/bin git \"$@\" ;; esac\n\
         words=$(mktemp)\n\
         cat >\"$words\"\n\
         if grep -aq refs/heads/cofferdam/box \"$words\"; then\n\
         : >'{}'; while [ ! -e '{}' ]; do sleep 0.02; done; fi\n\
         exec /usr/bin/env PATH=/usr/bin:/bin git \"$@\" <\"$words\"\n",
        asked.display(),
        go.display()
    );
    let bin = lives.has_program("git", &text);
    let start = |words: &[&str], path: &str| -> Child {
        let mut command = lives.command(words);
        command.env("PATH", path);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let usual = "/usr/bin:/bin";
    let slow = format!("{}:{usual}", bin.display());
    let create = ["create", "box", "--mode", "copy", "--network", "none"];
    let create = start(&create, &slow);
    eventually("git is asked for the branch", || asked.exists());
    // From when its record says that it lives on nobody else can tell that it is not whole.
    eventually("it is told as active", || {
        lives
            .listed("box")
            .is_some_and(|one| one["state"] == "active")
    });
    let mut delete = start(&["delete", "box"], usual);
    std::thread::sleep(LONG);
    let early = delete.try_wait().unwrap();
    std::fs::File::create(&go).unwrap();
    finish(create).expect_code(0);
    let deleted = finish(delete).expect_code(0);
    assert!(early.is_none(), "{deleted}");
    assert_eq!(lives.git(&["branch", "--list", "cofferdam/*"]), "");
    lives.expect_clean();
}
