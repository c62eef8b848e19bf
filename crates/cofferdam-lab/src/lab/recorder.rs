//! Keeps every frame that crosses the wire, from a packet socket in the internet's namespace.

use std::io::{self, Read};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::frame::Packet;
use super::place;
use super::world::{World, locked};

/// All protocols, in network order as the socket wants it.
const EVERYTHING: i32 = 0x0003_u16.to_be() as i32;
/// More frames than any suite here makes; behind it the lab says that it has lost track.
const MOST: usize = 400_000;
/// No more of a frame is kept.
const SNAP: usize = 2048;
const MARK: &str = "cofferdam-lab-mark-";

pub(crate) fn start(world: Arc<World>) -> io::Result<()> {
    let mut socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERYTHING)))?;
    // Best effort: an ordinary user gets what the machine grants.
    let _ = socket.set_recv_buffer_size(8 << 20);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = socket.read(&mut buffer) {
            let frame = &buffer[..length];
            let packet = Packet::read(frame);
            let mut frames = locked(&world.frames);
            if let Some(number) = mark(&packet, frame) {
                frames.marked = number;
            } else if frames.all.len() < MOST {
                frames.all.push((packet, frame[..length.min(SNAP)].into()));
            } else {
                frames.lost += 1;
            }
        }
    });
    Ok(())
}

fn mark(packet: &Packet, frame: &[u8]) -> Option<u64> {
    if packet.to_port != 9 || packet.from.to_string() != place::ROUTER {
        return None;
    }
    let text = String::from_utf8_lossy(frame);
    text.rsplit_once(MARK)?.1.parse().ok()
}

/// Waits until every frame of before now has been read.
pub(crate) fn catch_up(world: &World) -> io::Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let socket = UdpSocket::bind((place::ROUTER, 0))?;
    socket.send_to(format!("{MARK}{number}").as_bytes(), (place::HOUSE, 9))?;
    let start = Instant::now();
    loop {
        let frames = locked(&world.frames);
        if frames.lost > 0 {
            return Err(io::Error::other("more frames than the recorder keeps"));
        }
        if frames.marked >= number {
            return Ok(());
        }
        drop(frames);
        if start.elapsed() > Duration::from_secs(5) {
            return Err(io::Error::other("the recorder fell behind"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether `needle` is in `frame`, upper case or lower: names change their case on the way.
pub(crate) fn holds(frame: &[u8], needle: &str) -> bool {
    let needle = needle.as_bytes();
    !needle.is_empty()
        && frame
            .windows(needle.len())
            .any(|window| window.eq_ignore_ascii_case(needle))
}
