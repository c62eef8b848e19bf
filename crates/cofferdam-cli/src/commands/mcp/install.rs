//! `cofferdam mcp install`: the entry of this server in a client's own file.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use cofferdam::fsx::{self, Destination, FileError};
use cofferdam::text::{printable, printable_line, printable_path};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObjectProp, CstRootNode};
use similar::TextDiff;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

use crate::commands::here;
use crate::environment::Environment;
use crate::error::CliError;
use crate::input;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// What the server is called there.
const NAME: &str = "cofferdam";
/// Where Cofferdam's own files are, unless below the home.
const HOME: &str = "COFFERDAM_HOME";
/// Bytes of a client's file.
const LARGEST: u64 = 16 << 20;
/// Of a file that is new.
const MODE: u32 = 0o644;
/// In an entry that is there already, whether the server is on is its user's.
const ENABLED: &str = "enabled";
/// Of a server that speaks over HTTP, which no command starts.
const URL: &str = "url";

/// Write the entry of this server into a client's own file
///
/// The change is shown first. Files of Codex are in your home; those of the others are in the repository, for whoever works there.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Whose file; any other client is to start the command `cofferdam` with the argument `mcp`
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,

    /// Write it without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    Codex,
    Cursor,
    Zed,
    Opencode,
}

impl Client {
    fn file(self, top: &Path, home: Option<&Path>) -> Option<PathBuf> {
        Some(match self {
            Self::ClaudeCode => top.join(".mcp.json"),
            Self::Codex => home?.join(".codex/config.toml"),
            Self::Cursor => top.join(".cursor/mcp.json"),
            Self::Zed => top.join(".zed/settings.json"),
            Self::Opencode => top.join("opencode.json"),
        })
    }

    /// The text of its file with the entry in it. `home`: `COFFERDAM_HOME`, where it is set; Codex passes on no variable that its entry
    /// does not name, and the files of the others may be for several people. An error says what is wrong with the text that is there.
    fn entered(self, text: &str, program: &str, home: Option<&str>) -> Result<String, String> {
        let words = |words: &[&str]| {
            let words = words.iter().map(|&word| word.into());
            CstInputValue::Array(words.collect())
        };
        let usual =
            |arguments: &[&str]| vec![("command", program.into()), ("args", words(arguments))];
        match self {
            Self::Codex => toml(text, program, home),
            Self::ClaudeCode => json(text, "mcpServers", usual(&["mcp"])),
            // It starts servers elsewhere.
            Self::Cursor => json(
                text,
                "mcpServers",
                usual(&["-C", "${workspaceFolder}", "mcp"]),
            ),
            Self::Zed => {
                let entry = vec![
                    ("source", "custom".into()),
                    ("command", program.into()),
                    ("args", words(&["mcp"])),
                ];
                json(text, "context_servers", entry)
            }
            Self::Opencode => {
                let entry = vec![
                    ("type", "local".into()),
                    ("command", words(&[program, "mcp"])),
                    (ENABLED, true.into()),
                ];
                json(text, "mcp", entry)
            }
        }
    }
}

/// Comments and everything else stay as they are, what else is in an entry that is there too.
fn json(text: &str, servers: &str, entry: Vec<(&str, CstInputValue)>) -> Result<String, String> {
    let root = CstRootNode::parse(text, &ParseOptions::default());
    let root = root.map_err(|error| error.to_string())?;
    let no_object = || "it is no JSON object".to_owned();
    let top = root.object_value_or_create().ok_or_else(no_object)?;
    let servers = top
        .object_value_or_create(servers)
        .ok_or_else(|| format!("`{servers}` in it is no object"))?;
    let there = servers.get(NAME);
    if let Some(there) = there.as_ref().and_then(CstObjectProp::object_value) {
        if there.get(URL).is_some() {
            return Err(over_http());
        }
        for (key, wanted) in entry.into_iter().filter(|(key, _)| *key != ENABLED) {
            match there.get(key) {
                None => _ = there.append(key, wanted),
                Some(one) if one.value().is_some_and(|is| fits(&is, &wanted)) => {}
                Some(one) => one.set_value(wanted),
            }
        }
        return Ok(with_its_end(root.to_string()));
    }
    let entry = entry
        .into_iter()
        .map(|(key, wanted)| (key.to_owned(), wanted));
    let entry = CstInputValue::Object(entry.collect());
    match there {
        Some(there) => there.set_value(entry),
        None => _ = servers.append(NAME, entry),
    }
    Ok(with_its_end(root.to_string()))
}

fn over_http() -> String {
    format!(
        "its entry `{NAME}` has a `{URL}`, which is another way to the server: take that entry out first"
    )
}

/// Whether it is that already, however it is written.
fn fits(is: &CstNode, wanted: &CstInputValue) -> bool {
    match wanted {
        CstInputValue::String(wanted) => {
            let is = is.as_string_lit().and_then(|is| is.decoded_value().ok());
            is.as_ref() == Some(wanted)
        }
        CstInputValue::Array(wanted) => is.as_array().is_some_and(|is| {
            let is = is.elements();
            is.len() == wanted.len() && is.iter().zip(wanted).all(|(is, wanted)| fits(is, wanted))
        }),
        _ => false,
    }
}

fn toml(text: &str, program: &str, home: Option<&str>) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string())?;
    let servers = document.entry("mcp_servers").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| "`mcp_servers` in it is no table".to_owned())?;
    let there = servers.get_mut(NAME);
    if let Some(there) = there.and_then(Item::as_table_like_mut) {
        if there.contains_key(URL) {
            return Err(over_http());
        }
        enter(there, program, home);
    } else {
        let mut entry = Table::new();
        enter(&mut entry, program, home);
        servers.insert(NAME, Item::Table(entry));
    }
    Ok(with_its_end(document.to_string()))
}

/// What is ours of an entry; everything else in it stays.
fn enter(entry: &mut dyn TableLike, program: &str, home: Option<&str>) {
    put(entry, "command", program.into());
    put(entry, "args", toml_edit::Array::from_iter(["mcp"]).into());
    let Some(home) = home else {
        return;
    };
    if let Some(variables) = entry.get_mut("env").and_then(Item::as_table_like_mut) {
        put(variables, HOME, home.into());
        return;
    }
    let mut variables = InlineTable::new();
    variables.insert(HOME, home.into());
    entry.insert("env", value(variables));
}

fn put(table: &mut dyn TableLike, key: &str, wanted: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(there) if is_same(there, &wanted) => {}
        Some(there) => {
            // With its comment.
            let decor = there.decor().clone();
            *there = wanted;
            *there.decor_mut() = decor;
        }
        None => _ = table.insert(key, Item::Value(wanted)),
    }
}

/// Of what [`enter`] puts there: words, and lists of words.
fn is_same(one: &Value, other: &Value) -> bool {
    if let (Some(one), Some(other)) = (one.as_array(), other.as_array()) {
        return one.len() == other.len()
            && one
                .iter()
                .zip(other)
                .all(|(one, other)| is_same(one, other));
    }
    one.as_str().is_some_and(|one| other.as_str() == Some(one))
}

fn with_its_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(super) async fn run(
    install: &Install,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let repository = here::repository(environment, interrupt).await?;
    let file = install
        .client
        .file(repository.top.as_path(), environment.user_home.as_deref());
    let file = file.ok_or_else(|| CliError::Failed {
        message: "it is not known where your home is: HOME is not set".to_owned(),
        hint: "set HOME to an absolute path".to_owned(),
    })?;
    let shown = printable_line(&file.to_string_lossy());
    let cannot = |why: String| CliError::Failed {
        message: format!("{shown} cannot be changed: {why}"),
        hint: "mend it, or enter the server yourself: its command is `cofferdam mcp`".to_owned(),
    };
    // Where it is a link, what it leads to is changed: of the repository's only in the repository.
    let (file, is_theirs) = (real(&file), install.client == Client::Codex);
    if file.is_symlink() {
        return Err(CliError::Failed {
            message: format!("{shown} cannot be changed: it is a link that leads nowhere"),
            hint: format!("take the link away: `rm {}`", shell_word(&file)),
        });
    }
    if !is_theirs && !file.starts_with(repository.top.as_path()) {
        let leads_to = printable_path(&file);
        return Err(CliError::Failed {
            message: format!("{shown} cannot be changed: it leads to {leads_to}"),
            hint: format!(
                "no link of a checkout is followed out of it: enter the server in {leads_to} yourself, with the command \
                 `{}` and the argument `mcp`",
                environment.program()
            ),
        });
    }
    let before = match fsx::read_bounded(&file, LARGEST) {
        Err(error) if error.is_not_found() => None,
        read => {
            let text = String::from_utf8(read?);
            Some(text.map_err(|_| cannot("it is no text in UTF-8".to_owned()))?)
        }
    };
    let program = environment.program();
    let text = before.as_deref().unwrap_or_default();
    let home = environment.variables.get(OsStr::new(HOME));
    let home = home
        .and_then(|home| home.to_str())
        .filter(|home| !home.is_empty());
    let after = install
        .client
        .entered(text, &program, home)
        .map_err(cannot)?;
    if before.as_deref() == Some(&*after) {
        output::note(&format!("{shown} has it already\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let diff = TextDiff::from_lines(text, &after);
    let diff = diff.unified_diff().header(&shown, &shown).to_string();
    output::data(&printable(&diff))?;
    if !install.yes {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::Failed {
                message: format!("{shown} stays as it is"),
                hint: "write it with `--yes`".to_owned(),
            });
        }
        output::note("write it? [y/N] ");
        if !input::is_yes() {
            output::note(&format!("{shown} stays as it is\n"));
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mode = file.metadata().map_or(MODE, |found| {
        use std::os::unix::fs::PermissionsExt;
        found.permissions().mode() & 0o777
    });
    if let Some(parent) = file.parent() {
        let made = std::fs::create_dir_all(parent);
        made.map_err(|error| FileError::new("make", parent, error))?;
    }
    Destination::find(&file)?.write(after.as_bytes(), mode)?;
    output::note(&format!(
        "wrote {shown}; the client's next start finds it\n"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Behind all links, as far as it is there.
fn real(file: &Path) -> PathBuf {
    if let Ok(real) = file.canonicalize() {
        return real;
    }
    match (file.parent(), file.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_is_in_a_file_stays() {
        let clients = [
            (Client::ClaudeCode, "mcpServers"),
            (Client::Cursor, "mcpServers"),
            (Client::Zed, "context_servers"),
            (Client::Opencode, "mcp"),
        ];
        for (client, servers) in clients {
            let empty = client.entered("", NAME, None).unwrap();
            let read: serde_json::Value = serde_json::from_str(&empty).unwrap();
            assert!(read[servers][NAME].is_object(), "{empty}");
            let text = format!(
                "// mine\n{{\n  \"b\": 1,\n  \"{servers}\": {{\n    \"other\": {{}}\n  }},\n  \"a\": 2\n}}\n"
            );
            let entered = client.entered(&text, NAME, None).unwrap();
            assert!(
                entered.starts_with("// mine\n{\n  \"b\": 1,\n"),
                "{entered}"
            );
            assert!(entered.contains("\"other\": {}"), "{entered}");
            assert_eq!(client.entered(&entered, NAME, None).unwrap(), entered);
            for wrong in ["[1]", "{", &format!("{{\"{servers}\": 1}}")] {
                client.entered(wrong, NAME, None).unwrap_err();
            }
        }
    }

    #[test]
    fn so_it_does_in_codexs() {
        let text = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"o\"\n";
        let entered = Client::Codex.entered(text, NAME, None).unwrap();
        assert!(entered.starts_with(text), "{entered}");
        assert!(
            entered
                .ends_with("[mcp_servers.cofferdam]\ncommand = \"cofferdam\"\nargs = [\"mcp\"]\n"),
            "{entered}"
        );
        assert_eq!(
            Client::Codex.entered(&entered, NAME, None).unwrap(),
            entered
        );
        Client::Codex
            .entered("mcp_servers = 1", NAME, None)
            .unwrap_err();
        Client::Codex.entered("[", NAME, None).unwrap_err();
    }
}
