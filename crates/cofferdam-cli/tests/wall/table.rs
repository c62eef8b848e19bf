//! The attacks by number, their run, and the table at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::verdict::{self, Kind, Verdict};

use crate::bench::Bench;
use crate::engine::{self, Engine};
use crate::selection::Selection;
use crate::trial::Trial;
use crate::{
    addresses, agents, inside, life, loading, lookups, names, packets, services, upstream,
};

type Attack = (u8, &'static str, fn(&mut Trial<'_>));

/// By number; 0 are the agents as they are. Those that end the gateway or change the config come last.
const ATTACKS: [Attack; 34] = [
    (1, "address_that_no_rule_names", addresses::denied_address),
    (2, "name_that_no_rule_names", lookups::denied_name),
    (3, "port_that_no_rule_names", addresses::denied_port),
    (4, "tunnel_through_lookups", lookups::tunnel),
    (5, "name_server_of_ones_own", lookups::own_server),
    (6, "ipv6", addresses::ipv6),
    (7, "udp_to_an_allowed_address", packets::udp),
    (8, "ping", packets::ping),
    (9, "raw_and_packet_sockets", packets::raw_sockets),
    (
        10,
        "becoming_root_and_flushing_the_rules",
        inside::privilege,
    ),
    (11, "metadata_services", services::metadata),
    (12, "services_of_the_host", services::host),
    (13, "another_sandbox", services::sibling),
    (14, "race_with_the_start", life::start_race),
    (15, "stopped_and_continued", life::stop_and_continue),
    (19, "another_server_name", names::server_name),
    (20, "another_host_header", names::host_header),
    (21, "rebinding_and_a_bad_upstream", upstream::rebinding),
    (22, "rotation_of_addresses", upstream::rotation),
    (23, "shared_address", addresses::shared),
    (24, "program_that_ignores_the_proxy", inside::environment),
    (25, "names_that_look_alike", names::look_alikes),
    (27, "around_a_range", addresses::range),
    (30, "lookups_of_other_kinds", lookups::other_kinds),
    (31, "redirection", names::redirection),
    (32, "control_surfaces", inside::surfaces),
    (33, "interface_moved_in_by_hand", inside::moved_interface),
    (0, "real_agents_and_the_default_list", agents::default_list),
    (26, "connection_that_outlives_its_rule", life::rule_goes),
    (18, "rules_that_do_not_load", loading::broken),
    (28, "rules_that_are_too_wide", loading::too_wide),
    (29, "text_that_is_no_rule", loading::injection),
    (17, "everything_started_again", life::start_again),
    (16, "gateway_killed_and_stopped", life::gateway_dies),
];

pub(crate) fn list() -> ExitCode {
    for (_, name, _) in ATTACKS {
        println!("{name}: test");
    }
    ExitCode::SUCCESS
}

/// From which engines none of them is made.
pub(crate) fn say_untried() {
    let why = "an ordinary user's lab is a user namespace with one id, in which no engine of theirs starts; \
               conformance tries their wall";
    for engine in ["docker", "podman"] {
        let verdict = Verdict::NotTried(why);
        verdict::record(&verdict::who(engine), Kind::Attack, "1 to 33", verdict);
    }
}

/// Of so many neighbours `scripts/test` wants one; all of them where it does not say so.
fn share() -> Option<u64> {
    let given = std::env::var("COFFERDAM_TEST_SHARE").ok()?;
    Some(given.parse().unwrap())
}

struct Row {
    number: u8,
    name: &'static str,
    works: bool,
    fired: bool,
    refused: bool,
    millis: u128,
    problems: Vec<String>,
}

impl Row {
    fn is_good(&self) -> bool {
        self.works && self.fired && self.refused && self.problems.is_empty()
    }
}

/// Runs the chosen ones in one lab. In the house's namespace.
pub(crate) fn run(directory: &Path, selection: &Selection) -> ExitCode {
    let start = Instant::now();
    // The agents have sandboxes of their own, all of them native.
    let is_meant = |number: u8| number > 0 || engine::wanted().is_none();
    let chosen = ATTACKS
        .iter()
        .filter(|(number, name, _)| is_meant(*number) && selection.takes(name));
    let chosen: Vec<&Attack> = match share() {
        Some(share) => Sample::new(engine::wanted().unwrap_or("native")).of(chosen, share),
        None => chosen.collect(),
    };
    if chosen.is_empty() {
        println!("test result: ok. 0 passed; 0 failed");
        return ExitCode::SUCCESS;
    }
    // None is missing from the list itself.
    let mut numbers: Vec<u8> = ATTACKS.iter().map(|(number, ..)| *number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..=33));
    let engine = engine::wanted().map(|name| Engine::start(name, directory));
    let bench = Bench::new(directory);
    if let Some(engine) = &engine {
        // Those behind the wall are what they are said to be.
        let containers = engine.containers();
        assert!(containers >= 2, "{containers}");
    }
    println!("lab and sandboxes after {} ms", start.elapsed().as_millis());
    let mut rows: Vec<Row> = chosen
        .into_iter()
        .map(|attack| row(&bench, attack))
        .collect();
    rows.sort_by_key(|row| row.number);
    let provider = engine::wanted().unwrap_or("native");
    println!(
        "\nin {provider}\n| # | attack | allowed works | control fired | refused behind the wall | ms |"
    );
    println!("|---|---|---|---|---|---|");
    let shown = |yes: bool| if yes { "yes" } else { "NO" };
    for row in &rows {
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            row.number,
            row.name,
            shown(row.works),
            shown(row.fired),
            shown(row.refused && row.problems.is_empty()),
            row.millis,
        );
    }
    for row in rows.iter().filter(|row| row.is_good()) {
        let name = format!("{} {}", row.number, row.name);
        verdict::record(provider, Kind::Attack, &name, Verdict::Passed);
    }
    let bad: Vec<&Row> = rows.iter().filter(|row| !row.is_good()).collect();
    for row in &bad {
        println!("\n{} {}:", row.number, row.name);
        for problem in &row.problems {
            println!("  {problem}");
        }
    }
    println!(
        "\nskipped: {}\ntest result: {}. {} passed; {} failed; finished in {:.1} s",
        ATTACKS.len() - rows.len(),
        if bad.is_empty() { "ok" } else { "FAILED" },
        rows.len() - bad.len(),
        bad.len(),
        start.elapsed().as_secs_f32(),
    );
    if !bad.is_empty() {
        bench.say_what_was_said();
    }
    let code = ExitCode::from(u8::from(!bad.is_empty()));
    drop((bench, engine));
    code
}

fn row(bench: &Bench, (number, name, attack): &Attack) -> Row {
    let start = Instant::now();
    let mut trial = Trial::new(bench, *number);
    let ended = catch_unwind(AssertUnwindSafe(|| attack(&mut trial)));
    let mut problems = trial.problems;
    if let Err(panic) = ended {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        problems.push(format!("panicked: {}", text.unwrap_or_default()));
    }
    let row = Row {
        number: *number,
        name,
        works: trial.works,
        fired: trial.fired,
        refused: trial.refused,
        millis: start.elapsed().as_millis(),
        problems,
    };
    println!("{name} ... {}", if row.is_good() { "ok" } else { "FAILED" });
    row
}
