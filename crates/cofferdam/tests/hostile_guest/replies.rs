//! Answers that fit no question, and silence.

use std::time::{Duration, Instant};

use crate::support::{command, run};
use cofferdam::sandbox::{BindMount, BranchStrategy, CopyStrategy, Exit, Isolated};
use proptest::prelude::*;

use crate::world::{End, Hostile, Pretence, env, is_cleaned_up, survives};

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => any::<i32>().prop_map(|code| End::Exit(Exit::Code(code))),
        2 => any::<i32>().prop_map(|signal| End::Exit(Exit::Signal(signal))),
        1 => Just(End::Gone),
    ]
}

fn pretences() -> impl Strategy<Value = Pretence> {
    let word = prop_oneof![
        any::<Vec<u8>>(),
        Just(b"1234567890123456789012345678901234567890".to_vec()),
        Just(b"refs/heads/main".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"PACK\0\0\0\x02\xff\xff\xff\xff".to_vec()),
        Just(vec![b'x'; 70_000]),
    ];
    let stream = proptest::collection::vec(word, 0..8).prop_map(|words| words.concat());
    (stream, any::<Vec<u8>>(), ends()).prop_map(|(stdout, stderr, end)| Pretence {
        stdout,
        stderr,
        end,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 20,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    /// An isolated sandbox that answers every question with something else.
    #[test]
    fn replies_from_a_fuzzer(said in proptest::collection::vec(pretences(), 1..6)) {
        let env = env();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let what = format!("{said:?}");
        let hostile = Hostile::new(move |_| {
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            said[number % said.len()].clone()
        });
        let _ = survives(&env, Isolated::new(hostile, CopyStrategy::MergeToHead), &what);
        is_cleaned_up(&env, &what);
    }
}

/// The agent's failure is the error, and nobody takes the commits for home.
#[test]
fn when_the_agent_fails_and_collecting_too_both_are_said() {
    let env = env();
    let hostile = Hostile::new(|request| {
        let line = request.arguments.last().unwrap().to_string_lossy();
        let end = if line == "/bin/true" {
            End::Exit(Exit::Code(3))
        } else if line.contains("rev-parse") || line.contains("pack-objects") {
            End::Gone
        } else {
            End::Exit(Exit::Code(0))
        };
        Pretence {
            end,
            ..Pretence::says("")
        }
    });
    let sandbox = Isolated::new(hostile, CopyStrategy::MergeToHead);
    let error = survives(&env, sandbox, "both fail").unwrap_err();
    assert!(error.to_string().contains("exit code 3"), "{error}");
    let said = env.said();
    assert!(said.contains("its commits are not home yet: "), "{said}");
    is_cleaned_up(&env, "both fail");
}

/// Silence: an agent that never ends and cannot be killed, in a sandbox that does not close.
#[test]
fn silence_is_bounded() {
    let env = env();
    let mut hostile = Hostile::new(|_| Pretence {
        end: End::Never,
        ..Pretence::says("hello\n")
    });
    hostile.stays = true;
    let began = Instant::now();
    let mut options = env.with(
        BindMount::new(hostile, BranchStrategy::Head),
        command(&["/bin/true"]),
    );
    options.task.idle_timeout = Duration::from_millis(200);
    let result = run(options);
    assert!(result.is_err());
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    env.assert_no_state();
}
