//! Rules change while sandboxes are at work.

use cofferdam::fsx;
use cofferdam::registry::{Lifetime, Mode, Owned, Phase, Reach, Record, Strategy, VERSION};
use cofferdam::wall::allowed::Scope;
use cofferdam::wall::change::{Applied, Change, Effect};
use cofferdam::wall::supervisor::{Compiled, Wall};
use cofferdam::wall::{Origin, Rule, WallSpec};

use crate::supervisor::world::{Sandbox, carries, made};
use crate::support::{House, block_on, registered};

const REFUSED: Option<u8> = Some(3);
const FOUND: Option<u8> = Some(0);

/// As a run records it. It is at work as long as the result lives.
fn at_work(spec: &WallSpec, name: &str) -> Owned {
    let record = Record {
        version: VERSION,
        id: spec.sandbox,
        name: cofferdam::names::Slug::from_text(name).unwrap(),
        repository: "/".into(),
        common_dir: None,
        provider: "native".into(),
        image: None,
        mode: Mode::Bind,
        strategy: Strategy::Head,
        branch: None,
        branch_is_ours: false,
        base: "1".repeat(40).parse().unwrap(),
        created: jiff::Timestamp::now(),
        phase: Phase::Active,
        worktree: None,
        made_directories: vec![],
        nested_before: vec![],
        adopted: vec![],
        hidden: vec![],
        protected: vec![],
        checked: false,
        is_check: false,
        on_host: false,
        kept: None,
        outcome: None,
        network: Some(Reach::Allowlist { rules: vec![] }),
        lifetime: Lifetime::Command,
        setup: cofferdam::registry::Setup::Done,
        landed: None,
        landed_at: None,
        squashed: None,
        took_work: false,
        volumes: Vec::new(),
        ports: Vec::new(),
        ports_configured: false,
        dev: None,
        mounts: Vec::new(),
    };
    Owned::create(&spec.home, record).unwrap()
}

fn rule(text: &str) -> Rule {
    Rule::parse(text, Origin::Live).unwrap()
}

fn in_force(applied: &[Applied]) -> usize {
    let in_force = |one: &&Applied| matches!(one.effect, Effect::InForce { .. });
    applied.iter().filter(in_force).count()
}

#[test]
fn a_sandbox_behind_another_versions_gateway_is_named() {
    let house = House::new();
    fsx::private_dir(house.home.path()).unwrap();
    let spec = house.spec(&[]);
    let _works = at_work(&spec, "one");
    let apply = || {
        block_on(async {
            let change = Change::begin(&house.home).await.unwrap();
            change.apply(&Scope::Global).await.unwrap().sandboxes
        })
    };
    let place = house.home.gateway(u32::MAX);
    fsx::private_dir(&place).unwrap();
    fsx::write_private(&place.join("lock"), b"").unwrap();
    // The control: nobody lives there.
    assert!(apply().is_empty());
    let lock = std::fs::File::open(place.join("lock")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    lock.lock().unwrap();
    let applied = apply();
    assert!(
        matches!(
            &applied[..],
            [Applied {
                effect: Effect::Unreachable,
                ..
            }]
        ),
        "{applied:?}"
    );
}

// covers: S1-89 S1-92
#[test]
fn a_rule_counts_at_once_until_its_line_is_removed_and_a_broken_config_changes_nothing() {
    let house = House::new();
    fsx::private_dir(house.home.path()).unwrap();
    let config = house.home.config();
    fsx::write_private(&config, b"firewall: {allow: []}\n").unwrap();
    block_on(async {
        let (one, other) = (house.spec(&[]), house.spec(&[]));
        let _works = (at_work(&one, "one"), at_work(&other, "other"));
        let (_kept, doors) = registered(&one).await;
        let (_also_kept, others) = registered(&other).await;
        assert_eq!(doors.look_up("a.test"), REFUSED);

        let only = Scope::Sandbox(one.sandbox);
        let change = Change::begin(&house.home).await.unwrap();
        change.add(&only, &[rule("a.test:443")]).unwrap();
        let applied = change.apply(&only).await.unwrap().sandboxes;
        assert_eq!((applied.len(), in_force(&applied)), (1, 1), "{applied:?}");
        assert_eq!(doors.look_up("a.test"), FOUND);
        assert_eq!(others.look_up("a.test"), REFUSED);

        change.add(&Scope::Global, &[rule("b.test:443")]).unwrap();
        let applied = change.apply(&Scope::Global).await.unwrap().sandboxes;
        assert_eq!(in_force(&applied), 2, "{applied:?}");
        assert_eq!(
            (doors.look_up("b.test"), others.look_up("b.test")),
            (FOUND, FOUND)
        );

        // A config that cannot be read: what was in force stays.
        fsx::write_private(&config, b"firewall: {allow: [}\n").unwrap();
        let applied = change.apply(&Scope::Global).await.unwrap().sandboxes;
        let kept =
            |one: &Applied| matches!(&one.effect, Effect::Kept(problems) if problems.len() == 1);
        assert!(
            applied.len() == 2 && applied.iter().all(kept),
            "{applied:?}"
        );
        assert_eq!(
            (doors.look_up("a.test"), doors.look_up("b.test")),
            (FOUND, FOUND)
        );
        fsx::write_private(&config, b"firewall: {allow: []}\n").unwrap();

        std::fs::remove_file(Scope::Global.file(&house.home)).unwrap();
        let applied = change.apply(&Scope::Global).await.unwrap().sandboxes;
        assert_eq!(in_force(&applied), 2, "{applied:?}");
        assert_eq!(
            (doors.look_up("b.test"), others.look_up("b.test")),
            (REFUSED, REFUSED)
        );
        assert_eq!(doors.look_up("a.test"), FOUND);
    });
}

/// Who keeps its place knows the list alone: it is written whether somebody does just now or not.
#[test]
fn the_lists_of_long_lived_sandboxes_follow() {
    let sandbox = Sandbox::new(&[]);
    let spec = &sandbox.spec;
    // Its maker is done with it.
    drop(at_work(spec, "one"));
    let scope = Scope::Sandbox(spec.sandbox);
    let list = || {
        let file = std::fs::read(sandbox.rules()).unwrap();
        let rules = cofferdam_wall::supervisor::List::decode(&file)
            .unwrap()
            .rules;
        rules.into_iter().map(|rule| rule.text).collect::<Vec<_>>()
    };
    let change = async |add: &[&str], remove: &[&str]| {
        let change = Change::begin(&sandbox.house.home).await.unwrap();
        for text in add {
            change.add(&scope, &[rule(text)]).unwrap();
        }
        for text in remove {
            let which = cofferdam::wall::allowed::Which::Exactly(Box::new(rule(text)));
            change.remove(&scope, &[which]).unwrap();
        }
        change.apply(&scope).await.unwrap().sandboxes
    };
    block_on(async {
        // The control: without a list it does not live on, and gets none.
        assert!(change(&["a.test:443"], &[]).await.is_empty());
        assert!(!sandbox.rules().exists());
        drop(sandbox.write(&[]).await);
        assert_eq!(list(), ["a.test:443"]);

        // Nobody keeps its place.
        assert!(change(&["allowed.example.com:443"], &[]).await.is_empty());
        assert_eq!(list(), ["a.test:443", "allowed.example.com:443"]);

        let (sockets, doors) = made();
        sandbox.replaced(sockets).await.unwrap();
        carries(doors);
        let applied = change(&["b.test:443"], &["a.test:443"]).await;
        assert_eq!(in_force(&applied), 1, "{applied:?}");
        assert_eq!(list(), ["allowed.example.com:443", "b.test:443"]);
        assert_eq!(
            (doors.look_up("a.test"), doors.look_up("b.test")),
            (REFUSED, FOUND)
        );

        // The gateway that comes next is told them, too.
        crate::support::kill(sandbox.house.gateway());
        carries(doors);
        assert_eq!(
            (doors.look_up("a.test"), doors.look_up("b.test")),
            (REFUSED, FOUND)
        );

        // One that has given up for want of a list has one again.
        std::fs::remove_file(sandbox.rules()).unwrap();
        crate::support::kill(sandbox.house.gateway());
        sandbox
            .becomes("lost", |wall| matches!(wall, Wall::Lost(_)))
            .await;
        drop(sandbox.write(&[]).await);
        let applied = change(&[], &["b.test:443"]).await;
        assert_eq!(in_force(&applied), 1, "{applied:?}");
        carries(doors);
        assert_eq!(doors.look_up("b.test"), REFUSED);

        // A source that cannot be read: the list stays.
        let before = list();
        fsx::write_private(&sandbox.house.home.config(), b"firewall: {allow: [}\n").unwrap();
        let applied = change(&["c.test:443"], &[]).await;
        assert!(matches!(&applied[..], [one] if matches!(one.effect, Effect::Kept(_))));
        assert_eq!(list(), before);
        let again = sandbox.compiled().await;
        assert!(matches!(again, Compiled::Kept(_)), "{again:?}");
        assert_eq!(list(), before);
    });
}
