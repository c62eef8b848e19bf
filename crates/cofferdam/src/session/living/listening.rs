//! On which ports servers in a sandbox listen.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use cofferdam_guest::protocol::{PROXY_PORT, REDIRECT_PORT};

use super::{Session, SessionError};
use crate::registry::Reach;
use crate::sandbox::Ability;
use crate::sandbox::browse::{Content, Peek, Sight};
use crate::session::plan::PlanError;
use crate::session::ports;

/// What the kernel says of each protocol: proc(5).
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Bytes of one of them that are read.
const LIMIT: u64 = 4 << 20;
/// Its word for a socket that listens.
const LISTENS: &str = "0A";

impl Session {
    /// TCP ports on which something inside listens, in ascending order; without those of the wall.
    pub async fn listening(&self) -> Result<Vec<u16>, SessionError> {
        self.require(Ability::Ports)?;
        // There they would be the machine's.
        let network = self.record().network.as_ref().map(Reach::kind);
        ports::check_network(network).map_err(PlanError::from)?;
        let mut found = BTreeSet::new();
        for table in TABLES {
            let place = Peek::at(Path::new(table)).with_content(Content {
                offset: 0,
                length: LIMIT,
                largest: LIMIT,
            });
            let mut text = Vec::new();
            let mut hear = |sight| {
                if let Sight::Part(bytes) = sight {
                    text.extend(bytes);
                }
                ControlFlow::Continue(())
            };
            self.browse(&place, &mut hear).await?;
            found.extend(listeners(&String::from_utf8_lossy(&text)));
        }
        for ours in [REDIRECT_PORT, PROXY_PORT] {
            found.remove(&ours);
        }
        Ok(found.into_iter().collect())
    }
}

/// A line for each socket: its number, its own address and port in hex digits, the other one's, its state.
fn listeners(table: &str) -> impl Iterator<Item = u16> {
    table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, _other, state) = (words.next()?, words.next()?, words.next()?);
        let (_, port) = own.rsplit_once(':')?;
        (state == LISTENS).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_from_connections() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 0100007F:0C38 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1F90 0100007F:C350 01 00000000:00000000\n   \
            2: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(listeners(table).collect::<Vec<_>>(), [3128, 8081]);
    }
}
