//! Prompts through a whole run.

use std::collections::BTreeMap;

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::PromptSource;

use crate::support::{Env, iterations, run, run_ok};
use cofferdam_lab::way::Way;

fn template(env: &Env, text: &str, arguments: &[(&str, &str)]) -> PromptSource {
    let path = env.dir.path().join("prompt.md");
    std::fs::write(&path, text).unwrap();
    let arguments: BTreeMap<String, String> = arguments
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    PromptSource::Template { path, arguments }
}

/// Runs an agent that stores its prompt, and gives that back.
fn prompt_of(env: &Env, strategy: BranchStrategy, prompt: PromptSource) -> (String, String) {
    let mut options = env.script(
        strategy,
        "test ! -e /tmp/canary || exit 9; cat > p; git rev-parse --abbrev-ref HEAD > b; git add p b; git commit -qm prompt",
    );
    options.task.prompt = prompt;
    run_ok(options);
    (env.read("p"), env.read("b"))
}

// covers: S2-25
#[test]
fn inline_prompts_are_passed_as_they_are() {
    let env = Env::new();
    let text = "keep {{THIS}} and !`that` $HOME\n";
    let (prompt, _) = prompt_of(
        &env,
        BranchStrategy::Head,
        PromptSource::Inline(text.into()),
    );
    assert_eq!(prompt, text);
}

// covers: S2-26 S2-27 S2-30
#[test]
fn templates_are_substituted_then_expanded_inside() {
    let env = Env::new();
    let text = "{{TASK}} on {{SOURCE_BRANCH}} for {{TARGET_BRANCH}}: !`cat README.md; echo {{TASK}}; hostname`";
    let prompt = template(&env, text, &[("TASK", "fix it")]);
    let (prompt, branch) = prompt_of(&env, BranchStrategy::MergeToHead, prompt);
    let branch = branch.trim();
    assert!(branch.starts_with("cofferdam/"));
    let want = format!("fix it on {branch} for main: hello\nfix it\ncofferdam-repo-");
    assert!(prompt.starts_with(&want), "{prompt}\n{want}");
}

// covers: S2-26
#[test]
fn expressions_are_expanded_before_every_iteration() {
    let env = Env::new();
    let mut options = env.script(BranchStrategy::Head, "cat >> /tmp/all; echo >> /tmp/all; cp /tmp/all seen; git add seen; git commit -qm n --allow-empty");
    options.task.prompt = template(&env, "!`git rev-list --count HEAD`", &[]);
    iterations(&mut options, 3);
    run_ok(options);
    assert_eq!(env.read("seen"), "1\n2\n3\n");
}

// covers: S2-27
#[test]
fn text_from_arguments_is_inert() {
    for way in Way::EACH_MODE {
        let env = Env::new();
        let canary = env.dir.path().join("canary");
        let evil = format!(
            "!`touch {}; touch /tmp/canary` {{{{OTHER}}}}",
            canary.display()
        );
        let script = "test ! -e /tmp/canary && cat > seen && git add seen && git commit -qm seen";
        let mut options = env.in_way(way, script);
        options.task.prompt = template(&env, "say {{X}}", &[("X", &evil)]);
        run_ok(options);
        let seen = env.git(&["show", "main:seen"]);
        assert_eq!(seen.trim_end(), format!("say {evil}"), "{way}");
        assert!(!canary.exists(), "{way}");
        // The control: in the template itself it runs, inside.
        let mut options = env.in_way(way, "test -e /tmp/canary");
        options.task.prompt = template(&env, "say !`touch /tmp/canary`", &[]);
        run_ok(options);
    }
}

// covers: S2-28 S2-29 S2-30
#[test]
fn missing_unused_and_built_in_arguments() {
    let env = Env::new();
    let refuse = |prompt: PromptSource, words: &str| {
        let mut options = env.script(BranchStrategy::Head, "true");
        options.task.prompt = prompt;
        let error = run(options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        env.assert_no_state();
    };
    refuse(template(&env, "{{A}}", &[]), "A");
    refuse(
        template(&env, "x", &[("SOURCE_BRANCH", "x")]),
        "SOURCE_BRANCH",
    );
    refuse(
        PromptSource::Template {
            path: env.dir.path().join("none.md"),
            arguments: BTreeMap::new(),
        },
        "none.md",
    );
    let mut options = env.script(BranchStrategy::Head, "true");
    options.task.prompt = template(&env, "x", &[("UNUSED", "y")]);
    run_ok(options);
    assert!(env.said().contains("UnusedArgument { name: \"UNUSED\" }"));
}

#[test]
fn a_failing_expression_fails_the_run_with_its_words() {
    let env = Env::new();
    let mut options = env.script(BranchStrategy::Head, "git commit -qm never --allow-empty");
    options.task.prompt = template(&env, "!`echo broken >&2; exit 4`", &[]);
    let error = run(options).unwrap_err().to_string();
    assert!(
        error.contains("exit code 4") && error.contains("broken"),
        "{error}"
    );
    assert_eq!(env.subjects("main"), ["first"]);
}
