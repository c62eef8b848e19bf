//! The login of an agent: a file that is kept on the host, copied into each sandbox of that agent, and copied
//! back when its program has renewed it. Nothing else of the program's settings travels.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
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
    /// For this run, by the user: from now on it is the one that is kept.
    given: bool,
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
            given: options.login.is_some(),
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
        if !self.given {
            return Ok(());
        }
        let _lock = self.lock().await?;
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
        if !done.exit.success() || bytes == self.bytes {
            return Ok(false);
        }
        let Ok(after) = serde_json::from_slice::<Value>(&bytes) else {
            return Ok(false);
        };
        // Another run may have renewed it too, or the user may have given another one.
        let _lock = self.lock().await?;
        let now = match fsx::read_bounded(&self.kept, LIMIT as u64) {
            Err(error) if error.is_not_found() => return Ok(false),
            now => now?,
        };
        let Ok(now) = parse(&self.kept, &now) else {
            return Ok(false);
        };
        let replaces = renews(&self.value, &after) && renews(&now, &after);
        if !replaces || (now != self.value && !is_newer(&now, &after)) {
            return Ok(false);
        }
        self.keep(&bytes)?;
        Ok(true)
    }

    /// Held while the kept one is looked at and replaced. Bounded: 10 s.
    async fn lock(&self) -> Result<File, LoginError> {
        let directory = self.kept.parent().unwrap_or(&self.kept);
        fsx::private_dir(directory)?;
        let path = directory.join("lock");
        let lock = fsx::lock_within(&path, TIME).await?;
        let busy = || FileError::new("lock", &path, io::ErrorKind::WouldBlock.into());
        Ok(lock.ok_or_else(busy)?)
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

/// What the agents' programs change when they renew a login.
const RENEWED: [&str; 8] = [
    "claudeAiOauth.accessToken",
    "claudeAiOauth.refreshToken",
    "claudeAiOauth.expiresAt",
    "claudeAiOauth.refreshTokenExpiresAt",
    "tokens.id_token",
    "tokens.access_token",
    "tokens.refresh_token",
    "last_refresh",
];
/// Those of them that may be there only afterwards. None of them is a key or a token.
const LATER: [&str; 2] = ["claudeAiOauth.refreshTokenExpiresAt", "last_refresh"];
/// When it was renewed, or until when it counts: later is newer.
const TIMES: [&str; 2] = ["/claudeAiOauth/expiresAt", "/last_refresh"];

/// Whether `after` is the same login, renewed: nothing is new, gone or of another kind, nothing but what a
/// renewal changes is different, and a token that names whom it is for still names the same.
fn renews(before: &Value, after: &Value) -> bool {
    matches!(after, Value::Object(_)) && covers("", before, after)
}

fn covers(path: &str, before: &Value, after: &Value) -> bool {
    if before == after {
        return true;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let below = |name: &str| match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            before.keys().all(|name| after.contains_key(name))
                && after.iter().all(|(name, new)| {
                    let place = below(name);
                    let old = before.get(name).unwrap_or(&Value::Null);
                    let known = before.contains_key(name) || LATER.contains(&place.as_str());
                    known && covers(&place, old, new)
                })
        }
        (Value::String(old), Value::String(new)) => {
            RENEWED.contains(&path) && !new.is_empty() && subject(old) == subject(new)
        }
        (Value::Number(_), Value::Number(_)) => RENEWED.contains(&path),
        (Value::Null, Value::String(_) | Value::Number(_)) => LATER.contains(&path),
        _ => false,
    }
}

fn is_newer(before: &Value, after: &Value) -> bool {
    TIMES.iter().any(
        |place| match (before.pointer(place), after.pointer(place)) {
            (Some(Value::Number(old)), Some(Value::Number(new))) => new.as_f64() > old.as_f64(),
            (Some(Value::String(old)), Some(Value::String(new))) => {
                let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
                time(new) > time(old)
            }
            _ => false,
        },
    )
}

/// Whom a token is for, where it is one that says so (RFC 7519; nobody checks its signature here): its
/// subject, and the account that OpenAI adds.
fn subject(token: &str) -> Option<[Option<Value>; 2]> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let payload: Value = serde_json::from_slice(&base64url(payload)?).ok()?;
    let places = ["/sub", "/https:~1~1api.openai.com~1auth/chatgpt_account_id"];
    Some(places.map(|place| payload.pointer(place).cloned()))
}

/// RFC 4648, section 5, with padding or without.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0u32, 0u32);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A token as the services make them; nothing in it is signed.
    fn token(subject: &str, account: &str, rest: u32) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let auth = json!({"chatgpt_account_id": account});
        let payload = json!({"sub": subject, "https://api.openai.com/auth": auth, "n": rest});
        let mut text = String::new();
        for part in payload.to_string().as_bytes().chunks(3) {
            let three = [
                part[0],
                *part.get(1).unwrap_or(&0),
                *part.get(2).unwrap_or(&0),
            ];
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for place in 0..=part.len() {
                let digit = (bits >> (18 - 6 * place)) & 63;
                text.push(char::from(DIGITS[usize::try_from(digit).unwrap()]));
            }
        }
        format!("e30.{text}.sig")
    }

    fn codex() -> Value {
        json!({"OPENAI_API_KEY": null, "auth_mode": "chatgpt",
               "tokens": {"id_token": token("me", "mine", 1), "access_token": "a", "refresh_token": "r",
                          "account_id": "mine"},
               "last_refresh": "2026-01-01T00:00:00Z"})
    }

    fn check(before: &Value, place: &str, new: Option<&Value>, want: bool) {
        let mut after = before.clone();
        let (above, name) = place.rsplit_once('/').unwrap();
        let above = after.pointer_mut(above).unwrap().as_object_mut().unwrap();
        match new {
            Some(new) => above.insert(name.to_owned(), new.clone()),
            None => above.remove(name),
        };
        assert_eq!(renews(before, &after), want, "{place} {new:?}");
    }

    #[test]
    fn only_a_renewal_of_the_same_login_is_kept() {
        let before = codex();
        let check = |place: &str, new: Value, want| check(&before, place, Some(&new), want);
        check("/tokens/access_token", json!("b"), true);
        check("/tokens/refresh_token", json!("b"), true);
        check("/tokens/id_token", json!(token("me", "mine", 2)), true);
        check("/last_refresh", json!("2026-02-01T00:00:00Z"), true);

        check("/OPENAI_API_KEY", json!("sk-attacker"), false);
        check("/auth_mode", json!("apikey"), false);
        check("/tokens/id_token", json!(token("you", "mine", 1)), false);
        check("/tokens/id_token", json!(token("me", "yours", 1)), false);
        check("/tokens/id_token", json!("opaque"), false);
        check("/tokens/account_id", json!("yours"), false);
        check("/tokens/access_token", json!(""), false);
        check("/tokens/access_token", json!(1), false);
        check("/tokens/more", json!("x"), false);
        check("/new", json!(1), false);
        check("/tokens", json!({}), false);
        super::tests::check(&before, "/tokens/refresh_token", None, false);
        super::tests::check(&before, "/OPENAI_API_KEY", None, false);
        for other in [
            json!({}),
            json!([]),
            json!(null),
            json!({"OPENAI_API_KEY": "k"}),
        ] {
            assert!(!renews(&before, &other), "{other}");
        }
        let key = json!({"OPENAI_API_KEY": "mine"});
        super::tests::check(&key, "/OPENAI_API_KEY", Some(&json!("yours")), false);
    }

    #[test]
    fn what_the_other_agent_renews() {
        let before = json!({"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1,
                            "scopes": ["x"], "subscriptionType": "max"}});
        let check = |name: &str, new: Value, want| {
            check(&before, &format!("/claudeAiOauth/{name}"), Some(&new), want);
        };
        check("accessToken", json!("b"), true);
        check("expiresAt", json!(2), true);
        check("refreshTokenExpiresAt", json!(2), true);
        check("expiresAt", json!("2"), false);
        check("subscriptionType", json!("free"), false);
        check("scopes", json!(["y"]), false);
        check("apiKey", json!("k"), false);
    }

    #[test]
    fn an_older_one_is_no_newer_one() {
        let at = |time: &str| json!({"last_refresh": time});
        assert!(is_newer(
            &at("2026-01-01T00:00:00Z"),
            &at("2026-01-01T00:00:00.5Z")
        ));
        assert!(!is_newer(
            &at("2026-01-02T00:00:00Z"),
            &at("2026-01-01T00:00:00Z")
        ));
        assert!(!is_newer(&at("2026-01-02T00:00:00Z"), &at("soon")));
        let until = |time: u64| json!({"claudeAiOauth": {"expiresAt": time}});
        assert!(is_newer(&until(1), &until(2)));
        assert!(!is_newer(&until(2), &until(2)));
        assert!(!is_newer(&json!({}), &json!({})));
    }
}
