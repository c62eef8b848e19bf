//! The native sandbox, for real: as root where the tests run as root, and as uid 1234.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Instant;

use cofferdam::names::{SandboxId, Slug};
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::*;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

fn spec() -> SandboxSpec {
    SandboxSpec {
        id: SandboxId::random().unwrap(),
        slug: Slug::from_text("test").unwrap(),
        hostname: "test".into(),
        workdir: "/workspace".into(),
        mounts: vec![],
        environment: BTreeMap::new(),
        search_path: None,
        caller_home: None,
        limits: Limits::default(),
        network: Network::None,
    }
}

#[tokio::test]
async fn smoke() {
    let cancel = CancellationToken::new();
    let native = Native::new(NativeOptions::default());
    for _ in 0..5 {
        let t = Instant::now();
        let sandbox = native.create(&spec(), &cancel).await.unwrap();
        let t1 = t.elapsed();
        let mut run = sandbox
            .exec(ExecRequest { arguments: vec!["true".into()], ..Default::default() })
            .await
            .unwrap();
        let t2 = t.elapsed();
        assert!(run.wait().await.unwrap().success());
        let t3 = t.elapsed();
        sandbox.close().await.unwrap();
        eprintln!("create {t1:?} exec {t2:?} exit {t3:?} gone {:?}", t.elapsed());
    }
    let sandbox = native.create(&spec(), &cancel).await.unwrap();
    let script = "id; cat /proc/self/status | egrep 'Cap|Secc|NoNew|Uid'; ls -la / /dev /etc; cat /proc/self/mountinfo; cat /proc/self/uid_map; echo x >/usr/x; ps ax; sleep 0.1";
    let mut run = sandbox
        .exec(ExecRequest {
            arguments: vec!["sh".into(), "-c".into(), script.into()],
            ..Default::default()
        })
        .await
        .unwrap();
    let mut out = String::new();
    run.take_stdout().unwrap().read_to_string(&mut out).await.unwrap();
    let mut err = String::new();
    run.take_stderr().unwrap().read_to_string(&mut err).await.unwrap();
    eprintln!("{:?}\n{out}\n{err}", run.wait().await);
}
