//! Futures of a session that nobody waits for any more.

use std::time::Duration;

use cofferdam::git::Git;
use cofferdam::session::living::Named;
use cofferdam::session::{NetworkOptions, Session};

use crate::living::{COMMIT, bound, caller, delete, open, sh};
use crate::living_faults::git_that_hangs;
use crate::support::{Env, block_on, provider};

/// A session that is still open does not leave its programs standing for good.
#[test]
fn programs_go_on_where_nobody_waits_for_collecting() {
    let env = Env::new();
    let hangs = git_that_hangs(&env);
    block_on(async {
        let mut made = bound(&env, "one");
        made.network = NetworkOptions::None;
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        drop(session);
        let mut waits = caller(&env);
        waits.git = Git::new(&hangs);
        let named = Named::find(&waits, &env.repo, "one").await.unwrap();
        let hangs = Session::open(&waits, named, &provider()).await.unwrap();
        let looks = open(&env, "one").await.unwrap();
        let until = async |frozen: bool| {
            while looks.sandbox().status().await.unwrap().frozen != frozen {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        for _ in 0..3 {
            tokio::select! {
                home = hangs.collect() => panic!("{home:?}"),
                () = until(true) => {}
            }
            let went_on = tokio::time::timeout(Duration::from_secs(60), until(false));
            went_on.await.expect("they stand still, and nobody waits");
            assert_eq!(sh(&looks, "echo on").await, "on");
        }
        // Nor does what is said late let anything go on that stands still for the next one.
        tokio::select! {
            home = hangs.collect() => panic!("{home:?}"),
            () = until(true) => {}
        }
        tokio::select! {
            home = hangs.collect() => panic!("{home:?}"),
            () = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let stands = tokio::time::timeout(Duration::from_secs(20), until(true));
                stands.await.expect("they go on while they are collected");
            } => {}
        }
        let home = looks.collect().await.unwrap();
        assert_eq!(home.commits.len(), 1, "{home:?}");
        drop((hangs, looks));
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}
