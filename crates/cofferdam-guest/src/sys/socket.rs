//! Sockets and what travels over them.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

use super::base::{check, check_int, owned};

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: all zeros is a valid ifreq; it outlives the call; the name fits.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let socket = owned(c_long::from(socket))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        check_int(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        ))?;
    }
    Ok(())
}

/// A netlink socket of this protocol, close-on-exec.
pub(crate) fn netlink_socket(protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    owned(c_long::from(fd))
}

/// Whether a socket of this kind may be made at all.
pub(crate) fn try_socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<()> {
    // SAFETY: takes numbers; the result is new and ours.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    owned(c_long::from(fd)).map(drop)
}

/// Changes how many connections may wait to be accepted.
pub(crate) fn listen(socket: BorrowedFd<'_>, backlog: c_int) -> io::Result<()> {
    // SAFETY: takes a descriptor and a number.
    check_int(unsafe { libc::listen(socket.as_raw_fd(), backlog) }).map(drop)
}

/// The next connection of a listener; none where nobody waits. Neither it nor what is read from it waits.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no address is asked for; the result is new and ours.
    let got = unsafe {
        owned(c_long::from(libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        )))
    };
    match got {
        Ok(connection) => Ok(Some(connection)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Who connected a unix socket, as a process id of this pid namespace: 0 where it has none in it.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: the structure and its length outlive the call, which fills the one as far as the other says.
    unsafe {
        let mut credentials: libc::ucred = std::mem::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        check_int(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        ))?;
        if (length as usize) < size_of::<libc::ucred>() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(credentials.pid)
    }
}

/// A TCP socket that is being connected, and whether it is already. It waits for nothing, in whatever is done with it.
pub(crate) fn begin_to_connect(address: SocketAddr) -> io::Result<(OwnedFd, bool)> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    // SAFETY: takes numbers; the result is new and ours.
    let socket = unsafe { owned(c_long::from(libc::socket(family, kind, libc::IPPROTO_TCP)))? };
    // SAFETY: all zeros is a valid address of either kind, and it outlives the call with the length that is said.
    let connected = unsafe {
        match address {
            SocketAddr::V4(v4) => {
                let mut to: libc::sockaddr_in = std::mem::zeroed();
                to.sin_family = libc::AF_INET as libc::sa_family_t;
                to.sin_port = v4.port().to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                let length = size_of_val(&to) as libc::socklen_t;
                libc::connect(socket.as_raw_fd(), (&raw const to).cast(), length)
            }
            SocketAddr::V6(v6) => {
                let mut to: libc::sockaddr_in6 = std::mem::zeroed();
                to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                to.sin6_port = v6.port().to_be();
                to.sin6_addr.s6_addr = v6.ip().octets();
                let length = size_of_val(&to) as libc::socklen_t;
                libc::connect(socket.as_raw_fd(), (&raw const to).cast(), length)
            }
        }
    };
    match check_int(connected) {
        Ok(_) => Ok((socket, true)),
        // It goes on by itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
            Ok((socket, false))
        }
        Err(error) => Err(error),
    }
}

/// What became of a connection that was being made.
pub(crate) fn socket_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut errno: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the number and its length outlive the call.
    check_int(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut errno).cast(),
            &raw mut length,
        )
    })?;
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Two sockets of unix that are connected, close-on-exec. What is sent in one piece arrives in one.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors fit; both are new and ours.
    unsafe {
        check_int(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends what can be sent without waiting; how many bytes went.
pub(crate) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: pointer and length belong together.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    Ok(check(sent as c_long)? as usize)
}

/// The names of all network interfaces of this namespace.
pub(crate) fn interfaces() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    // SAFETY: the list ends with an entry whose index is zero and is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut entry = list;
        while (*entry).if_index != 0 {
            names.push(
                CStr::from_ptr((*entry).if_name)
                    .to_string_lossy()
                    .into_owned(),
            );
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// Sends what can be sent without waiting, with descriptors that travel with the first byte; how many bytes went.
pub(crate) fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[OwnedFd],
) -> io::Result<usize> {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let length = size_of_val(raw.as_slice());
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // Words, so that the header in it is aligned.
    let mut control = [0u64; 16];
    // SAFETY: every pointer in the header points to memory that outlives the call, and the control
    // message is as long as what is copied into it.
    unsafe {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(length as u32) as _;
        if header.msg_controllen as usize > size_of_val(&control) {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(length as u32) as _;
        std::ptr::copy_nonoverlapping(raw.as_ptr().cast(), libc::CMSG_DATA(message), length);
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const header, flags);
        Ok(check(sent as c_long)? as usize)
    }
}

/// From now on this process and its descendants reach only their own abstract unix sockets, not those of
/// others in the same network namespace. The process must have no_new_privs.
pub(crate) fn scope_abstract_sockets() -> io::Result<()> {
    const ABSTRACT_UNIX_SOCKET: u64 = 1;
    // struct landlock_ruleset_attr: nothing of files, nothing of ports, one scope.
    let attr: [u64; 3] = [0, 0, ABSTRACT_UNIX_SOCKET];
    // SAFETY: the structure outlives the call; the descriptor is new and ours.
    unsafe {
        let size = size_of_val(&attr);
        let ruleset = libc::syscall(libc::SYS_landlock_create_ruleset, attr.as_ptr(), size, 0);
        let ruleset = owned(ruleset)?;
        let fd = c_long::from(ruleset.as_raw_fd());
        check(libc::syscall(libc::SYS_landlock_restrict_self, fd, 0)).map(drop)
    }
}

/// Reads what is there, waiting for it unless `flags` say otherwise; zero is end of file. The second value: descriptors
/// that came along.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: c_int,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut fds = Vec::new();
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    // Words, so that the headers in it are aligned.
    let mut control = [0u64; 16];
    // SAFETY: every pointer in the header points to memory that outlives the call; descriptors that
    // arrive are new and ours.
    let got = unsafe {
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let got = loop {
            let got = libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags);
            match check(got as c_long) {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                other => break other?,
            }
        };
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
            if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
                let start = libc::CMSG_DATA(message);
                let bytes = (*message).cmsg_len as usize - (start as usize - message as usize);
                for n in 0..bytes / size_of::<RawFd>() {
                    let fd = start.cast::<RawFd>().add(n).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        got
    };
    Ok((got as usize, fds))
}
