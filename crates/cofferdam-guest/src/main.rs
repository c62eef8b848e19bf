//! The static executable that runs inside a sandbox. The library starts it with one end of a socket
//! pair as standard input; it is no command for people.
//!
//! Two processes come of it: the [`launch`]er, which stays in the host's namespaces and waits, and
//! the [`init`] of the sandbox, which builds the sandbox's [`view`] of the file system, gives up all
//! privileges and then [`serve`]s the host: it runs programs on request. Where something else has made the namespaces it is
//! their process 1 alone ([`given`]), or of those whose network another joins ([`hold`]); what root gives to those is made ready by [`attach`].

mod attach;
mod channel;
mod files;
mod freezer;
mod given;
mod hold;
mod idmap;
mod init;
mod launch;
mod layers;
mod loopback;
mod netlink;
mod pools;
mod program;
mod prove;
mod renames;
mod seccomp;
mod serve;
mod sys;
mod tree;
mod view;
mod wall;

use std::io::Write;
use std::path::Path;

fn main() {
    // In a container: process 1 of namespaces that an engine has made.
    let mut words = std::env::args_os().skip(1);
    let role = words.next();
    if role.as_ref().is_some_and(|word| word == "init") {
        sys::exit(given::run(words.next().as_deref().map(Path::new)));
    }
    if role.as_ref().is_some_and(|word| word == "hold") {
        sys::exit(hold::run(words.next().as_deref().map(Path::new)));
    }
    // For a container of root's: what the engine is to mount, as the agent is to have it.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "attach")
    {
        sys::exit(attach::run());
    }
    // For `cofferdam doctor`: whether the kernel gives what a sandbox in the host's network would ask for.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "try-scope")
    {
        let scoped = sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1)
            .and_then(|()| sys::scope_abstract_sockets());
        sys::exit(scoped.is_err().into());
    }
    // In the directory where it is started: whether that is written to and renamed in by the calls themselves. A program that
    // copies what cannot be renamed would hide that.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "try-renames")
    {
        let tried = try_renames();
        if let Err(error) = &tried {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "{error}");
        }
        sys::exit(tried.is_err().into());
    }
    sys::exit(launch::run());
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
