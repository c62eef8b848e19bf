//! Addresses that stand for names inside one sandbox, so that a plain connection says which name it means.
//!
//! An address is never given to a second name while the table lives. A new table (after the gateway was
//! restarted) takes another part of the range, so that an address which a program still remembers from
//! the old one stands for nothing, instead of for another name. [`Synthetic::EPOCHS`] tables later a part
//! comes round again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use crate::class::SYNTHETIC;
use crate::name::HostName;

/// No more names fit. Nothing is thrown out: an address in use would change its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this sandbox has looked up {} names, no more are kept: restart it",
    Synthetic::CAPACITY
)]
pub struct TableFull;

/// The names that one sandbox has looked up, with their addresses.
#[derive(Debug)]
pub struct Synthetic {
    first: u32,
    names: Vec<HostName>,
    numbers: HashMap<HostName, u32>,
}

impl Synthetic {
    /// How many names a table holds; about 5 MB if all are as long as can be.
    pub const CAPACITY: u32 = Self::PART - 2;

    /// Stands for no name in any table: of each part the last two addresses are not given out.
    pub const NEVER: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 254);

    /// How many tables use different addresses: the range has 2^17.
    pub const EPOCHS: u32 = (1 << 17) / Self::PART;

    /// The addresses of one table.
    const PART: u32 = 8192;

    /// An empty table. `epoch` counts the tables that this sandbox has had.
    pub fn new(epoch: u32) -> Self {
        let base = match SYNTHETIC.network() {
            IpAddr::V4(base) => base.to_bits(),
            IpAddr::V6(_) => 0,
        };
        Self {
            first: base + (epoch % Self::EPOCHS) * Self::PART,
            names: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// The address of a name: always the same one.
    pub fn address_of(&mut self, name: &HostName) -> Result<Ipv4Addr, TableFull> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(Ipv4Addr::from_bits(self.first + number));
        }
        let number = u32::try_from(self.names.len()).map_err(|_| TableFull)?;
        if number >= Self::CAPACITY {
            return Err(TableFull);
        }
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), number);
        Ok(Ipv4Addr::from_bits(self.first + number))
    }

    /// The name that an address stands for, if this table gave it out.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        let number = address.to_bits().checked_sub(self.first)?;
        self.names.get(usize::try_from(number).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_and_an_address_its_name() {
        let mut table = Synthetic::new(0);
        let a = table.address_of(&name("a.test")).unwrap();
        let b = table.address_of(&name("b.test")).unwrap();
        assert_ne!(a, b);
        assert_eq!(table.address_of(&name("A.test.")), Ok(a));
        assert_eq!(table.name_of(a), Some(&name("a.test")));
        assert_eq!(table.name_of(b), Some(&name("b.test")));
        for other in [
            "198.18.0.2",
            "198.17.255.255",
            "198.19.255.255",
            "0.0.0.0",
            "255.255.255.255",
        ] {
            assert_eq!(table.name_of(other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn a_full_table_refuses_and_forgets_nothing() {
        let mut table = Synthetic::new(Synthetic::EPOCHS - 1);
        for i in 0..Synthetic::CAPACITY {
            let address = table.address_of(&name(&format!("n{i}.test"))).unwrap();
            assert!(SYNTHETIC.contains(address.into()), "{address}");
        }
        assert_eq!(table.address_of(&name("more.test")), Err(TableFull));
        assert_eq!(
            table.address_of(&name("n0.test")).unwrap().to_string(),
            "198.19.224.0"
        );
        assert_eq!(
            table.name_of("198.19.255.253".parse().unwrap()),
            Some(&name("n8189.test"))
        );
        assert_eq!(table.name_of(Synthetic::NEVER), None);
    }

    #[test]
    fn a_new_table_gives_no_old_address_to_another_name() {
        let mut old = Synthetic::new(7);
        let address = old.address_of(&name("a.test")).unwrap();
        let mut new = Synthetic::new(8);
        for i in 0..Synthetic::CAPACITY {
            new.address_of(&name(&format!("n{i}.test"))).unwrap();
        }
        assert_eq!(new.name_of(address), None);
    }
}
