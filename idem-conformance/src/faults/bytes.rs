//! What of a record is stored.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use idem_core::{
    Answer, Change, Epoch, Fingerprint, Header, NewRecord, ProfileId, Record, Response, Settlement, State, Token,
};

use super::Fault;

pub(super) fn stored_change(fault: Fault, change: &Change) -> Change {
    match change {
        Change::Record(record) => Change::Record(stored(fault, record)),
        Change::Renew { lease, retention } => Change::Renew { lease: *lease, retention: *retention },
    }
}

pub(super) fn stored(fault: Fault, new: &NewRecord) -> NewRecord {
    let mut record = new.record().clone();
    marks(fault, &mut record);
    if let State::Completed(answer) = &mut record.state {
        *answer = stored_answer(fault, answer);
    }
    let time = |time: Duration| if fault == Fault::WrapsLongTimes { wrapped(time) } else { time };
    built(record, time(new.lease()), time(new.retention()))
}

pub(super) fn built(record: Record, lease: Duration, retention: Duration) -> NewRecord {
    let Record { fingerprint, token, epoch, state } = record;
    let settlement = match state {
        State::InProgress => return NewRecord::claim(fingerprint, token, epoch, lease, retention),
        State::Completed(answer) => Settlement::Completed(answer),
        State::Failed { no_effect } => Settlement::Failed { no_effect },
        State::Released => Settlement::Released,
    };
    NewRecord::settled(fingerprint, token, epoch, settlement, retention)
}

fn wrapped(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis() % (1 << 32)).unwrap_or(0))
}

fn marks(fault: Fault, record: &mut Record) {
    let (profile, digest) = (record.fingerprint.profile().to_bits(), *record.fingerprint.digest());
    match fault {
        Fault::ForgetsEpoch => record.epoch = Epoch::FIRST,
        Fault::RoundsNumbers => {
            record.epoch = Epoch::from_number(rounded(record.epoch.number()));
            record.fingerprint = Fingerprint::from_parts(ProfileId::from_bits(rounded(profile)), digest);
        }
        Fault::ClampsNumbers => {
            let clamped = |number: u64| number.min(i64::MAX.unsigned_abs());
            record.epoch = Epoch::from_number(clamped(record.epoch.number()));
            record.fingerprint = Fingerprint::from_parts(ProfileId::from_bits(clamped(profile)), digest);
        }
        Fault::CutsFingerprints => {
            let mut cut = [0; 32];
            cut[..24].copy_from_slice(&digest[..24]);
            record.fingerprint = Fingerprint::from_parts(record.fingerprint.profile(), cut);
        }
        Fault::KeepsTokensAsText => {
            let text = record.token.to_bytes().map(|byte| if byte.is_ascii() { byte } else { b'?' });
            record.token = Token::from_bytes(text);
        }
        Fault::ForgetsNoEffect => {
            if let State::Failed { no_effect } = &mut record.state {
                *no_effect = false;
            }
        }
        Fault::FailedIsReleased => {
            if let State::Failed { .. } = record.state {
                record.state = State::Released;
            }
        }
        _ => {}
    }
}

/// As a floating-point number has it: the low bits of large numbers are zero.
fn rounded(number: u64) -> u64 {
    let surplus = 11_u32.saturating_sub(number.leading_zeros());
    number >> surplus << surplus
}

fn stored_answer(fault: Fault, answer: &Answer) -> Answer {
    match (fault, answer) {
        (Fault::EmptyIsNotKept, answer) if answer.size() == 0 => Answer::NotKept,
        (Fault::NotKeptIsEmpty, Answer::NotKept) => Answer::Value(Bytes::new()),
        (Fault::ValueBecomesResponse, Answer::Value(value)) => {
            Response { status: 200, body: value.clone(), ..Response::default() }.into()
        }
        (_, Answer::Value(value)) => Answer::Value(stored_body(fault, value)),
        (_, Answer::Response(response)) => Answer::Response(Arc::new(stored_response(fault, response))),
        (_, Answer::NotKept) => Answer::NotKept,
    }
}

fn stored_response(fault: Fault, response: &Response) -> Response {
    let Response { status, mut headers, body, mut trailers } = response.clone();
    match fault {
        Fault::MovesTrailers => headers.append(&mut trailers),
        Fault::DropsTrailers => trailers.clear(),
        _ => {}
    }
    let status = match fault {
        Fault::ClampsStatus if status > 599 => 500,
        Fault::NarrowsStatus => status % 256,
        _ => status,
    };
    Response {
        status,
        headers: stored_headers(fault, headers),
        body: stored_body(fault, &body),
        trailers: stored_headers(fault, trailers),
    }
}

fn stored_headers(fault: Fault, mut headers: Vec<Header>) -> Vec<Header> {
    match fault {
        Fault::DropsRepeatedHeaders => {
            let mut names = Vec::new();
            headers.retain(|header| {
                let first = !names.contains(&header.name);
                names.push(header.name.clone());
                first
            });
        }
        Fault::JoinsRepeatedHeaders => {
            let mut joined: Vec<Header> = Vec::new();
            for header in headers {
                match joined.iter_mut().find(|former| former.name == header.name) {
                    Some(former) => former.value = [&former.value[..], &header.value].join(&b", "[..]).into(),
                    None => joined.push(header),
                }
            }
            headers = joined;
        }
        Fault::SortsHeaders => headers.sort_by(|one, other| one.name.cmp(&other.name)),
        Fault::CapsHeaders => headers.truncate(64),
        _ => {}
    }
    for header in &mut headers {
        header.value = match fault {
            Fault::LowercasesHeaders => header.value.to_ascii_lowercase().into(),
            Fault::TrimsHeaders => header.value.trim_ascii().to_vec().into(),
            Fault::LossyHeaders => lossy(&header.value),
            _ => continue,
        };
    }
    headers
}

fn stored_body(fault: Fault, body: &Bytes) -> Bytes {
    match fault {
        Fault::TruncatesBodies => body.slice(..body.len().min(64 << 10)),
        Fault::LossyBodies => lossy(body),
        Fault::BodiesStopAtNul => body.slice(..body.iter().position(|&byte| byte == 0).unwrap_or(body.len())),
        Fault::TrimsBodies => body.trim_ascii().to_vec().into(),
        Fault::ReformatsJson if body.starts_with(b"{") => {
            body.iter().copied().filter(|byte| *byte != b' ').collect::<Vec<_>>().into()
        }
        _ => body.clone(),
    }
}

fn lossy(bytes: &Bytes) -> Bytes {
    String::from_utf8_lossy(bytes).into_owned().into()
}
