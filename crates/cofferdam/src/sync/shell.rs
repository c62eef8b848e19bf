//! Texts that shells read: zsh, bash and every other that POSIX describes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// `export KEY='value'`, a line for each; a value may have lines of its own.
pub(super) fn exports(variables: &BTreeMap<OsString, OsString>) -> Vec<u8> {
    let mut text = b"# Written by cofferdam at each sync, from `env` of config.yaml.\n".to_vec();
    for (name, value) in variables {
        text.extend_from_slice(b"export ");
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        quote(value, &mut text);
        text.push(b'\n');
    }
    text
}

/// Between single quotes every byte is itself, but for those.
fn quote(value: &OsStr, to: &mut Vec<u8>) {
    to.push(b'\'');
    for &byte in value.as_bytes() {
        if byte == b'\'' {
            to.extend_from_slice(br"'\''");
        } else {
            to.push(byte);
        }
    }
    to.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    // covers: S1-93, S1-98, S1-99
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the shells themselves are asked")]
    fn what_shells_read_is_what_was_meant() {
        let values = [
            "plain",
            "",
            "two words",
            "it's",
            "\"$HOME\" `id` $(id) \\ ! # * ~",
            "a\nb\n",
            "=x=",
            "-n",
            "\u{1b}[1m☺",
        ];
        let variables: BTreeMap<OsString, OsString> = (values.iter().enumerate())
            .map(|(number, value)| (format!("V{number}").into(), (*value).into()))
            .collect();
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("env");
        crate::fsx::write_private(&file, &exports(&variables)).unwrap();
        for shell in ["sh", "bash", "zsh"] {
            let script = ". \"$0\" && env -0";
            let done = Command::new(shell)
                .args(["-c", script])
                .arg(&file)
                .env_clear()
                .output();
            let Ok(done) = done else {
                cofferdam_lab::skip!("{shell} is not installed");
                continue;
            };
            let told: Vec<&[u8]> = done.stdout.split(|&byte| byte == 0).collect();
            for (name, value) in &variables {
                let line = [name.as_bytes(), b"=", value.as_bytes()].concat();
                assert!(told.contains(&&line[..]), "{shell}: {name:?}: {done:?}");
            }
        }
    }
}
