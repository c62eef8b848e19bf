//! How records have a landing: a form of its own, apart from what events say.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::git::Oid;
use crate::git::land::Landing;
use crate::path_json;

/// A landing as records have it.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Stored {
    Nothing,
    Landed {
        branch: String,
        tip: Oid,
    },
    Kept {
        reference: String,
        why: String,
    },
    Refused {
        #[serde(with = "path_json::optional_exact")]
        pack: Option<PathBuf>,
        why: String,
    },
}

/// As version 1 had it.
#[derive(Deserialize)]
#[serde(tag = "landing", rename_all = "snake_case")]
enum First {
    Nothing,
    Landed { branch: String, tip: Oid },
    Kept { reference: String, why: String },
    Refused { pack: Option<PathBuf>, why: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Any {
    Stored(Stored),
    First(First),
}

pub(super) fn serialize<S: Serializer>(landing: &Landing, out: S) -> Result<S::Ok, S::Error> {
    let stored = match landing.clone() {
        Landing::Nothing => Stored::Nothing,
        Landing::Landed { branch, tip } => Stored::Landed { branch, tip },
        Landing::Kept { reference, why } => Stored::Kept { reference, why },
        Landing::Refused { pack, why } => Stored::Refused { pack, why },
    };
    stored.serialize(out)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Landing, D::Error> {
    Ok(match Any::deserialize(input)? {
        Any::Stored(Stored::Nothing) | Any::First(First::Nothing) => Landing::Nothing,
        Any::Stored(Stored::Landed { branch, tip }) | Any::First(First::Landed { branch, tip }) => {
            Landing::Landed { branch, tip }
        }
        Any::Stored(Stored::Kept { reference, why })
        | Any::First(First::Kept { reference, why }) => Landing::Kept { reference, why },
        Any::Stored(Stored::Refused { pack, why }) | Any::First(First::Refused { pack, why }) => {
            Landing::Refused { pack, why }
        }
    })
}
