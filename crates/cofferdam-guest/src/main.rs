//! The static executable that runs inside a sandbox. The library starts it with one end of a socket
//! pair as standard input; it is no command for people.
//!
//! Two processes come of it: the [`launch`]er, which stays in the host's namespaces and waits, and
//! the [`init`] of the sandbox, which builds the sandbox's [`view`] of the file system, gives up all
//! privileges and then runs programs on request.

mod channel;
mod idmap;
mod init;
mod launch;
mod netlink;
mod program;
mod prove;
mod seccomp;
mod sys;
mod tree;
mod view;
mod wall;

fn main() {
    sys::exit(launch::run());
}
