//! Where in a container lies what is ours: below a directory whose name is random. An image cannot know it, so it has nothing there that
//! would lead an engine elsewhere: a link in its place would have the engine start a program of the image's as process 1.

use std::path::Path;

use super::super::guest::start_error;
use crate::sandbox::SandboxError;
use crate::text::hex;

/// Of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inside(String);

impl Inside {
    pub(super) fn random() -> Result<Self, SandboxError> {
        let mut bytes = [0; 16];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        if got.map_err(|errno| start_error(errno.into()))? != bytes.len() {
            return Err(SandboxError::Start(
                "the kernel gave too few random bytes".to_owned(),
            ));
        }
        Ok(Self(format!("/.cofferdam-{}", hex(&bytes))))
    }

    /// Whether this path is there: no image has anything at it.
    pub(super) fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.0)
    }

    /// The program of process 1.
    pub(super) fn guest(&self) -> String {
        format!("{}/guest", self.0)
    }

    /// Where that meets its maker.
    pub(super) fn meeting(&self) -> String {
        format!("{}/meet", self.0)
    }

    /// Whom this machine believes.
    pub(super) fn authorities(&self) -> String {
        format!("{}/ca.pem", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_containers_have_the_same() {
        let (one, other) = (Inside::random().unwrap(), Inside::random().unwrap());
        assert_ne!(one.guest(), other.guest());
        let random = one.guest();
        let random = random.strip_prefix("/.cofferdam-").unwrap();
        assert_eq!(random.strip_suffix("/guest").unwrap().len(), 32);
    }
}
