//! Sizes of memory and files, as people write them, and the least memory that a sandbox is limited to.

/// A sandbox with less memory does not come up, and says nothing of that: 4 MiB.
pub const LEAST_MEMORY: u64 = 4 << 20;

/// For powers of 1024, the largest first.
const UNITS: [(char, u64); 4] = [
    ('t', 1 << 40),
    ('g', 1 << 30),
    ('m', 1 << 20),
    ('k', 1 << 10),
];

/// A size in bytes: a whole number, with `k`, `m`, `g` or `t` for powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix('b').unwrap_or(&lower);
    let lower = lower.strip_suffix('i').unwrap_or(lower);
    let unit = UNITS
        .iter()
        .find_map(|(letter, factor)| Some((lower.strip_suffix(*letter)?, *factor)));
    let (number, factor) = unit.unwrap_or((lower, 1));
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    number.checked_mul(factor).filter(|&bytes| bytes > 0)
}

/// As people write it, such as `512m`: [`parse_size`] reads the same number.
pub fn written(bytes: u64) -> String {
    let whole = |(_, factor): &&(char, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
    match UNITS.iter().find(whole) {
        Some((letter, factor)) => format!("{}{letter}", bytes / factor),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let check = |bytes: u64, want: &str| {
            assert_eq!(written(bytes), want);
            assert_eq!(parse_size(want), Some(bytes));
        };
        check(1 << 30, "1g");
        check(512 << 20, "512m");
        check(1536 << 20, "1536m");
        check(3 << 40, "3t");
        check(1 << 10, "1k");
        check((4 << 20) + 1, "4194305");
        check(1000, "1000");
    }
}
