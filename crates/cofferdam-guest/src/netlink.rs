//! The messages that set a sandbox's network namespace up: a route that keeps everything inside, rules that
//! lead connections and lookups to the wall's sockets, and a socket on which the kernel reports what it
//! refused. Raw, because no `ip`, `nft` or `iptables` need be installed; pure but for [`exchange`].
//!
//! Numbers are from linux/netlink.h, rtnetlink.h, netfilter/nfnetlink.h, nf_tables.h and nfnetlink_log.h.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
const ERROR: u16 = 0x2;

const NFTABLES: u16 = 10;
const NFLOG: u16 = 4;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The loopback interface is the first one of every namespace.
const LOOPBACK: u32 = 1;

/// A protocol of netlink(7).
pub(crate) const ROUTES: i32 = libc::NETLINK_ROUTE;
pub(crate) const NETFILTER: i32 = libc::NETLINK_NETFILTER;

/// A message being written: attributes in attributes.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    fn word(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), b"\0"].concat())
    }

    fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        write(&mut inner);
        self.attribute(kind | NESTED, &inner.0)
    }
}

/// One whole message. `number` comes back in its acknowledgement.
fn message(kind: u16, flags: u16, number: u32, head: &[u8], body: &Bytes) -> Vec<u8> {
    let length = u32::try_from(16 + head.len() + body.0.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(length as usize);
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    out.extend_from_slice(&number.to_ne_bytes());
    out.extend_from_slice(&0_u32.to_ne_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(&body.0);
    out
}

/// struct nfgenmsg.
fn netfilter_head(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// `local default dev lo src 127.0.0.1`: every address is this namespace's own. Without the source the
/// kernel would take the destination as the source too.
pub(crate) fn local_route() -> (Vec<u8>, Vec<Step>) {
    const NEW_ROUTE: u16 = 24;
    const TABLE_LOCAL: u8 = 255;
    const PROTOCOL_BOOT: u8 = 3;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    const OUT_INTERFACE: u16 = 4;
    const PREFERRED_SOURCE: u16 = 7;
    let head = [
        IPV4,
        0,
        0,
        0,
        TABLE_LOCAL,
        PROTOCOL_BOOT,
        SCOPE_HOST,
        TYPE_LOCAL,
        0,
        0,
        0,
        0,
    ];
    let mut body = Bytes::default();
    body.attribute(OUT_INTERFACE, &LOOPBACK.to_ne_bytes())
        .attribute(PREFERRED_SOURCE, &[127, 0, 0, 1]);
    let bytes = message(NEW_ROUTE, ACK | CREATE, 1, &head, &body);
    (
        bytes,
        vec![Step {
            number: 1,
            what: "keep every address inside",
            modules: "",
        }],
    )
}

/// One more address on the loopback interface, of this namespace alone: no route comes with it but the one to
/// itself, so nothing new can be reached.
pub(crate) fn address(address: IpAddr) -> (Vec<u8>, Vec<Step>) {
    const NEW_ADDRESS: u16 = 20;
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u16 = 2;
    /// Nobody else can have it: not to be looked for before it is used.
    const NO_SEARCH: u8 = 0x02;
    let (family, length, octets) = match address {
        IpAddr::V4(v4) => (IPV4, 32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (IPV6, 128, v6.octets().to_vec()),
    };
    let mut head = vec![family, length, NO_SEARCH, SCOPE_HOST];
    head.extend_from_slice(&LOOPBACK.to_ne_bytes());
    let mut body = Bytes::default();
    body.attribute(LOCAL, &octets);
    let step = Step {
        number: 1,
        what: "give the loopback interface a second address",
        modules: "",
    };
    let bytes = message(NEW_ADDRESS, ACK | CREATE, 1, &head, &body);
    (bytes, vec![step])
}

/// One message that must be acknowledged, and what it does in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    number: u32,
    what: &'static str,
    /// Kernel modules that it needs.
    pub(crate) modules: &'static str,
}

const TABLE: &str = "cofferdam";

/// The ports of the wall's sockets on the loopback address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) connections: u16,
    pub(crate) lookups: u16,
    /// The group on which refused packets are reported.
    pub(crate) packets: u16,
}

/// All rules, as one batch: the kernel takes all of it or nothing.
pub(crate) fn rules(ports: Ports) -> (Vec<u8>, Vec<Step>) {
    let mut batch = Batch::default();
    batch.edge(0x10);
    batch.table();
    batch.chain("redirect", "nat", -100);
    batch.chain("refuse", "filter", 0);
    // The agent's own servers. `refuse` comes after `redirect` and sees what that made of a packet, so this
    // accepts what was redirected too: TCP that was not, for whatever reason, is refused with the rest.
    for chain in ["redirect", "refuse"] {
        batch.rule(chain, "nf_tables", |e| {
            e.loopback_destination().accept();
        });
    }
    batch.rule("redirect", "nft_redir, nft_chain_nat", |e| {
        e.protocol(libc::IPPROTO_TCP).redirect(ports.connections);
    });
    batch.rule("redirect", "nft_redir, nft_chain_nat", |e| {
        e.protocol(libc::IPPROTO_UDP)
            .destination_port(53)
            .redirect(ports.lookups);
    });
    batch.rule("refuse", "nft_ct", |e| {
        e.established().accept();
    });
    batch.rule("refuse", "nft_limit, nft_log, nfnetlink_log", |e| {
        e.limited().log(ports.packets);
    });
    batch.rule("refuse", "nft_reject_ipv4", |e| {
        e.reject();
    });
    batch.edge(0x11);
    (batch.bytes, batch.steps)
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    number: u32,
}

impl Batch {
    fn edge(&mut self, kind: u16) {
        self.number += 1;
        let head = netfilter_head(0, NFTABLES);
        self.bytes
            .extend(message(kind, 0, self.number, &head, &Bytes::default()));
    }

    fn push(
        &mut self,
        kind: u16,
        flags: u16,
        body: &Bytes,
        what: &'static str,
        modules: &'static str,
    ) {
        self.number += 1;
        let (kind, head) = ((NFTABLES << 8) | kind, netfilter_head(IPV4, 0));
        self.bytes.extend(message(
            kind,
            flags | ACK | CREATE,
            self.number,
            &head,
            body,
        ));
        self.steps.push(Step {
            number: self.number,
            what,
            modules,
        });
    }

    fn table(&mut self) {
        let mut body = Bytes::default();
        body.word(1, TABLE);
        self.push(0, 0, &body, "make a table of rules", "nf_tables");
    }

    /// A chain at the output hook.
    fn chain(&mut self, name: &str, kind: &str, priority: i32) {
        const OUTPUT: u32 = 3;
        let mut body = Bytes::default();
        body.word(1, TABLE)
            .word(3, name)
            .nested(4, |hook| {
                hook.number(1, OUTPUT).number(2, priority.cast_unsigned());
            })
            .word(7, kind);
        self.push(
            3,
            0,
            &body,
            "make a chain of rules",
            "nf_tables, nft_chain_nat",
        );
    }

    fn rule(&mut self, chain: &str, modules: &'static str, write: impl FnOnce(&mut Expressions)) {
        let mut expressions = Expressions::default();
        write(&mut expressions);
        let mut body = Bytes::default();
        body.word(1, TABLE)
            .word(2, chain)
            .attribute(4 | NESTED, &expressions.0.0);
        self.push(6, APPEND, &body, "make a rule", modules);
    }
}

/// The expressions of one rule, evaluated from left to right; a comparison that fails ends the rule.
#[derive(Debug, Default)]
struct Expressions(Bytes);

/// The first register of 128 bits.
const REGISTER: u32 = 1;

impl Expressions {
    fn push(&mut self, name: &str, write: impl FnOnce(&mut Bytes)) -> &mut Self {
        self.0.nested(1, |element| {
            element.word(1, name).nested(2, write);
        });
        self
    }

    fn load(&mut self, base: u32, offset: u32, length: u32) -> &mut Self {
        self.push("payload", |e| {
            e.number(1, REGISTER)
                .number(2, base)
                .number(3, offset)
                .number(4, length);
        })
    }

    fn compare(&mut self, operator: u32, value: &[u8]) -> &mut Self {
        self.push("cmp", |e| {
            e.number(1, REGISTER).number(2, operator).nested(3, |data| {
                data.attribute(1, value);
            });
        })
    }

    /// `ip daddr 127.0.0.0/8`: the first byte of the destination.
    fn loopback_destination(&mut self) -> &mut Self {
        self.load(1, 16, 1).compare(0, &[127])
    }

    fn protocol(&mut self, number: i32) -> &mut Self {
        const L4_PROTOCOL: u32 = 16;
        self.push("meta", |e| {
            e.number(1, REGISTER).number(2, L4_PROTOCOL);
        });
        self.compare(0, &[u8::try_from(number).unwrap_or_default()])
    }

    fn destination_port(&mut self, port: u16) -> &mut Self {
        self.load(2, 2, 2).compare(0, &port.to_be_bytes())
    }

    /// `ct state established,related`.
    fn established(&mut self) -> &mut Self {
        const STATE: u32 = 0;
        const ESTABLISHED_OR_RELATED: u32 = 2 | 4;
        self.push("ct", |e| {
            e.number(1, REGISTER).number(2, STATE);
        });
        self.push("bitwise", |e| {
            e.number(1, REGISTER)
                .number(2, REGISTER)
                .number(3, 4)
                .nested(4, |mask| {
                    mask.attribute(1, &ESTABLISHED_OR_RELATED.to_ne_bytes());
                })
                .nested(5, |xor| {
                    xor.attribute(1, &[0; 4]);
                });
        });
        self.compare(1, &[0; 4])
    }

    fn accept(&mut self) -> &mut Self {
        const VERDICT: u32 = 0;
        const ACCEPT: u32 = 1;
        self.push("immediate", |e| {
            e.number(1, VERDICT).nested(2, |data| {
                data.nested(2, |verdict| {
                    verdict.number(1, ACCEPT);
                });
            });
        })
    }

    fn redirect(&mut self, port: u16) -> &mut Self {
        self.push("immediate", |e| {
            e.number(1, REGISTER).nested(2, |data| {
                data.attribute(1, &port.to_be_bytes());
            });
        });
        self.push("redir", |e| {
            e.number(1, REGISTER);
        })
    }

    /// 50 a second and 100 at once: a report is a hint for a person, and must not be a way to keep the host busy.
    fn limited(&mut self) -> &mut Self {
        self.push("limit", |e| {
            e.attribute(1, &50_u64.to_be_bytes())
                .attribute(2, &1_u64.to_be_bytes())
                .number(3, 100)
                .number(4, 0)
                .number(5, 0);
        })
    }

    fn log(&mut self, group: u16) -> &mut Self {
        self.push("log", |e| {
            e.attribute(1, &group.to_be_bytes())
                .number(3, REPORTED)
                .attribute(4, &1_u16.to_be_bytes());
        })
    }

    /// Administratively prohibited: the program that sends gets EPERM or EHOSTUNREACH at once.
    fn reject(&mut self) -> &mut Self {
        const ICMP_UNREACHABLE: u32 = 0;
        const ADMINISTRATIVELY: u8 = 13;
        self.push("reject", |e| {
            e.number(1, ICMP_UNREACHABLE)
                .attribute(2, &[ADMINISTRATIVELY]);
        })
    }
}

/// How many bytes of a refused packet are reported: addresses and ports.
const REPORTED: u32 = 64;

/// Asks for the reports of one group.
pub(crate) fn report(group: u16) -> (Vec<u8>, Vec<Step>) {
    const CONFIG: u16 = 1;
    const BIND: u8 = 1;
    const COPY_PACKET: u8 = 2;
    let head = netfilter_head(0, group);
    let mut bind = Bytes::default();
    bind.attribute(1, &[BIND]);
    let mut mode = Bytes::default();
    mode.attribute(
        2,
        &[&REPORTED.to_be_bytes()[..], &[COPY_PACKET, 0]].concat(),
    )
    // At once, not in bundles.
    .number(5, 1);
    let kind = (NFLOG << 8) | CONFIG;
    let mut bytes = message(kind, ACK, 1, &head, &bind);
    bytes.extend(message(kind, ACK, 2, &head, &mode));
    let step = |number| Step {
        number,
        what: "hear of refused packets",
        modules: "nfnetlink_log",
    };
    (bytes, vec![step(1), step(2)])
}

/// A step that the kernel refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) step: Step,
    pub(crate) error: io::Error,
}

impl Refused {
    pub(crate) fn what(&self) -> String {
        format!("cannot {}: {}", self.step.what, self.error)
    }
}

/// A socket for messages of one protocol.
pub(crate) fn open(protocol: i32) -> io::Result<OwnedFd> {
    sys::netlink_socket(protocol)
}

/// Sends messages and waits until the kernel has answered each of their steps.
pub(crate) fn exchange(
    socket: BorrowedFd<'_>,
    (bytes, steps): &(Vec<u8>, Vec<Step>),
) -> Result<(), Refused> {
    let first = steps.first().copied().unwrap_or(Step {
        number: 0,
        what: "",
        modules: "",
    });
    let failed = |error| Refused { step: first, error };
    sys::write_all(socket, bytes).map_err(failed)?;
    let mut open: Vec<Step> = steps.clone();
    let mut buffer = vec![0; 16 << 10];
    while !open.is_empty() {
        let (got, _) = sys::receive(socket.as_fd(), &mut buffer, 0).map_err(failed)?;
        for (number, errno) in answers(&buffer[..got]) {
            let Some(at) = open.iter().position(|step| step.number == number) else {
                continue;
            };
            let step = open.swap_remove(at);
            if errno != 0 {
                return Err(Refused {
                    step,
                    error: io::Error::from_raw_os_error(errno),
                });
            }
        }
    }
    Ok(())
}

/// The number and error of each acknowledgement among these messages.
fn answers(mut bytes: &[u8]) -> Vec<(u32, i32)> {
    let mut found = Vec::new();
    while let Some(head) = bytes.first_chunk::<16>() {
        let field = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let length = u32::from_ne_bytes(field(0)) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let number = u32::from_ne_bytes(field(8));
        if let (ERROR, Some(errno)) = (kind, bytes[16..].first_chunk::<4>()) {
            found.push((number, -i32::from_ne_bytes(*errno)));
        }
        let Some(rest) = bytes.get(length.max(16).next_multiple_of(4)..) else {
            break;
        };
        bytes = rest;
    }
    found
}
