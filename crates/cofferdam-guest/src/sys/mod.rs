//! The system calls that the guest needs, as safe functions. The only folder with `unsafe`.

#![expect(
    unsafe_code,
    reason = "raw system calls: mounts, namespaces, capabilities, seccomp"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_ptr_alignment,
    reason = "control messages are read unaligned; system calls return a long that is a descriptor or a process id"
)]

mod base;
mod directory;
mod file;
mod mount;
mod names;
mod notify;
mod poll;
mod process;
mod socket;
mod walk;

pub(crate) use base::{adopt, c_string};
pub(crate) use directory::{
    Stat, change_mode, change_mode_of, change_owner, coarse_time, file_system, names, read_link_at,
    stat_at, unlink_at,
};
pub(crate) use file::{
    close_on_exec_from, do_not_wait, enter_directory, install_fd, keep_only, links, look_at,
    make_directory, make_symlink, open_at, pipe, read_link, set_umask, take_standard_input,
    take_terminal, write_all, write_byte,
};
pub(crate) use mount::{
    ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY, TreeKind, attach, change_directory,
    clone_tree, is_read_only, make_mounts_private, make_private, map_ids, new_filesystem,
    open_inside, pivot_here, restrict, unmount_here,
};
pub(crate) use names::{
    Name, Resolve, copy_attributes, link_at, name_at, remove_directory_at, rename_at, resolve,
    set_times,
};
pub(crate) use notify::{
    Notification, Pending, answer, go_on, install_listener, is_valid, next_call, pending,
    wake_up_here,
};
pub(crate) use poll::{Wait, drain, poll, wait_for, watch_names};
pub(crate) use process::{
    NAMESPACES, NETWORK, Waited, act_on_files_as, become_ids, clear_capabilities, default_signal,
    drop_bounding_set, drop_capabilities, drop_groups, execute, exit, fork_into, fork_within,
    give_way, hard_limit, ignore_signal, install_filter, join, keep_capabilities, kill,
    new_session, own_groups, own_ids, own_users, process_descriptor, process_option, replace,
    reset_signals, set_hostname, set_limit, signal_descriptor, wait, wait_once, was_stopped,
};
pub(crate) use socket::{
    accept, begin_to_connect, interfaces, listen, loopback_up, netlink_socket, peer, receive,
    scope_abstract_sockets, send_now, send_with, socket_error, socket_pair, try_socket,
};
pub(crate) use walk::PROC;
