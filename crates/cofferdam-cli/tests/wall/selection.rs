//! Which attacks to run: the part of the usual test arguments that means something here.

use std::ffi::OsString;

#[derive(Debug, Default)]
pub(crate) struct Selection {
    wanted: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    pub(crate) list_only: bool,
}

impl Selection {
    pub(crate) fn read(arguments: &[OsString]) -> Self {
        let mut this = Self::default();
        let mut words = arguments.iter().map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            match &*word {
                "--list" => this.list_only = true,
                "--exact" => this.exact = true,
                "--skip" => this.skipped.extend(words.next().map(Into::into)),
                "--test-threads" | "--format" | "--color" => drop(words.next()),
                option if option.starts_with('-') => {}
                name => this.wanted.push(name.to_owned()),
            }
        }
        this
    }

    pub(crate) fn takes(&self, name: &str) -> bool {
        let meets = |filter: &String| {
            if self.exact {
                filter == name
            } else {
                name.contains(filter.as_str())
            }
        };
        (self.wanted.is_empty() || self.wanted.iter().any(meets)) && !self.skipped.iter().any(meets)
    }
}
