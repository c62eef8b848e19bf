//! Services of the house that nobody in a sandbox may reach, and what they heard.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_lab::lab::place;

use crate::careless;
use crate::place::PROXY;

/// On every address of the house; the internet has an echo at the same port.
pub(crate) const EVERYWHERE: u16 = 4000;
/// On 127.0.0.1 alone.
pub(crate) const LOOPBACK: u16 = 4001;
/// On the wire's address alone.
pub(crate) const OUTSIDE: u16 = 4002;
/// A server that takes no notice of the length of bodies, on every address.
pub(crate) const CARELESS: u16 = 4003;

/// Where machines and containers often have a resolver of their own.
pub(crate) const RESOLVERS: [&str; 3] = ["127.0.0.11:53", "127.0.0.53:53", "127.0.0.1:53"];

/// Asks the lab's server what it is asked.
fn resolve(socket: &UdpSocket) -> std::io::Result<()> {
    let mut message = [0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut message)?;
        let server = UdpSocket::bind("0.0.0.0:0")?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        server.send_to(&message[..length], (place::DNS, 53))?;
        if let Ok(length) = server.recv(&mut message) {
            socket.send_to(&message[..length], client)?;
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct HouseServices {
    heard: Arc<Mutex<Vec<String>>>,
}

/// Each visitor in a thread; one who leaves early is no failure.
fn attend(
    listener: TcpListener,
    service: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let service = service.clone();
            std::thread::spawn(move || service(stream));
        }
    });
}

impl HouseServices {
    pub(crate) fn start() -> Self {
        let this = Self::default();
        // The recorder's marks come here; without a listener the house would answer them.
        let marks = UdpSocket::bind((place::HOUSE, 9)).unwrap();
        std::thread::spawn(move || while marks.recv(&mut [0; 64]).is_ok() {});
        for (address, port) in [
            ("::", EVERYWHERE),
            ("::", 80),
            ("127.0.0.1", LOOPBACK),
            (place::HOUSE, OUTSIDE),
        ] {
            let listener = TcpListener::bind((address, port)).unwrap();
            let heard = Arc::clone(&this.heard);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let heard = Arc::clone(&heard);
                    std::thread::spawn(move || {
                        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                        let _ = stream.write_all(b"the house\n");
                        let mut buffer = [0; 4096];
                        if let Ok(length) = stream.read(&mut buffer) {
                            let text = String::from_utf8_lossy(&buffer[..length]);
                            heard.lock().unwrap().push(format!("house:{port} {text}"));
                        }
                    });
                }
            });
        }
        let listener = TcpListener::bind(("::", CARELESS)).unwrap();
        let heard = Arc::clone(&this.heard);
        attend(listener, move |mut stream| {
            let hosts = careless::serve(&mut stream)?;
            heard.lock().unwrap().push(format!("careless met {hosts}"));
            Ok(())
        });
        // Where a sandbox has the wall's.
        let listener = TcpListener::bind(PROXY).unwrap();
        attend(listener, careless::relay);
        for address in RESOLVERS {
            let socket = UdpSocket::bind(address).unwrap();
            std::thread::spawn(move || resolve(&socket));
        }
        this
    }

    /// What was said to them with `nonce` in it.
    pub(crate) fn heard(&self, nonce: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let with = heard.iter().filter(|text| text.contains(nonce));
        with.cloned().collect()
    }
}
