//! Connections to servers in a sandbox that lives on.

use std::time::{Duration, Instant};

use cofferdam::session::living;
use cofferdam::session::{Session, SessionError, SessionExec};

use crate::living::{caller, delete, find, open, options};
use crate::port;
use crate::support::{Env, block_on, provider};

/// Tells each of its clients, at their end, what they said.
const SERVER: &str = "my $s = IO::Socket::INET->new(LocalAddr => q(127.0.0.1), LocalPort => 8001, Listen => 9) or die; \
    while (my $c = $s->accept) { local $/; my $all = <$c>; print $c qq(got $all); close $c }";

async fn answered(session: &Session) -> Result<String, SessionError> {
    Ok(port::answered(session.connect(8001).await?).await)
}

#[test]
fn a_server_inside_is_connected_to() {
    let env = Env::new();
    block_on(async {
        let made = Session::create(&caller(&env), &options(&env, "one")).await;
        let session = made.unwrap();
        let server = SessionExec::new(["perl", "-MIO::Socket::INET", "-e", SERVER]);
        session.exec_detached(server).await.unwrap();
        session.detach();
        let session = open(&env, "one").await.unwrap();
        let began = Instant::now();
        // It may not listen yet.
        let said = loop {
            match answered(&session).await {
                Ok(said) => break said,
                Err(error) => {
                    let nobody = "sandbox `one`: nothing in the sandbox listens on port 8001";
                    assert_eq!(error.to_string(), nobody);
                    assert!(began.elapsed() < Duration::from_secs(20));
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        assert_eq!(said, "got this");
        // What nobody inside listens on is nobody's outside either.
        let error = session.connect(8002).await.unwrap_err();
        assert!(
            error.to_string().ends_with("listens on port 8002"),
            "{error}"
        );

        session.pause().await.unwrap();
        let refused = answered(&session).await;
        assert!(
            matches!(refused, Err(SessionError::Paused { .. })),
            "{refused:?}"
        );
        session.resume().await.unwrap();
        // While its work is collected it waits.
        let collector = open(&env, "one").await.unwrap();
        collector.sandbox().freeze().await.unwrap();
        let thaw = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            collector.sandbox().thaw().await.unwrap();
            Instant::now()
        };
        let connect = async {
            let said = answered(&session).await;
            (said.unwrap(), Instant::now())
        };
        let (thawed, (said, connected)) = tokio::join!(thaw, connect);
        assert_eq!(said, "got this");
        assert!(connected > thawed);

        drop(collector);
        // One whose files are gone is not used, and one that is stopped not open.
        let files = session.record().workspace(&env.home);
        let away = env.dir.path().join("away");
        std::fs::rename(&files, &away).unwrap();
        let missing = answered(&session).await;
        assert!(
            matches!(missing, Err(SessionError::Missing { .. })),
            "{missing:?}"
        );
        std::fs::rename(&away, &files).unwrap();
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let gone = answered(&session).await.unwrap_err();
        assert!(
            matches!(
                gone,
                SessionError::Sandbox { .. } | SessionError::Stopped { .. }
            ),
            "{gone}"
        );
        let stopped = open(&env, "one").await;
        assert!(
            matches!(stopped, Err(SessionError::Stopped { .. })),
            "{stopped:?}"
        );
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}
