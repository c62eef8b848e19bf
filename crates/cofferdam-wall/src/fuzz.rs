//! What hostile bytes reach, under changed inputs: see `cofferdam_lab::fuzz`. No input makes a parser panic, and the
//! way in which bytes arrive changes nothing.

use cofferdam_lab::fuzz::mutate;

use crate::control::{self, Answer, Ask, Registrant, RuleLine, Seen};
use crate::{ClientHello, Origin, Policy, Rule, Synthetic, dns, supervisor};

/// A frame that is read is written again as it was meant.
#[test]
fn fuzz_gateway_protocol() {
    let line = RuleLine {
        text: "a.test:443 tls".to_owned(),
        origin: Origin::Flag,
    };
    let asks = [
        Ask::Register(Registrant {
            sandbox: "one".to_owned(),
            rules: vec![line.clone(); 3],
            epoch: 7,
            proving: Some([9; control::ANSWER]),
        }),
        Ask::Open,
        Ask::Explain {
            rules: vec![line],
            host: "a.test".to_owned(),
            port: 443,
        },
    ];
    let answers = [
        Answer::Seen(Seen::default()),
        Answer::Proving { port: 80 },
        Answer::Error("no".to_owned()),
    ];
    let frames = asks.iter().map(control::encode);
    let frames = frames.chain(answers.iter().map(control::encode));
    let seeds: Vec<_> = frames.map(|frame| frame.unwrap()).collect();
    mutate("gateway protocol", &seeds, |frame| {
        let Some((head, body)) = frame.split_first_chunk::<{ control::HEAD }>() else {
            return;
        };
        _ = control::body_length(*head);
        if let Ok(ask) = control::decode::<Ask>(body) {
            let again = control::encode(&ask).unwrap();
            assert_eq!(control::decode::<Ask>(&again[control::HEAD..]), Ok(ask));
        }
        _ = control::decode::<Answer>(body);
    });
}

/// What a supervisor is asked and answers, also in versions that are not ours; and its list of rules.
#[test]
fn fuzz_supervisor_protocol() {
    let status = |wall| {
        supervisor::Answer::Status(supervisor::Status {
            process: 300,
            wall,
            epoch: 2,
        })
    };
    let answers = [
        status(supervisor::Wall::Carried),
        status(supervisor::Wall::Lost("why".to_owned())),
        supervisor::Answer::Stopped,
        supervisor::Answer::Refused("no".to_owned()),
        supervisor::Answer::Reloaded { closed: 1 << 40 },
    ];
    let beginning = supervisor::Beginning {
        sandbox: "one".to_owned(),
        behind: Some(supervisor::Behind {
            gateway: b"/g".to_vec(),
            changes: b"/l".to_vec(),
            run_as: 7,
            epoch: Some(1),
        }),
    };
    let asks = [supervisor::Ask::Status, supervisor::Ask::Reload];
    let asks = asks.map(|ask| supervisor::question(ask).unwrap());
    let answers = answers.map(|answer| control::encode(&(supervisor::PROTOCOL, answer)).unwrap());
    let mut seeds: Vec<_> = asks.into_iter().chain(answers).collect();
    // The number of the version comes first.
    let mut newer = seeds.clone();
    for frame in &mut newer {
        frame[control::HEAD] += 1;
    }
    seeds.append(&mut newer);
    seeds.push(control::encode(&beginning).unwrap());
    let mut list = supervisor::List {
        rules: vec![RuleLine {
            text: "a.test:443 tls".to_owned(),
            origin: Origin::Live,
        }],
    };
    seeds.push(list.encode().unwrap());
    list.rules.clear();
    seeds.push(list.encode().unwrap());
    mutate("supervisor protocol", &seeds, |file| {
        if let Ok(list) = supervisor::List::decode(file) {
            assert_eq!(supervisor::List::decode(&list.encode().unwrap()), Ok(list));
        }
        let Some((_, body)) = file.split_first_chunk::<{ control::HEAD }>() else {
            return;
        };
        _ = control::decode::<supervisor::Beginning>(body);
        if let Ok(supervisor::Heard::Ours(answer)) = supervisor::read_answer(body) {
            let again = control::encode(&(supervisor::PROTOCOL, &answer)).unwrap();
            let again = supervisor::read_answer(&again[control::HEAD..]);
            assert_eq!(again, Ok(supervisor::Heard::Ours(answer)));
        }
        if let Ok(Some(ask)) = supervisor::read_question(body) {
            let again = supervisor::question(ask).unwrap();
            let again = supervisor::read_question(&again[control::HEAD..]);
            assert_eq!(again, Ok(Some(ask)));
        }
    });
}

/// Every answer fits into a message and repeats the number of its question.
#[test]
fn fuzz_lookups() {
    let rules =
        ["allowed.test", "*.wild.test"].map(|text| Rule::parse(text, Origin::Flag).unwrap());
    let policy = Policy::compile(rules.into()).unwrap();
    let mut table = Synthetic::new(0);
    let question = |name: &str, kind: u8| {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.extend_from_slice(&[0, 0, kind, 0, 1]);
        bytes
    };
    let mut seeds = vec![
        question("allowed.test", 1),
        question("a.wild.test", 28),
        question("denied.test", 65),
    ];
    // With EDNS, and with a pointer instead of a name.
    let mut extended = question("allowed.test", 1);
    extended[11] = 1;
    extended.extend_from_slice(&[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    seeds.push(extended);
    seeds.push(vec![
        0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1,
    ]);
    mutate("lookups", &seeds, |message| {
        if let Some(answer) = dns::answer(message, &policy, &mut table).message {
            assert!(answer.len() <= dns::MAX_QUERY, "{}", answer.len());
            assert_eq!(answer[..2], message[..2]);
        }
        let mut frames = dns::Frames::default();
        for piece in message.chunks(7) {
            if frames.push(piece).is_err() {
                break;
            }
        }
    });
}

/// In one piece or in many: the same name, or none.
#[test]
fn fuzz_server_name() {
    let name = b"allowed.test";
    let length = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend(length(name.len() + 5));
    extension.extend(length(name.len() + 3));
    extension.push(0);
    extension.extend(length(name.len()));
    extension.extend(name);
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(length(extension.len()));
    body.extend(extension);
    let mut message = vec![1, 0];
    message.extend(length(body.len()));
    message.extend(body);
    let record = |message: &[u8]| [&[22, 3, 1][..], &length(message.len()), message].concat();
    let (front, back) = message.split_at(20);
    let seeds = vec![record(&message), [record(front), record(back)].concat()];
    // The seeds are what they look like.
    for seed in &seeds {
        let found = ClientHello::default().push(seed).unwrap().unwrap();
        assert_eq!(found.as_str(), "allowed.test");
    }
    mutate("server name", &seeds, |hello| {
        let whole = ClientHello::default().push(hello);
        let mut parts = ClientHello::default();
        let mut last = Ok(None);
        for piece in hello.chunks(11) {
            last = parts.push(piece);
            if !matches!(last, Ok(None)) {
                break;
            }
        }
        if let (Ok(Some(one)), Ok(Some(other))) = (&whole, &last) {
            assert_eq!(one, other);
        }
        assert!(
            !matches!(
                (&whole, &last),
                (Ok(Some(_)), Ok(None)) | (Ok(None), Ok(Some(_)))
            ),
            "{whole:?} {last:?}"
        );
    });
}
