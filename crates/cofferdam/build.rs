//! Builds the two static executables that the library carries, and leaves their paths in
//! `COFFERDAM_GUEST_FILE` and `COFFERDAM_GATEWAY_FILE`. See docs/decisions/0001-guest-build.md.

#![expect(
    clippy::disallowed_methods,
    reason = "the bans are the library's: a build script has none of it"
)]

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// One executable to build.
struct Executable {
    name: &'static str,
    /// Its crate, beside this one.
    folder: &'static str,
    /// A file to embed instead, for packagers.
    given: &'static str,
    /// Where the embedding module finds the path.
    file: &'static str,
    opt_level: &'static str,
    panic: &'static str,
}

const EXECUTABLES: [Executable; 2] = [
    Executable {
        name: "cofferdam-guest",
        folder: "cofferdam-guest",
        given: "COFFERDAM_GUEST",
        file: "COFFERDAM_GUEST_FILE",
        opt_level: "s",
        panic: "abort",
    },
    Executable {
        name: "cofferdam-gateway",
        folder: "cofferdam-wall",
        given: "COFFERDAM_GATEWAY",
        file: "COFFERDAM_GATEWAY_FILE",
        opt_level: "3",
        // One connection that fails must not take the others with it.
        panic: "unwind",
    },
];

/// In a directory of built executables: the path of their sources.
const OF: &str = "of";

fn main() {
    let place = match place() {
        Ok(place) => place,
        Err(error) => return println!("cargo::error=cannot build the executables: {error}"),
    };
    // Side by side: each has dependencies that the other does not wait for.
    let builds = EXECUTABLES.map(|executable| {
        let (name, place) = (executable.name, place.clone());
        (
            name,
            std::thread::spawn(move || provide(&executable, &place)),
        )
    });
    for (name, build) in builds {
        let error = match build.join() {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(_) => "the build script failed".to_owned(),
        };
        println!("cargo::error=cannot build {name}: {error}");
    }
}

fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("{name} is not set"))
}

fn place() -> Result<PathBuf, String> {
    let (out, sources) = (variable("OUT_DIR")?, variable("CARGO_MANIFEST_DIR")?);
    shared(Path::new(&out), Path::new(&sources))
}

fn provide(executable: &Executable, place: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={}", executable.given);
    let path = match env::var_os(executable.given) {
        Some(given) => {
            let given = PathBuf::from(given);
            println!("cargo::rerun-if-changed={}", given.display());
            given
        }
        None => build(executable, place)?,
    };
    println!("cargo::rustc-env={}={}", executable.file, path.display());
    Ok(())
}

fn build(executable: &Executable, place: &Path) -> Result<PathBuf, String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let source = here.join("..").join(executable.folder);
    for path in [
        "src",
        "Cargo.toml",
        "../cofferdam-frame/src",
        "../../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", source.join(path).display());
    }
    let target = variable("TARGET")?
        .into_string()
        .map_err(|_| "TARGET is not text")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    let nested = Nested {
        cargo: PathBuf::from(variable("CARGO")?),
        // A directory each: one directory's lock would put them in a row.
        directory: place.join(executable.name),
        source,
        target,
    };
    // What the outer build has fetched is enough, unless it was vendored or cleaned in between.
    let first = nested.run(executable, true)?;
    if !first.success() && !nested.run(executable, false)?.success() {
        return Err("the nested cargo build failed; its messages are above".to_owned());
    }
    let built = nested.directory.join(&nested.target);
    let built = built.join("release").join(executable.name);
    // A copy of our own: another build may replace that one before it is embedded.
    let ours = out.join(format!("{}.copy", executable.name));
    std::fs::copy(&built, &ours)
        .map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
    Ok(ours)
}

/// Where these executables are built: debug, release and test builds of one target directory share that, because they are the same in
/// all. Cargo leaves a file in each of its target directories when a build ends; one inside another is a test's. Other sources that are
/// built in there, an earlier commit's or a changed copy's, have their own: cargo takes what was built of those for what is to be built
/// of these where these are older.
fn shared(out: &Path, sources: &Path) -> Result<PathBuf, String> {
    // TARGET/PROFILE/build/PACKAGE/out
    let usual = out.ancestors().nth(4).unwrap_or(out);
    let marked = |directory: &&Path| directory.join(".rustc_info.json").exists();
    let outermost = out.ancestors().filter(marked).last().unwrap_or(usual);
    let whose = |directory: &Path| std::fs::read(directory.join(OF)).ok();
    let ours = sources.as_os_str().as_bytes();
    let shared = outermost.join("embedded");
    if whose(&shared).is_some_and(|whose| whose == ours) {
        return Ok(shared);
    }
    // Whoever builds in the outermost itself has that.
    let own = usual.join("embedded");
    if whose(&own).is_none_or(|whose| whose != ours) {
        let failed = |error: std::io::Error| format!("cannot make {}: {error}", own.display());
        match std::fs::remove_dir_all(&own) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        std::fs::create_dir_all(&own).map_err(failed)?;
        std::fs::write(own.join(OF), ours).map_err(failed)?;
    }
    Ok(own)
}

/// Where and with what one executable is built.
struct Nested {
    cargo: PathBuf,
    directory: PathBuf,
    source: PathBuf,
    target: String,
}

impl Nested {
    fn run(&self, executable: &Executable, offline: bool) -> Result<ExitStatus, String> {
        let mut command = Command::new(&self.cargo);
        // The outer build's flags, wrappers and lints are not the guest's.
        for (name, _) in env::vars_os() {
            let Some(text) = name.to_str() else { continue };
            let inherited = text.starts_with("CARGO")
                && ![
                    "CARGO_HOME",
                    "CARGO_HTTP",
                    "CARGO_NET",
                    "CARGO_REGISTR",
                    "CARGO_SOURCE",
                ]
                .iter()
                .any(|kept| text.starts_with(kept));
            let compiler =
                text.starts_with("RUSTC_") || text == "RUSTFLAGS" || text == "RUSTDOCFLAGS";
            if inherited || compiler || text == "CLIPPY_ARGS" || text == "CLIPPY_CONF_DIR" {
                command.env_remove(&name);
            }
        }
        command
            .args([
                "build",
                "--release",
                "--locked",
                "--quiet",
                "--bin",
                executable.name,
            ])
            .args(offline.then_some("--offline"))
            .arg("--manifest-path")
            .arg(self.source.join("Cargo.toml"))
            .args(["--target", &self.target])
            .arg("--target-dir")
            .arg(&self.directory)
            .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", executable.opt_level)
            .env("CARGO_PROFILE_RELEASE_LTO", "thin")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
            .env("CARGO_PROFILE_RELEASE_PANIC", executable.panic)
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
            .env("CARGO_INCREMENTAL", "0");
        command
            .status()
            .map_err(|error| format!("cannot start {}: {error}", self.cargo.display()))
    }
}
