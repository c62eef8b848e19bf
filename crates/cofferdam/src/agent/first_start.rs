//! What a program's terminal interface asks somebody who never used it, answered before it is started.

use serde_json::{Map, Value};

/// A file below the home of a sandbox's agent user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeFile {
    /// Relative to the home, without `..`.
    pub path: &'static str,
    /// What is in the file.
    pub content: HomeContent,
}

/// What is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeContent {
    /// Members of a JSON object: they are put into the one that is there, objects into objects and lists behind lists.
    Members(Map<String, Value>),
    /// The whole file, with a key in it: it is put where there is none, for as long as the program runs.
    Secret(Vec<u8>),
}

/// What a file is to be that is `there`; `None`: as it is, or it is none of the program's.
pub(crate) fn merged(there: Option<&[u8]>, members: &Map<String, Value>) -> Option<Vec<u8>> {
    let mut value = match there {
        Some(bytes) => serde_json::from_slice(bytes).ok()?,
        None => Value::Object(Map::new()),
    };
    let Value::Object(object) = &mut value else {
        return None;
    };
    let before = object.clone();
    put(object, members);
    if there.is_some() && *object == before {
        return None;
    }
    serde_json::to_vec_pretty(&value).ok()
}

fn put(into: &mut Map<String, Value>, members: &Map<String, Value>) {
    for (name, new) in members {
        match (into.get_mut(name), new) {
            (Some(Value::Object(there)), Value::Object(new)) => put(there, new),
            (Some(Value::Array(there)), Value::Array(new)) => {
                let more = new.iter().filter(|one| !there.contains(one));
                let more: Vec<Value> = more.cloned().collect();
                there.extend(more);
            }
            _ => {
                into.insert(name.clone(), new.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_put_into_what_is_there() {
        let members = json!({"done": true, "keys": {"good": ["b"], "bad": []}});
        let members = members.as_object().unwrap();
        let check = |there: Option<&str>, want: Option<Value>| {
            let got = merged(there.map(str::as_bytes), members);
            let got: Option<Value> = got.map(|bytes| serde_json::from_slice(&bytes).unwrap());
            assert_eq!(got, want, "{there:?}");
        };
        check(None, Some(Value::Object(members.clone())));
        check(
            Some(r#"{"own": 1, "done": false, "keys": {"good": ["a"]}}"#),
            Some(json!({"own": 1, "done": true, "keys": {"good": ["a", "b"], "bad": []}})),
        );
        check(
            Some(r#"{"done": true, "keys": {"good": ["b"], "bad": ["c"]}}"#),
            None,
        );
        check(Some("[]"), None);
        check(Some("not JSON"), None);
    }
}
