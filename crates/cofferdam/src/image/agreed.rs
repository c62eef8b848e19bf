//! What somebody has read and agreed to build, by its digest: the same bytes are not shown to them again.

use crate::fsx::{self, FileError};
use crate::home::Home;

/// So many, the newest.
const MOST: usize = 1000;
const LIMIT: u64 = 1 << 20;

pub(super) fn has(home: &Home, digest: &str) -> bool {
    all(home).iter().any(|known| known == digest)
}

pub(super) fn add(home: &Home, digest: &str) -> Result<(), FileError> {
    let mut all = all(home);
    all.retain(|known| known != digest);
    all.push(digest.to_owned());
    fsx::private_dir(home.path())?;
    let all = &all[all.len().saturating_sub(MOST)..];
    fsx::write_private(
        &home.agreed_builds(),
        format!("{}\n", all.join("\n")).as_bytes(),
    )
}

/// What cannot be read is asked again.
fn all(home: &Home) -> Vec<String> {
    let text = fsx::read_bounded(&home.agreed_builds(), LIMIT).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::new(place.path());
        assert!(!has(&home, "0"));
        for number in 0..=MOST {
            add(&home, &number.to_string()).unwrap();
        }
        assert!(!has(&home, "0") && has(&home, "1") && has(&home, "1000"));
    }
}
