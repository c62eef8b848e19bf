//! The published schema and the loader, asked about the same texts.

use std::path::Path;

use cofferdam_wall::Origin;
use regex::Regex;
use serde_json::Value;

use super::schema::{parse, published};
use super::yaml;

/// Whether `schema`, a part of `root`, takes the value: the words of JSON Schema that the published one uses.
fn takes(root: &Value, schema: &Value, value: &Value) -> bool {
    let inner = |schema: &Value, value: &Value| takes(root, schema, value);
    let parts = |schemas: &Value| {
        let schemas = schemas.as_array().unwrap().iter();
        schemas.filter(|schema| inner(schema, value)).count()
    };
    let length = |least: &Value| usize::try_from(least.as_u64().unwrap()).unwrap();
    let matches = |pattern: &Value, text: &str| {
        let pattern = Regex::new(pattern.as_str().unwrap()).unwrap();
        pattern.is_match(text)
    };
    let (number, text) = (value.as_f64(), value.as_str());
    let (list, object) = (value.as_array(), value.as_object());
    let (keys, mut said) = (
        schema.as_object().unwrap(),
        schema.as_object().unwrap().iter(),
    );
    said.all(|(word, wanted)| match word.as_str() {
        "$ref" => {
            let pointer = wanted.as_str().unwrap().trim_start_matches('#');
            inner(root.pointer(pointer).unwrap(), value)
        }
        "type" => {
            let is = |wanted: &Value| match wanted.as_str().unwrap() {
                "null" => value.is_null(),
                "boolean" => value.is_boolean(),
                "integer" => number.is_some_and(|number| number.fract() == 0.0),
                "number" => number.is_some(),
                "string" => text.is_some(),
                "array" => list.is_some(),
                "object" => object.is_some(),
                other => panic!("{other}"),
            };
            match wanted {
                Value::Array(any) => any.iter().any(is),
                one => is(one),
            }
        }
        "allOf" => parts(wanted) == wanted.as_array().unwrap().len(),
        "anyOf" => parts(wanted) > 0,
        "oneOf" => parts(wanted) == 1,
        "not" => !inner(wanted, value),
        "enum" => wanted.as_array().unwrap().contains(value),
        "const" => wanted == value,
        "pattern" => text.is_none_or(|text| matches(wanted, text)),
        "minLength" => text.is_none_or(|text| text.chars().count() >= length(wanted)),
        "minimum" => number.is_none_or(|number| number >= wanted.as_f64().unwrap()),
        "maximum" => number.is_none_or(|number| number <= wanted.as_f64().unwrap()),
        "minItems" => list.is_none_or(|list| list.len() >= length(wanted)),
        "maxItems" => list.is_none_or(|list| list.len() <= length(wanted)),
        "items" => list.is_none_or(|list| list.iter().all(|one| inner(wanted, one))),
        "required" => object.is_none_or(|object| {
            let mut names = wanted.as_array().unwrap().iter();
            names.all(|name| object.contains_key(name.as_str().unwrap()))
        }),
        "properties" => object.is_none_or(|object| {
            let mut all = object.iter();
            all.all(|(name, one)| wanted.get(name).is_none_or(|wanted| inner(wanted, one)))
        }),
        "additionalProperties" => object.is_none_or(|object| {
            let known = |name: &String| keys.get("properties").and_then(|all| all.get(name));
            let mut others = object.iter().filter(|(name, _)| known(name).is_none());
            match wanted {
                Value::Bool(may_be) => *may_be || others.next().is_none(),
                wanted => others.all(|(_, one)| inner(wanted, one)),
            }
        }),
        "propertyNames" => object.is_none_or(|object| {
            let mut names = object.keys();
            names.all(|name| inner(wanted, &Value::from(name.as_str())))
        }),
        "$schema" | "title" | "description" | "definitions" => true,
        other => panic!("{other} is not known here"),
    })
}

/// Who takes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Both,
    Neither,
    /// What is wrong with it is more than a schema can say.
    SchemaAlone,
}

/// An editor with the schema marks nothing that is taken, and of what is not all that a schema can say.
#[test]
fn the_schema_says_what_the_loader_does() {
    use Taken::{Both, Neither, SchemaAlone};
    let schema = published();
    let mut wrong = Vec::new();
    let mut check = |text: &str, expected: Taken| {
        let loaded = parse(text, Origin::Global);
        let value = yaml::read::<Value>(text).unwrap();
        let found = match (loaded.is_ok(), takes(&schema, &schema, &value)) {
            (true, true) => Both,
            (false, false) => Neither,
            (false, true) => SchemaAlone,
            (true, false) => return wrong.push(format!("{text:?}: the loader alone takes it")),
        };
        if found != expected {
            let why = loaded.map_err(|found| found.problem.to_string()).err();
            wrong.push(format!("{text:?}: {found:?}, {why:?}"));
        }
    };
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let example = manual.split("```yaml\n").nth(1).unwrap();
    check(example.split("```").next().unwrap(), Both);
    check(&crate::config::initial().unwrap(), Both);
    for (text, expected) in [
        ("", Both),
        ("# nothing\n", Both),
        ("{}\n", Both),
        ("[]\n", Neither),
        ("text\n", Neither),
        ("volumes: []\n", Neither),
        ("sync:\n", Neither),
        ("env:\n", Neither),
        ("firewall:\n", Neither),
        ("firewall: {allow: }\n", Neither),
        ("firewall: {deny: []}\n", Neither),
        ("gate: {}\n", Both),
        ("gate: {checks: []}\n", Both),
        ("mcp: {}\n", Both),
        ("mcp: {repositories: []}\n", Both),
        ("mcp: {repository: /src}\n", Neither),
        ("mcp:\n", Neither),
        ("setup:\n", Neither),
        ("setup: ' '\n", Neither),
        ("setup: true\n", Both),
        ("setup: [npm, ci]\n", Neither),
        ("hide: secret\n", Neither),
    ] {
        check(text, expected);
    }
    for (key, samples) in [
        (
            "firewall: {allow: [VALUE]}",
            &[
                ("{domain: a.test}", Both),
                ("{domain: \"*.a.test\", ports: [443, 8443]}", Both),
                ("{domain: a.test, ports: [\"443\"]}", Both),
                ("{cidr: 203.0.113.9}", Both),
                ("{cidr: 10.0.0.0/8, ports: [5432]}", Both),
                ("{}", Neither),
                ("{ports: [443]}", Neither),
                ("{domain: a.test, cidr: 203.0.113.9}", Neither),
                ("{domain: }", Neither),
                ("{domain: ''}", Neither),
                ("{domain: [a.test]}", Neither),
                ("{domain: a.test, port: [443]}", Neither),
                ("{domain: a.test, ports: []}", Neither),
                ("{domain: a.test, ports: 443}", Neither),
                ("{domain: a.test, ports: [0]}", Neither),
                ("{domain: a.test, ports: [65536]}", Neither),
                ("{domain: a.test, ports: [http]}", Neither),
                ("{domain: a.test, ports: [4.5]}", Neither),
                ("a.test", Neither),
                ("{domain: a..test}", SchemaAlone),
                ("{cidr: a.test}", SchemaAlone),
                ("{cidr: 10.0.0.0/8}", SchemaAlone),
            ][..],
        ),
        (
            "sync: [{src: VALUE, dest: ~/x}]",
            &[
                ("/a", Both),
                ("~/a/*.sh", Both),
                ("a", Both),
                ("755", Both),
                ("./~a", Both),
                ("''", Neither),
                ("~root/a", Neither),
                ("\"~\"", Neither),
                ("~", Neither),
                ("[a]", Neither),
            ],
        ),
        (
            "sync: [{src: /a, dest: VALUE}]",
            &[
                ("/a", Both),
                ("/", Both),
                ("~/", Both),
                ("~/a/..b/", Both),
                ("a", Neither),
                ("5", Neither),
                ("~a/b", Neither),
                ("/a/../b", Neither),
                ("~/..", Neither),
                ("/.", SchemaAlone),
            ],
        ),
        (
            "sync: [{src: /a, dest: ~/a, mode: VALUE}]",
            &[
                ("\"0644\"", Both),
                ("\"644\"", Both),
                ("0644", Both),
                ("755", Both),
                ("4755", Neither),
                ("\"64\"", Neither),
                ("rwx", Neither),
                ("true", Neither),
                ("888", Neither),
                ("788", Neither),
                ("688", SchemaAlone),
                ("7", SchemaAlone),
            ],
        ),
        (
            "sync: [{src: /a, dest: ~/a, owner: VALUE}]",
            &[
                ("agent", Both),
                ("root:root", Both),
                ("1000", Both),
                ("a b", Neither),
                ("'a:b:c'", Neither),
                ("''", Neither),
            ],
        ),
        (
            "sync: [VALUE]",
            &[
                ("{}", Neither),
                ("{src: /a}", Neither),
                ("{dest: /a}", Neither),
                ("{src: /a, dest: /a, user: x}", Neither),
                ("/a", Neither),
            ],
        ),
        (
            "env: VALUE",
            &[
                ("{A: text, B: true, C: 5, D: 1.5, E: ''}", Both),
                ("{A: $HOME, B: '${HOME}', C: $$5}", Both),
                ("{A: \"two\\nlines\"}", Both),
                ("{A: }", Neither),
                ("{A: [x]}", Neither),
                ("{1A: x}", Neither),
                ("{A-B: x}", Neither),
                ("{A: $1}", Neither),
                ("{A: $}", Neither),
                ("{A: $HOME/x}", Neither),
                ("[A]", Neither),
            ],
        ),
        (
            "on_sync: [VALUE]",
            &[
                ("{cmd: make}", Both),
                ("{cmd: true}", Both),
                ("{cmd: make, name: 5, root: true}", Both),
                ("{cmd: make, root: \"false\"}", Both),
                ("{}", Neither),
                ("{name: x}", Neither),
                ("{cmd: ''}", Neither),
                ("{cmd: make, name: ' '}", Neither),
                ("{cmd: make, root: yes}", Neither),
                ("{cmd: make, root: 1}", Neither),
                ("{cmd: make, user: root}", Neither),
                ("make", Neither),
            ],
        ),
        (
            "gate: {checks: [VALUE]}",
            &[
                ("{cmd: make, name: it}", Both),
                ("{name: it}", Neither),
                ("{cmd: make, root: true}", Neither),
            ],
        ),
        (
            "hide: [VALUE]",
            &[
                ("secret", Both),
                ("./a/b", Both),
                (".env", Both),
                ("..a", Both),
                ("5", Both),
                ("''", Neither),
                ("/etc", Neither),
                (".", Neither),
                ("./", Neither),
                ("a/../b", Neither),
                ("..", Neither),
                ("'*.env'", Neither),
                ("'a?'", Neither),
                ("{a: b}", Neither),
            ],
        ),
        ("protect: [VALUE]", &[("ci", Both), ("/ci", Neither)]),
        (
            "mcp: {repositories: [VALUE]}",
            &[
                ("/src", Both),
                ("~/src/tool", Both),
                ("src", Neither),
                ("\"~\"", Neither),
                ("~other/src", Neither),
                ("/src/..", Neither),
                ("'/src/*'", Neither),
                ("5", Neither),
                ("[/src]", Neither),
            ],
        ),
        (
            "sandbox: VALUE",
            &[("podman", Both), ("vm", Neither), ("Native", Neither)],
        ),
        (
            "image: VALUE",
            &[
                ("a.test:5000/x@sha256:0a", Both),
                ("5", Both),
                ("-x", Neither),
                ("/x", Neither),
                ("a b", Neither),
                ("''", Neither),
            ],
        ),
        (
            "ports: VALUE",
            &[
                ("[]", Both),
                ("[3000, \"8080:80\", \"127.0.0.1:1:2\"]", Both),
                ("[8080:80]", Both),
                ("3000", Neither),
                ("[0]", Neither),
                ("[65536]", Neither),
                ("[a]", Neither),
                ("[\"0.0.0.0:1:2\"]", Neither),
                ("[\"80:\"]", Neither),
                ("[\"80:1\", \"80:2\"]", SchemaAlone),
                ("[\"99999\"]", SchemaAlone),
            ],
        ),
        (
            "limits: VALUE",
            &[
                ("{}", Both),
                ("{memory: 1073741824, cpus: 2, pids: 500}", Both),
                ("{memory: 2g, cpus: 1.5, pids: \"500\"}", Both),
                ("{memory: 512MiB}", Both),
                ("{cpus: \"1\"}", Both),
                ("{cpus: 0.01}", Both),
                ("{memory: 0}", Neither),
                ("{memory: 0g}", Neither),
                ("{memory: 1.5}", Neither),
                ("{memory: 1.5g}", Neither),
                ("{memory: 2x}", Neither),
                ("{memory: g}", Neither),
                ("{memory: }", Neither),
                ("{cpus: 0}", Neither),
                ("{cpus: two}", Neither),
                ("{pids: 0}", Neither),
                ("{pids: -1}", Neither),
                ("{pids: 1.5}", Neither),
                ("{disk: 1g}", Neither),
                ("{memory: 99999999999999999999t}", SchemaAlone),
                ("{cpus: \"0\"}", SchemaAlone),
            ],
        ),
        (
            "run: VALUE",
            &[
                ("{agent: codex, model: m-1, effort: high}", Both),
                ("{strategy: merge-to-head, iterations: 3}", Both),
                ("{network: open, iterations: \"3\"}", Both),
                ("{model: 5}", Both),
                ("{agent: --x}", Neither),
                ("{agent: ' '}", Neither),
                ("{agent: \"a\\nb\"}", Neither),
                ("{model: -5}", Neither),
                ("{strategy: branch}", Neither),
                ("{iterations: 0}", Neither),
                ("{network: all}", Neither),
                ("{image: x}", Neither),
            ],
        ),
    ] {
        for (value, expected) in samples {
            check(&format!("{}\n", key.replace("VALUE", value)), *expected);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
