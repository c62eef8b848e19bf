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
    // What is only written wrongly is named as ever.
    let done = environment.cofferdam(&["delet", "one"]).expect_code(2);
    assert!(done.stderr.contains("'delete'"), "{done}");
    // And so is what a command of ours has of its own.
    let done = environment.cofferdam(&["volume", "ls"]).expect_code(2);
    assert!(!done.stderr.contains("here that is"), "{done}");
}
