//! `sandbox-read`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::inside;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::ui::shell::shell_word;

/// Bytes of a file of which lines are told.
const LARGEST: u64 = 16 << 20;
/// Lines of one answer unless it is said how many, and bytes.
const LINES: usize = 2000;
const MOST: usize = 100_000;

/// Read a text file
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The sandbox's name
    sandbox: String,
    /// The file: absolute, or below the top of the repository
    path: String,
    /// The first line to tell, counted from 1
    first_line: Option<usize>,
    /// How many lines to tell; 2000 unless given
    lines: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Text {
    path: String,
    /// The lines as they are
    content: String,
    /// The number of the first one, counted from 1
    first_line: usize,
    /// So many lines are told
    lines: usize,
    /// So many the file has
    total_lines: usize,
    /// Whether the one line that is told is too long, and only its beginning is told
    cut: bool,
    /// Where it is, the command for `sandbox-exec` that prints the rest of that line
    rest: Option<String>,
}

impl Call for Read {
    const NAME: &'static str = "sandbox-read";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str =
        "Tells the lines of a text file in a sandbox, exactly as they are.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Text;

    async fn call(self, server: Server, asked: Asked) -> Result<Text, Failure> {
        for (name, number) in [("first_line", self.first_line), ("lines", self.lines)] {
            if number == Some(0) {
                return Err(Failure::new(
                    format!("`{name}` is 0, and may be 1 or more"),
                    "Lines are counted from 1; without `first_line` and `lines` the first 2000 are told.",
                ));
            }
        }
        let session = server.to_read(&self.sandbox, &asked).await?;
        let (there, text) = inside::text(&session, &self.path, LARGEST).await?;
        let path = inside::shown(&session, &there.path);
        let first_line = self.first_line.unwrap_or(1);
        let total_lines = text.split_inclusive('\n').count();
        if first_line > total_lines.max(1) {
            return Err(Failure::new(
                format!("{path} has {total_lines} lines, and none with number {first_line}"),
                "The first one has the number 1.",
            ));
        }
        let wanted = text.split_inclusive('\n').skip(first_line - 1);
        let (mut content, mut lines, mut rest) = (String::new(), 0, None);
        for line in wanted.take(self.lines.unwrap_or(LINES)) {
            if content.len() + line.len() > MOST && lines > 0 {
                break;
            }
            lines += 1;
            // One long line is cut, and no character of it.
            let end = line.floor_char_boundary(MOST);
            content.push_str(&line[..end]);
            if end < line.len() {
                let file = shell_word(&there.path);
                rest = Some(format!(
                    "sed -n '{first_line}p' {file} | tail -c +{}",
                    end + 1
                ));
                break;
            }
        }
        Ok(Text {
            path,
            content,
            first_line,
            lines,
            total_lines,
            cut: rest.is_some(),
            rest,
        })
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.content)?;
        if let Some(rest) = &self.rest {
            writeln!(
                f,
                "\n[line {} has more than {MOST} bytes, and the rest is not told: `sandbox-exec` prints it with `{rest}`]",
                self.first_line
            )?;
        }
        let last = self.first_line + self.lines - self.lines.min(1);
        if self.lines < self.total_lines {
            if !self.content.ends_with('\n') {
                writeln!(f)?;
            }
            writeln!(
                f,
                "[lines {} to {last} of {}: ask for others with `first_line` and `lines`]",
                self.first_line, self.total_lines
            )?;
        }
        Ok(())
    }
}
