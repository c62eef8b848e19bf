//! The rules of one sandbox, compiled from their sources into one file: all that a supervisor knows of rules.

use crate::control::{self, FrameError, RuleLine};

/// Changes whenever the file or a rule's text changes its meaning.
const VERSION: u32 = 1;
/// The longest file in bytes.
const LONGEST: usize = control::MAX_FRAME;

/// Why a list says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("it is of another version of cofferdam (format {0})")]
    Version(u32),
    #[error("it is no list of rules")]
    Malformed,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
}

/// A compiled list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub rules: Vec<RuleLine>,
}

impl List {
    /// The longest file in bytes.
    pub const LONGEST: usize = LONGEST;

    /// The whole file.
    pub fn encode(&self) -> Result<Vec<u8>, ListError> {
        let frame = control::encode(&(VERSION, &self.rules)).map_err(|error| match error {
            FrameError::TooLong(_) => ListError::TooLong,
            FrameError::Malformed => ListError::Malformed,
        })?;
        if frame.len() > LONGEST {
            return Err(ListError::TooLong);
        }
        Ok(frame)
    }

    /// Reads a whole file: less or more of it is no list.
    pub fn decode(file: &[u8]) -> Result<Self, ListError> {
        let Some((head, body)) = file.split_first_chunk::<{ control::HEAD }>() else {
            return Err(ListError::Malformed);
        };
        if control::body_length(*head) != Ok(body.len()) {
            return Err(ListError::Malformed);
        }
        let version = control::decode_front(body).map_err(|_| ListError::Malformed)?;
        if version != VERSION {
            return Err(ListError::Version(version));
        }
        let (_, rules): (u32, _) = control::decode(body).map_err(|_| ListError::Malformed)?;
        Ok(Self { rules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    #[test]
    fn only_a_whole_list_of_this_version_is_one() {
        let rule = RuleLine {
            text: "a.test:443 tls".to_owned(),
            origin: Origin::Repository,
        };
        let list = List {
            rules: vec![rule; 2],
        };
        let file = list.encode().unwrap();
        assert_eq!(List::decode(&file), Ok(list));
        let none = List { rules: Vec::new() };
        assert_eq!(List::decode(&none.encode().unwrap()), Ok(none));
        for cut in 0..file.len() {
            let read = List::decode(&file[..cut]);
            assert_eq!(read, Err(ListError::Malformed), "{cut}");
        }
        let more = [&file[..], &[0]].concat();
        assert_eq!(List::decode(&more), Err(ListError::Malformed));
        let mut newer = file;
        newer[control::HEAD] = 2;
        assert_eq!(List::decode(&newer), Err(ListError::Version(2)));
    }
}
