//! Words and variables against what is said of them, without any git.

use std::collections::BTreeMap;

use super::*;

/// Aliases of a made-up configuration.
const ALIASES: &[(&str, &str)] = &[
    ("ci", "commit"),
    ("cin", "commit --no-verify"),
    ("cin2", "cin -q"),
    ("quoted", "commit '--no-verify' -m \"a b\""),
    ("off", "-c core.hooksPath=/dev/null commit"),
    ("pf", "push --force"),
    ("round", "around"),
    ("around", "round"),
    ("broken", "commit 'x"),
    ("sh", "!git commit --no-verify"),
    ("shci", "!git commit"),
    ("all", "!git add -A && HUSKY=0 git commit -m x; true"),
    ("function", "!f() { git commit -n -m \"$1\"; }; f"),
    ("given", "!f() { git commit \"$@\"; }; f"),
    ("other", "!echo git commit --no-verify"),
    ("deep", "!git cin"),
    ("boom", "!git boom; git boom"),
];

/// Words after git's name, with variables before them as a shell takes them; `'…'` is one word.
fn judged(text: &str) -> Option<String> {
    let mut environment = Environment::default();
    let words = split(text.as_bytes()).unwrap();
    let assigned = words.iter().map_while(|word| assignment(word));
    for (name, value) in assigned.clone() {
        environment.set(name, value);
    }
    let words = &words[assigned.count()..];
    let aliases: BTreeMap<_, _> = ALIASES.iter().copied().collect();
    let refusal = judge(words, &environment, &mut |_, name| {
        let name = str::from_utf8(name).ok()?;
        Some(aliases.get(name)?.as_bytes().to_vec())
    });
    refusal.map(|refusal| format!("{} {}", refusal.command, refusal.what))
}

fn refuses(expected: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(judged(text).as_deref(), Some(expected), "{text}");
    }
}

fn passes(texts: &[&str]) {
    for text in texts {
        assert_eq!(judged(text), None, "{text}");
    }
}

// covers: S3-67 S3-68 S3-74 S3-97
#[test]
fn skipping_hooks_is_refused_however_it_is_written() {
    refuses(
        "commit --no-verify",
        &[
            "commit --no-verify -m x",
            "commit -m x --no-verify",
            "commit -n",
            "commit -m x -n",
            "commit -nm x",
            "commit -an",
            "commit -anm msg",
            "commit -qan",
            "commit file -n",
            "commit --no-verif",
            "commit --no-veri",
            "commit --verify --no-verify",
            "commit --no-no-verify -n",
            "commit -u -n",
            "commit -uno -n",
            "commit -S -n",
            "commit --gpg-sign -n",
            "commit --untracked-files -n",
            "commit --no-message -n",
            "commit --no-edit --amend -n",
            "commit --something-new -n",
            "commit --fixup HEAD -n",
            "commit --no-edit --no-gpg-sign -n -minit",
            "GIT_AUTHOR_NAME=pre-commit commit --no-edit --no-gpg-sign -n -mother",
            "-C . commit -n",
            "-C commit commit -n",
            "-c user.name=x commit -n",
            "--git-dir=.git --work-tree . commit -n",
            "--no-pager -p --literal-pathspecs commit -n",
        ],
    );
    refuses(
        "merge --no-verify",
        &[
            "merge --no-verify side",
            "merge side -m x --no-verify",
            "merge -n --no-verify side",
        ],
    );
    refuses(
        "pull --no-verify",
        &[
            "pull --no-verify",
            "pull -r --no-verify",
            "pull origin main --no-verify",
        ],
    );
    refuses(
        "rebase --no-verify",
        &["rebase --no-verify side", "rebase -n --no-verif side"],
    );
    refuses(
        "am --no-verify",
        &[
            "am -n x",
            "am --no-verify x",
            "am --no-v x",
            "am -3n x",
            "am -qn3 x",
        ],
    );
    refuses(
        "push --no-verify",
        &[
            "push --no-verify",
            "push origin main --no-verif",
            "push -n --no-verify",
        ],
    );
}

// covers: S3-73 S3-97
#[test]
fn what_only_looks_like_it_passes() {
    passes(&[
        "",
        "--version",
        "--no-verify",
        "status",
        "commit",
        "commit -m -n",
        "commit -m -nx",
        "commit -mn",
        "commit -mx",
        "commit -amn",
        "commit -am -n",
        "commit -F -n",
        "commit -C -n",
        "commit -c -n",
        "commit -t -n",
        "commit --message=--no-verify",
        "commit --message --no-verify",
        "commit --mess --no-verify",
        "commit --author -n",
        "commit --date -n",
        "commit --fixup -n",
        "commit --trailer -n",
        "commit --cleanup --no-verify",
        "commit -- -n",
        "commit -- --no-verify",
        "commit --end-of-options -n",
        "commit -un",
        "commit -Sn",
        "commit -Ssomebody@n",
        "commit --no-verify --verify",
        "commit -n --verify",
        "commit -n --veri",
        "commit --no-verify --no-no-verify",
        // Git takes these for more than one.
        "commit --no-ver",
        "commit --no-v",
        "commit --no-",
        "commit --no",
        "commit --n",
        "merge --no-verif side",
        "pull --no-verif",
        "commit -h",
        "commit --help -n",
        "help commit --no-verify",
        "push -n",
        "push --dry-run",
        "push origin main",
        "push origin --delete side",
        "push origin :side",
        "push -d origin side",
        "push -u origin main",
        "push --tags",
        "log -n 5",
        "log -n5 -- --no-verify",
        "log --grep --force",
        "merge -n side",
        "merge -m --no-verify side",
        "merge -F --no-verify side",
        "merge -X --no-verify side",
        "merge -s --no-verify side",
        "pull -n",
        "pull -f",
        "pull --force",
        "fetch -f",
        "fetch origin +main:main",
        "rebase -n side",
        "rebase -f side",
        "rebase -x --no-verify side",
        "rebase --onto --no-verify side",
        "rebase -C -n",
        "am -p -n x",
        "am -C -n x",
        "am --directory -n x",
        "cherry-pick -n x",
        "revert -n x",
        "cherry-pick --no-verify x",
        "checkout -f",
        "branch -f a b",
        "tag -f a",
        "clean -n",
        "clean -fd",
        "add -n .",
        "rm -n -f x",
        "mv -n a b",
        "grep -n x",
        "stash push -m --no-verify",
        "shortlog -n",
        "worktree remove --force x",
        "submodule update --force",
        "config alias.x 'commit --no-verify'",
        "config user.name --no-verify",
        "nothing -n",
        "nothing --no-verify --force",
        "git-commit -n",
        "-n commit",
        "-C",
    ]);
}

// covers: S3-69 S3-70 S3-74 S3-97
#[test]
fn overwriting_is_refused_however_it_is_written() {
    refuses(
        "push --force",
        &[
            "push --force",
            "push -f",
            "push origin main -f",
            "push -fu origin main",
            "push -uf origin main",
            "push -qf",
            "push --no-force --force",
            "push -o -f -f",
            "push --force --dry-run",
            "push --force --no-force-with-lease",
            "-C x push -f",
        ],
    );
    refuses(
        "push --force-with-lease",
        &[
            "push --force-with-lease",
            "push --force-with-lease=main",
            "push --force-with-lease=main:abc origin main",
            "push --force-w origin",
            "push origin --force-with-l=main",
        ],
    );
    refuses(
        "push --force-if-includes",
        &["push --force-if-includes", "push --force-i"],
    );
    refuses(
        "push --mirror",
        &["push --mirror origin", "push --mir origin"],
    );
    refuses(
        "push +<refspec>",
        &[
            "push origin +main",
            "push origin main +side:main",
            "push origin +HEAD:refs/heads/main",
            "push origin +:",
            "push -- origin +main",
            "push origin -- +main",
            "push --repo x origin +main",
            "push origin tag v1 +main",
        ],
    );
    refuses(
        "push -c remote.<name>.*",
        &[
            "-c remote.origin.push=+main push",
            "-c remote.origin.mirror=true push origin",
        ],
    );
    refuses(
        "push --config-env remote.<name>.*",
        &["X=+main --config-env=remote.origin.push=X push"],
    );
    refuses(
        "push GIT_CONFIG_COUNT remote.<name>.*",
        &["GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.push GIT_CONFIG_VALUE_0=+main push"],
    );
    passes(&[
        "push +x",
        "push +x main",
        "push origin tag +x",
        "push origin main:+x",
        "push -o +x origin",
        "push -o -f",
        "push -o--force",
        "push --push-option --force",
        "push --repo --force",
        "push --exec --force origin",
        "push --recurse-submodules --force",
        "push --force --no-force",
        "push -f --no-force",
        "push --force-with-lease --no-force-with-lease",
        "push --mirror --no-mirror",
        "push --forc",
        "push --fo",
        "push --f",
        "push --force-",
        "push --follow-tags",
        "-c remote.origin.push=main push",
        "-c remote.origin.push=+main fetch",
        "-c push.default=current push",
    ]);
}

// covers: S3-74 S3-97
#[test]
fn hooks_are_not_turned_off_for_a_call() {
    refuses(
        "commit -c core.hooksPath",
        &[
            "-c core.hooksPath=/dev/null commit",
            "-c CORE.hookspath=/dev/null commit",
            "-c core.hooksPath= commit",
            "-c core.hooksPath commit",
            "-C x -c a.b=c -c core.hooksPath=.husky commit -m x",
        ],
    );
    refuses(
        "commit --config-env core.hooksPath",
        &[
            "X=/dev/null --config-env=core.hooksPath=X commit",
            "--config-env core.hookspath=X commit",
        ],
    );
    refuses(
        "push GIT_CONFIG_COUNT core.hooksPath",
        &["GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hookspath GIT_CONFIG_VALUE_0=/x push"],
    );
    refuses(
        "merge GIT_CONFIG_PARAMETERS core.hooksPath",
        &["GIT_CONFIG_PARAMETERS=\"'core.hookspath'='/x'\" merge side"],
    );
    for command in [
        "push",
        "merge",
        "pull",
        "rebase",
        "am",
        "cherry-pick",
        "revert",
    ] {
        let text = format!("-c core.hooksPath=/x {command}");
        refuses(&format!("{command} -c core.hooksPath"), &[&text]);
        refuses(
            &format!("{command} HUSKY=0"),
            &[&format!("HUSKY=0 {command}")],
        );
    }
    refuses(
        "commit HUSKY=0",
        &["HUSKY=0 commit", "HUSKY=0 -C x commit -m x"],
    );
    refuses(
        "commit HUSKY_SKIP_HOOKS=1",
        &["HUSKY_SKIP_HOOKS=1 commit", "HUSKY_SKIP_HOOKS=true commit"],
    );
    refuses(
        "commit LEFTHOOK=0",
        &["LEFTHOOK=0 commit", "LEFTHOOK=false commit"],
    );
    refuses(
        "config core.hooksPath",
        &[
            "config core.hooksPath /dev/null",
            "-C x config --global core.hookspath y",
            "config --unset core.hooksPath",
        ],
    );
    passes(&[
        "-c core.hooksPath=/dev/null status",
        "-c core.hooksPath=/dev/null diff",
        "-c core.hooksPath=/dev/null worktree add x",
        "-c user.name=core.hooksPath=x commit",
        "-C core.hooksPath=x commit",
        "HUSKY=0 status",
        "HUSKY=0 log",
        "HUSKY=0 checkout x",
        "HUSKY=1 commit",
        "HUSKY= commit",
        "HUSKY_SKIP_HOOKS=0 commit",
        "LEFTHOOK=1 commit",
        "SKIP=flake8 commit",
        "GIT_CONFIG_COUNT=0 GIT_CONFIG_KEY_0=core.hookspath GIT_CONFIG_VALUE_0=/x push",
        "HUSKY=0 commit --help",
        "GIT_AUTHOR_NAME=pre-commit commit --no-edit --no-gpg-sign -n -minit",
        "config core.hooksPath",
    ]);
}

// covers: S3-74 S3-97
#[test]
fn aliases_are_what_they_stand_for() {
    refuses(
        "commit --no-verify",
        &[
            "cin",
            "cin -m x",
            "cin2",
            "ci -n",
            "ci -q --no-verify",
            "quoted",
            "sh",
            "sh -m x",
            "shci -n",
            "function x",
            "given -n",
            "deep",
            "-C x cin",
        ],
    );
    refuses("push --force", &["pf", "pf origin main"]);
    refuses("commit -c core.hooksPath", &["off", "off -m x"]);
    refuses("commit HUSKY=0", &["all"]);
    passes(&[
        "ci",
        "ci -m -n",
        "cin --verify",
        "shci -m x",
        "given -m -n",
        "round -n",
        "around --no-verify",
        "broken --no-verify",
        "other -n",
        "boom -n",
    ]);
    let text = "rebase -x 'git commit --amend --no-verify' side";
    refuses(
        "commit --no-verify",
        &[text, "rebase --exec='make && git cin' side"],
    );
    passes(&[
        "rebase -x 'make -n' side",
        "rebase --exec 'git commit --amend' side",
    ]);
}

#[test]
fn nobody_is_asked_for_what_git_has_itself() {
    let none = &mut |_: &[Word], name: &[u8]| panic!("{}", String::from_utf8_lossy(name));
    for text in [
        "status",
        "commit -m x",
        "push",
        "log -n 5",
        "-C x diff",
        "--version",
    ] {
        let words = split(text.as_bytes()).unwrap();
        assert_eq!(judge(&words, &Environment::default(), none), None, "{text}");
    }
}

#[test]
fn git_is_asked_where_it_would_look() {
    let mut asked = Vec::new();
    let text = "-C a --git-dir=b -p -c c.d=e --exec-path=/x frob -n";
    let words = split(text.as_bytes()).unwrap();
    let refusal = judge(&words, &Environment::default(), &mut |context, name| {
        asked.push((context.join(&b' '), name.to_vec()));
        None
    });
    assert_eq!(refusal, None);
    let context = b"-C a --git-dir=b -c c.d=e".to_vec();
    assert_eq!(asked, [(context, b"frob".to_vec())]);
}

#[test]
fn the_outermost_alias_is_named() {
    let words = [b"deep".to_vec()];
    let refusal = judge(&words, &Environment::default(), &mut |_, name| {
        let found = ALIASES.iter().find(|(alias, _)| alias.as_bytes() == name);
        Some(found?.1.as_bytes().to_vec())
    });
    let text = refusal.unwrap().to_string();
    assert!(text.contains("(the alias `deep`)"), "{text}");
}

/// Any bytes: words apart by NUL, the first so many of them variables, the last one an alias of everything else.
#[test]
fn fuzz_guard_words() {
    let seeds = [
        "\u{1}HUSKY=0\0commit\0-anm\0x\0--no-verif\0!git commit \"$@\" -n; git x",
        "\u{2}GIT_CONFIG_COUNT=1\0GIT_CONFIG_KEY_0=core.hooksPath\0-c\0alias.x='a\0x\0push -f +a",
        "\u{1}GIT_CONFIG_PARAMETERS='a.b'='c' 'core.hooksPath=x'\0--git-dir=x\0push\0o\0+a\0x 'y",
        "\0config\0--add\0-f\0x\0core.hooksPath\0y\0-c core.hooksPath=x z",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    cofferdam_lab::fuzz::mutate("guard_words", &seeds, |bytes| {
        let (&count, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let mut words: Vec<Word> = rest.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        let alias = words.pop().unwrap_or_default();
        let mut environment = Environment::default();
        let count = usize::from(count).min(words.len());
        for variable in words.drain(..count) {
            let at = variable.iter().position(|&byte| byte == b'=');
            let (name, value) = variable.split_at(at.unwrap_or(variable.len()));
            environment.set(name, value.get(1..).unwrap_or_default());
        }
        let mut asked = 0;
        let refusal = judge(&words, &environment, &mut |_, _| {
            asked += 1;
            Some(alias.clone())
        });
        assert!(asked <= MOST_CALLS);
        let Some(refusal) = refusal else { return };
        let texts = [refusal.line(0), refusal.to_string()].concat();
        let is_shown = |byte| byte == b'\n' || (b' '..=b'~').contains(&byte);
        assert!(texts.bytes().all(is_shown), "{texts:?}");
        assert_eq!(refusal.line(0).matches('\n').count(), 1);
    });
}
