//! What `scripts/bench` times of the wall. Each subcommand prints numbers, one on each line: see the script
//! for what they mean.
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::error::Error;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Execution, Mount, MountSource, Network, Sandbox,
    SandboxSpec,
};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::{Origin, Rule, WallSpec};
use cofferdam_wall::{Destination, HostName, Policy, Protocol, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench_wall start none|wall N | inside LOAD RULE WORDS… | idle LOAD PORT N | decide RULES N";
/// Different names that decisions are asked for, and how far apart those that follow each other are: no
/// common divisor.
const NAMES: usize = 10_000;
const STRIDE: usize = 7_919;
/// Where the load program is mounted inside.
const INSIDE: &str = "/workspace/bench";

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench(std::env::args().skip(1).collect()))
}

async fn bench(words: Vec<String>) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let room = tempfile::Builder::new()
        .prefix("cofferdam-bench-wall.")
        .tempdir()?;
    let home = Home::new(room.path().join("home"));
    match words[..] {
        ["start", "none", count] => start(&home, false, count.parse()?).await,
        ["start", "wall", count] => start(&home, true, count.parse()?).await,
        ["inside", load, rule, ref words @ ..] => {
            let sandbox = sandbox(&home, Some((load, rule))).await?;
            let mut program = load_inside(sandbox.as_ref(), load, words).await?;
            let mut text = String::new();
            let mut stdout = program.take_stdout().ok_or("no output")?;
            stdout.read_to_string(&mut text).await?;
            finish(program).await?;
            print!("{text}");
            Ok(sandbox.close().await?)
        }
        ["idle", load, port, count] => idle(&home, load, port, count).await,
        ["decide", rules, count] => decide(rules.parse()?, count.parse()?),
        _ => Err(USAGE.into()),
    }
}

/// A sandbox that may reach what one rule names, with the directory of the load program mounted; or one without
/// a network.
async fn sandbox(home: &Home, walled: Option<(&str, &str)>) -> Result<Arc<dyn Sandbox>> {
    let id = SandboxId::random()?;
    let name = Slug::from_text("bench")?;
    let mut spec = SandboxSpec::new(id, name.clone(), "bench", "/home/agent");
    // All files of all its processes are a part of the machine's: few processes may have many each.
    spec.limits.processes = Some(64);
    if let Some((load, rule)) = walled {
        let load = PathBuf::from(load).canonicalize()?;
        spec.mounts.push(Mount {
            source: MountSource::Path(load.parent().ok_or("no directory")?.to_owned()),
            target: INSIDE.into(),
            access: Access::ReadOnly,
        });
        let rule = Rule::parse(rule, Origin::Flag)?;
        spec.network = Network::Wall(Box::new(WallSpec {
            home: home.clone(),
            sandbox: id,
            name,
            sources: Sources {
                home: home.clone(),
                repository: None,
                sandbox: Some(id),
                flags: vec![rule],
            },
        }));
    }
    let native = Native::new(NativeOptions::default());
    Ok(native.create(&spec, &CancellationToken::new()).await?)
}

async fn load_inside(
    sandbox: &dyn Sandbox,
    load: &str,
    words: &[&str],
) -> Result<Box<dyn Execution>> {
    let name = Path::new(load).file_name().ok_or("no program")?;
    let mut arguments = vec![Path::new(INSIDE).join(name).into_os_string()];
    arguments.extend(words.iter().map(OsString::from));
    let mut request = ExecRequest::new(arguments);
    request.stdin = true;
    Ok(sandbox.exec(request).await?)
}

async fn finish(mut program: Box<dyn Execution>) -> Result<()> {
    let mut said = String::new();
    if let Some(mut stderr) = program.take_stderr() {
        stderr.read_to_string(&mut said).await?;
    }
    let exit = program.wait().await?;
    if exit.success() {
        Ok(())
    } else {
        Err(format!("the load program failed: {exit:?} {said}").into())
    }
}

/// Created, `true` run to its end, and gone again; the gateway lives on.
async fn start(home: &Home, walled: bool, count: usize) -> Result<()> {
    for _ in 0..count {
        let began = Instant::now();
        let made = sandbox(home, walled.then_some(("/usr/bin/true", "example.com"))).await?;
        let request = ExecRequest::new(["true"]);
        made.exec(request).await?.wait().await?;
        made.close().await?;
        println!("{}", began.elapsed().as_micros());
    }
    Ok(())
}

/// The gateway's resident memory in KiB with so many open connections, and without one.
async fn idle(home: &Home, load: &str, port: &str, count: &str) -> Result<()> {
    let rule = format!("{}:{port}", HostName::HOST);
    let sandbox = sandbox(home, Some((load, &rule))).await?;
    let before = gateway_memory(home)?;
    let words = ["idle", HostName::HOST, port, count];
    let mut program = load_inside(sandbox.as_ref(), load, &words).await?;
    let stdout = program.take_stdout().ok_or("no output")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    if line.as_deref() != Some("open") {
        finish(program).await?;
        return Err("the load program did not open its connections".into());
    }
    println!("{}\n{before}", gateway_memory(home)?);
    if let Some(mut stdin) = program.take_stdin() {
        stdin.shutdown().await?;
    }
    finish(program).await?;
    Ok(sandbox.close().await?)
}

/// `VmRSS` of the process that holds the lock of this home's gateway.
fn gateway_memory(home: &Home) -> Result<u64> {
    let lock = home.path().join(format!(
        "gateway-{}/lock",
        cofferdam_wall::control::PROTOCOL
    ));
    let pid = std::fs::read_to_string(lock)?;
    let pid = pid
        .split_ascii_whitespace()
        .next()
        .ok_or("no pid in the lock")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    let number = line.split_ascii_whitespace().next().ok_or("no number")?;
    Ok(number.parse()?)
}

/// Microseconds of 1,000 decisions, half of them refusals, under so many rules of all forms.
fn decide(rules: usize, count: usize) -> Result<()> {
    let rule = |number: usize| {
        let text = match number % 3 {
            0 => format!("n{number}.example.com:443"),
            1 => format!("*.n{number}.example.org"),
            _ => format!("10.{}.{}.0/24:5432", number / 256 % 256, number % 256),
        };
        Rule::parse(&text, Origin::Flag)
    };
    let policy = Policy::compile(
        (0..rules)
            .map(rule)
            .collect::<std::result::Result<_, _>>()?,
    )?;
    // As many different names however few the rules: the memory that they take is not what is compared.
    let names: Vec<HostName> = (0..NAMES)
        .map(|number| {
            let rule = number % rules;
            match rule % 3 {
                1 => format!("a.b{number}.n{rule}.example.org"),
                _ => format!("n{rule}.example.com"),
            }
        })
        .map(|name| name.parse())
        .collect::<std::result::Result<_, _>>()?;
    let addresses: [IpAddr; 2] = ["10.0.2.7".parse()?, "203.0.113.9".parse()?];
    let mut turns = 0..;
    for _ in 0..count {
        let began = Instant::now();
        for turn in turns.by_ref().take(1000) {
            let destination = match turn % 4 {
                0 => Destination::Address(addresses[turn / 4 % 2]),
                // Names far from each other, and each of them before one comes again.
                _ => Destination::Name(&names[turn * STRIDE % NAMES]),
            };
            let request = Request {
                destination,
                port: if turn % 2 == 0 { 443 } else { 8443 },
                protocol: Protocol::Tcp,
            };
            std::hint::black_box(policy.decide(std::hint::black_box(&request)).is_ok());
        }
        println!("{:.1}", began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}
