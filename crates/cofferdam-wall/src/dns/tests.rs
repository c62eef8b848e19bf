use super::*;
use crate::rule::{Origin, Rule};
use proptest::prelude::*;

const AAAA: u16 = 28;
const HTTPS: u16 = 65;

fn policy() -> Policy {
    let rules = ["allowed.test", "ssh.test:22", "*.wild.test"];
    Policy::compile(
        rules
            .iter()
            .map(|text| Rule::parse(text, Origin::Global).unwrap())
            .collect(),
    )
    .unwrap()
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A query with id 0x1234 and recursion desired.
fn query(name: &[u8], kind: u16, class: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&class.to_be_bytes());
    message
}

fn ask(message: &[u8]) -> Answer {
    answer(message, &policy(), &mut Synthetic::new(0))
}

/// The response code and the numbers of questions, answers, authorities and additional records.
fn summary(answer: &Answer) -> Option<(u8, [u8; 4])> {
    let message = answer.message.as_ref()?;
    assert_eq!(message[..2], [0x12, 0x34]);
    assert_eq!(message[2] & 0x80, 0x80);
    Some((
        message[3] & 0x0f,
        [message[5], message[7], message[9], message[11]],
    ))
}

#[test]
fn an_allowed_name_has_one_address_and_the_question_comes_back_as_it_was() {
    let message = query(&labels("aLLoWeD.tESt"), TYPE_A, CLASS_IN);
    let mut table = Synthetic::new(0);
    let first = answer(&message, &policy(), &mut table);
    let mut expected = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    expected.extend_from_slice(&message[12..]);
    expected.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 0]);
    assert_eq!(first.message.as_deref(), Some(&expected[..]));
    let name: HostName = "allowed.test".parse().unwrap();
    let address = Ipv4Addr::new(198, 18, 0, 0);
    assert_eq!(first.outcome, Resolution::Address(name.clone(), address));
    assert_eq!(table.name_of(address), Some(&name));
    assert_eq!(answer(&message, &policy(), &mut table), first);
}

#[test]
fn names_of_any_rule_are_answered_whatever_its_port() {
    for name in ["allowed.test", "ssh.test", "a.wild.test", "a.b.wild.test"] {
        let answer = ask(&query(&labels(name), TYPE_A, CLASS_IN));
        assert_eq!(summary(&answer), Some((0, [1, 1, 0, 0])), "{name}");
    }
}

/// Its address is of no use without a rule for the port.
#[test]
fn the_name_of_this_machine_is_known_without_a_rule() {
    let answer = ask(&query(&labels("host.cofferdam.internal"), TYPE_A, CLASS_IN));
    assert_eq!(summary(&answer), Some((0, [1, 1, 0, 0])));
    for name in ["cofferdam.internal", "x.host.cofferdam.internal"] {
        let answer = ask(&query(&labels(name), TYPE_A, CLASS_IN));
        assert_eq!(summary(&answer), Some((3, [1, 0, 0, 0])), "{name}");
    }
}

#[test]
fn every_other_name_does_not_exist_for_any_type() {
    let oddities: [&[u8]; 6] = [
        b"\0",
        b"\x0callowed.test\0",
        b"\x08allowed\0\x04test\0",
        b"\x08allowed\n\x04test\0",
        b"\x02\xff\xfe\x04test\0",
        b"\x031.2\x013\x014\0",
    ];
    let mut names: Vec<Vec<u8>> = oddities.iter().map(|name| name.to_vec()).collect();
    for name in [
        "denied.test",
        "allowed.test.evil.test",
        "sub.allowed.test",
        "wild.test",
        "9.0.18.198.in-addr.arpa",
        "localhost",
    ] {
        names.push(labels(name));
    }
    for name in names {
        for kind in [TYPE_A, AAAA, 16, 12, 255, HTTPS] {
            let answer = ask(&query(&name, kind, CLASS_IN));
            assert_eq!(summary(&answer), Some((3, [1, 0, 0, 0])), "{name:?} {kind}");
        }
    }
    let denied = ask(&query(&labels("denied.test"), TYPE_A, CLASS_IN));
    let Resolution::Refused(refusal) = denied.outcome else {
        panic!("{denied:?}");
    };
    assert_eq!(refusal.to_string(), "no rule names denied.test");
}

#[test]
fn other_types_of_an_allowed_name_have_no_record_and_take_no_address() {
    let mut table = Synthetic::new(0);
    for kind in [AAAA, HTTPS, 64, 33, 16, 10, 15, 12, 251, 252, 255, 0, 65535] {
        let answer = answer(
            &query(&labels("allowed.test"), kind, CLASS_IN),
            &policy(),
            &mut table,
        );
        assert_eq!(summary(&answer), Some((0, [1, 0, 0, 0])), "{kind}");
        assert_eq!(
            answer.outcome,
            Resolution::NoRecord("allowed.test".parse().unwrap(), kind)
        );
    }
    assert_eq!(table.name_of(Ipv4Addr::new(198, 18, 0, 0)), None);
}

#[test]
fn edns_is_ignored() {
    let mut message = query(&labels("allowed.test"), TYPE_A, CLASS_IN);
    message[11] = 1;
    message.extend_from_slice(&[
        0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8,
    ]);
    assert_eq!(summary(&ask(&message)), Some((0, [1, 1, 0, 0])));
}

#[test]
fn what_is_no_query_of_class_in_is_refused() {
    for class in [0, 3, 4, 254, 255] {
        let answer = ask(&query(&labels("allowed.test"), TYPE_A, class));
        assert_eq!(summary(&answer), Some((5, [1, 0, 0, 0])), "class {class}");
    }
    for opcode in 1..16 {
        let mut message = query(&labels("allowed.test"), TYPE_A, CLASS_IN);
        message[2] |= opcode << 3;
        assert_eq!(
            summary(&ask(&message)),
            Some((5, [0, 0, 0, 0])),
            "opcode {opcode}"
        );
    }
}

#[test]
fn what_is_not_by_the_format_is_named_so_or_not_answered() {
    let good = query(&labels("allowed.test"), TYPE_A, CLASS_IN);
    let changed = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        message
    };
    let long: Vec<u8> = [&[63; 64][..], &[63; 64], &[63; 64], &[63; 64], &[0]].concat();
    for (what, message) in [
        ("no question", changed(5, 0)),
        ("two questions", changed(5, 2)),
        ("an answer", changed(7, 1)),
        ("an authority", changed(9, 1)),
        ("cut", good[..good.len() - 1].to_vec()),
        ("cut in the name", good[..14].to_vec()),
        ("bytes after the end", [&good[..], &[0]].concat()),
        (
            "a name that points at itself",
            query(&[0xc0, 12], TYPE_A, CLASS_IN),
        ),
        (
            "a label, then a pointer",
            query(&[1, b'a', 0xc0, 12], TYPE_A, CLASS_IN),
        ),
        (
            "a label type of old",
            query(&[0x41, 0, 0], TYPE_A, CLASS_IN),
        ),
        ("a name of 257 bytes", query(&long, TYPE_A, CLASS_IN)),
        ("too long", [&changed(11, 1)[..], &[0; MAX_QUERY]].concat()),
    ] {
        let answer = ask(&message);
        assert_eq!(summary(&answer), Some((1, [0, 0, 0, 0])), "{what}");
        assert_eq!(answer.outcome, Resolution::Malformed, "{what}");
    }
    // Positive control for the cases above.
    assert_eq!(summary(&ask(&good)), Some((0, [1, 1, 0, 0])));
    for message in [&[][..], &good[..11], &changed(2, 0x81)] {
        assert_eq!(ask(message).message, None);
    }
}

#[test]
fn a_full_table_is_a_failure_of_the_server_for_new_names_only() {
    let mut table = Synthetic::new(0);
    for i in 0..Synthetic::CAPACITY {
        table
            .address_of(&format!("n{i}.wild.test").parse().unwrap())
            .unwrap();
    }
    let mut ask = |name| {
        summary(&answer(
            &query(&labels(name), TYPE_A, CLASS_IN),
            &policy(),
            &mut table,
        ))
    };
    assert_eq!(ask("new.wild.test"), Some((2, [1, 0, 0, 0])));
    assert_eq!(ask("n7.wild.test"), Some((0, [1, 1, 0, 0])));
}

#[test]
fn a_name_that_is_not_admitted_gets_no_address_and_may_be_asked_for_again() {
    let message = query(&labels("a.wild.test"), TYPE_A, CLASS_IN);
    let mut table = Synthetic::new(0);
    let late = answer_if(&message, &policy(), &mut table, |name, rule| {
        assert_eq!(rule.to_string(), "*.wild.test:80,443");
        name.as_str() != "a.wild.test"
    });
    assert_eq!(summary(&late), Some((2, [1, 0, 0, 0])));
    assert_eq!(
        late.outcome,
        Resolution::TooMany("a.wild.test".parse().unwrap())
    );
    assert_eq!(table.name_of(Ipv4Addr::new(198, 18, 0, 0)), None);
    let busy = Answer {
        message: busy(&message),
        ..late
    };
    assert_eq!(summary(&busy), Some((2, [1, 0, 0, 0])));
    // An answer is never answered.
    let mut reply = message;
    reply[2] |= 0x80;
    assert_eq!(super::busy(&reply), None);
}

#[test]
fn frames_come_out_of_any_pieces() {
    let messages = [
        query(&labels("a.test"), TYPE_A, CLASS_IN),
        vec![],
        query(&labels("b.test"), AAAA, CLASS_IN),
    ];
    let stream: Vec<u8> = messages
        .iter()
        .flat_map(|message| frame(message).unwrap())
        .collect();
    for size in [1, 2, 3, 7, stream.len()] {
        let mut frames = Frames::default();
        let got: Vec<Vec<u8>> = stream
            .chunks(size)
            .flat_map(|piece| frames.push(piece).unwrap())
            .collect();
        assert_eq!(got, messages, "pieces of {size}");
    }
    assert_eq!(
        Frames::default()
            .push(&[0xff, 0xff])
            .unwrap_err()
            .to_string(),
        "a query of 65535 bytes is longer than 1232"
    );
    assert_eq!(frame(&vec![0; 65536]), None);
}

proptest! {
    #[test]
    fn any_bytes_are_answered_within_bounds_or_not_at_all(
        head in prop::collection::vec(any::<u8>(), 0..40),
        name in prop::collection::vec(any::<u8>(), 0..1300),
        plausible: bool,
    ) {
        let message = if plausible { query(&name, TYPE_A, CLASS_IN) } else { [head, name].concat() };
        let answer = ask(&message);
        if let Some(reply) = answer.message {
            prop_assert!(reply.len() <= MAX_ANSWER);
            prop_assert_eq!(&reply[..2], &message[..2]);
            prop_assert!(reply[2] & 0x80 != 0);
        }
    }

    #[test]
    fn one_changed_byte_never_panics_and_never_opens_another_name(at in 0usize..30, byte: u8) {
        let mut message = query(&labels("allowed.test"), TYPE_A, CLASS_IN);
        message[at] = byte;
        if let Resolution::Address(name, _) = ask(&message).outcome {
            prop_assert!(policy().decide_lookup(&name).is_ok());
        }
    }

    #[test]
    fn no_frame_is_longer_than_a_query(pieces in prop::collection::vec(prop::collection::vec(0u8..8, 0..2000), 0..5)) {
        let mut frames = Frames::default();
        for piece in pieces {
            let Ok(messages) = frames.push(&piece) else { break };
            prop_assert!(messages.iter().all(|message| message.len() <= MAX_QUERY));
        }
    }
}
