//! The stored bytes: they come back as they went in, or not at all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use bytes::Bytes;
use idem_core::wire::FORMAT_VERSION;
use idem_core::{Answer, Epoch, Fingerprint, Header, ProfileId, Record, Response, State, Token, Unreadable};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn headers() -> impl Strategy<Value = Vec<Header>> {
    vec((bytes(), bytes()).prop_map(|(name, value)| Header { name, value }), 0..5)
}

fn answers() -> impl Strategy<Value = Answer> {
    let response = (any::<u16>(), headers(), bytes(), headers())
        .prop_map(|(status, headers, body, trailers)| Response { status, headers, body, trailers });
    prop_oneof![Just(Answer::NotKept), bytes().prop_map(Answer::Value), response.prop_map(Answer::from)]
}

fn records() -> impl Strategy<Value = Record> {
    let state = prop_oneof![
        Just(State::InProgress),
        answers().prop_map(State::Completed),
        any::<bool>().prop_map(|no_effect| State::Failed { no_effect }),
        Just(State::Released),
    ];
    (any::<u64>(), any::<[u8; 32]>(), any::<[u8; 16]>(), any::<u64>(), state).prop_map(
        |(profile, digest, token, epoch, state)| Record {
            fingerprint: Fingerprint::from_parts(ProfileId::from_bits(profile), digest),
            token: Token::from_bytes(token),
            epoch: Epoch::from_number(epoch),
            state,
        },
    )
}

fn sample() -> Record {
    let header = |name: &'static str, value: &'static [u8]| Header {
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value),
    };
    let response = Response {
        status: 201,
        headers: vec![header("link", b"<a>"), header("etag", b"\"x\""), header("link", b"<b>\xff")],
        body: Bytes::from_static(b"\0\xffnot text"),
        trailers: vec![header("grpc-status", b"0")],
    };
    Record {
        fingerprint: Fingerprint::from_parts(ProfileId::from_bits(0x0102_0304_0506_0708), [0xab; 32]),
        token: Token::from_bytes([0xcd; 16]),
        epoch: Epoch::from_number(3),
        state: State::Completed(Answer::from(response)),
    }
}

#[test]
fn the_format_is_pinned() {
    let hex = sample().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let pinned = concat!(
        "01",
        "02",
        "0102030405060708",
        "abababababababababababababababababababababababababababababababab",
        "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd",
        "0000000000000003",
        "02",
        "00c9",
        "03",
        "04",
        "6c696e6b",
        "03",
        "3c613e",
        "04",
        "65746167",
        "03",
        "227822",
        "04",
        "6c696e6b",
        "04",
        "3c623eff",
        "01",
        "0b",
        "677270632d737461747573",
        "01",
        "30",
        "00ff6e6f742074657874",
        "60264b8a",
    );
    assert_eq!(hex, pinned);
}

#[test]
fn a_record_of_another_version_says_so() {
    let mut bytes = sample().to_bytes().to_vec();
    bytes[0] = FORMAT_VERSION + 1;
    let expected = Unreadable::UnknownVersion { version: FORMAT_VERSION + 1 };
    assert_eq!(Record::from_bytes(Bytes::from(bytes)), Err(expected));
}

#[test]
fn nothing_at_all_is_corrupt_and_not_vacant() {
    assert_eq!(Record::from_bytes(Bytes::new()), Err(Unreadable::Corrupt));
    assert_eq!(Answer::from_bytes(Bytes::new()), Err(Unreadable::Corrupt));
    assert_eq!(Record::from_bytes(Bytes::from_static(&[FORMAT_VERSION])), Err(Unreadable::Corrupt));
}

#[test]
fn a_mebibyte_comes_back_whole() {
    let body = Bytes::from((0..1 << 20).map(|i: u32| i.to_le_bytes()[1]).collect::<Vec<_>>());
    let answer = Answer::from(Response { status: 200, body, ..Response::default() });
    assert_eq!(Answer::from_bytes(answer.to_bytes()), Ok(answer));
}

/// Recomputes the checksum, so that what is behind it is what decodes.
fn sealed(mut bytes: Vec<u8>) -> Bytes {
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_be_bytes());
    Bytes::from(bytes)
}

proptest! {
    #[test]
    fn records_come_back_as_they_went_in(record in records()) {
        prop_assert_eq!(Record::from_bytes(record.to_bytes()), Ok(record));
    }

    #[test]
    fn answers_come_back_as_they_went_in(answer in answers()) {
        prop_assert_eq!(Answer::from_bytes(answer.to_bytes()), Ok(answer));
    }

    #[test]
    fn one_changed_byte_makes_a_record_unreadable(record in records(), at in any::<prop::sample::Index>(), xor in 1_u8..) {
        let mut bytes = record.to_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        prop_assert!(Record::from_bytes(Bytes::from(bytes)).is_err());
    }

    #[test]
    fn a_lost_tail_makes_a_record_unreadable(record in records(), at in any::<prop::sample::Index>()) {
        let bytes = record.to_bytes();
        prop_assert!(Record::from_bytes(bytes.slice(..at.index(bytes.len()))).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_decode_only_to_what_encodes_to_them(
        tail in vec(any::<u8>(), 0..200),
        record in records(),
        cut in any::<prop::sample::Index>(),
    ) {
        // Random bytes behind a true prefix, under a true checksum: as far into the decoder as chance can get.
        let whole = record.to_bytes();
        let body = &whole[..whole.len() - 4];
        for head in [&[FORMAT_VERSION][..], &body[..cut.index(body.len())]] {
            let bytes = sealed([head, &tail].concat());
            if let Ok(decoded) = Record::from_bytes(bytes.clone()) {
                prop_assert_eq!(decoded.to_bytes(), bytes.clone());
            }
            if let Ok(decoded) = Answer::from_bytes(bytes.clone()) {
                prop_assert_eq!(decoded.to_bytes(), bytes);
            }
        }
    }
}
