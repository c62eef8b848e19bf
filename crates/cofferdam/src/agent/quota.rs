//! Answers of a model that say: not now.

use jiff::Timestamp;

/// Words for it, in small letters. One word alone may stand in anybody's error: a compiler knows overloaded functions, a test its quota.
const WORDS: &[&str] = &[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "usage limit",
    "usage_limit",
    "too many requests",
    "resource_exhausted",
    "overloaded_error",
    "is overloaded",
    "are overloaded",
    "currently overloaded",
    "insufficient_quota",
    "current quota",
    "quota exceeded",
    "exceeded your quota",
    "exhausted your capacity",
];
/// What an HTTP status stands behind.
const STATUS: &[&str] = &[
    "status",
    "http",
    "http/1.1",
    "http/2",
    "code",
    "api error",
    "error",
    "rejected",
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
    let is_one = WORDS.iter().any(|word| small.contains(word))
        || small.trim() == "overloaded"
        || ["429", "529"]
            .iter()
            .any(|status| is_status(&small, status));
    is_one.then(|| Quota { until: until(text) })
}

/// Whether this number stands there by itself, as the status of an answer.
fn is_status(text: &str, status: &str) -> bool {
    text.match_indices(status).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + status.len()..]);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let words = before.trim_end_matches([' ', ':', '=', '(', '[', '"', '\'']);
        !before.ends_with(is_part)
            && !after.starts_with(is_part)
            && STATUS.iter().any(|word| {
                let rest = words.strip_suffix(word);
                rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
            })
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
            "API Error: Overloaded {\"type\":\"overloaded_error\"}",
            "API Error (529)",
            "API Error: Request rejected (429) · later",
            "{\"error\":{\"code\":429,\"message\":\"later\"}}",
            "HTTP 429",
            "The model is overloaded. Please try again later.",
            "Quota exceeded for quota metric 'Requests'",
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
            "app.js:429:10: unexpected token",
            "failed at line 429",
            "429 passed, 1 failed",
            "E429.",
            "error: no matching overloaded function found",
            "test quota::is_kept ... FAILED",
            "cannot read src/quota.rs",
            "",
        ] {
            assert_eq!(quota(text), None, "{text}");
        }
    }
}
