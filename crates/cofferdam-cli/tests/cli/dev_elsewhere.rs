//! Where the repository of a dev sandbox is not where it was, or is another one.

use std::process::Stdio;

use crate::environment::finish;
use crate::lives::Lives;

const COMMIT: &str = "git commit -q --allow-empty -m";

/// The volumes of a checkout are its path's: what another repository left there is nobody's to go on from, and stays until somebody
/// says otherwise.
#[test]
fn the_shelf_of_what_lay_here_before_is_left_alone() {
    let lives = Lives::new();
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    lives
        .exec("dev-two", &format!("{COMMIT} kept"))
        .expect_code(0);
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
    let names = lives.cofferdam(&["volume"]).expect_code(0).stdout;
    let shelf = names.lines().find(|name| name.contains("shelf"));
    let shelf = shelf.unwrap();

    // Cloned anew it is the same one, although what was brought is not in it.
    let repository = lives.repository();
    let first = lives.git(&["rev-parse", "HEAD"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "pushed"]);
    let (anew, gone) = (
        repository.with_file_name("anew"),
        repository.with_file_name("gone"),
    );
    lives.git(&["clone", "-q", ".", anew.to_str().unwrap()]);
    std::fs::rename(&repository, &gone).unwrap();
    std::fs::rename(&anew, &repository).unwrap();
    lives.git(&["config", "user.name", "Test"]);
    lives.git(&["config", "user.email", "test@example.com"]);
    let tree = lives.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(lives.git(&["rev-parse", "HEAD~1"]), first);
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let seen = lives.exec("dev-two", "git log -1 --format=%s");
    assert_eq!(seen.expect_code(0).stdout, "kept\n");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);

    // Another one.
    std::fs::remove_dir_all(&repository).unwrap();
    std::fs::create_dir(&repository).unwrap();
    lives.git(&["init", "-q", "--initial-branch=main"]);
    lives.git(&["config", "user.name", "Test"]);
    lives.git(&["config", "user.email", "test@example.com"]);
    lives.write("other", "other\n");
    lives.git(&["add", "other"]);
    lives.git(&["commit", "-q", "-m", "another"]);
    assert_ne!(lives.git(&["rev-parse", "HEAD^{tree}"]), tree);
    let start = ["start", "--branch", "two"];
    let refused = lives.cofferdam(&start).expect_code(1);
    let said = format!("cannot be brought to the shelf {shelf}: what is there is of another");
    assert!(refused.stderr.contains(&said), "{refused}");
    assert_eq!(lives.listed("dev-two"), None);
    // As printed.
    let commands = refused
        .stderr
        .split('`')
        .filter(|part| part.starts_with("cofferdam "));
    let commands: Vec<Vec<&str>> = commands.map(|words| words.split(' ').collect()).collect();
    assert_eq!(commands.len(), 2, "{refused}");
    for words in &commands {
        lives.cofferdam(&words[1..]).expect_code(0);
    }
    assert!(repository.join(format!("{shelf}.tar")).exists());
    lives.cofferdam(&start).expect_code(0);
    let seen = lives.exec("dev-two", "git log -1 --format=%s");
    assert_eq!(seen.expect_code(0).stdout, "another\n");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// One that lives in a checkout that was moved is told of at the new place, and what is in it comes home once it is back.
#[test]
fn a_checkout_that_was_moved_has_another_one() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives
        .exec("dev", "echo x > /commandhistory/h; echo y > ~/mine")
        .expect_code(0);
    let id = lives.all()[0]["id"].as_str().unwrap().to_owned();
    let repository = lives.repository();
    let moved = repository.with_file_name("moved");
    std::fs::rename(&repository, &moved).unwrap();
    let there = |words: &[&str]| {
        let mut command = lives.command(words);
        command
            .current_dir(&moved)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let made = there(&["start"]).expect_code(0);
    let moved_here = format!(
        "note: the repository of dev ({id}) is gone; if you moved it here: `cofferdam delete {id}`\n"
    );
    assert!(made.stderr.contains(&moved_here), "{made}");
    let listed = there(&["list", "--all-repos"]).expect_code(0);
    let end = format!("put it back, or end it with `cofferdam delete {id}`\n");
    assert!(listed.stderr.contains(&end), "{listed}");
    // As printed: it says what would be lost, and what gives it up.
    let refused = there(&["delete", &id]).expect_code(1);
    let force = format!("`cofferdam delete --force {id}`");
    assert!(refused.stderr.contains(&force), "{refused}");
    // Nothing of the other path's is in it.
    let seen = there(&["exec", "--", "sh", "-c", "pwd; ls /commandhistory ~"]);
    let nothing = "/workspace/moved\n/commandhistory:\n\n/home/agent:\n";
    assert_eq!(seen.expect_code(0).stdout, nothing);
    there(&["delete", "dev"]).expect_code(0);
    std::fs::rename(&moved, &repository).unwrap();
    let back = lives.exec("dev", "cat ~/mine /commandhistory/h");
    assert_eq!(back.expect_code(0).stdout, "y\nx\n");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives.expect_clean();
}
