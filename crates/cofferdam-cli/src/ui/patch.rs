//! Colour for a patch that git printed without: git's own would be escaped along with everything else
//! that a terminal obeys.

use super::style;

/// The lines of a patch as `git diff` paints them. A line of a file never passes as a header: how many
/// lines a hunk has stands at its beginning.
pub(crate) fn paint(patch: &str) -> String {
    let mut out = String::with_capacity(patch.len() * 5 / 4);
    // Lines of the old and of the new file that the hunk still has.
    let (mut old, mut new) = (0u64, 0u64);
    for line in patch.split_inclusive('\n') {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let mut style = None;
        if old > 0 || new > 0 {
            match text.as_bytes().first() {
                Some(b'+') => {
                    new = new.saturating_sub(1);
                    style = Some(style::ADDED);
                }
                Some(b'-') => {
                    old = old.saturating_sub(1);
                    style = Some(style::REMOVED);
                }
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
        } else if let Some(lines) = hunk(text) {
            (old, new) = lines;
            style = Some(style::HUNK);
        } else if !text.starts_with('\\') {
            style = Some(style::STRONG);
        }
        match style {
            Some(style) => out.push_str(&style::paint(text, style, true)),
            None => out.push_str(text),
        }
        out.push_str(&line[text.len()..]);
    }
    out
}

/// `@@ -1,2 +3,4 @@ …`: how many lines of the old and of the new file.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let count = |word: &str, sign: char| {
        let range = word.strip_prefix(sign)?;
        match range.split_once(',') {
            Some((_, count)) => count.parse().ok(),
            None => Some(1),
        }
    };
    Some((count(words.next()?, '-')?, count(words.next()?, '+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_never_pass_as_headers() {
        let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ fn\n same\n--- a/y\n+++ b/y\n+@@ -1 +1 @@\n\\ No newline at end of file\ndiff --git a/z b/z\n";
        let plain = without_paint(&paint(patch));
        assert_eq!(plain, patch);
        let painted = paint(patch);
        let style_of = |text: &str| {
            let line = painted.lines().find(|line| line.contains(text)).unwrap();
            line.split_once(text).unwrap().0.to_owned()
        };
        let (added, removed) = (style::ADDED.to_string(), style::REMOVED.to_string());
        let (hunk, header) = (style::HUNK.to_string(), style::STRONG.to_string());
        assert_eq!(style_of("--- a/x"), header);
        assert_eq!(style_of("@@ -1,2"), hunk);
        assert_eq!(style_of(" same"), "");
        assert_eq!(style_of("--- a/y"), removed);
        assert_eq!(style_of("+++ b/y"), added);
        assert_eq!(style_of("+@@ -1 +1"), added);
        assert_eq!(style_of("diff --git a/z"), header);
    }

    fn without_paint(text: &str) -> String {
        cofferdam::text::without_colours(text).into_owned()
    }
}
