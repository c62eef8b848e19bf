//! Services of the house that nobody in a sandbox may reach, and what they heard.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_lab::lab::place;

/// On every address of the house; the internet has an echo at the same port.
pub(crate) const EVERYWHERE: u16 = 4000;
/// On 127.0.0.1 alone.
pub(crate) const LOOPBACK: u16 = 4001;
/// On the wire's address alone.
pub(crate) const OUTSIDE: u16 = 4002;

#[derive(Debug, Default, Clone)]
pub(crate) struct HouseServices {
    heard: Arc<Mutex<Vec<String>>>,
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
        this
    }

    /// What was said to them with `nonce` in it.
    pub(crate) fn heard(&self, nonce: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let with = heard.iter().filter(|text| text.contains(nonce));
        with.cloned().collect()
    }
}
