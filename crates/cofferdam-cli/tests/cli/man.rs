use std::os::unix::fs::PermissionsExt;

use crate::environment::TestEnvironment;

#[test]
fn the_page_is_printed() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["man"]).expect_code(0);
    assert!(done.stdout.contains(".TH cofferdam 1"), "{done}");
    assert!(done.stdout.contains("cofferdam\\-run(1)"), "{done}");
    assert_eq!(done.stderr, "");
}

#[test]
fn each_command_has_a_page() {
    let environment = TestEnvironment::empty();
    let done = environment
        .cofferdam(&["man", "share/man/man1"])
        .expect_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    let directory = environment.repository().join("share/man/man1");
    let mut found: Vec<String> = directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut wanted = vec!["cofferdam.1".to_owned()];
    let mut root = cofferdam_cli::command();
    root.build();
    for command in root
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
    {
        wanted.push(format!("cofferdam-{}.1", command.get_name()));
        let below = command
            .get_subcommands()
            .filter(|one| one.get_name() != "help");
        wanted.extend(
            below.map(|one| format!("cofferdam-{}-{}.1", command.get_name(), one.get_name())),
        );
    }
    wanted.sort();
    assert_eq!(found, wanted);
    let page = directory.join("cofferdam-run.1");
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("merge\\-to\\-head")
    );
    // Others read it too, where it is installed for all.
    assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o644);
}
