//! Bytes as hexadecimal digits.

/// In lower case.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// `None`: it is no hexadecimal number of whole bytes.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?))
        .collect()
}
