//! Answers of a model that say: not now.

use jiff::Timestamp;

/// Words for it, in small letters.
const WORDS: &[&str] = &[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "usage limit",
    "usage_limit",
    "quota",
    "too many requests",
    "resource_exhausted",
    "overloaded",
];
/// What stands before the second since 1970 when it ends, as Claude Code says it: `usage limit reached|1760000000`.
const UNTIL: char = '|';

/// A limit of the model's was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// When it ends, where that was said.
    pub until: Option<Timestamp>,
}

/// Whether an agent's error is one, by its words.
pub(super) fn quota(text: &str) -> Option<Quota> {
    let small = text.to_ascii_lowercase();
    // A disk has one too.
    let small = small.replace("disk quota", "");
    let is_one = WORDS.iter().any(|word| small.contains(word)) || has_number(&small, "429");
    is_one.then(|| Quota { until: until(text) })
}

/// Whether `number` stands there by itself.
fn has_number(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        !is_digit(text[..at].chars().next_back())
            && !is_digit(text[at + number.len()..].chars().next())
    })
}

fn until(text: &str) -> Option<Timestamp> {
    let mut parts = text.split(UNTIL).skip(1);
    parts.find_map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        let seconds = (digits.len() == 10).then(|| digits.parse::<i64>().ok());
        Timestamp::from_second(seconds??).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_from_other_errors() {
        for text in [
            "API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}",
            "exceeded retry limit, last status: 429 Too Many Requests",
            "You exceeded your current quota",
            "Overloaded",
        ] {
            assert_eq!(quota(text), Some(Quota { until: None }), "{text}");
        }
        let until = quota("Claude AI usage limit reached|1760000000")
            .unwrap()
            .until;
        assert_eq!(until, Timestamp::from_second(1_760_000_000).ok());
        for text in [
            "API Error: 500",
            "429001 lines",
            "line 14290",
            "no such file",
            "Disk quota exceeded",
            "",
        ] {
            assert_eq!(quota(text), None, "{text}");
        }
    }
}
