//! Prompt templates through their public interface; expressions run in the real `sh`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use cofferdam::process::Invocation;
use cofferdam::prompt::{
    Builtins, EXPRESSION_LIMIT, MOST_EXPRESSIONS, PROMPT_LIMIT, PromptError, Template,
    read_template,
};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

const BUILTINS: Builtins<'_> = Builtins {
    source_branch: "agent/work",
    target_branch: "main",
};

fn arguments(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// What `sh -c` prints, as a session runs it.
fn sh(command: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let finished = runtime.block_on(async {
        let invocation = Invocation::new("/bin/sh", "/").args(["-c", command]);
        invocation
            .env("PATH", "/usr/bin:/bin")
            .run(&CancellationToken::new())
            .await
            .unwrap()
    });
    assert!(
        finished.exit.success(),
        "{command}: {:?}",
        String::from_utf8_lossy(&finished.stderr)
    );
    String::from_utf8(finished.stdout).unwrap()
}

fn prompt(template: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
    let fill = || {
        let (filled, _) = Template::parse(template)?.substitute(&arguments(pairs), BUILTINS)?;
        let outputs: Vec<_> = filled
            .expressions()
            .iter()
            .map(|e| sh(&e.command))
            .collect();
        Ok(filled.render(&outputs))
    };
    fill().map_err(|error: cofferdam::prompt::PromptError| error.to_string())
}

fn check(template: &str, pairs: &[(&str, &str)], want: &str) {
    assert_eq!(prompt(template, pairs).as_deref(), Ok(want), "{template:?}");
}

fn check_error(template: &str, pairs: &[(&str, &str)], want: &str) {
    assert_eq!(
        prompt(template, pairs),
        Err(want.to_owned()),
        "{template:?}"
    );
}

#[test]
fn placeholders() {
    check("", &[], "");
    check("plain $& \u{1} text", &[], "plain $& \u{1} text");
    check("{{A}}{{ A }}{{\n\tA}}", &[("A", "x")], "xxx");
    check("{{_a1}} {{lower}}", &[("_a1", "x"), ("lower", "y")], "x y");
    check(
        "{{SOURCE_BRANCH}} to {{TARGET_BRANCH}}",
        &[],
        "agent/work to main",
    );
    check("{{A}}", &[("A", "")], "");
    // Not placeholders.
    for text in [
        "{{",
        "{{A",
        "{{A}",
        "{A}",
        "{{}}",
        "{{ }}",
        "{{a.b}}",
        "{{ a b }}",
        "{{1a}}",
        "{{ä}}",
        "{{A-B}}",
        "}}{{",
    ] {
        check(text, &[], text);
    }
    check("{{{A}}}", &[("A", "x")], "{x}");
    check("{{ {{A}} }}", &[("A", "x")], "{{ x }}");
    // One pass: what a value says is never read.
    check(
        "{{A}}{{B}}",
        &[("A", "{{B}}"), ("B", "{{A}}")],
        "{{B}}{{A}}",
    );
    check("{{A}}B}}", &[("A", "{{")], "{{B}}");
    check(
        "{{A}}",
        &[("A", "$& $1 \\1 %s \u{1}")],
        "$& $1 \\1 %s \u{1}",
    );
}

#[test]
fn expressions() {
    check("a !`echo b` c", &[], "a b c");
    check("!`printf 'x \\n\\n'`!`echo y`", &[], "xy");
    check("!`echo one\necho two`", &[], "one\ntwo");
    for text in ["!`", "!``", "! `a`", "`a`", "!`a", "!```"] {
        check(text, &[], text);
    }
    check("!`` !`echo x`", &[], "!`` x");
    // Output is never read again.
    check(
        "!`printf '{{A}} !\\140echo x\\140'`",
        &[("A", "v")],
        "v !`echo x`",
    );
    check("!`printf '%s%s' '{' '{A}}'`{{A}}", &[("A", "v")], "{{A}}v");
    check("!`echo {{SOURCE_BRANCH}}`", &[], "agent/work");
    let none = Template::parse("a {{B}}").unwrap();
    let (filled, _) = none
        .substitute(&arguments(&[("B", "x")]), BUILTINS)
        .unwrap();
    assert!(filled.expressions().is_empty());
}

#[test]
fn a_value_never_becomes_an_expression() {
    let hostile = "!`echo pwned`";
    check("{{A}}", &[("A", hostile)], hostile);
    // Pieces on both sides, from values and from the template.
    check("{{A}}`echo x`", &[("A", "!")], "!`echo x`");
    check("!{{A}}", &[("A", "`echo x`")], "!`echo x`");
    check("{{A}}{{B}}", &[("A", "!`echo "), ("B", "x`")], "!`echo x`");
    check("!`echo y`{{A}}", &[("A", hostile)], &format!("y{hostile}"));
    check("!`printf %s {{A}}`", &[("A", hostile)], hostile);
}

const HOSTILE: &[&str] = &[
    "$(echo pwned)",
    "`echo pwned`",
    "'; echo pwned; '",
    "\"; echo pwned; \"",
    "'$(echo pwned)'",
    "\"$(echo pwned)\"",
    "a\necho pwned\n",
    "\\",
    "\\'",
    "'\\''",
    "${IFS}a * ? ~ [a]",
    "# ) } fi ;; & | < >",
    "a  b\t c",
    "-n",
    "",
];

#[test]
fn a_value_is_one_word_wherever_it_stands() {
    for value in HOSTILE {
        let with = |template: &str, want: &str| check(template, &[("A", value)], want);
        let shown = format!("[{value}]");
        with("!`printf '[%s]' {{A}}`", &shown);
        with("!`printf '[%s]' \"{{A}}\"`", &shown);
        with("!`printf '[%s]' '{{A}}'`", &shown);
        with("!`printf '%s' '['{{A}}']'`", &shown);
        with("!`printf '%s' \"[\"{{A}}\"]\"`", &shown);
        with("!`printf '[%s]' \"\\\"{{A}}\"`", &format!("[\"{value}]"));
        with("!`printf '[%s]' \\{{A}}`", &format!("[\\{value}]"));
        with(
            "!`x=$(printf '%s.' {{A}}); printf '[%s]' \"${x%.}\"`",
            &shown,
        );
        with(
            "!`x=\"$(printf '%s.' \"{{A}}\")\"; printf '[%s]' \"${x%.}\"`",
            &shown,
        );
        with("!`printf '[%s]' {{A}} # it's '`", &shown);
        with("!`# it's \"\nprintf '[%s]' '{{A}}'`", &shown);
        with("!`printf '%s' a#'['{{A}}']'`", &format!("a#{shown}"));
        with("!`(printf '[%s]' '{{A}}')`", &shown);
        // Where the scanner does not know the shell: quotes may show, but it is data.
        let here = prompt("!`cat <<E\n{{A}}\nE`", &[("A", value)]).unwrap();
        assert!(here.contains(value.trim_end()), "{here:?}");
        assert!(
            !here.lines().any(|l| l == "pwned") || value.contains('\n'),
            "{here:?}"
        );
    }
}

#[test]
fn variables_of_an_expression_are_not_exported() {
    check(
        "!`: {{A}}; env | grep -c COFFERDAM || true`",
        &[("A", "x")],
        "0",
    );
}

#[test]
fn errors_say_where() {
    check_error("ä {{A}}", &[], "line 1, column 3: `{{A}}` has no argument");
    check_error(
        "x\n{{OK}} !`echo {{B}}` {{A}} {{B}}",
        &[("OK", "")],
        "line 2, column 15: `{{B}}` has no argument (nor have: A)",
    );
    for key in ["SOURCE_BRANCH", "TARGET_BRANCH"] {
        check_error(
            "x",
            &[(key, "x")],
            &format!("prompt argument `{key}` is built in and cannot be given"),
        );
    }
    check_error(
        "\n!`a\0b`",
        &[],
        "line 2, column 1: the shell expression contains a NUL",
    );
    check_error(
        "!`echo {{A}}`",
        &[("A", "\0")],
        "line 1, column 8: prompt argument `A` contains a NUL, which no shell expression can take",
    );
    check("{{A}}", &[("A", "\0")], "\0");
    for expression in [
        "$(({{A}}+1))",
        "$(( 1 + $(echo {{A}}) ))",
        "((x={{A}}))",
        "${x:{{A}}}",
        "\"${x:-{{A}}}\"",
    ] {
        let error = prompt(&format!("!`echo {expression}`"), &[("A", "1")]).unwrap_err();
        assert!(
            error.ends_with("where the shell could evaluate it"),
            "{expression}: {error}"
        );
    }
    check(
        "!`echo $((1+2)) ${HOME:-none} {{A}}`",
        &[("A", "x")],
        "3 none x",
    );
}

#[test]
fn long_expressions_are_refused_before_the_kernel_does() {
    let fits = EXPRESSION_LIMIT - "COFFERDAM_ARG_A=''\n: \"${COFFERDAM_ARG_A}\"".len();
    check("!`: {{A}}`", &[("A", &"x".repeat(fits))], "");
    let error = prompt("!`: {{A}}`", &[("A", &"x".repeat(fits + 1))]).unwrap_err();
    assert_eq!(
        error,
        "line 1, column 1: the shell expression is 131072 bytes long with its arguments; the limit is 131071"
    );
}

#[test]
fn keys_and_unused_arguments() {
    let template = Template::parse("{{B}} !`echo {{A}} {{B}}` {{SOURCE_BRANCH}} {{A}}").unwrap();
    assert_eq!(template.keys(), ["B", "A"]);
    let given = arguments(&[("A", "1"), ("B", "2"), ("C", "3"), ("D", "4")]);
    let (_, unused) = template.substitute(&given, BUILTINS).unwrap();
    assert_eq!(unused, ["C", "D"]);
}

#[test]
fn template_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prompt.md");
    let shown = path.display().to_string();
    let error = |path: &std::path::Path| read_template(path).unwrap_err().to_string();
    assert_eq!(
        error(&path),
        format!("cannot open {shown}: No such file or directory (os error 2)")
    );
    let write = |bytes: &[u8]| cofferdam::fsx::write_private(&path, bytes).unwrap();
    write("\u{feff}Größe\r\n".as_bytes());
    assert_eq!(read_template(&path).unwrap(), "Größe\r\n");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(read_template(&link).unwrap(), "Größe\r\n");
    write(b"ab\xff");
    assert_eq!(
        error(&link),
        format!(
            "cannot read {}: it is not UTF-8 (at byte 2)",
            link.display()
        )
    );
    write(&vec![b'x'; (10 << 20) + 1]);
    assert_eq!(
        error(&path),
        format!("cannot read {shown}: it is larger than 10485760 bytes")
    );
    let here = dir.path().display().to_string();
    assert_eq!(
        error(dir.path()),
        format!("cannot read {here}: it is not a regular file")
    );
}

proptest! {
    #[test]
    fn parsing_never_fails_and_loses_nothing(text in "[{}A !`'\"\\\\$(#\n]{0,40}") {
        let template = Template::parse(&text).unwrap();
        // Placeholders in arithmetic, and names such as `AA`, are refused.
        let filled = template.substitute(&arguments(&[("A", "v")]), BUILTINS);
        let Ok((filled, _)) = filled else { return Ok(()) };
        if filled.expressions().is_empty() && template.keys().is_empty() {
            prop_assert_eq!(filled.render(&[]), text);
        }
    }

    #[test]
    fn any_value_comes_out_of_the_shell_as_it_went_in(value in "[^\0]{0,30}") {
        let want = format!("[{value}][{value}][{value}].");
        let template = "!`printf '[%s][%s][%s].' {{A}} \"{{A}}\" '{{A}}'`";
        prop_assert_eq!(prompt(template, &[("A", &value)]), Ok(want));
    }
}

/// 4 GB, if they were made: they are summed first.
#[test]
fn what_becomes_enormous_is_refused_before_it_is_made() {
    let value = "x".repeat(128 << 10);
    let many = Template::parse(&"{{A}}".repeat(32_000)).unwrap();
    let refused = many.substitute(&arguments(&[("A", &value)]), BUILTINS);
    let Err(PromptError::TooLong { bytes }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(bytes, 32_000 * value.len());
    // So many fit, and nothing more below them.
    let fits = Template::parse(&"{{A}}".repeat(PROMPT_LIMIT / value.len())).unwrap();
    let (mut filled, _) = fits
        .substitute(&arguments(&[("A", &value)]), BUILTINS)
        .unwrap();
    assert_eq!(filled.bytes(), PROMPT_LIMIT);
    assert!(filled.attach("x").is_err());
}

#[test]
fn expressions_are_counted() {
    let most = "!`x`".repeat(MOST_EXPRESSIONS);
    assert!(Template::parse(&most).is_ok());
    let more = Template::parse(&format!("{most}\n!`x`")).unwrap_err();
    assert_eq!(
        more.to_string(),
        "line 2, column 1: more than 1000 shell expressions"
    );
}
