//! A sandbox of a user's own provider is nobody else's: no other one opens, stops, starts or ends it.

use std::sync::Arc;

use cofferdam::sandbox::{BindMount, BindMountProvider};
use cofferdam::session::living;
use cofferdam::session::manage::{self, DeleteOptions};
use cofferdam::session::{NetworkOptions, Session, SessionError, SessionOptions};

use super::own::{Fault, Own};
use crate::bad_input::branch;
use crate::living::{caller, find};
use crate::support::{Env, block_on, provider, target};

/// One that goes on, called `one`.
async fn made(env: &Env, own: &Own) {
    let sandbox = BindMount::new(own.clone(), branch("topic"));
    let mut options = SessionOptions::new(&env.repo, sandbox);
    options.name = Some("one".to_owned());
    options.network = NetworkOptions::None;
    let session = Session::create(&caller(env), &options).await.unwrap();
    session.detach();
}

#[track_caller]
fn refuses<T>(done: Result<T, SessionError>) {
    let Err(refused) = done else {
        panic!("it was done");
    };
    assert_eq!(
        refused.to_string(),
        "sandbox `one` is one of the provider `own`, which is not at hand"
    );
}

#[test]
fn no_other_provider_does_anything_with_it() {
    let env = Env::new();
    let own = Own::new(Fault::None);
    block_on(async {
        made(&env, &own).await;
        let (caller, native) = (caller(&env), provider());
        let named = async || find(&env, "one").await.unwrap();
        refuses(Session::open(&caller, named().await, &native).await);
        refuses(living::condition(&caller, &named().await, &native).await);
        refuses(living::stop(&caller, &named().await, &native).await);
        refuses(living::start(&caller, named().await, &native).await);
        refuses(living::end_if_safe(&caller, &named().await, &native).await);
        refuses(living::end(&caller, &named().await, &native).await);
        assert_eq!(
            own.diary.lock().unwrap().last().unwrap(),
            "create in /workspace/repo"
        );
        let again = Session::open(&caller, named().await, &own).await.unwrap();
        again.detach();
        living::end(&caller, &named().await, &own).await.unwrap();
    });
    let diary = own.diary.lock().unwrap();
    assert!(diary.contains(&"open".to_owned()), "{diary:?}");
    assert_eq!(diary.last().unwrap(), "remove");
}

/// Where its repository is gone, too.
#[test]
fn who_deletes_one_without_a_repository_leaves_its_programs_to_its_provider() {
    let env = Env::new();
    let own = Own::new(Fault::None);
    block_on(async {
        made(&env, &own).await;
        let named = find(&env, "one").await.unwrap();
        let id = named.record().id;
        std::fs::rename(&env.repo, env.dir.path().join("away")).unwrap();
        let mut target = target(&env, &id).0;
        target.repository = env.dir.path().to_owned();
        let refused = manage::delete(&target, DeleteOptions::forced()).await;
        let told = refused.unwrap_err().to_string();
        let why = "sandbox `one` is one of the provider `own`, which is not at hand; ";
        assert!(told.starts_with(why), "{told}");
        let handle = cofferdam::sandbox::Handle {
            id,
            state: env.home.sandbox(id),
        };
        let own: Arc<dyn BindMountProvider> = Arc::new(own);
        own.open(&handle).await.unwrap();
        own.remove(&handle).await.unwrap();
        let mut purge = DeleteOptions::forced();
        purge.purge = true;
        manage::delete(&target, purge).await.unwrap();
        env.assert_no_state();
    });
}
