//! The lab's names, the services of the house, and the sandboxes that most attacks share.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cofferdam_lab::lab::Reply;
use cofferdam_lab::lab::control::Control;

use crate::house::HouseServices;
use crate::place::Place;
use crate::user::User;

pub(crate) const ALLOWED: &str = "203.0.113.10";
pub(crate) const DENIED: &str = "203.0.113.11";
/// A second address of names that change theirs.
pub(crate) const OTHER: &str = "203.0.113.12";
/// Of cdn-allowed.test and cdn-denied.test.
pub(crate) const SHARED: &str = "203.0.113.20";
/// In the range that a rule opens.
pub(crate) const INSIDE: &str = "203.0.113.133";
pub(crate) const SIBLINGS: &str = "203.0.113.40";

/// What the flags of the sandbox behind the wall allow.
const RULES: [&str; 8] = [
    "host.cofferdam.internal:4003 http",
    "allowed.test",
    "allowed.test:7,22,5432",
    "cdn-allowed.test",
    "*.wild.test",
    "*.rebind.test:4000",
    "rotate.test",
    "203.0.113.128/28:5432",
];
/// What the config allows on top: the rule that goes.
pub(crate) const CONFIG: &str = "firewall:\n  allow:\n    - domain: live.test\n      ports: [7]\n";

pub(crate) struct Bench {
    pub(crate) directory: PathBuf,
    pub(crate) control: Control,
    pub(crate) house_services: HouseServices,
    /// Behind the wall, with [`RULES`].
    pub(crate) wall: Place,
    /// Behind the wall, with a rule that the other has not.
    pub(crate) sibling: Place,
    /// A sandbox with `--network open`.
    pub(crate) open: Place,
    /// No sandbox at all.
    pub(crate) house: Place,
}

impl Bench {
    pub(crate) fn new(directory: &Path) -> Self {
        let control = Control::connect(directory).unwrap();
        for (name, address) in [
            ("*", "203.0.113.66"),
            ("allowed.test", ALLOWED),
            ("denied.test", DENIED),
            ("cdn-allowed.test", SHARED),
            ("cdn-denied.test", SHARED),
            ("rotate.test", ALLOWED),
            ("live.test", ALLOWED),
            ("inside.test", INSIDE),
            ("sibling-only.test", SIBLINGS),
            ("host.docker.internal", "192.0.2.2"),
            ("host.containers.internal", "192.0.2.2"),
            ("host.cofferdam.internal", "192.0.2.2"),
            ("metadata.google.internal", "169.254.169.254"),
        ] {
            control.name(name, vec![at(&[address], 60)]).unwrap();
        }
        let house_services = HouseServices::start();
        let user = User::new(directory.join("h"), directory.join("wall"));
        user.configure(CONFIG);
        let of = |name: &str| user.beside(directory.join(name));
        let mut options = Vec::new();
        for rule in RULES {
            options.extend(["--allow", rule]);
        }
        // All at once, then wait.
        let wall = Place::start(user.clone(), "wall", &options);
        let sibling = Place::start(of("sibling"), "sibling", &["--allow", "sibling-only.test"]);
        let open = Place::start(of("open"), "open", &["--network", "open"]);
        let house = Place::without_sandbox(of("house"), "house");
        Self {
            directory: directory.to_owned(),
            control,
            house_services,
            wall: wall.ready(),
            sibling: sibling.ready(),
            open: open.ready(),
            house: house.ready(),
        }
    }

    /// A user of its own: another home, another gateway.
    pub(crate) fn stranger(&self, name: &str) -> User {
        User::new(
            self.directory.join(format!("h-{name}")),
            self.directory.join(name),
        )
    }

    /// Another repository of the first user.
    pub(crate) fn beside(&self, name: &str) -> User {
        self.wall.user.beside(self.directory.join(name))
    }

    /// For a person who looks for the cause of a failure.
    pub(crate) fn say_what_was_said(&self) {
        for place in [&self.wall, &self.sibling, &self.open, &self.house] {
            println!("--- {}\n{}", place.name, place.said());
        }
        let home = self.wall.user.path(".cofferdam");
        for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
            let stderr = entry.path().join("stderr");
            if let Ok(text) = std::fs::read_to_string(&stderr) {
                println!("--- {}\n{text}", stderr.display());
            }
        }
    }
}

/// A reply with these addresses.
pub(crate) fn at(addresses: &[&str], ttl: u32) -> Reply {
    let addresses = addresses
        .iter()
        .map(|address| address.parse::<IpAddr>().unwrap())
        .collect();
    Reply::Addresses { addresses, ttl }
}
