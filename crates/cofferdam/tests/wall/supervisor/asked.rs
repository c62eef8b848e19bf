//! Who may ask a supervisor, in which version, and how often.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use cofferdam::wall::supervisor::{Supervisor, SupervisorError, VERSION, Wall};
use cofferdam_lab::skip;
use cofferdam_wall::control;
use cofferdam_wall::supervisor::{Heard, Said, read_answer};

use super::world::{RULES, Sandbox, carries};
use crate::support::block_on;

/// One question in these bytes; the body of the answer, `None` where there is none.
fn ask(stream: &mut UnixStream, body: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    stream.write_all(&[&length[..], body].concat()).ok()?;
    let mut head = [0; control::HEAD];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; control::body_length(head).unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some(body)
}

/// Its socket by a path that is short, as long as the directory is open.
fn nearby(sandbox: &Sandbox) -> (File, String) {
    let directory = File::open(sandbox.directory()).unwrap();
    let path = format!("/proc/self/fd/{}/supervisor.sock", directory.as_raw_fd());
    (directory, path)
}

/// Whether the other side has ended it, and no limit of ours.
fn has_ended(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn connect(sandbox: &Sandbox) -> UnixStream {
    let (_directory, path) = nearby(sandbox);
    let stream = UnixStream::connect(path).unwrap();
    stream
        .set_read_timeout(Some(crate::support::LIMIT))
        .unwrap();
    stream
}

/// Attack 94, whatever the modes of the files have become.
#[test]
fn others_are_not_answered() {
    if !rustix::process::getuid().is_root() {
        return skip!("only root can become somebody else");
    }
    let sandbox = Sandbox::new(&[]);
    block_on(async {
        let (_, status) = sandbox.start(None).await.unwrap();
        for path in sandbox.directory().ancestors().take(4) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(sandbox.socket(), fs::Permissions::from_mode(0o666)).unwrap();
        let answered = |uid: Option<u32>| {
            std::thread::scope(|scope| {
                let asks = scope.spawn(|| {
                    if let Some(uid) = uid.map(rustix::thread::Uid::from_raw) {
                        // Of this thread alone.
                        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                    }
                    // Status, and stop.
                    let status = ask(&mut connect(&sandbox), &[1, 0]).is_some();
                    (
                        status,
                        uid.is_some() && ask(&mut connect(&sandbox), &[1, 1]).is_some(),
                    )
                });
                asks.join().unwrap()
            })
        };
        assert_eq!(answered(None), (true, false));
        assert_eq!(answered(Some(1234)), (false, false));
        assert_eq!(sandbox.status().await, Some(status));
    });
}

/// And who asks does not believe another user's socket.
#[test]
fn a_stranger_is_not_asked() {
    if !rustix::process::getuid().is_root() {
        return skip!("only root can become somebody else");
    }
    let sandbox = Sandbox::new(&[]);
    let directory = sandbox.directory();
    for path in directory.ancestors().take(4) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    // A socket's path is short, and whoever binds it here knows no other way than its path.
    let short = tempfile::tempdir().unwrap();
    fs::set_permissions(short.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&directory, short.path().join("s")).unwrap();
    let socket = sandbox.socket();
    let socket = short.path().join("s").join(socket.file_name().unwrap());
    std::thread::scope(|scope| {
        let strangers = scope.spawn(|| {
            let uid = rustix::thread::Uid::from_raw(1234);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            UnixListener::bind(&socket).unwrap()
        });
        let listener = strangers.join().unwrap();
        let found = block_on(Supervisor::connect(&directory)).map(|_| ());
        assert!(
            matches!(found, Err(SupervisorError::Stranger(1234))),
            "{found:?}"
        );
        drop(listener);
    });
    fs::remove_file(sandbox.socket()).unwrap();
}

/// A newer command, and an older one: its status is told, and it can be stopped.
#[test]
fn a_client_of_another_version_hears_the_version_and_can_stop_it() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, status, doors) = sandbox.handed_over().await;
        for version in [0, 2, 99] {
            let heard = |kind: u8| {
                // What that version says behind it is its own.
                let body = ask(&mut connect(&sandbox), &[version, kind, 7, 7]).unwrap();
                assert_eq!(u32::from(body[0]), VERSION);
                read_answer(&body).unwrap()
            };
            let told = heard(0);
            let process = status.process;
            assert!(
                matches!(&told, Heard::Ours(cofferdam_wall::supervisor::Answer::Status(status))
                    if status.process == process && status.wall == Wall::Carried),
                "{told:?}"
            );
            let refused = heard(2);
            assert!(
                matches!(
                    &refused,
                    Heard::Ours(cofferdam_wall::supervisor::Answer::Refused(_))
                ),
                "{refused:?}"
            );
            carries(doors);
        }
        let stopped = ask(&mut connect(&sandbox), &[99, 1, 7]).unwrap();
        assert_eq!(stopped, [1, 1]);
        assert!(!sandbox.is_locked());
    });
}

/// What a supervisor of another version would answer to each connection.
fn other_version(listener: &UnixListener) {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; control::HEAD];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; control::body_length(head).unwrap()];
        stream.read_exact(&mut body).unwrap();
        let answer: &[u8] = match body[1] {
            0 => &[99, 0, 7, 200, 200, 200],
            1 => &[99, 1, 200],
            _ => &[99, 2, 2, b'n', b'o'],
        };
        let length = u32::try_from(answer.len()).unwrap().to_le_bytes();
        stream.write_all(&[&length[..], answer].concat()).unwrap();
        if body[1] == 1 {
            return;
        }
    }
}

#[test]
fn a_supervisor_of_another_version_is_named_and_can_be_stopped() {
    let sandbox = Sandbox::new(&[]);
    let (_directory, path) = nearby(&sandbox);
    let listener = UnixListener::bind(path).unwrap();
    let other = std::thread::spawn(move || other_version(&listener));
    block_on(async {
        let (supervisor, status) = Supervisor::connect(&sandbox.directory())
            .await
            .unwrap()
            .unwrap();
        assert_eq!((status.process, status.version), (7, 99));
        assert_eq!(status.wall, None);
        let change = sandbox.write(&[]).await;
        let refused = supervisor.reload(&change).await;
        assert!(
            matches!(refused, Err(SupervisorError::OtherVersion(99))),
            "{refused:?}"
        );
        supervisor.stop().await.unwrap();
    });
    other.join().unwrap();
    fs::remove_file(sandbox.socket()).unwrap();
    assert_eq!(
        read_answer(&[99, 2, 2, b'n', b'o']).unwrap(),
        Heard::Other {
            version: 99,
            said: Said::Refused("no".to_owned())
        }
    );
}

#[test]
fn nobody_keeps_the_others_from_being_heard() {
    let sandbox = Sandbox::new(&[]);
    block_on(async {
        let (_, status) = sandbox.start(None).await.unwrap();
        // Many that say nothing, half a head, half a body; nonsense; a frame without an end.
        let mut silent: Vec<_> = (0..64).map(|_| connect(&sandbox)).collect();
        for (at, stream) in silent.iter_mut().enumerate() {
            let said: &[u8] = match at % 4 {
                0 => &[],
                1 => &[2, 0],
                2 => &[2, 0, 0, 0, 1],
                _ => &[40, 0, 0, 0, 1, 2, 3],
            };
            // Those in whose place another one came hear an end.
            let _ = stream.write_all(said);
        }
        for _ in 0..20 {
            assert_eq!(sandbox.status().await, Some(status.clone()));
        }
        let nonsense: [&[u8]; 5] = [&[], &[1], &[1, 9], &[1, 0, 0], &[255; 60]];
        for body in nonsense {
            assert_eq!(ask(&mut connect(&sandbox), body), None, "{body:?}");
        }
        let mut long = connect(&sandbox);
        long.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(has_ended(&mut long));
        assert_eq!(sandbox.status().await, Some(status));
        // In the end all of them are forgotten.
        for stream in &mut silent {
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            assert!(has_ended(stream));
        }
    });
}
