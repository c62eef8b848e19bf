//! What nobody may write in a dev sandbox, natively and in containers alike.

use crate::containers::{IMAGE, worlds};
use crate::environment::{Done, TestEnvironment};
use crate::lives::Lives;

/// Says what it could do of all that it tries. A move to another mount copies first, and leaves the copy.
const TRIES: &str = "
for path in a/b/c .husky .git/hooks .cofferdam .cofferdam/guard; do
    mkdir -p $path 2>/dev/null
    touch $path/x 2>/dev/null && echo wrote $path
    rm -r $path 2>/dev/null && echo removed $path
    mv $path gone 2>/dev/null && echo moved $path
    rm -rf gone
done
for above in a/b a; do
    mv $above x 2>/dev/null && echo moved $above
    rm -rf x
done
mv a/b a/x 2>/dev/null && echo moved a/b within a
echo beside > a/other && echo wrote a/other
echo beside > a/b/other && echo wrote a/b/other
";
const COULD: &str = "wrote a/other\nwrote a/b/other\n";

/// As somebody types it, natively or in an engine.
type Cofferdam<'a> = &'a dyn Fn(&[&str]) -> Done;

#[track_caller]
fn tries(environment: &TestEnvironment, cofferdam: Cofferdam<'_>) {
    let seen = cofferdam(&["exec", "dev", "--", "sh", "-c", TRIES]);
    assert_eq!(seen.stdout, COULD, "{seen}");
    // It is so on the host.
    let repository = environment.repository();
    assert_eq!(environment.read("a/b/c/kept"), "kept\n");
    assert_eq!(environment.read("a/other"), "beside\n");
    assert_eq!(environment.read("a/b/other"), "beside\n");
    assert_eq!(
        environment.read(".cofferdam/guard/user-context.json"),
        "{}\n"
    );
    for path in ["a/b/c", ".git/hooks", ".cofferdam", ".cofferdam/guard"] {
        assert!(!repository.join(path).join("x").exists(), "{path}");
    }
    let made: Vec<_> = repository.join(".husky").read_dir().unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
}

#[track_caller]
fn nobody_writes_what_is_protected(
    environment: &TestEnvironment,
    cofferdam: Cofferdam<'_>,
    place: &[&str],
) {
    environment.write("a/b/c/kept", "kept\n");
    environment.git(&["add", "a"]);
    environment.git(&["commit", "-q", "-m", "three levels"]);
    environment.write(".cofferdam/config.yaml", "protect: [a/b/c]\n");
    environment.write(".cofferdam/guard/user-context.json", "{}\n");
    let husky = environment.repository().join(".husky");
    let start = [&["start", "--network", "none"][..], place].concat();
    cofferdam(&start).expect_code(0);
    tries(environment, cofferdam);

    // Its user takes away what is empty while nobody works there: it is made again.
    cofferdam(&["stop"]).expect_code(0);
    std::fs::remove_dir(&husky).unwrap();
    cofferdam(&["start"]).expect_code(0);
    tries(environment, cofferdam);
    cofferdam(&["delete", "--force", "dev"]).expect_code(0);
    assert!(!husky.exists());
    assert_eq!(environment.read("a/b/c/kept"), "kept\n");

    // What its user puts there meanwhile stays.
    cofferdam(&start).expect_code(0);
    assert!(husky.is_dir());
    environment.write(".husky/mine", "mine\n");
    cofferdam(&["delete", "--force", "dev"]).expect_code(0);
    assert_eq!(environment.read(".husky/mine"), "mine\n");
}

// covers: S3-59 S3-60 S3-61 S3-62 S3-65
#[test]
fn what_is_protected_is_nobodys_to_write() {
    let lives = Lives::new();
    let cofferdam = |words: &[&str]| lives.cofferdam(words);
    nobody_writes_what_is_protected(&lives, &cofferdam, &[]);
    lives.expect_clean();
}

// covers: S3-59 S3-60 S3-61 S3-62 S3-65
#[test]
fn nor_is_it_in_containers() {
    for world in worlds() {
        let cofferdam = |words: &[&str]| world.cofferdam(words);
        let place = ["--sandbox", world.engine, "--image", IMAGE];
        nobody_writes_what_is_protected(&world.environment, &cofferdam, &place);
        world.expect_clean();
    }
}
