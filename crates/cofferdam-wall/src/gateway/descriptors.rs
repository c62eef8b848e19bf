//! The five descriptors of a sandbox, checked to be what they are said to be.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, ipproto, netlink, sockopt};

use crate::control::DESCRIPTORS;

/// Why a sandbox is not taken in.
#[derive(Debug, thiserror::Error)]
pub(super) enum DescriptorError {
    #[error("a sandbox comes with {DESCRIPTORS} descriptors, not with {0}")]
    Count(usize),
    #[error("descriptor {number} is not {wanted}")]
    Kind { number: usize, wanted: &'static str },
    #[error("descriptor {number} cannot be looked at: {error}")]
    Look { number: usize, error: Errno },
}

/// In the order of [`crate::control::Registrant`].
#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) connections: OwnedFd,
    /// The address of `connections`.
    pub(super) own: SocketAddrV4,
    pub(super) proxy: OwnedFd,
    pub(super) lookups: UdpSocket,
    pub(super) packets: OwnedFd,
    pub(super) log: OwnedFd,
}

impl Descriptors {
    pub(super) fn check(descriptors: Vec<OwnedFd>) -> Result<Self, DescriptorError> {
        let descriptors: [OwnedFd; DESCRIPTORS] = descriptors
            .try_into()
            .map_err(|all: Vec<OwnedFd>| DescriptorError::Count(all.len()))?;
        let [connections, proxy, lookups, packets, log] = descriptors;
        let own = listener(&connections, 0)?;
        listener(&proxy, 1)?;
        socket(&lookups, 2, "a UDP socket over IPv4", |fd| {
            Ok(sockopt::socket_domain(fd)? == AddressFamily::INET
                && sockopt::socket_type(fd)? == SocketType::DGRAM
                && sockopt::socket_protocol(fd)? == Some(ipproto::UDP))
        })?;
        socket(&packets, 3, "a netfilter socket", |fd| {
            Ok(sockopt::socket_domain(fd)? == AddressFamily::NETLINK
                && sockopt::socket_protocol(fd)? == Some(netlink::NETFILTER))
        })?;
        appended(&log, 4)?;
        Ok(Self {
            connections,
            own,
            proxy,
            lookups: lookups.into(),
            packets,
            log,
        })
    }
}

fn listener(fd: &OwnedFd, number: usize) -> Result<SocketAddrV4, DescriptorError> {
    const WANTED: &str = "a listening TCP socket over IPv4";
    socket(fd, number, WANTED, |fd| {
        Ok(sockopt::socket_domain(fd)? == AddressFamily::INET
            && sockopt::socket_type(fd)? == SocketType::STREAM
            && sockopt::socket_protocol(fd)? == Some(ipproto::TCP)
            && sockopt::socket_acceptconn(fd)?)
    })?;
    let address =
        rustix::net::getsockname(fd).map_err(|error| DescriptorError::Look { number, error })?;
    match SocketAddr::try_from(address) {
        Ok(SocketAddr::V4(address)) => Ok(address),
        Ok(SocketAddr::V6(_)) | Err(_) => Err(DescriptorError::Kind {
            number,
            wanted: WANTED,
        }),
    }
}

/// Checks a socket and makes it one that does not block.
fn socket(
    fd: &OwnedFd,
    number: usize,
    wanted: &'static str,
    is: impl FnOnce(BorrowedFd<'_>) -> Result<bool, Errno>,
) -> Result<(), DescriptorError> {
    match is(fd.as_fd()) {
        Ok(true) => rustix::io::ioctl_fionbio(fd, true)
            .map_err(|error| DescriptorError::Look { number, error }),
        Ok(false) | Err(Errno::NOTSOCK) => Err(DescriptorError::Kind { number, wanted }),
        Err(error) => Err(DescriptorError::Look { number, error }),
    }
}

fn appended(fd: &OwnedFd, number: usize) -> Result<(), DescriptorError> {
    let look = |error| DescriptorError::Look { number, error };
    let stat = rustix::fs::fstat(fd).map_err(look)?;
    let flags = rustix::fs::fcntl_getfl(fd).map_err(look)?;
    let writes = matches!(flags & OFlags::RWMODE, OFlags::WRONLY | OFlags::RDWR);
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && flags.contains(OFlags::APPEND)
        && !flags.contains(OFlags::PATH)
        && writes
    {
        Ok(())
    } else {
        Err(DescriptorError::Kind {
            number,
            wanted: "a file open for appending",
        })
    }
}
