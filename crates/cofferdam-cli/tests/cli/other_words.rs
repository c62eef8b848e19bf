//! What people type who know other tools.

use crate::environment::TestEnvironment;

#[test]
fn a_command_that_is_called_otherwise_elsewhere_is_named() {
    let environment = TestEnvironment::with_repository();
    let root = cofferdam_cli::command();
    for word in [
        "attach", "clean", "destroy", "down", "enter", "fetch", "inspect", "ls", "new", "prune",
        "ps", "pull", "remove", "rm", "show", "ssh", "unpause", "up",
    ] {
        let done = environment.cofferdam(&[word, "one"]).expect_code(2);
        let (_, tip) = done
            .stderr
            .split_once("tip: here that is `cofferdam ")
            .unwrap_or_else(|| panic!("{word}: {done}"));
        let (command, _) = tip.split_once('`').unwrap();
        assert!(root.find_subcommand(command).is_some(), "{word}: {command}");
        assert!(!done.stderr.contains("similar"), "{done}");
    }
    let done = environment.cofferdam(&["-C", ".", "ls"]).expect_code(2);
    assert!(done.stderr.contains("`cofferdam list`"), "{done}");
    // What is only written wrongly is named as ever.
    let done = environment.cofferdam(&["delet", "one"]).expect_code(2);
    assert!(done.stderr.contains("'delete'"), "{done}");
    // And so is what a command of ours has of its own.
    let done = environment.cofferdam(&["volume", "ls"]).expect_code(2);
    assert!(!done.stderr.contains("here that is"), "{done}");
}

/// As shells complete it.
#[test]
fn help_knows_all_commands_and_theirs() {
    let root = cofferdam_cli::command();
    let help = root.find_subcommand("help").unwrap();
    for command in root
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
    {
        let named = help.find_subcommand(command.get_name()).unwrap();
        assert_eq!(
            named.get_about().map(ToString::to_string),
            command.get_about().map(ToString::to_string)
        );
    }
    let volume = help.find_subcommand("volume").unwrap();
    assert!(
        volume
            .find_subcommand("list")
            .unwrap()
            .get_about()
            .is_some()
    );
}
