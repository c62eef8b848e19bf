//! Numbers and times for people, and the same forms read back from the command line.

use std::time::Duration;

use cofferdam::size::{LEAST_MEMORY, parse_size, written};
use jiff::Timestamp;

/// `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub(crate) fn duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..=59 => format!("{}.{} s", seconds, span.subsec_millis() / 100),
        60..=3599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The age of something in its largest unit: `5 s`, `12 min`, `3 h`, `9 d`.
pub(crate) fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - created.as_second()).max(0);
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `1234567` as `1,234,567`.
/// Millionths of a US dollar.
pub(crate) fn dollars(micro: u64) -> String {
    let cents = micro.div_ceil(10_000);
    format!("{}.{:02} USD", cents / 100, cents % 100)
}

pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// In the largest unit that leaves a whole number before the point; units of 1,000.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut whole, mut tenth, mut unit) = (bytes, 0, 0);
    while whole >= 1000 && unit + 1 < units.len() {
        tenth = whole % 1000 / 100;
        whole /= 1000;
        unit += 1;
    }
    match unit {
        0 => format!("{whole} B"),
        _ => format!("{whole}.{tenth} {}", units[unit]),
    }
}

/// `1 commit`, `2 commits`.
pub(crate) fn plural(number: usize, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

/// Reads `600`, `600s`, `10m`, `1h30m`, `500ms`; at least one millisecond.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || {
        format!(
            "`{}` is not a time such as 90, 90s, 10m or 1h",
            text.escape_debug()
        )
    };
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| refused())?;
        rest = &rest[digits..];
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let millis: u64 = match &rest[..letters] {
            "" if letters == rest.len() && digits == text.len() => 1000,
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err(refused()),
        };
        rest = &rest[letters..];
        total = number
            .checked_mul(millis)
            .and_then(|n| total.checked_add(n))
            .ok_or_else(refused)?;
    }
    if total == 0 {
        return Err(refused());
    }
    Ok(Duration::from_millis(total))
}

/// Reads `2g`, `512m`, `64k`, `1073741824` (powers of 1024); not 0.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text)
        .ok_or_else(|| format!("`{}` is not a size such as 512m or 2g", text.escape_debug()))
}

/// As [`parse_bytes`], of a sandbox's memory.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < LEAST_MEMORY {
        return Err(format!(
            "a sandbox has {} of memory at least",
            written(LEAST_MEMORY)
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_duration(text: &str, millis: Option<u64>) {
        assert_eq!(
            parse_duration(text).ok(),
            millis.map(Duration::from_millis),
            "{text:?}"
        );
    }

    #[test]
    fn durations_are_read() {
        check_duration("600", Some(600_000));
        check_duration("90s", Some(90_000));
        check_duration("10m", Some(600_000));
        check_duration("1h30m", Some(5_400_000));
        check_duration("500ms", Some(500));
        for bad in [
            "",
            "0",
            "0s",
            "s",
            "-1",
            "1.5s",
            "1h30",
            "10 m",
            "5d",
            "99999999999999999999",
            "1é",
        ] {
            check_duration(bad, None);
        }
        check_duration("18446744073709551615h", None);
    }

    fn check_bytes(text: &str, bytes: Option<u64>) {
        assert_eq!(parse_bytes(text).ok(), bytes, "{text:?}");
    }

    #[test]
    fn sizes_are_read() {
        check_bytes("1024", Some(1024));
        check_bytes("64k", Some(64 << 10));
        check_bytes("512M", Some(512 << 20));
        check_bytes("2g", Some(2 << 30));
        check_bytes("2GiB", Some(2 << 30));
        check_bytes("2gb", Some(2 << 30));
        for bad in [
            "",
            "g",
            "0",
            "0g",
            "+1g",
            "-1g",
            "1.5g",
            "1x",
            "99999999999999t",
        ] {
            check_bytes(bad, None);
        }
    }

    #[test]
    fn numbers_and_times_are_shown() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(duration(Duration::from_millis(850)), "850 ms");
        assert_eq!(duration(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(duration(Duration::from_secs(245)), "4 min 05 s");
        assert_eq!(duration(Duration::from_mins(123)), "2 h 03 min");
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(age(at(100), at(90)), "0 s");
        assert_eq!(age(at(0), at(7200)), "2 h");
    }

    #[test]
    fn sizes_are_told() {
        let told = [0, 999, 1_000, 64_950, 3_870_000_000, u64::MAX].map(size);
        assert_eq!(
            told,
            [
                "0 B",
                "999 B",
                "1.0 kB",
                "64.9 kB",
                "3.8 GB",
                "18446744.0 TB"
            ]
        );
    }
}
