//! Sockets of the user's programs in their checkout are no way out, whatever the sandbox's network is.

use std::os::unix::net::UnixListener;
use std::process::Command;

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{PlanError, RunErrorKind};

use crate::support::{Env, run, run_ok};

const CONNECT: &str = "use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 3; \
                       exit(connect($s, sockaddr_un($ARGV[0])) ? 0 : 1)";

/// Listens, and connects to itself.
const LISTEN: &str = "use Socket; socket(my $l, AF_UNIX, SOCK_STREAM, 0) or exit 3; \
                      bind($l, sockaddr_un(q(/tmp/s))) && listen($l, 1) or exit 4; \
                      exit(system(q(perl), q(-e), $ARGV[0], q(/tmp/s)) ? 5 : 0)";

#[test]
fn no_socket_in_the_checkout_answers() {
    let env = Env::new();
    let places = [
        "dev.sock",
        "src/deep/er/db.sock",
        "sub/.git/monitor",
        ".husky/s",
    ];
    let listeners = places.map(|name| {
        let path = env.repo.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        UnixListener::bind(path).unwrap()
    });
    // The control: they answer on the host, and one that a sandbox makes itself answers inside.
    for name in places {
        let done = Command::new("perl")
            .args(["-e", CONNECT, name])
            .current_dir(&env.repo)
            .status();
        assert!(done.unwrap().success(), "{name}");
    }
    let script = format!(
        "for name in {}; do\n\
         test -e $name || exit 8\n\
         perl -e '{CONNECT}' $name && exit 9\n\
         done\n\
         mv src/deep src/moved; perl -e '{CONNECT}' src/moved/er/db.sock && exit 10\n\
         perl -e '{LISTEN}' '{CONNECT}' || exit 11\n\
         mv src/moved src/deep; touch done",
        places.join(" ")
    );
    run_ok(env.script(BranchStrategy::Head, &script));
    assert!(env.repo.join("done").exists());
    for name in places {
        assert!(env.repo.join(name).exists(), "{name}");
    }
    drop(listeners);
}

#[test]
fn more_sockets_than_can_be_covered_are_refused() {
    let env = Env::new();
    let bind = |number: u32| UnixListener::bind(env.repo.join(format!("s{number:02}"))).unwrap();
    let mut listeners: Vec<_> = (0..64).map(bind).collect();
    run_ok(env.script(BranchStrategy::Head, "true"));
    listeners.push(bind(64));
    let error = run(env.script(BranchStrategy::Head, "true")).unwrap_err();
    let RunErrorKind::Plan(PlanError::ManySockets { count: 65, .. }) = error.kind else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("s00"), "{error}");
    env.assert_no_state();
    // Committed files are all that a worktree has.
    run_ok(env.bind(BranchStrategy::MergeToHead, "true"));
}
