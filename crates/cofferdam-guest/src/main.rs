//! The static executable that runs inside a sandbox. The library starts it with one end of a socket
//! pair as standard input; it is no command for people.
//!
//! Two processes come of it: the [`launch`]er, which stays in the host's namespaces and waits, and
//! the [`init`] of the sandbox, which builds the sandbox's [`view`] of the file system, gives up all
//! privileges and then [`serve`]s the host: it runs programs on request. Where something else has made the namespaces it is
//! their process 1 alone ([`given`]), or of those whose network another joins ([`hold`]); what root gives to those is made
//! ready by [`attach`]. Under the name `git` it is another program: the [`guard`] in front of the real one; under that of a remote helper of git's the way of a [`push`]
//! to the host.

mod as_root;
mod attach;
mod channel;
mod files;
mod freezer;
mod given;
mod guard;
mod hold;
mod idmap;
mod init;
mod lacking;
mod launch;
mod layers;
mod loopback;
mod netlink;
mod pools;
mod program;
mod prove;
mod push;
mod renames;
mod seccomp;
mod serve;
mod sys;
mod tree;
mod unasked;
mod view;
mod wall;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

fn main() {
    if guard::is_meant(std::env::args_os().next().as_deref()) {
        sys::exit(guard::run(std::env::args_os().collect()));
    }
    if push::is_meant(std::env::args_os().next().as_deref()) {
        sys::exit(push::run());
    }
    let mut words = std::env::args_os().skip(1);
    let role = words.next();
    let socket = words.next();
    let socket = socket.as_deref().map(Path::new);
    sys::exit(match role.as_deref().and_then(OsStr::to_str) {
        None => launch::run(),
        // In a container: process 1 of namespaces that an engine has made.
        Some("init") => given::run(socket),
        Some("init-as") => given::run_as(socket, words),
        Some("hold") => hold::run(socket),
        Some("hold-ready") => hold::run_when_asked(socket),
        // For a container of root's: what the engine is to mount, as the agent is to have it.
        Some("attach") => attach::run(),
        // For `cofferdam doctor`: whether the kernel gives what a sandbox in the host's network would ask for.
        Some("try-scope") => {
            let scoped = sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1)
                .and_then(|()| sys::scope_abstract_sockets());
            scoped.is_err().into()
        }
        // In the directory where it is started: whether that is written to and renamed in by the calls themselves. A program that
        // copies what cannot be renamed would hide that.
        Some("try-renames") => {
            let tried = try_renames();
            if let Err(error) = &tried {
                // Nobody may be listening.
                let _ = writeln!(std::io::stderr(), "{error}");
            }
            tried.is_err().into()
        }
        // For `cofferdam doctor`: whether there can be namespaces, and what to do where there cannot.
        Some("try-namespaces") => {
            let tried = launch::try_namespaces();
            let error = match &tried {
                Err(tree::Refusal::Unsupported { what, hint }) => format!("{what}\n{hint}"),
                Err(tree::Refusal::Broken(what)) => what.clone(),
                Ok(()) => String::new(),
            };
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "{error}");
            tried.is_err().into()
        }
        // In a step of a build: which network it has, for whoever wants to know that it is the one that was given.
        Some("network") => {
            let told = std::fs::read_link("/proc/self/ns/net")
                .and_then(|network| writeln!(std::io::stderr(), "{}", network.display()));
            told.is_err().into()
        }
        Some(_) => 2,
    });
}

/// A new file, and the directory `directory`, which is not new.
fn try_renames() -> std::io::Result<()> {
    std::fs::File::options()
        .write(true)
        .create_new(true)
        .open("a")?
        .write_all(b"x")?;
    std::fs::rename("a", "b")?;
    std::fs::rename("directory", "d")?;
    std::fs::remove_dir("d")
}
