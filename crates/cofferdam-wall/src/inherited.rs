//! What a process of ours has of its starter's, and should not have.

use std::io;

/// Closes everything but the standard three. A starter's pipe that stayed open here would keep whoever reads
/// it waiting for as long as this process lives.
pub(crate) fn close() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name();
        open.extend(
            number
                .to_str()
                .and_then(|number| number.parse::<i32>().ok()),
        );
    }
    for number in open.into_iter().filter(|number| *number > 2) {
        // Nothing here owns a descriptor yet. The one that the list was read by is closed already.
        _ = nix::unistd::close(number);
    }
    Ok(())
}
