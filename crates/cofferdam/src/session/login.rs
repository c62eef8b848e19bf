//! The login of an agent: a file that is kept on the host, copied into each sandbox of that agent, and copied
//! back when its program has renewed it. Nothing else of the program's settings travels.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::inside::{Inside, InsideError};
use super::options::RunOptions;
use crate::fsx::{self, FileError};
use crate::sandbox::Sandbox;

/// The largest login: 64 KiB.
const LIMIT: usize = 64 << 10;
/// For copying one in or out.
const TIME: Duration = Duration::from_secs(10);
/// The login on its way in.
const VARIABLE: &str = "COFFERDAM_LOGIN";

/// Why there is no login to give.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is no login: {why}", path.display())]
    NoLogin { path: PathBuf, why: &'static str },
    #[error("{agent} has no login file: leave out `--login`")]
    NoFile { agent: String },
    #[error("the login could not be copied into the sandbox: {0}")]
    NotGiven(String),
}

/// A login that a sandbox gets.
#[derive(Debug)]
pub(super) struct Login {
    /// Relative to the home in the sandbox.
    inside: String,
    /// Where it is kept on the host.
    kept: PathBuf,
    bytes: Vec<u8>,
    value: Value,
}

impl Login {
    /// The one that the user gave for this run, else the one that is kept. A new one is kept when it is
    /// given to a sandbox.
    pub(super) fn find(options: &RunOptions) -> Result<Option<Self>, LoginError> {
        let agent = options.agent.name();
        let Some(inside) = options.agent.login_file() else {
            return match options.login {
                None => Ok(None),
                Some(_) => Err(LoginError::NoFile {
                    agent: agent.to_owned(),
                }),
            };
        };
        let kept = options.home.login(agent);
        let path = options.login.as_deref().unwrap_or(&kept);
        let bytes = match fsx::read_bounded(path, LIMIT as u64) {
            Err(error) if error.is_not_found() && options.login.is_none() => return Ok(None),
            bytes => bytes?,
        };
        let value = parse(path, &bytes)?;
        Ok(Some(Self {
            inside: inside.to_owned(),
            kept,
            bytes,
            value,
        }))
    }

    /// Copies it in, before the agent starts.
    pub(super) async fn give(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<(), LoginError> {
        let script = format!(
            "cd && umask 077 && mkdir -p \"${{1%/*}}\" && printf %s \"${VARIABLE}\" > \"$1\""
        );
        let mut environment = environment.clone();
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        environment.insert(VARIABLE.into(), text.into());
        let done = self.shell(sandbox, &script, &environment, cancel).await;
        let done = done.map_err(|error| LoginError::NotGiven(error.to_string()))?;
        if !done.exit.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(LoginError::NotGiven(crate::text::printable(
                said.trim_end(),
            )));
        }
        self.keep(&self.bytes)
    }

    /// Keeps what the agent's program made of it. A sandbox may have written anything there: what is no
    /// renewal of the same login is left.
    pub(super) async fn take_back(
        &self,
        sandbox: &dyn Sandbox,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<bool, LoginError> {
        let script = "cd && cat -- \"$1\"";
        let Ok(done) = self.shell(sandbox, script, environment, cancel).await else {
            return Ok(false);
        };
        let bytes = done.stdout;
        if !done.exit.success() || bytes == self.bytes || !renews(&self.value, &bytes) {
            return Ok(false);
        }
        self.keep(&bytes)?;
        Ok(true)
    }

    fn keep(&self, bytes: &[u8]) -> Result<(), LoginError> {
        if let Some(directory) = self.kept.parent() {
            fsx::private_dir(directory)?;
        }
        Ok(fsx::write_private(&self.kept, bytes)?)
    }

    async fn shell(
        &self,
        sandbox: &dyn Sandbox,
        script: &str,
        environment: &BTreeMap<OsString, OsString>,
        cancel: &CancellationToken,
    ) -> Result<super::inside::Captured, InsideError> {
        let inside = Inside {
            sandbox,
            arguments: ["/bin/sh", "-c", script, "sh", &self.inside]
                .map(Into::into)
                .to_vec(),
            environment,
            limit: TIME,
            output_limit: LIMIT,
        };
        inside.run(cancel).await
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Value, LoginError> {
    let refused = |why| LoginError::NoLogin {
        path: path.to_owned(),
        why,
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|_| refused("it is not JSON"))?;
    match value.as_object() {
        Some(object) if !object.is_empty() => Ok(value),
        _ => Err(refused("it is not an object with something in it")),
    }
}

/// Whether `bytes` is the same login, renewed: everything that was there is there, of the same kind, and of
/// the same account where the login names one.
fn renews(before: &Value, bytes: &[u8]) -> bool {
    serde_json::from_slice(bytes).is_ok_and(|after| covers(before, &after))
}

fn covers(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before.iter().all(|(name, old)| {
            let new = after.get(name).unwrap_or(&Value::Null);
            let same = !matches!(name.as_str(), "account_id" | "subscriptionType") || old == new;
            same && covers(old, new)
        }),
        (Value::String(_), Value::String(new)) => !new.is_empty(),
        // What was not set may be now.
        (Value::Null, _) => true,
        (old, new) => std::mem::discriminant(old) == std::mem::discriminant(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(after: &str, want: bool) {
        let before = r#"{"key": null, "tokens": {"access": "a", "account_id": "me", "until": 1}}"#;
        let before = serde_json::from_str(before).unwrap();
        assert_eq!(renews(&before, after.as_bytes()), want, "{after}");
    }

    #[test]
    fn only_a_renewal_of_the_same_login_is_kept() {
        check(
            r#"{"key": null, "tokens": {"access": "b", "account_id": "me", "until": 2}}"#,
            true,
        );
        check(
            r#"{"new": 1, "tokens": {"access": "b", "account_id": "me", "until": 2}}"#,
            true,
        );
        check(
            r#"{"tokens": {"access": "b", "account_id": "you", "until": 2}}"#,
            false,
        );
        check(
            r#"{"tokens": {"access": "", "account_id": "me", "until": 2}}"#,
            false,
        );
        check(
            r#"{"tokens": {"access": "b", "account_id": "me", "until": "2"}}"#,
            false,
        );
        check(r#"{"key": "k"}"#, false);
        check(r"{}", false);
        check("[]", false);
        check("", false);
    }
}
