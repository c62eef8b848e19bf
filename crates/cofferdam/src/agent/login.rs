//! A login that an agent's program keeps in a file: what the file looks like is the agent's to say, how two
//! of them are compared is the same for all.

use serde_json::Value;

/// The file, and what the agent's program changes in it when it renews the login. It is JSON, and nothing but a
/// login.
#[derive(Debug, Clone, Copy)]
pub struct LoginFormat {
    /// Relative to the home of the program.
    pub path: &'static str,
    /// Fields of which such a file has at least one with something in it: what has none of them is another program's.
    pub marks: &'static [&'static str],
    /// All that belongs to the login, by its top-level names: a program may keep other secrets and settings in the same file, and those do
    /// not travel. Empty: everything does.
    pub fields: &'static [&'static str],
    /// What a renewal changes, as `object.field`. Everything else stays as it was, or it is another login.
    pub renewed: &'static [&'static str],
    /// Those of them that may be there only afterwards. None may be a key or a token.
    pub later: &'static [&'static str],
    /// JSON pointers (RFC 6901): when it was renewed, or until when it counts, as a number or as RFC 3339. Later is
    /// newer.
    pub times: &'static [&'static str],
    /// JSON pointers into what a token says of itself (RFC 7519): whom it is for.
    pub account: &'static [&'static str],
    /// Where it is kept on the host, for agents that have a volume.
    pub volume: Option<LoginVolume>,
}

/// The volume of an agent's login, which is there under its own file name.
#[derive(Debug, Clone, Copy)]
pub struct LoginVolume {
    /// The name of the volume, the same for all repositories.
    pub name: &'static str,
    /// What else of the volume a sandbox gets where it has none, beside its login.
    pub beside: &'static [&'static str],
}

impl LoginFormat {
    /// What is in the file; a fragment says why it is no login.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Value, &'static str> {
        let value: Value = serde_json::from_slice(bytes).map_err(|_| "it is not JSON")?;
        match value.as_object() {
            Some(object) if !object.is_empty() => Ok(value),
            _ => Err("it is not an object with something in it"),
        }
    }

    /// Whether it is this program's login: what it keeps there has a name of its own. Without such names everything is.
    pub fn is_of(&self, value: &Value) -> bool {
        let filled = |name: &&str| value.get(name).is_some_and(|found| !found.is_null());
        self.marks.is_empty() || self.marks.iter().any(filled)
    }

    /// Nothing but the login, of what is in the file; the bytes are those that were given where there is nothing else.
    pub(crate) fn only(&self, bytes: Vec<u8>, value: Value) -> (Vec<u8>, Value) {
        let Value::Object(all) = value else {
            return (bytes, value);
        };
        let is_ours =
            |name: &String| self.fields.is_empty() || self.fields.contains(&name.as_str());
        if all.keys().all(is_ours) {
            return (bytes, Value::Object(all));
        }
        let ours = all.into_iter().filter(|(name, _)| is_ours(name));
        let ours = Value::Object(ours.collect());
        (ours.to_string().into_bytes(), ours)
    }

    /// What a program keeps in the file beside the login, with this login.
    pub(crate) fn beside(&self, inside: &Value, login: &Value) -> Value {
        let mut all = login.clone();
        if let (Value::Object(inside), Value::Object(all)) = (inside, &mut all) {
            for (name, value) in inside {
                if !self.fields.is_empty() && !self.fields.contains(&name.as_str()) {
                    all.insert(name.clone(), value.clone());
                }
            }
        }
        all
    }

    /// Whether `after` is the same login, renewed: nothing is new, gone or of another kind, nothing but what a
    /// renewal changes is different, and a token that names whom it is for still names the same.
    pub(crate) fn renews(&self, before: &Value, after: &Value) -> bool {
        matches!(after, Value::Object(_)) && self.covers("", before, after)
    }

    fn covers(&self, path: &str, before: &Value, after: &Value) -> bool {
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
                        let known =
                            before.contains_key(name) || self.later.contains(&place.as_str());
                        known && self.covers(&place, old, new)
                    })
            }
            (Value::String(old), Value::String(new)) => {
                self.renewed.contains(&path)
                    && !new.is_empty()
                    && self.account(old) == self.account(new)
            }
            (Value::Number(_), Value::Number(_)) => self.renewed.contains(&path),
            (Value::Null, Value::String(_) | Value::Number(_)) => self.later.contains(&path),
            _ => false,
        }
    }

    pub(crate) fn is_newer(&self, before: &Value, after: &Value) -> bool {
        self.times.iter().any(
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

    /// Whom a token is for, where it is one that says so; nobody checks its signature here.
    fn account(&self, token: &str) -> Option<Vec<Option<Value>>> {
        let mut parts = token.split('.');
        let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        let payload: Value = serde_json::from_slice(&crate::text::base64(payload)?).ok()?;
        let named = |place: &&str| payload.pointer(place).cloned();
        Some(self.account.iter().map(named).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A token as the services make them; nothing in it is signed.
    pub(in crate::agent) fn token(payload: &Value) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
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

    /// Whether a login with `new` at `place` (a pointer; `None`: without it) is taken for a renewal.
    #[track_caller]
    pub(in crate::agent) fn check(
        format: &LoginFormat,
        before: &Value,
        place: &str,
        new: Option<&Value>,
        want: bool,
    ) {
        let mut after = before.clone();
        let (above, name) = place.rsplit_once('/').unwrap();
        let above = after.pointer_mut(above).unwrap().as_object_mut().unwrap();
        match new {
            Some(new) => above.insert(name.to_owned(), new.clone()),
            None => above.remove(name),
        };
        assert_eq!(format.renews(before, &after), want, "{place} {new:?}");
    }

    /// Of an agent that nobody has written yet.
    const FORMAT: LoginFormat = LoginFormat {
        path: ".own/login.json",
        marks: &[],
        fields: &["token", "plan", "until", "at"],
        renewed: &["token", "until", "at"],
        later: &["until"],
        times: &["/until", "/at"],
        account: &["/who"],
        volume: None,
    };

    #[test]
    fn an_agent_of_ones_own_says_what_a_renewal_changes() {
        let mine = |n: u32| json!(token(&json!({"who": "me", "n": n})));
        let before = json!({"token": mine(1), "plan": "x"});
        let check = |place: &str, new: Value, want| {
            check(&FORMAT, &before, place, Some(&new), want);
        };
        check("/token", mine(2), true);
        check("/until", json!(5), true);
        check("/token", json!(token(&json!({"who": "you"}))), false);
        check("/token", json!("opaque"), false);
        check("/plan", json!("y"), false);
        check("/at", json!("2026-01-01T00:00:00Z"), false);
        for other in [json!({}), json!([]), json!(null), json!("x")] {
            assert!(!FORMAT.renews(&before, &other), "{other}");
        }
    }

    #[test]
    fn what_else_is_in_the_file_does_not_travel() {
        let only = |text: &str| {
            let value = serde_json::from_str(text).unwrap();
            let (bytes, value) = FORMAT.only(text.as_bytes().to_vec(), value);
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(only(r#"{ "token": "a" }"#), r#"{ "token": "a" }"#);
        let more = r#"{"hooks":{"x":"y"},"token":"a","others":[1]}"#;
        assert_eq!(only(more), r#"{"token":"a"}"#);
        let inside = json!({"token": "a", "others": [1]});
        let given = FORMAT.beside(&inside, &json!({"token": "b"}));
        assert_eq!(given, json!({"token": "b", "others": [1]}));
    }

    #[test]
    fn an_older_one_is_no_newer_one() {
        let at = |time: &str| json!({"at": time});
        let newer = |before: &Value, after: &Value| FORMAT.is_newer(before, after);
        assert!(newer(
            &at("2026-01-01T00:00:00Z"),
            &at("2026-01-01T00:00:00.5Z")
        ));
        assert!(!newer(
            &at("2026-01-02T00:00:00Z"),
            &at("2026-01-01T00:00:00Z")
        ));
        assert!(!newer(&at("2026-01-02T00:00:00Z"), &at("soon")));
        let until = |time: u64| json!({"until": time});
        assert!(newer(&until(1), &until(2)));
        assert!(!newer(&until(2), &until(2)));
        assert!(!newer(&json!({}), &json!({})));
    }

    #[test]
    fn what_is_no_login() {
        assert!(LoginFormat::parse(br#"{"a": 1}"#).is_ok());
        for text in ["", "no", "{}", "[1]", "null"] {
            assert!(LoginFormat::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
