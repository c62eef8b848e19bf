//! What of a Dockerfile is read before an engine does: what it is built on, and what would lead a build out of its place.
//!
//! Engines differ in what they make of a Dockerfile, so this reads more into it than any of them does: every line for itself, and
//! lines joined at either of the two characters that may end a line which goes on.

use crate::names::BASE_IMAGE;

/// The `ARG` that says which base it is built on.
pub(super) const BASE_TAG: &str = "BASE_IMAGE_TAG";

/// Either may end a line which goes on, and stand before a character that means itself.
const ESCAPES: [char; 2] = ['\\', '`'];

/// A word as an engine has it.
fn unquoted(word: &str) -> String {
    word.replace(['"', '\''], "")
}

/// Each instruction as one engine or another may see it.
fn instructions(text: &str) -> Vec<String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = || {
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        code.map(str::trim_end)
    };
    let mut all: Vec<String> = lines().map(str::to_owned).collect();
    for escape in ESCAPES {
        let mut open: Option<String> = None;
        for line in lines() {
            let mut whole = open.take().unwrap_or_default();
            if let Some(begun) = line.strip_suffix(escape) {
                whole.push_str(begun);
                open = Some(whole);
            } else if line.is_empty() && !whole.is_empty() {
                // Some end here, some go on.
                all.push(whole.clone());
                open = Some(whole);
            } else {
                whole.push_str(line);
                all.push(whole);
            }
        }
        all.extend(open);
    }
    all
}

/// The instruction's name in capitals, and its words.
fn parts(instruction: &str) -> Option<(String, Vec<&str>)> {
    let mut words = instruction.split_whitespace();
    let mut name = words.next()?.to_ascii_uppercase();
    // What it says is done by whoever builds on the image.
    while name == "ONBUILD" {
        name = words.next()?.to_ascii_uppercase();
    }
    Some((name, words.collect()))
}

/// An instruction that would lead out of the archive and the wall, and why it is refused.
pub(super) fn leads_out(text: &str) -> Option<(String, &'static str)> {
    instructions(text).into_iter().find_map(|instruction| {
        let (name, words) = parts(&instruction)?;
        let first = words.first().copied().unwrap_or_default();
        let reason = match name.as_str() {
            // Some versions of Podman mount the host's files with it (CVE-2024-1753), and take a network from it.
            "RUN" if first.starts_with("--") => {
                "a step with options could have files or a network of this machine: write it without them"
            }
            // Done by the engine itself, in the machine's network.
            "ADD" if words.iter().any(|word| {
                let word = unquoted(word);
                word.contains("://") || word.contains('$') || word.contains("git@")
            }) =>
            {
                "the engine itself would fetch that, in front of the wall: fetch it in a `RUN`, or use `COPY`"
            }
            // An engine takes them away before it looks whether that is an address.
            "ADD" if instruction.trim_end_matches(ESCAPES).contains(ESCAPES) => {
                "an engine could read an address in that, and fetch it in front of the wall: write it without `\\` and backticks"
            }
            _ => return None,
        };
        let shown: String = instruction.trim().chars().take(120).collect();
        Some((shown, reason))
    })
}

/// Images of ours that it is built on, where [`BASE_TAG`] is this.
pub(super) fn bases(text: &str, tag: &str) -> Vec<String> {
    let mut bases = Vec::new();
    for instruction in instructions(text) {
        let Some((name, words)) = parts(&instruction) else {
            continue;
        };
        let Some(image) = words.iter().find(|word| !word.starts_with("--")) else {
            continue;
        };
        let image = unquoted(image)
            .replace(ESCAPES, "")
            .replace(&format!("${{{BASE_TAG}}}"), tag)
            .replace(&format!("${BASE_TAG}"), tag);
        let is_ours = image == BASE_IMAGE || image.starts_with(&format!("{BASE_IMAGE}:"));
        if name == "FROM" && is_ours && !bases.contains(&image) {
            bases.push(image);
        }
    }
    bases
}

/// Whether one of its instructions has this name.
pub(super) fn has(text: &str, wanted: &str) -> bool {
    let all = instructions(text);
    all.iter()
        .filter_map(|one| parts(one))
        .any(|(name, _)| name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_is_found_however_it_is_written() {
        let out = [
            "FROM a\nRUN --mount=type=bind,src=/,dst=/x ls",
            "FROM a\n  run\t--network=host true",
            "FROM a\nRUN \\\n  --mount=type=bind ls",
            "FROM a\nRUN --mo\\\nunt=type=bind ls",
            "FROM a\nRUN \\\n# a remark\n\n--mount=type=bind ls",
            "# escape=`\nFROM a\nRUN echo \\\nRUN --mount=type=bind ls",
            "# escape=`\nFROM a\nRU`\nN --mount=type=bind ls",
            "FROM a\nONBUILD RUN --mount=type=bind ls",
            "FROM a\nonbuild onbuild run --security=insecure ls",
            "FROM a\r\nRUN \\\r\n--mount=type=bind ls\r\n",
            "\u{feff}RUN --mount=type=bind ls",
            "FROM a\nRUN\u{a0}--mount=type=bind ls",
            "FROM a\nADD http://192.0.2.1/x /x",
            "FROM a\nADD --chown=1 \\\n https://example.com/x /x",
            "FROM a\nADD git@example.com:x/y /x",
            "FROM a\nARG U\nADD $U /x",
            "FROM a\nADD [\"https://example.com/x\", \"/x\"]",
            "FROM a\nADD http:/\"\"/192.0.2.1/x /x",
            "FROM a\nADD 'http:'//192.0.2.1/x /x",
            "FROM a\nADD http:/\\/192.0.2.1/x /x",
            "FROM a\nADD [\"http:\\/\\/192.0.2.1/x\", \"/x\"]",
            "# escape=`\nFROM a\nADD http:/`/192.0.2.1/x /x",
            "FROM a\nADD git\"@\"example.com:x/y /x",
        ];
        for text in out {
            assert!(leads_out(text).is_some(), "{text}");
        }
        let stays = [
            "FROM a\nRUN apt-get install -y --no-install-recommends x",
            "FROM --platform=linux/amd64 a AS b\nCOPY --from=b --chown=1:1 /x /x\nADD --chown=1 file.tar /x",
            "FROM a\n# RUN --mount=type=bind\nRUN curl -o /x https://example.com/x && \\\n    yarn --network-timeout 100",
            "FROM a\nCMD --mount",
            "FROM a\nADD one \\\n  two /x/\nADD \"a file\" /x",
        ];
        for text in stays {
            assert_eq!(leads_out(text), None, "{text}");
        }
    }

    // covers: S3-17 S3-23
    #[test]
    fn what_it_is_built_on() {
        let of = |text: &str| bases(text, "7");
        assert_eq!(
            of("ARG BASE_IMAGE_TAG=latest\nFROM cofferdam-base:${BASE_IMAGE_TAG}\n"),
            ["cofferdam-base:7"]
        );
        assert_eq!(
            of("from --platform=linux/amd64 cofferdam-base:x AS one\n"),
            ["cofferdam-base:x"]
        );
        assert_eq!(of("FROM cofferdam-\"\"ba\\se:x\n"), ["cofferdam-base:x"]);
        assert_eq!(
            of("FROM \\\n cofferdam-base:$BASE_IMAGE_TAG\n"),
            ["cofferdam-base:7"]
        );
        assert_eq!(
            of("FROM alpine:3\nRUN echo cofferdam-base:x\n"),
            <[String; 0]>::default()
        );
        assert!(has("FROM a\nentrypoint [\"x\"]\n", "ENTRYPOINT"));
        assert!(!has("FROM a\nRUN ENTRYPOINT\n", "ENTRYPOINT"));
    }
}
