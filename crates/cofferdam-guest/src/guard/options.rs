//! The options of a subcommand, read as git's parser reads them (parse-options.c): abbreviations, short options in one word,
//! values in the same word or the next, and `--no-` before a name.

use super::Word;

/// What an option says that anybody here asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    SkipsHooks,
    Forces,
    ForcesWithLease,
    ForcesIfIncludes,
    Mirrors,
    /// Its value is run by a shell.
    Runs,
    /// Of `git config`: it gives a key a value.
    Writes,
    /// Of `git config`: it takes a key away.
    Unsets,
    /// Of `git config`: it changes a section.
    WritesSection,
    /// Of `git config`: it changes nothing.
    Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    /// In the same word, or else the next one.
    Needed,
    /// In the same word, or none.
    Possible,
}

/// One option that git knows.
#[derive(Debug)]
pub(super) struct Entry {
    /// Empty: it has no long name. One that begins with `no-` is the negation of what comes after it.
    long: &'static str,
    short: Option<u8>,
    value: Value,
    /// Whether git takes it with `--no-` too.
    has_negation: bool,
    meaning: Option<Meaning>,
}

pub(super) const fn flag(long: &'static str) -> Entry {
    Entry {
        long,
        short: None,
        value: Value::None,
        has_negation: true,
        meaning: None,
    }
}

pub(super) const fn takes(long: &'static str) -> Entry {
    let mut entry = flag(long);
    entry.value = Value::Needed;
    entry
}

pub(super) const fn may_take(long: &'static str) -> Entry {
    let mut entry = flag(long);
    entry.value = Value::Possible;
    entry
}

impl Entry {
    pub(super) const fn short(mut self, letter: u8) -> Self {
        self.short = Some(letter);
        self
    }

    pub(super) const fn without_negation(mut self) -> Self {
        self.has_negation = false;
        self
    }

    pub(super) const fn means(mut self, meaning: Meaning) -> Self {
        self.meaning = Some(meaning);
        self
    }
}

/// Where options may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Anywhere,
    /// What comes after the first operand is one too.
    BeforeOperands,
}

/// An option with a meaning.
#[derive(Debug)]
pub(super) struct Said<'w> {
    pub(super) meaning: Meaning,
    /// Not by its negation.
    pub(super) is_on: bool,
    pub(super) value: Option<&'w [u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Given<'w> {
    pub(super) said: Vec<Said<'w>>,
    pub(super) operands: Vec<&'w [u8]>,
}

impl Given<'_> {
    /// The last one counts.
    pub(super) fn says(&self, meaning: Meaning) -> bool {
        let mut latest = self.said.iter().rev();
        latest
            .find(|said| said.meaning == meaning)
            .is_some_and(|said| said.is_on)
    }
}

/// `None`: an abbreviation has more than one meaning, so git does nothing but say so.
///
/// Git does nothing on an option that it does not know either, but one that is too new for the list here it knows: such an
/// option is taken for one without a value.
pub(super) fn read<'w>(words: &'w [Word], entries: &[Entry], order: Order) -> Option<Given<'w>> {
    let mut given = Given::default();
    let mut words = words.iter().map(Vec::as_slice);
    while let Some(word) = words.next() {
        match word {
            b"--" | b"--end-of-options" => break,
            [b'-', b'-', name @ ..] => given.long(name, entries, &mut words)?,
            [b'-', letters @ ..] if !letters.is_empty() => {
                given.letters(letters, entries, &mut words);
            }
            operand => {
                given.operands.push(operand);
                if order == Order::BeforeOperands {
                    break;
                }
            }
        }
    }
    given.operands.extend(words);
    Some(given)
}

impl<'w> Given<'w> {
    fn long(
        &mut self,
        text: &'w [u8],
        entries: &[Entry],
        words: &mut impl Iterator<Item = &'w [u8]>,
    ) -> Option<()> {
        let mut parts = text.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let joined = parts.next();
        let (entry, is_on) = match find(name, entries) {
            Found::One(entry, is_on) => (entry, is_on),
            Found::More => return None,
            Found::None => return Some(()),
        };
        let value = match entry.value {
            Value::Needed if is_on => joined.or_else(|| words.next()),
            _ => joined,
        };
        self.say(entry, is_on, value);
        Some(())
    }

    fn letters(
        &mut self,
        letters: &'w [u8],
        entries: &[Entry],
        words: &mut impl Iterator<Item = &'w [u8]>,
    ) {
        for (at, &letter) in letters.iter().enumerate() {
            let entry = entries.iter().find(|entry| entry.short == Some(letter));
            let Some(entry) = entry else { continue };
            let rest = Some(&letters[at + 1..]).filter(|rest| !rest.is_empty());
            let value = match entry.value {
                Value::None => None,
                Value::Needed => rest.or_else(|| words.next()),
                Value::Possible => rest,
            };
            // `-n` of what is called `--no-verify` says what the long name does.
            self.say(entry, true, value);
            if entry.value != Value::None {
                break;
            }
        }
    }

    fn say(&mut self, entry: &Entry, is_on: bool, value: Option<&'w [u8]>) {
        let said = entry.meaning.map(|meaning| Said {
            meaning,
            is_on,
            value,
        });
        self.said.extend(said);
    }
}

enum Found<'e> {
    /// Said as it is called; or its opposite.
    One(&'e Entry, bool),
    More,
    None,
}

/// A name that is written out, else the only one that begins so.
fn find<'e>(name: &[u8], entries: &'e [Entry]) -> Found<'e> {
    let once = name.strip_prefix(b"no-");
    let twice = once.and_then(|stem| stem.strip_prefix(b"no-"));
    let stem = twice.or(once).unwrap_or(name);
    // `--no-no-verify` is the opposite of what is called `--no-verify`.
    let is_negated = once.is_some() && twice.is_none();
    let mut found = Found::None;
    for entry in entries.iter().filter(|entry| !entry.long.is_empty()) {
        let positive = entry.long.strip_prefix("no-");
        if positive.is_none() && twice.is_some() {
            continue;
        }
        let is_on = is_negated == positive.is_some();
        if !is_on && !entry.has_negation {
            continue;
        }
        let long = positive.unwrap_or(entry.long).as_bytes();
        if long == stem {
            return Found::One(entry, is_on);
        }
        // A beginning of `no-` itself stands for every option that has a negation.
        let times = u8::from(long.starts_with(stem))
            + u8::from(entry.has_negation && b"no-".starts_with(name));
        for _ in 0..times {
            found = match found {
                Found::None => Found::One(entry, is_on),
                _ => Found::More,
            };
        }
    }
    found
}
