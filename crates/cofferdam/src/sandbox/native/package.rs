//! Node packages on the host: which one a program belongs to, and which others it depends on. Only reads.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fsx;

const MODULES: &str = "node_modules";
const MANIFEST: &str = "package.json";
/// The largest manifest: 1 MiB.
const MANIFEST_LIMIT: u64 = 1 << 20;
/// How far above a program its package may begin, where it is in no `node_modules`.
const ABOVE: usize = 6;
/// So many packages are looked at; a program that needs more is shown the directory of them all.
const MOST: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Manifest {
    bin: Value,
    dependencies: Map<String, Value>,
    optional_dependencies: Map<String, Value>,
    peer_dependencies: Map<String, Value>,
}

/// A package that another one depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// Where it is looked for.
    pub(super) at: PathBuf,
    /// Where it is.
    pub(super) real: PathBuf,
}

fn manifest(package: &Path) -> Option<Manifest> {
    let bytes = fsx::read_bounded(&package.join(MANIFEST), MANIFEST_LIMIT).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The package of a program, given without symlinks: the one below the last `node_modules` on its path, or
/// the nearest one above it that names it as a program of its own.
pub(super) fn of(program: &Path) -> Option<PathBuf> {
    if let Some(modules) = program.ancestors().find(|above| above.ends_with(MODULES)) {
        let mut rest = program.strip_prefix(modules).ok()?.components();
        let first = rest.next()?;
        let mut package = modules.join(first);
        if first.as_os_str().as_encoded_bytes().starts_with(b"@") {
            package.push(rest.next()?);
        }
        return (package != program && package.join(MANIFEST).is_file()).then_some(package);
    }
    let package = program
        .ancestors()
        .skip(1)
        .take(ABOVE)
        .find(|above| above.join(MANIFEST).is_file())?;
    let named = match manifest(package)?.bin {
        Value::String(one) => vec![one],
        Value::Object(all) => all
            .into_iter()
            .filter_map(|(_, path)| Some(path.as_str()?.to_owned()))
            .collect(),
        _ => Vec::new(),
    };
    let is_it = |path: &String| {
        let path = package.join(path).canonicalize();
        path.is_ok_and(|path| path == program)
    };
    named.iter().any(is_it).then(|| package.to_owned())
}

/// Everything that `package` depends on and that is not in it. What is not `allowed` is neither listed nor asked
/// for its own: who can write there chooses where it leads. `None`: too many.
pub(super) fn dependencies(
    package: &Path,
    allowed: impl Fn(&Dependency) -> bool,
) -> Option<Vec<Dependency>> {
    let mut found = Vec::new();
    let mut looked_at = BTreeSet::from([package.to_owned()]);
    let mut next = vec![package.to_owned()];
    // With npm's prefix each package has all that it needs in itself, or right beside it.
    let global = package
        .ancestors()
        .any(|above| above.ends_with("lib/node_modules"));
    while let Some(one) = next.pop() {
        let Some(manifest) = manifest(&one) else {
            continue;
        };
        let names = manifest.dependencies.keys();
        let names = names.chain(manifest.optional_dependencies.keys());
        let names = names.chain(manifest.peer_dependencies.keys());
        for name in names.filter(|name| is_name(name)) {
            let Some(dependency) = resolve(&one, name) else {
                continue;
            };
            let inside = dependency.real.starts_with(package);
            let new = looked_at.insert(dependency.real.clone());
            // A link may lead anywhere; what was installed is below such a directory.
            if !inside && directory(&dependency.real).is_none() {
                continue;
            }
            if !new || (inside && global) || !allowed(&dependency) {
                continue;
            }
            if looked_at.len() > MOST {
                return None;
            }
            next.push(dependency.real.clone());
            if !inside || dependency.at != dependency.real {
                found.push(dependency);
            }
        }
    }
    Some(found)
}

/// As node does: in the `node_modules` of each directory above.
fn resolve(from: &Path, name: &str) -> Option<Dependency> {
    let mut above = from.ancestors().filter(|above| !above.ends_with(MODULES));
    above.find_map(|above| {
        let at = above.join(MODULES).join(name);
        let real = at.canonicalize().ok()?;
        real.join(MANIFEST)
            .is_file()
            .then_some(Dependency { at, real })
    })
}

/// `name` or `@scope/name`: nothing that leads elsewhere.
fn is_name(name: &str) -> bool {
    let parts: Vec<_> = Path::new(name).components().collect();
    let plain = parts
        .iter()
        .all(|part| matches!(part, Component::Normal(_)));
    plain && (parts.len() == 1 || (parts.len() == 2 && name.starts_with('@')))
}

/// The directory of all packages that `package` lies in.
pub(super) fn directory(package: &Path) -> Option<&Path> {
    let mut above = package.ancestors().skip(1);
    above.find(|above| above.ends_with(MODULES))
}

/// What makes a directory one that somebody works in, and that nobody installed.
pub(super) fn mark_of_a_checkout(directory: &Path) -> Option<&'static str> {
    let there = |mark: &&str| directory.join(mark).symlink_metadata().is_ok();
    [".git", ".cofferdam"].into_iter().find(there)
}
