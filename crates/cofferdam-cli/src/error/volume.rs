//! What to do about volumes, and about what is in them.

use cofferdam::session::ShelfError;
use cofferdam::volumes::VolumeError;

use crate::ui::shell::shell_word;

pub(super) fn volume_hint(error: &VolumeError) -> Option<String> {
    let hint = match error {
        VolumeError::Unknown(_) => "see which there are with `cofferdam volume list`".to_owned(),
        VolumeError::Used { by, .. } => {
            let names: Vec<&str> = by.iter().map(cofferdam::names::Slug::as_str).collect();
            format!(
                "end them first: `cofferdam delete {}`, where they were made (`cofferdam list --all-repos`)",
                names.join(" ")
            )
        }
        VolumeError::Busy => "wait for its end, and try again".to_owned(),
        VolumeError::Label { path, .. } => format!(
            "use the version of cofferdam that wrote it; what is in the volume lies beside {}",
            shell_word(path)
        ),
        VolumeError::NoName(_) => {
            "remove one that is not needed any more: `cofferdam volume list`".to_owned()
        }
        VolumeError::Export { .. } => "nothing is lost: try again, into another file".to_owned(),
        // Their causes have hints of their own.
        VolumeError::File(_) | VolumeError::Registry(_) => return None,
    };
    Some(hint)
}

pub(super) fn shelf_hint(error: &ShelfError) -> Option<String> {
    let hint = match error {
        ShelfError::Failed { .. } => {
            "look at it inside, at /repo-shelf, with `cofferdam shell`; what the shelf holds is kept".to_owned()
        }
        ShelfError::Another { volume, .. } => format!(
            "to keep what is there: `cofferdam volume export {volume} {volume}.tar`; then `cofferdam volume remove --force {volume}`, and try again"
        ),
        ShelfError::Jail { .. } => "see what this machine lacks with `cofferdam doctor`".to_owned(),
        ShelfError::Volume(_)
        | ShelfError::Git(_)
        | ShelfError::Vault(_)
        | ShelfError::File(_) => return None,
    };
    Some(hint)
}
