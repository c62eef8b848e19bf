//! Both ends of the network benchmarks: an origin, and a client that prints what it measured. Blocking and
//! without a runtime, so that the program under test is the only one that matters.
//!
//! The client says with its first line what it wants; the origin does it.
//!   load origin                     listens on 127.0.0.1, prints the port, serves until its input ends
//!   load first HOST PORT N          N times, one after the other: connect until the first byte, in µs
//!   load http HOST PORT N           the same with an HTTP request and the first byte of its answer
//!   load pull HOST PORT MIB N       N times: takes MIB mebibytes, prints MiB/s
//!   load push HOST PORT MIB N       N times: gives MIB mebibytes, prints MiB/s
//!   load idle HOST PORT N           opens N connections that have each spoken once, prints "open",
//!                                   keeps them until its input ends
//!   load refused HOST PORT N        N times: connect until an error, in µs

#![expect(clippy::print_stdout, reason = "a program that prints numbers")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const PIECE: usize = 256 << 10;
/// No answer for so long is a hang.
const LIMIT: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["origin"] => origin(),
        ["first", host, port, times] => each(times, || first(host, port)),
        ["http", host, port, times] => each(times, || http(host, port)),
        ["pull", host, port, size, times] => each(times, || pull(host, port, size.parse()?)),
        ["push", host, port, size, times] => each(times, || push(host, port, size.parse()?)),
        ["idle", host, port, count] => idle(host, port, count.parse()?),
        ["refused", host, port, times] => each(times, || refused(host, port)),
        _ => Err("see the head of load.rs".into()),
    }
}

fn each(times: &str, measure: impl Fn() -> Outcome<f64>) -> Outcome<()> {
    for _ in 0..times.parse::<u32>()? {
        println!("{:.1}", measure()?);
    }
    Ok(())
}

fn connect(host: &str, port: &str) -> Outcome<TcpStream> {
    let address = (host, port.parse()?)
        .to_socket_addrs()?
        .next()
        .ok_or("no address")?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

fn first(host: &str, port: &str) -> Outcome<f64> {
    let began = Instant::now();
    let mut stream = connect(host, port)?;
    stream.write_all(b"byte\n")?;
    stream.read_exact(&mut [0])?;
    Ok(micros(began))
}

fn http(host: &str, port: &str) -> Outcome<f64> {
    let began = Instant::now();
    let mut stream = connect(host, port)?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    let taken = micros(began);
    if &start != b"HTTP/1.1 200" {
        return Err(format!("answered {}", String::from_utf8_lossy(&start)).into());
    }
    Ok(taken)
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(mebibytes: usize, began: Instant) -> f64 {
    mebibytes as f64 / began.elapsed().as_secs_f64()
}

fn pull(host: &str, port: &str, mebibytes: usize) -> Outcome<f64> {
    let mut stream = connect(host, port)?;
    writeln!(stream, "pull {mebibytes}")?;
    let began = Instant::now();
    let mut buffer = vec![0; PIECE];
    let mut left = mebibytes * MIB;
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err("the stream ended early".into()),
            got => left -= got,
        }
    }
    Ok(rate(mebibytes, began))
}

fn push(host: &str, port: &str, mebibytes: usize) -> Outcome<f64> {
    let mut stream = connect(host, port)?;
    writeln!(stream, "push {mebibytes}")?;
    let began = Instant::now();
    let buffer = vec![0; PIECE];
    for _ in 0..mebibytes * MIB / PIECE {
        stream.write_all(&buffer)?;
    }
    stream.read_exact(&mut [0])?;
    Ok(rate(mebibytes, began))
}

fn idle(host: &str, port: &str, count: usize) -> Outcome<()> {
    // Looked up once: the wall bounds lookups.
    let host = (host, 0)
        .to_socket_addrs()?
        .next()
        .ok_or("no address")?
        .ip();
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = connect(&host.to_string(), port)?;
        stream.write_all(b"byte\n")?;
        stream.read_exact(&mut [0])?;
        open.push(stream);
    }
    println!("open");
    stdout().flush()?;
    let _ = stdin().read(&mut [0]);
    Ok(())
}

/// The connect itself may succeed: the wall's gateway takes every connection and then resets it.
fn refused(host: &str, port: &str) -> Outcome<f64> {
    let began = Instant::now();
    let Ok(mut stream) = connect(host, port) else {
        return Ok(micros(began));
    };
    match stream.read(&mut [0]) {
        Ok(0) => Ok(micros(began)),
        Ok(_) => Err("it was not refused".into()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(micros(began)),
        Err(error) => Err(error.into()),
    }
}

/// One small thread for each connection that is busy; one that has said "byte" only is parked without.
fn origin() -> Outcome<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    stdout().flush()?;
    std::thread::spawn(|| {
        let _ = stdin().read(&mut [0]);
        leave();
    });
    let mut parked = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        let mut line = String::new();
        BufReader::with_capacity(64, &stream).read_line(&mut line)?;
        match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            ["byte"] => {
                stream.write_all(b"x")?;
                parked.push(stream);
                // Those whose client has left.
                if parked.len() % 4096 == 0 {
                    parked.retain(is_open);
                }
            }
            ["pull", size] => {
                let size = size.parse::<usize>()? * MIB;
                std::thread::spawn(move || give(&stream, size));
            }
            ["push", size] => {
                let size = size.parse::<usize>()? * MIB;
                std::thread::spawn(move || take(&stream, size));
            }
            _ => {}
        }
    }
    Ok(())
}

#[expect(clippy::exit, reason = "a program")]
fn leave() -> ! {
    std::process::exit(0)
}

fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    !matches!(stream.peek(&mut [0]), Ok(0))
}

fn give(mut stream: &TcpStream, size: usize) -> std::io::Result<()> {
    let buffer = vec![0; PIECE];
    for _ in 0..size / PIECE {
        stream.write_all(&buffer)?;
    }
    Ok(())
}

/// What the reader of the first line took with it belongs to the size as well.
fn take(mut stream: &TcpStream, size: usize) -> std::io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut left = size.saturating_sub(64);
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            got => left = left.saturating_sub(got),
        }
    }
    stream.write_all(b"x")
}
