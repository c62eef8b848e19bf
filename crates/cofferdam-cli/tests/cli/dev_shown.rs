//! What a dev sandbox's container would be made with, and the recipe of its image.

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::containers::{self, World, own};
use crate::images::{BASE, hinted};
use crate::lives::{Lives, OnTerminal};

// covers: S3-41, S3-123
#[test]
fn show_run_says_what_is_asked_of_the_engine() {
    for world in containers::worlds() {
        let show = containers::making("show-run", world.engine, &[]);
        let shown = world.cofferdam(&show).expect_code(0);
        let repository = world.environment.repository();
        let repository = repository.to_str().unwrap();
        for part in [
            &format!("{} run \\\n", world.engine),
            &format!("source={repository},target=/workspace/repository,bind-propagation"),
            "target=/repo-shelf,",
            "target=/commandhistory,",
            "--cap-drop=ALL \\\n",
            "--security-opt=no-new-privileges",
            "--network=container:HOLDER",
            "--restart=no",
            "--oom-score-adj=",
            ",bind-nonrecursive=true",
            "  git:latest",
        ] {
            assert!(shown.stdout.contains(part), "{part}: {shown}");
        }
        assert!(!shown.stdout.contains("cap-add"), "{shown}");
        assert!(
            shown.stderr.contains("start in /workspace/repository\n"),
            "{shown}"
        );
        // Nothing was run, and nothing is left.
        assert!(world.containers().is_empty(), "{:?}", world.containers());
        assert_eq!(world.cofferdam(&["list"]).expect_code(0).stdout, "");
        let branch = containers::making("show-run", world.engine, &["--branch", "two"]);
        let shown = world.cofferdam(&branch).expect_code(0);
        assert!(
            shown
                .stderr
                .contains("start in /repo-shelf/worktrees/two\n"),
            "{shown}"
        );
        for part in [
            &format!("source={repository},target=/workspace/repository,"),
            "target=/repo-shelf,",
        ] {
            assert!(shown.stdout.contains(part), "{part}: {shown}");
        }

        // Nobody has brought that branch anywhere by asking.
        let shelf = world.environment.home().join(".cofferdam/volumes");
        let shelf = std::fs::read_dir(&shelf).unwrap().flatten();
        let brought: Vec<_> = shelf
            .filter(|one| one.path().join("branches").exists())
            .collect();
        assert!(brought.is_empty(), "{brought:?}");

        // Of one that is there it is what it was made with.
        let start = containers::making("start", world.engine, &["--network", "none"]);
        world.cofferdam(&start).expect_code(0);
        let shown = world.cofferdam(&["show-run"]).expect_code(0).stdout;
        assert!(shown.contains("--network=none"), "{shown}");
        let container = world.agents();
        let format = "{{range .Mounts}}{{.Destination}}\n{{end}}";
        let has = containers::own(world.engine, &["inspect", "--format", format, &container]);
        for target in has.unwrap().lines().filter(|line| !line.is_empty()) {
            let [mount, tmpfs] = [format!("target={target},"), format!("--tmpfs={target}:")];
            assert!(
                shown.contains(&mount) || shown.contains(&tmpfs),
                "{target}: {shown}"
            );
        }
        assert_eq!(world.cofferdam(&show).expect_code(0).stdout, shown);
        let other = ["show-run", "--image", "another"];
        let refused = world.cofferdam(&other).expect_code(2);
        assert!(refused.stderr.contains("dev is there already"), "{refused}");
        world.cofferdam(&["stop"]).expect_code(0);
        assert_eq!(world.cofferdam(&["show-run"]).expect_code(0).stdout, shown);
        world.cofferdam(&["delete", "dev"]).expect_code(0);
        world.environment.expect_clean();
    }
    let lives = Lives::new();
    let native = lives.cofferdam(&["show-run"]).expect_code(1);
    assert!(native.stderr.contains("no engine is asked"), "{native}");
    lives.cofferdam(&["start"]).expect_code(0);
    let native = lives.cofferdam(&["show-run", "."]).expect_code(1);
    assert!(native.stderr.contains("dev is native"), "{native}");
}

// covers: S3-2, S3-19, S3-20, S3-21, S3-22, S3-32, S3-33, S3-34
#[test]
fn init_prepares_a_repository() {
    let lives = Lives::new();
    let none = lives.cofferdam(&["init", "/nonexistent"]).expect_code(1);
    assert!(none.stderr.contains("/nonexistent"), "{none}");
    // Without a path nothing appears in a repository.
    lives.cofferdam(&["init"]).expect_code(0);
    assert!(!lives.repository().join(".cofferdam").exists());
    let done = lives.cofferdam(&["init", "."]).expect_code(0);
    assert!(done.stderr.contains("next: cofferdam build ."), "{done}");
    let recipe = lives.read(".cofferdam/Dockerfile");
    let counts = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert!(
        recipe.starts_with("ARG BASE_IMAGE_TAG=latest\nFROM cofferdam-base:${BASE_IMAGE_TAG}\n")
    );
    assert_eq!(counts(&recipe).len(), 2, "{recipe}");
    assert!(recipe.contains("# RUN apt-get update") && recipe.contains("# RUN npm install"));
    assert_eq!(counts(&lives.read(".cofferdam/config.yaml")), [""; 0]);
    lives.cofferdam(&["config", "check"]).expect_code(0);
    let volumes = lives.cofferdam(&["volume", "list"]).expect_code(0).stdout;
    for name in [
        "cofferdam-shelf-",
        "-history",
        "cofferdam-creds",
        "cofferdam-codex-config",
    ] {
        assert!(volumes.contains(name), "{name}: {volumes}");
    }
    // What is there stays, and what is written anew is kept beside.
    lives.write(".cofferdam/Dockerfile", "FROM mine\n");
    let again = lives.cofferdam(&["init", "."]).expect_code(0);
    assert!(again.stderr.contains("stays as it is"), "{again}");
    assert_eq!(lives.read(".cofferdam/Dockerfile"), "FROM mine\n");
    lives.cofferdam(&["init", ".", "--force"]).expect_code(0);
    assert_eq!(lives.read(".cofferdam/Dockerfile"), recipe);
    assert_eq!(lives.read(".cofferdam/Dockerfile.before"), "FROM mine\n");
    // Each of them, however often.
    lives.write(".cofferdam/Dockerfile", "FROM another\n");
    lives.cofferdam(&["init", ".", "--force"]).expect_code(0);
    assert_eq!(lives.read(".cofferdam/Dockerfile.before"), "FROM mine\n");
    assert_eq!(
        lives.read(".cofferdam/Dockerfile.before-2"),
        "FROM another\n"
    );
    let alone = lives.cofferdam(&["init", "--force"]).expect_code(2);
    assert!(alone.stderr.contains("PATH"), "{alone}");
    // Another one's directory is not written through.
    let place = lives.repository().join(".cofferdam");
    std::fs::rename(&place, lives.home().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(lives.home().join("elsewhere"), &place).unwrap();
    let link = lives.cofferdam(&["init", ".", "--force"]).expect_code(1);
    assert!(link.stderr.contains("is no directory"), "{link}");
    std::fs::remove_file(&place).unwrap();
    // Asked on a terminal, and no answer is no.
    let mut asked = lives.on_a_terminal(&["init"]);
    asked.expect("too? [y/N]");
    asked.press("\r");
    asked.ends_with(0);
    assert!(!place.exists());
    let mut asked = lives.on_a_terminal(&["init"]);
    asked.expect("too? [y/N]");
    asked.press("y\r");
    asked.expect("prompts to begin with:");
    asked.press("\r");
    asked.expect("build the image now? [y/N]");
    asked.press("n\r");
    asked.ends_with(0);
    assert!(place.join("Dockerfile").exists());
}

/// The first one is built without being read: it is ours. Nothing else is.
#[test]
fn init_builds_what_it_wrote_and_shows_all_else() {
    let _turn = Turn::of_image(BASE).unwrap();
    for world in containers::worlds() {
        let words = ["init", ".", "--build", "--sandbox", world.engine];
        let built = world.cofferdam(&words);
        // The base itself is for who builds it: here it is missing, or there.
        if built.status.code() == Some(0) {
            assert!(built.stdout.starts_with("built: "), "{built}");
        } else {
            assert!(built.stderr.contains("cofferdam build-base"), "{built}");
        }
        // Nobody was asked to read it first.
        assert!(!built.stderr.contains("--trust"), "{built}");
        world.environment.write(".cofferdam/tool.sh", "true\n");
        let shown = world.cofferdam(&words).expect_code(1);
        assert!(shown.stderr.contains("tool.sh"), "{shown}");
        assert!(shown.stderr.contains("--trust "), "{shown}");
        world.environment.expect_clean();
    }
}

/// The recipe as it is written is whole, on a base that is there: here one of the test's own.
// covers: S3-19
#[test]
fn the_recipe_that_init_writes_is_built() {
    for world in containers::worlds() {
        let base = format!("cofferdam-base:of-{}", std::process::id());
        containers::own(world.engine, &["tag", containers::IMAGE, &base]).unwrap();
        world.cofferdam(&["init", "."]).expect_code(0);
        let (_, tag) = base.split_once(':').unwrap();
        let words = ["build", "--sandbox", world.engine, "--base-tag", tag];
        let command = hinted(&world.cofferdam(&words).expect_code(1));
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        let built = world.cofferdam(&command).expect_code(0);
        assert!(built.stdout.starts_with("built: cofferdam-"), "{built}");
        // It is this repository's: nobody has to name it.
        world
            .cofferdam(&["start", "--sandbox", world.engine])
            .expect_code(0);
        let seen = world.exec_in("dev", "git --version").expect_code(0);
        assert!(seen.stdout.starts_with("git version"), "{seen}");
        let image = world.status("dev", "image");
        assert!(built.stdout.contains(image.as_str()), "{image}: {built}");
        world.cofferdam(&["delete", "dev"]).expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        containers::own(world.engine, &["rmi", &base]).unwrap();
        world.environment.expect_clean();
    }
}

/// The base of an engine, which has none, for the time of a test. It has the turn of that name.
struct Base(&'static str);

impl Base {
    /// `None`: the machine has one of its own.
    fn of(world: &World) -> Option<Self> {
        let engine = world.engine;
        if own(engine, &["image", "inspect", BASE]).is_ok() {
            return None;
        }
        own(engine, &["tag", containers::IMAGE, BASE]).unwrap();
        Some(Self(engine))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = own(self.0, &["rmi", BASE]);
    }
}

/// The dev sandbox that is made next has what was built, by itself.
#[track_caller]
fn is_taken(world: &World) {
    let start = ["start", "--sandbox", world.engine];
    let made = world.cofferdam(&start).expect_code(0);
    assert!(!made.stderr.contains("is not built"), "{made}");
    assert_eq!(world.status("dev", "image"), world.image());
    let seen = world.exec_in("dev", "git --version").expect_code(0);
    assert!(seen.stdout.starts_with("git version"), "{seen}");
    world.cofferdam(&["delete", "dev"]).expect_code(0);
    world
        .cofferdam(&[world.engine, "remove-image"])
        .expect_code(0);
    world.expect_no_image();
}

/// Where the base is there, by its option and by an answer.
#[test]
fn what_init_builds_is_what_start_takes() {
    let _turn = Turn::of_image(BASE).unwrap();
    for world in containers::worlds() {
        let engine = world.engine;
        let Some(_base) = Base::of(&world) else {
            skip!("{engine}: the machine has {BASE}");
            continue;
        };
        world.expect_no_image();
        let init = ["init", ".", "--sandbox", engine];
        let built = world.cofferdam(&[&init[..], &["--build"]].concat());
        let built = built.expect_code(0);
        let named = format!("built: {} on ", world.image());
        assert!(built.stdout.starts_with(&named), "{built}");
        is_taken(&world);

        let mut asked = OnTerminal::start(&world.command(&init), (40, 100));
        asked.expect("prompts to begin with:");
        asked.press("\r");
        asked.expect("build the image now? [y/N]");
        asked.press("y\r");
        asked.expect("built:");
        asked.ends_with(0);
        is_taken(&world);
        world.expect_clean();
    }
}
