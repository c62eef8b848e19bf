//! The ways in which an agent can work: branch strategies × modes, as one table. Whoever tests something that does not
//! depend on the way goes through [`Way::ALL`]; what a test leaves open is decided by [`Mode::of_this_pass`].

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests take what to do from `scripts/test` by the environment, and fail by panicking"
)]

use std::fmt;

/// Names the mode of a test that does not care; the product's default where nothing does. `named`: the test is to name it.
const MODE: &str = "COFFERDAM_TEST_MODE";

/// Where the files of a sandbox are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Layer,
    /// A linked worktree; under [`Strategy::Head`] the checkout.
    Bind,
    Copy,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Layer, Self::Bind, Self::Copy];

    /// The mode that `scripts/test` names for this process, else the product's default.
    pub fn of_this_pass() -> Self {
        let Some(given) = std::env::var_os(MODE) else {
            return Self::Layer;
        };
        let known = Self::ALL
            .into_iter()
            .find(|mode| given == *mode.to_string());
        known.unwrap_or_else(|| {
            let hint = "one that leaves its mode open stands in scripts/parts/pool.sh";
            panic!("{MODE} is {}: {hint}", given.display())
        })
    }
}

/// As the command line has it.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layer => "layer",
            Self::Bind => "bind",
            Self::Copy => "copy",
        })
    }
}

/// Where commits land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    Head,
    MergeToHead,
    /// On [`Strategy::BRANCH`].
    Branch,
}

impl Strategy {
    pub const BRANCH: &str = "feature";

    /// The only branch that may move.
    pub fn lands_on(self) -> &'static str {
        match self {
            Self::Head | Self::MergeToHead => "main",
            Self::Branch => Self::BRANCH,
        }
    }
}

/// A strategy in a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub strategy: Strategy,
    pub mode: Mode,
}

impl Way {
    pub const HEAD: Self = Self::new(Strategy::Head, Mode::Bind);

    pub const MERGE: Self = Self::new(Strategy::MergeToHead, Mode::Bind);

    /// All that there are. The strategy `head` is the checkout, and that has one mode.
    pub const ALL: [Self; 7] = [
        Self::HEAD,
        Self::new(Strategy::MergeToHead, Mode::Layer),
        Self::new(Strategy::MergeToHead, Mode::Bind),
        Self::new(Strategy::MergeToHead, Mode::Copy),
        Self::new(Strategy::Branch, Mode::Layer),
        Self::new(Strategy::Branch, Mode::Bind),
        Self::new(Strategy::Branch, Mode::Copy),
    ];

    /// The checkout, and each mode of the default strategy.
    pub const EACH_MODE: [Self; 4] = [
        Self::HEAD,
        Self::new(Strategy::MergeToHead, Mode::Layer),
        Self::new(Strategy::MergeToHead, Mode::Bind),
        Self::new(Strategy::MergeToHead, Mode::Copy),
    ];

    pub const fn new(strategy: Strategy, mode: Mode) -> Self {
        Self { strategy, mode }
    }

    /// The options of `cofferdam run`.
    pub fn words(self) -> &'static [&'static str] {
        match (self.strategy, self.mode) {
            (Strategy::Head, _) => &["--head"],
            (Strategy::MergeToHead, Mode::Layer) => &["--mode", "layer", "--merge-to-head"],
            (Strategy::MergeToHead, Mode::Bind) => &["--mode", "bind", "--merge-to-head"],
            (Strategy::MergeToHead, Mode::Copy) => &["--mode", "copy", "--merge-to-head"],
            (Strategy::Branch, Mode::Layer) => &["--mode", "layer", "--branch", Strategy::BRANCH],
            (Strategy::Branch, Mode::Bind) => &["--mode", "bind", "--branch", Strategy::BRANCH],
            (Strategy::Branch, Mode::Copy) => &["--mode", "copy", "--branch", Strategy::BRANCH],
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Strategy::Head => f.write_str("head"),
            Strategy::MergeToHead => write!(f, "merge-to-head in mode {}", self.mode),
            Strategy::Branch => write!(f, "branch in mode {}", self.mode),
        }
    }
}
