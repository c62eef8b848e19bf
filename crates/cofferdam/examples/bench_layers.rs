//! What `scripts/bench` times of layers by library call. Each subcommand prints one duration in microseconds on each line:
//! see the script for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam::git::discovery::{Start, Workspaces};
use cofferdam::git::trees::{Tell, Trees};
use cofferdam::git::{Git, Repository};
use cofferdam::home::Home;
use cofferdam::process::Invocation;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{CopyStrategy, Exit, PrivateCopy};
use cofferdam::session::{Caller, NetworkOptions, Session, SessionExec, SessionOptions};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench_layers tree-first REPO N | tree-next REPO N | status REPO N";
/// So many files are other ones in the next commit.
const CHANGED: usize = 10;
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench(std::env::args().skip(1).collect()))
}

async fn bench(words: Vec<String>) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [what, repo, count] = words[..] else {
        return Err(USAGE.into());
    };
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-layers.")
        .tempdir()?;
    let (repo, count) = (Path::new(repo).canonicalize()?, count.parse()?);
    match what {
        "tree-first" => trees(room.path(), &repo, count, false).await,
        "tree-next" => trees(room.path(), &repo, count, true).await,
        "status" => status(room.path(), &repo, count).await,
        _ => Err(USAGE.into()),
    }
}

fn print(taken: Duration) {
    println!("{}", taken.as_micros());
}

/// Writes the files of a commit where none are, or of commits on top of one whose files are there.
async fn trees(room: &Path, repo: &Path, count: usize, next: bool) -> Result<()> {
    let cancel = CancellationToken::new();
    let start = Start::find(repo, &Workspaces::default())?;
    let found = Repository::discover(&Git::new("git"), &start, None, &cancel).await?;
    let mut home = Home::new(room.join("home"));
    let mut tree = found.tree_of(found.head.commit(), &cancel).await?;
    if next {
        let trees = Trees::open(&home, &found)?;
        trees.stack(&found, &tree, &Tell::nobody(), &cancel).await?;
    }
    for number in 0..count {
        if next {
            let line = changed(room, number);
            tree = shell(repo, &line).await?.parse()?;
        } else {
            home = Home::new(room.join(format!("home-{number}")));
        }
        let trees = Trees::open(&home, &found)?;
        let began = Instant::now();
        let made = trees.stack(&found, &tree, &Tell::nobody(), &cancel).await?;
        print(began.elapsed());
        if next == (made.layers.len() == 1) {
            return Err(format!("{} layers", made.layers.len()).into());
        }
        drop(made);
        if !next {
            cofferdam::fsx::remove_tree(home.path())?;
        }
    }
    Ok(())
}

/// A line of shell that prints a tree in which some files of HEAD's are others.
fn changed(room: &Path, number: usize) -> String {
    let index = room.join("index");
    format!(
        "export GIT_INDEX_FILE='{}'; git read-tree HEAD; id=$(echo {number} | git hash-object -w --stdin); \
         git ls-files | awk 'NR % 7 == 0' | head -n {CHANGED} | sed \"s/^/100644 $id\\t/\" | git update-index --index-info; \
         git write-tree",
        index.display()
    )
}

async fn shell(directory: &Path, line: &str) -> Result<String> {
    let mut call = Invocation::new("/bin/sh", directory).args(["-c", line]);
    call.limit = Duration::from_mins(1);
    let done = call
        .env("PATH", PROGRAMS)
        .run(&CancellationToken::new())
        .await?;
    if !done.exit.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}

/// The first `git status` in a sandbox of its own, each time.
async fn status(room: &Path, repo: &Path, count: usize) -> Result<()> {
    let user: PathBuf = room.join("user");
    std::fs::create_dir(&user)?;
    let mut caller = Caller::new(Home::new(user.join(".cofferdam")));
    caller.user_home = Some(user);
    caller.environment.insert("PATH".into(), PROGRAMS.into());
    for number in 0..count {
        let name = format!("status-{number}");
        let branch = format!("bench/{name}").parse()?;
        let strategy = CopyStrategy::Branch { branch, base: None };
        let sandbox = PrivateCopy::layered(Native::default(), strategy);
        let mut options = SessionOptions::new(repo, sandbox);
        options.name = Some(name);
        options.network = NetworkOptions::None;
        let session = Session::create(&caller, &options).await?;
        let exec = SessionExec::new(["git", "status", "--porcelain"]);
        let began = Instant::now();
        let mut program = session.exec(exec).await?;
        let exit = program.wait().await?;
        print(began.elapsed());
        if exit != Exit::Code(0) {
            return Err(format!("`git status` ended with {exit}").into());
        }
        session.close(&Native::default()).await?;
    }
    Ok(())
}
