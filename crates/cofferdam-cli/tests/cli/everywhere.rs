//! An attack that the session decides, made natively and from containers.

use cofferdam_lab::verdict::{self, Kind, Verdict};
use cofferdam_lab::{sample, skip};

use crate::containers::{World, own};
use crate::environment::{Done, TestEnvironment, open_mode};

/// An image with what attacks are made with: git and Python. `scripts/test --all` makes it.
const TOOLS: &str = "tools:latest";

/// Makes attack `number` of docs/attacks.md natively, and with `scripts/test --all` in each engine; where one has not what it
/// takes, why is said for that provider.
pub(crate) fn everywhere(number: u8, attack: impl Fn(&World)) {
    attack(&native());
    if !sample::all() {
        return;
    }
    for engine in ["docker", "podman"] {
        let (name, who) = (format!("attack {number}"), verdict::who(engine));
        let said = |verdict| verdict::record(&who, Kind::Check, &name, verdict);
        if let Err(why) = own(engine, &["image", "inspect", TOOLS]) {
            if skip::is_forbidden() || !said(Verdict::NotTried(&why)) {
                skip!("{name} from {who}: {why}");
            }
            continue;
        }
        let world = World {
            environment: TestEnvironment::with_repository(),
            engine,
        };
        attack(&world);
        world.expect_clean();
        said(Verdict::Passed);
    }
}

pub(crate) fn native() -> World {
    World {
        environment: TestEnvironment::with_repository(),
        engine: "native",
    }
}

impl World {
    /// A run of `script` by a shell in a sandbox of this world's.
    #[track_caller]
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Done {
        let place = ["--sandbox", self.engine, "--image", TOOLS];
        let place = &place[..if self.engine == "native" { 2 } else { 4 }];
        let agent = ["--", "sh", "-c", script];
        let mode = open_mode(options);
        self.cofferdam(&[&["run"], place, mode, options, &agent].concat())
    }

    /// The dev sandbox of the checkout, or another one.
    #[track_caller]
    pub(crate) fn start(&self, options: &[&str]) -> Done {
        self.made("start", options)
    }

    /// A sandbox by this command. In containers it has no network.
    #[track_caller]
    pub(crate) fn made(&self, command: &str, options: &[&str]) -> Done {
        let place = [
            "--sandbox",
            self.engine,
            "--image",
            TOOLS,
            "--network",
            "none",
        ];
        let place = if self.engine == "native" {
            &place[..2]
        } else {
            &place[..]
        };
        self.cofferdam(&[&[command], place, options].concat())
            .expect_code(0)
    }
}
