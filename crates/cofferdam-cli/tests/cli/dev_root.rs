//! Commands of the configuration that are root's, and files that are not the agent's: in dev sandboxes in containers.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam::fsx::write_private;

use crate::containers::{self, World};
use crate::lives::Lives;

const CONFIG: &str = r#"
sync:
  - {src: ~/tool, dest: /usr/local/bin/tool, mode: "0755", owner: root}
  - {src: ~/data, dest: /opt/deep/data, owner: "12:34"}
  - {src: ~/data, dest: ~/of-the-agent}
  - {src: ~/data, dest: /opt/nobodys, owner: nosuch}
  - {src: ~/data, dest: /opt/nobodys, owner: "4294967295"}
  - {src: ~/data, dest: ~/roots, owner: root}
  - {src: CHECKOUT/tool, dest: /opt/agents, owner: root}
env:
  LD_PRELOAD: /workspace/repository/x.so
on_sync:
  - cmd: |
      id -u && grep ^Cap /proc/self/status > /rights && pwd > /place && env | sort > /variables
      echo of-root > /etc/of-root && chown 1:2 /etc/of-root || exit 7
      chmod u+s /etc/of-root && exit 8
      (setsid sh -c 'while :; do echo x >> /root-count; sleep 0.01; done' &) >/dev/null 2>&1 </dev/null
      sleep 0.2
    name: the root's
    root: true
  - cmd: /usr/local/bin/tool > seen
"#;
/// What the sync says of those.
const REFUSED: [&str; 4] = [
    "nobody in this sandbox is `nosuch`",
    "nobody in this sandbox is `4294967295`",
    "what is in /home/agent/roots is the agent's",
    "tool: an agent may have written it",
];
/// What of root's is there beside the child of process 1 that listens to the host, which has its words.
const OF_ROOT: &str = r#"
    words() { tr '\0' ' ' < $1/cmdline; }
    for one in /proc/[0-9]*; do
        grep -qs '^Uid:.0' $one/status || continue
        test "$(words $one)" = "$(words /proc/1)" || words $one
    done
    true"#;

fn configure(world: &World, text: &str) {
    let home = world.environment.home();
    for (name, content) in [("tool", "#!/bin/sh\necho of-tool\n"), ("data", "text\n")] {
        write_private(&home.join(name), content.as_bytes()).unwrap();
    }
    world.environment.configure(text);
}

#[track_caller]
fn inside(world: &World, script: &str) -> String {
    world.exec_in("dev", script).expect_code(0).stdout
}

// covers: S1-16, S1-18, S1-50, S1-104, S1-107
#[test]
fn a_root_of_the_configurations_alone() {
    for world in containers::worlds() {
        if world.engine == "docker" && world.is_rootless() {
            nobody_beside_its_user(&world);
            continue;
        }
        let checkout = world.environment.repository();
        write_private(&checkout.join("tool"), b"text").unwrap();
        configure(
            &world,
            &CONFIG.replace("CHECKOUT", checkout.to_str().unwrap()),
        );
        let start = containers::making("start", world.engine, &[]);
        let made = world.cofferdam(&start).expect_code(0);
        for refused in REFUSED {
            assert!(made.stderr.contains(refused), "{refused}: {made}");
        }
        let seen = inside(
            &world,
            "stat -c '%n %u:%g %a' /etc/of-root /usr/local/bin/tool /opt/deep/data; cat ~/seen; stat -c %U ~/of-the-agent",
        );
        let wanted = "/etc/of-root 1:2 644\n/usr/local/bin/tool 0:0 755\n/opt/deep/data 12:34 644\nof-tool\nagent\n";
        assert_eq!(seen, wanted, "{}", world.engine);

        // What it left running has ended, and nobody else is root, or can be.
        assert_eq!(inside(&world, OF_ROOT), "", "{}", world.engine);
        let count = "wc -c < /root-count";
        assert_eq!(
            inside(&world, count),
            inside(&world, &format!("sleep 0.1; {count}"))
        );
        let rights = inside(
            &world,
            "grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d ' \\t'",
        );
        let none = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
            .map(|set| format!("{set}:{:016x}\n", 0));
        assert_eq!(
            rights,
            format!("{}NoNewPrivs:1\n", none.concat()),
            "{}",
            world.engine
        );
        let tried = inside(
            &world,
            "chmod 777 /etc/of-root 2>/dev/null || echo no; chown agent /opt/deep/data 2>/dev/null || echo no",
        );
        assert_eq!(tried, "no\nno\n");
        // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID and SETUID.
        let rights = inside(&world, "cut -f 2 /rights | uniq | tr '\\n' ' '");
        let (none, its_own) = (format!("{:016x}", 0), format!("{:016x}", 0xdb));
        assert_eq!(
            rights,
            format!("{none} {its_own} {none} "),
            "{}",
            world.engine
        );

        // In nothing of the agent's, with nothing of theirs.
        assert_eq!(inside(&world, "cat /place"), "/\n");
        let variables = inside(
            &world,
            "cut -d = -f 1 /variables | grep -v ^COFFERDAM_ | tr '\\n' ' '",
        );
        assert!(
            variables.contains("HOME ")
                && !variables.contains("LD_")
                && !variables.contains("TERM "),
            "{variables}"
        );
        let home = inside(&world, "grep -E '^(HOME|PATH)=' /variables");
        assert_eq!(
            home,
            "HOME=/root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        );

        // It lives as any other.
        for command in ["pause", "resume", "collect"] {
            world.cofferdam(&[command, "dev"]).expect_code(0);
        }
        let doctor = world.cofferdam(&["doctor", "dev"]).expect_code(0);
        assert!(doctor.stdout.contains("your commands as root"), "{doctor}");

        // One that fails is said, with its words.
        configure(&world, "on_sync: [{cmd: 'echo why; exit 3', root: true}]\n");
        let failed = world.cofferdam(&["sync", "dev"]).expect_code(1);
        assert!(
            failed.stderr.contains("why") && failed.stderr.contains('3'),
            "{failed}"
        );

        // One whose command is killed ends.
        configure(&world, "on_sync: [{cmd: 'sleep 1000; true', root: true}]\n");
        let mut command = world.command(&["sync", "dev"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let of_root = || {
            let words = ["exec", &world.agents(), "sh", "-c", OF_ROOT];
            containers::own(world.engine, &words).unwrap()
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !of_root().contains("sleep") {
            assert!(Instant::now() < until, "{}", world.engine);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while of_root().contains("sleep") {
            assert!(Instant::now() < until, "{}", world.engine);
        }
        configure(&world, "{}\n");
        world.cofferdam(&["restart"]).expect_code(0);
        let format = "{{.HostConfig.CapAdd}}";
        let added = containers::own(
            world.engine,
            &["inspect", "--format", format, &world.agents()],
        );
        assert_eq!(added.unwrap().trim(), "[]", "{}", world.engine);

        // Wanted later it is there from the next start on.
        configure(
            &world,
            "on_sync: [{cmd: 'id -u > /etc/later', root: true}]\n",
        );
        let later = world.cofferdam(&["sync", "dev"]).expect_code(0);
        assert!(later.stderr.contains("started again"), "{later}");
        world.cofferdam(&["restart"]).expect_code(0);
        assert_eq!(inside(&world, "cat /etc/later"), "0\n");
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);

        // Nobody is root in others.
        let made = world
            .make("create", &["one", "--network", "none"])
            .expect_code(0);
        assert!(
            made.stderr.contains("dev sandboxes in Docker or Podman"),
            "{made}"
        );
        let added = containers::own(
            world.engine,
            &["inspect", "--format", format, &world.agents()],
        );
        assert_eq!(added.unwrap().trim(), "[]", "{}", world.engine);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// Whose engine it is is root there already.
fn nobody_beside_its_user(world: &World) {
    configure(world, "on_sync: [{cmd: 'touch /never', root: true}]\n");
    let start = containers::making("start", world.engine, &[]);
    let made = world.cofferdam(&start).expect_code(0);
    assert!(made.stderr.contains("nobody else can be"), "{made}");
    inside(world, "test ! -e /never");
    world
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

#[test]
fn nobody_is_root_natively() {
    let lives = Lives::new();
    let config = "on_sync: [{cmd: 'touch ~/never', root: true}, {cmd: touch ~/after}]\n";
    lives.configure(config);
    let made = lives.cofferdam(&["start"]).expect_code(0);
    assert!(
        made.stderr.contains("nobody in this sandbox is root"),
        "{made}"
    );
    assert_eq!(lives.exec("dev", "cd; ls").expect_code(0).stdout, "after\n");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}
