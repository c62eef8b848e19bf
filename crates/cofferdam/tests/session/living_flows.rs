//! Attack 95, what is open already: connections of a sandbox that was paused, when its rules are narrowed meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam::sandbox::Exit;
use cofferdam::session::{NetworkOptions, Session, SessionExec};
use cofferdam::wall::gateway_process;

use crate::living::{caller, delete, kill, options};
use crate::support::{Env, block_on};

/// On this machine: greets everyone who comes, and echoes each line.
struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                std::thread::spawn(move || {
                    let _ = stream.write_all(b"hello\n");
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    for line in lines.map_while(Result::ok) {
                        all.lock().unwrap().push(line.clone());
                        let _ = writeln!(stream, "{line}");
                    }
                });
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// A connection before the pause, the same one as soon as there is `go`, and another one then.
const PROGRAM: &str = r#"
use IO::Socket::INET;
$SIG{PIPE} = "IGNORE";
$| = 1;
sub opened { IO::Socket::INET->new(PeerAddr => "host.cofferdam.internal", PeerPort => $ARGV[0], Timeout => 5) }
my $old = opened() or die "no connection: $@";
<$old> eq "hello\n" or die "no greeting";
print $old "before\n";
<$old> eq "before\n" or die "no echo";
open my $ready, ">", "/home/agent/ready"; close $ready;
select(undef, undef, undef, 0.001) while !-e "/home/agent/go";
print $old "after\n";
my $said = <$old>;
print defined $said ? "old: $said" : "old: ended\n";
my $new = opened();
$said = $new ? <$new> : undef;
print defined $said ? "new: $said" : "new: refused\n";
"#;

fn write_rules(env: &Env, ports: &[u16]) {
    let entry =
        |port: &u16| format!("    - domain: host.cofferdam.internal\n      ports: [{port}]\n");
    let entries: String = ports.iter().map(entry).collect();
    let text = format!("firewall:\n  allow:\n{entries}");
    let path = env.home.path().join("config.yaml");
    cofferdam::fsx::write_private(&path, text.as_bytes()).unwrap();
}

/// What the program saw of its connections after the pause, and what reached the service.
fn paused(narrowed: bool, gateway_dies: bool) -> (String, Vec<String>) {
    let (env, echo) = (Env::new(), Echo::new());
    cofferdam::fsx::private_dir(env.home.path()).unwrap();
    // The second one is for nobody: what is left is no empty list.
    write_rules(&env, &[echo.port, 1]);
    let said = block_on(async {
        let mut options = options(&env, "one");
        options.network = NetworkOptions::default();
        let session = Session::create(&caller(&env), &options).await.unwrap();
        let port = echo.port.to_string();
        let program = session
            .exec_detached(SessionExec::new(["perl", "-e", PROGRAM, &port]))
            .await
            .unwrap();
        let output = || std::fs::read_to_string(&program.output).unwrap();
        let home = env.home.sandbox(session.id()).join("home");
        until("it waits", &output, || home.join("ready").exists()).await;
        session.pause().await.unwrap();
        if narrowed {
            write_rules(&env, &[1]);
        }
        if gateway_dies {
            kill(gateway_process(&env.home).unwrap().unwrap());
        }
        std::fs::write(home.join("go"), "").unwrap();
        session.resume().await.unwrap();
        until("it has tried", &output, || {
            program.exit().unwrap().is_some()
        })
        .await;
        assert_eq!(program.exit().unwrap(), Some(Exit::Code(0)), "{}", output());
        let said = output();
        drop(session);
        delete(&env, "one").await;
        said
    });
    env.assert_no_state();
    (said, echo.heard())
}

async fn until(what: &str, said: &dyn Fn() -> String, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(30), "{what}: {}", said());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn what_narrowed_rules_refuse_ends_before_the_first_instruction_after_a_pause() {
    let (said, heard) = paused(true, false);
    assert_eq!(said, "old: ended\nnew: refused\n");
    assert_eq!(heard, ["before"]);
    // The control: rules that are as they were end nothing.
    let (said, heard) = paused(false, false);
    assert_eq!(said, "old: after\nnew: hello\n");
    assert_eq!(heard, ["before", "after"]);
}

/// The next gateway has the narrower rules from its beginning.
#[test]
fn nothing_passes_by_a_gateway_that_died_during_a_pause() {
    let (said, heard) = paused(true, true);
    assert_eq!(said, "old: ended\nnew: refused\n");
    assert_eq!(heard, ["before"]);
    // The control: with the rules as they were, what is new passes once there is another gateway.
    let (said, heard) = paused(false, true);
    assert_eq!(said, "old: ended\nnew: hello\n");
    assert_eq!(heard, ["before"]);
}
