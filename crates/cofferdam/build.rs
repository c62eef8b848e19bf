//! Builds the guest, the static executable that the library starts in every native sandbox, and
//! leaves its path in `COFFERDAM_GUEST_FILE`. See docs/decisions/0001-guest-build.md.

#![expect(
    clippy::disallowed_methods,
    reason = "the bans are the library's: a build script has none of it"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=COFFERDAM_GUEST");
    if let Some(given) = env::var_os("COFFERDAM_GUEST") {
        let given = PathBuf::from(given);
        println!("cargo::rerun-if-changed={}", given.display());
        println!("cargo::rustc-env=COFFERDAM_GUEST_FILE={}", given.display());
        return;
    }
    if let Err(error) = build() {
        println!("cargo::error=cannot build cofferdam-guest: {error}");
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| format!("{name} is not set"));
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let guest = here.join("../cofferdam-guest");
    for path in ["src", "Cargo.toml", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", guest.join(path).display());
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let target = variable("TARGET")?
        .into_string()
        .map_err(|_| "TARGET is not text")?;
    let cargo = PathBuf::from(variable("CARGO")?);
    let directory = out.join("guest");

    // What the outer build has fetched is enough, unless it was vendored or cleaned in between.
    let first = run(&cargo, &guest, &target, &directory, true)?;
    if !first.success() && !run(&cargo, &guest, &target, &directory, false)?.success() {
        return Err("the nested cargo build failed; its messages are above".to_owned());
    }
    let built = directory.join(&target).join("release/cofferdam-guest");
    println!("cargo::rustc-env=COFFERDAM_GUEST_FILE={}", built.display());
    Ok(())
}

fn run(
    cargo: &Path,
    guest: &Path,
    target: &str,
    directory: &Path,
    offline: bool,
) -> Result<std::process::ExitStatus, String> {
    let mut command = Command::new(cargo);
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
        let compiler = text.starts_with("RUSTC_") || text == "RUSTFLAGS" || text == "RUSTDOCFLAGS";
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
            "cofferdam-guest",
        ])
        .args(offline.then_some("--offline"))
        .arg("--manifest-path")
        .arg(guest.join("Cargo.toml"))
        .args(["--target", target])
        .arg("--target-dir")
        .arg(directory)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_LTO", "thin")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_INCREMENTAL", "0");
    command
        .status()
        .map_err(|error| format!("cannot start {}: {error}", cargo.display()))
}
