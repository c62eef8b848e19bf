//! Text as models send it: in pieces.

/// Three pieces, of a text that is long enough.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(letters.len().div_ceil(3).max(1))
        .map(|chunk| chunk.iter().collect())
        .collect()
}
