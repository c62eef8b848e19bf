//! What shells inside have of the configuration: its variables, and the theme of its user's zsh.

use crate::configured::{CLAUDE, User};
use crate::containers::{own, worlds};
use crate::lives::OnTerminal;

// covers: S1-60, S1-61, S1-115, S1-116, S1-118, S1-119
#[test]
fn the_theme_of_the_users_zsh_comes_along() {
    let user = User::new("");
    user.puts(
        ".zshrc",
        "export ZSH=~/.oh-my-zsh\nZSH_THEME=\"mine\"\nsource $ZSH/oh-my-zsh.sh\n",
    );
    // There is no such file, and it may well be one of oh-my-zsh's own.
    let made = user.make();
    assert!(!made.stderr.contains("not synced"), "{made}");
    assert_eq!(
        user.inside("cat ~/.cofferdam-zsh-theme; ls ~/.oh-my-zsh 2>/dev/null; true"),
        "ZSH_THEME=\"mine\"\n"
    );
    user.puts(".oh-my-zsh/custom/themes/mine.zsh-theme", "PROMPT=mine\n");
    user.puts(".oh-my-zsh/custom/themes/README", "no theme\n");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(
        user.inside("cd ~/.oh-my-zsh/custom/themes; ls; cat mine.zsh-theme"),
        "mine.zsh-theme\nPROMPT=mine\n"
    );
    // One with a directory of its own has what lies there; nothing above the themes is one.
    user.puts(".oh-my-zsh/custom/themes/power/power.zsh-theme", "p");
    user.puts(".oh-my-zsh/custom/themes/power/internal/part.zsh", "i");
    user.puts(".oh-my-zsh/custom/themes/other/other.zsh-theme", "o");
    user.puts(".oh-my-zsh/custom/secret/secret.zsh-theme", "s");
    for name in ["power/power", "../secret/secret"] {
        user.puts(".zshrc", &format!("ZSH_THEME={name}\n"));
        user.cofferdam(&["sync", "box"]).expect_code(0);
        let told = format!("ZSH_THEME=\"{name}\"\n");
        assert_eq!(user.inside("cat ~/.cofferdam-zsh-theme"), told);
    }
    assert_eq!(
        user.inside("cd ~/.oh-my-zsh; find . -type f | sort"),
        "./custom/themes/mine.zsh-theme\n./custom/themes/power/internal/part.zsh\n./custom/themes/power/power.zsh-theme\n"
    );
    // Wherever they have it.
    user.puts(".zshenv", "export ZDOTDIR=~/.config/zsh\n");
    user.puts(
        ".config/zsh/.zshrc",
        "export ZSH_CUSTOM=\"$ZDOTDIR/custom\"\nexport ZSH_THEME=\"there\"\n",
    );
    user.puts(".config/zsh/custom/themes/there.zsh-theme", "t");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(
        user.inside("cat ~/.cofferdam-zsh-theme ~/.oh-my-zsh/custom/themes/there.zsh-theme"),
        "ZSH_THEME=\"there\"\nt"
    );
    user.ends();
}

/// In a sandbox that has the shell, and whose image knows nothing of us.
// covers: S1-94, S1-117
#[test]
fn shells_inside_have_variables_and_theme() {
    let user = User::new("env: {EDITOR: vim}\n");
    user.puts(".zshrc", "ZSH_THEME=\"mine\"\n");
    user.puts(
        ".oh-my-zsh/custom/themes/mine.zsh-theme",
        "PROMPT='mine $(git_prompt_info)> '\n",
    );
    user.make();
    let bare = |shell: &str| {
        user.inside(&format!(
            "env -i HOME=\"$HOME\" PATH=\"$PATH\" {shell} -ic 'echo $EDITOR' 2>/dev/null </dev/null"
        ))
    };
    assert_eq!(bare("bash"), "vim\n");
    if !user.exec("box", "command -v zsh").status.success() {
        cofferdam_lab::skip!("zsh is not installed");
        return user.ends();
    }
    assert_eq!(bare("zsh"), "vim\n");
    let mut shell = user.on_a_terminal(&["shell", "box"]);
    shell.expect("mine git:(cofferdam/box)> ");
    shell.press("exit\r");
    shell.ends_with(0);
    // One of the user's own takes its place.
    user.puts(".cofferdam/home/.zshrc", "PROMPT='own> '\n");
    user.cofferdam(&["sync", "box"]).expect_code(0);
    let mut shell = user.on_a_terminal(&["shell", "box"]);
    shell.expect("own> ");
    shell.press("exit\r");
    shell.ends_with(0);
    user.ends();
}

/// A run's home is in memory, and has what shells read all the same; what the user has there takes its place.
// covers: S1-94, S1-117
#[test]
fn shells_of_a_run_have_variables_too() {
    let user = User::new("env: {EDITOR: vim}\n");
    let bare = "for shell in bash zsh; do command -v $shell >/dev/null || continue; env -i HOME=\"$HOME\" PATH=\"$PATH\" $shell -ic 'echo $EDITOR' 2>/dev/null </dev/null; done > told; git add told; git commit -qm told";
    let told = |expected: &str| {
        user.run(&["--network", "none"], bare).expect_code(0);
        let told = user.git(&["show", "HEAD:told"]);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], expected);
        lines.get(1).map(|&line| line.to_owned())
    };
    if told("vim") != Some("vim".to_owned()) {
        cofferdam_lab::skip!("zsh is not installed");
    }
    user.puts(".cofferdam/home/.bashrc", "EDITOR=own\n");
    told("own");
}

/// An image with git, bash and zsh, which know nothing of us and have start files of the image's own. scripts/test makes it.
const SHELLS: &str = "shells:latest";

/// The same in containers; and a program of the user's that stands in for Claude Code there.
// covers: S1-94, S1-117, S1-136
#[test]
fn shells_in_containers_have_variables_and_theme() {
    for world in worlds() {
        let engine = world.engine;
        if let Err(why) = own(engine, &["image", "inspect", SHELLS]) {
            cofferdam_lab::skip!("{engine}: {why}");
            continue;
        }
        let user = &world.environment;
        user.puts(
            ".cofferdam/config.yaml",
            &format!(
                "sandbox: {engine}\nimage: {SHELLS}\nenv: {{EDITOR: vim, PATH: \"/home/agent/bin:/bin\"}}\non_sync: [{{cmd: chmod +x ~/bin/claude}}]\n"
            ),
        );
        user.puts(".cofferdam/home/bin/claude", CLAUDE);
        user.puts(".cofferdam/home/note", "there");
        user.puts(".zshrc", "ZSH_THEME=\"mine\"\n");
        user.puts(
            ".oh-my-zsh/custom/themes/mine.zsh-theme",
            "PROMPT='mine $(git_prompt_info)> '\n",
        );
        world
            .cofferdam(&["create", "one", "--network", "none"])
            .expect_code(0);
        // What the image itself says to shells comes before.
        let bare = "for shell in bash zsh; do env -i HOME=\"$HOME\" PATH=/bin $shell -ic 'echo $EDITOR $OF_IMAGE' 2>/dev/null </dev/null; done";
        assert_eq!(world.exec(bare).stdout, "vim yes\nvim yes\n", "{engine}");
        // The home of a run is another one.
        let told = format!("({bare}) > told; git add told; git commit -qm told");
        let run = ["run", "-q", "--network", "none", "--", "sh", "-c", &told];
        world.cofferdam(&run).expect_code(0);
        assert_eq!(
            user.git(&["show", "HEAD:told"]),
            "vim yes\nvim yes",
            "{engine}"
        );
        let on_a_terminal = |words: &[&str]| OnTerminal::start(&world.command(words), (40, 100));
        let mut shell = on_a_terminal(&["shell", "one"]);
        shell.expect("mine git:(cofferdam/one)> ");
        shell.press("exit\r");
        shell.ends_with(0);
        let mut claude = on_a_terminal(&["claude", "one"]);
        claude.expect("here:  vim there tty");
        claude.press("\r");
        claude.ends_with(5);
        // One that was stopped is started, with what has changed.
        world.cofferdam(&["stop", "one"]).expect_code(0);
        user.puts(".cofferdam/home/note", "changed");
        let mut claude = on_a_terminal(&["claude", "one"]);
        claude.expect("here:  vim changed tty");
        claude.press("\r");
        claude.ends_with(5);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        // The command line can say where it is made, too.
        user.puts(
            ".cofferdam/config.yaml",
            "env: {PATH: \"/home/agent/bin:/bin\"}\non_sync: [{cmd: chmod +x ~/bin/claude}]\n",
        );
        let mut claude = on_a_terminal(&["claude", "one", "--sandbox", engine, "--image", SHELLS]);
        claude.expect("here:   changed tty");
        claude.press("\r");
        claude.ends_with(5);
        assert_eq!(world.status("one", "image"), SHELLS);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}
