//! Another runtime than an engine's own.

use std::path::Path;

use super::Kind;
use super::client::Client;
use crate::sandbox::SandboxError;

/// Runtimes whose programs run on a kernel of their own: no descriptor of this machine's gets in or out, and a sandbox's wall and
/// terminals are descriptors.
const APART: [&str; 6] = [
    "runsc",
    "kata",
    "krun",
    "containerd-shim-runsc",
    "containerd-shim-kata",
    "io.containerd.",
];
/// One that is asked for by what it is, and has the kernel of this machine.
const OF_THIS_KERNEL: &str = "io.containerd.runc.";

/// Whether the engine has it, and a sandbox can be in it.
pub(super) async fn check(client: &Client, name: &str) -> Result<(), SandboxError> {
    let kind = client.kind();
    let unsupported = |what: String, hint: String| Err(SandboxError::Unsupported { what, hint });
    if kind == Kind::Podman {
        // Its service starts every container with its own, whatever is asked for (4.3).
        return unsupported(
            format!("{kind} takes no runtime from who makes a container"),
            "leave out `--runtime`, and set `runtime` in its containers.conf".to_owned(),
        );
    }
    let all = client.about().await?.runtimes();
    let Some(starts) = all.get(name) else {
        let all: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
        return unsupported(
            format!("{kind} has no runtime `{name}`"),
            format!("it has {}", all.join(", ")),
        );
    };
    if is_apart(name) || is_apart(starts) {
        return unsupported(
            format!(
                "the runtime `{name}` passes no descriptors, and the wall and the terminals of a sandbox are descriptors"
            ),
            "leave out `--runtime`".to_owned(),
        );
    }
    Ok(())
}

fn is_apart(name: &str) -> bool {
    let name = Path::new(name).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    APART.iter().any(|begin| name.starts_with(begin)) && !name.starts_with(OF_THIS_KERNEL)
}

#[cfg(test)]
mod tests {
    use super::is_apart;

    #[test]
    fn whose_kernel_is_another() {
        for name in [
            "runsc",
            "/usr/local/bin/runsc",
            "kata-runtime",
            "io.containerd.kata.v2",
            "kata-qemu",
            "krun",
        ] {
            assert!(is_apart(name), "{name}");
        }
        for name in [
            "runc",
            "/usr/sbin/crun",
            "io.containerd.runc.v2",
            "youki",
            "nvidia",
            "",
        ] {
            assert!(!is_apart(name), "{name}");
        }
    }
}
