//! The protocol's tables, read from `testdata/`, against every situation there is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::time::Duration;

use bytes::Bytes;
use idem_core::machine::{AfterCommit, AfterLost, Decision, NotAClaim, commit_lost, decide, resolve, settle_lost};
use idem_core::{
    Abandoned, AfterFailure, Answer, Comparison, Content, Epoch, Fingerprint, Found, InPlaceOfMine, Policy, ProfileId,
    Record, Refusal, RequestIdentity, Revision, State, Token, Unreadable,
};
use proptest::prelude::*;

const OWN: Token = Token::from_bytes([1; 16]);
const OTHER: Token = Token::from_bytes([2; 16]);
const FOUND_EPOCH: Epoch = Epoch::from_number(7);
const REVISION: Revision = Revision::from_number(99);

/// One line of a table: the words that it asks for, and what it says then.
struct Row {
    line: &'static str,
    asks: Vec<&'static str>,
    says: &'static str,
}

impl Row {
    fn fits(&self, situation: &[&str]) -> bool {
        assert_eq!(self.asks.len(), situation.len(), "{}", self.line);
        self.asks.iter().zip(situation).all(|(asked, is)| *asked == "*" || asked == is)
    }
}

fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (asks, says) = line.split_once("=>").expect("a row has an arrow");
            Row { line, asks: asks.split_whitespace().collect(), says: says.trim() }
        })
        .collect()
}

/// Every combination of one word per column.
fn product(columns: &[&[&'static str]]) -> Vec<Vec<&'static str>> {
    columns.iter().fold(vec![vec![]], |rows, words| {
        rows.iter().flat_map(|row| words.iter().map(|word| [row.as_slice(), &[*word]].concat())).collect()
    })
}

/// Holds a function against its table in every situation, and every row against being dead.
fn hold_against(table: &'static str, situations: Vec<Vec<&'static str>>, function: impl Fn(&[&str]) -> String) {
    let rows = rows(table);
    let mut used = vec![false; rows.len()];
    for situation in &situations {
        let index = rows.iter().position(|row| row.fits(situation));
        let index = index.unwrap_or_else(|| panic!("no row for {situation:?}"));
        used[index] = true;
        assert_eq!(function(situation), rows[index].says, "{situation:?} by the row\n{}", rows[index].line);
    }
    for (row, used) in rows.iter().zip(used) {
        assert!(used, "no situation reaches the row\n{}", row.line);
    }
}

/// A request whose comparison is given.
struct Compares(Comparison);

impl RequestIdentity for Compares {
    fn fingerprint(&self) -> Fingerprint {
        fingerprint(0)
    }

    fn compare(&self, _: &Fingerprint) -> Comparison {
        self.0
    }
}

fn fingerprint(fill: u8) -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(5), [fill; 32])
}

fn answer(text: &'static str) -> Answer {
    Answer::Value(Bytes::from_static(text.as_bytes()))
}

fn found(state: State, token: Token, fill: u8, lease_left: Duration) -> Found {
    let record = Record { fingerprint: fingerprint(fill), token, epoch: FOUND_EPOCH, state };
    Found {
        revision: REVISION,
        age: Duration::from_secs(3),
        lease_left,
        retention_left: Duration::from_secs(1000),
        content: Content::Readable(record),
    }
}

fn state(word: &str) -> State {
    match word {
        "released" => State::Released,
        "in-progress" => State::InProgress,
        "completed" => State::Completed(answer("theirs")),
        "not-kept" => State::Completed(Answer::NotKept),
        "failed" => State::Failed { no_effect: false },
        "failed-no-effect" => State::Failed { no_effect: true },
        other => panic!("no such state: {other}"),
    }
}

fn unreadable() -> Found {
    let mut found = found(State::Released, OTHER, 0, Duration::ZERO);
    found.content = Content::Unreadable(Unreadable::Corrupt);
    found
}

fn policy(abandoned: &str, failed: &str) -> Policy {
    let abandoned = if abandoned == "rerun" { Abandoned::Rerun } else { Abandoned::Refuse };
    let failed = if failed == "rerun" { AfterFailure::Rerun } else { AfterFailure::Refuse };
    Policy::strict().customize().abandoned(abandoned).failed(failed).build().unwrap()
}

fn refusal_word(refusal: &Refusal) -> String {
    match refusal {
        Refusal::KeyReused => "key-reused".into(),
        Refusal::InProgress { .. } => "in-progress".into(),
        Refusal::OutcomeUnknown => "outcome-unknown".into(),
        Refusal::PreviousAttemptFailed { no_effect: false } => "previous-attempt-failed".into(),
        Refusal::PreviousAttemptFailed { no_effect: true } => "previous-attempt-failed no-effect".into(),
        Refusal::ResponseNotKept => "response-not-kept".into(),
        Refusal::NotComparable => "not-comparable".into(),
        Refusal::RecordUnreadable(_) => "record-unreadable".into(),
        other => format!("{other:?}"),
    }
}

#[test]
fn decide_follows_its_table_in_every_situation() {
    let columns: &[&[&str]] = &[
        &["vacant", "released", "unreadable", "in-progress", "completed", "not-kept", "failed", "failed-no-effect"],
        &["own", "other"],
        &["alive", "over"],
        &["same", "differs", "unknown-profile"],
        &["refuse", "rerun"],
        &["refuse", "rerun"],
    ];
    let situations = product(columns);
    assert_eq!(situations.len(), 8 * 2 * 2 * 3 * 2 * 2);
    hold_against(include_str!("../testdata/decide.txt"), situations, |situation| {
        let [word, token, lease, comparison, abandoned, failed] = situation else { panic!("six columns") };
        let token = if *token == "own" { OWN } else { OTHER };
        let lease_left = if *lease == "alive" { Duration::from_secs(10) } else { Duration::ZERO };
        let found = match *word {
            "vacant" => None,
            "unreadable" => Some(unreadable()),
            word => Some(found(state(word), token, 0, lease_left)),
        };
        let request = Compares(match *comparison {
            "same" => Comparison::Same,
            "differs" => Comparison::Differs,
            _ => Comparison::UnknownProfile,
        });
        match decide(found.as_ref(), &request, OWN, &policy(abandoned, failed)) {
            Decision::Claim { epoch, over: None, effect_open: false } => format!("claim {}", epoch.number()),
            Decision::Claim { over: None, effect_open: true, .. } => "nothing came before".into(),
            Decision::Claim { epoch, over: Some(revision), effect_open } => {
                assert_eq!(revision, REVISION, "a takeover is written over the revision that was seen");
                format!("claim {} over{}", epoch.number(), if effect_open { " effect-open" } else { "" })
            }
            Decision::Resume { epoch, renew_first: false } => format!("resume {}", epoch.number()),
            Decision::Resume { epoch, renew_first: true } => format!("resume {} renew-first", epoch.number()),
            Decision::Replay(replayed) => {
                assert_eq!(replayed, answer("theirs"));
                "replay".into()
            }
            Decision::Refuse(refusal) => format!("refuse {}", refusal_word(&refusal)),
        }
    });
}

#[test]
fn settle_lost_follows_its_table_in_every_situation() {
    let columns: &[&[&str]] = &[
        &["completed", "not-kept", "failed", "failed-no-effect", "released"],
        &["vacant", "released", "unreadable", "in-progress", "completed", "not-kept", "failed", "failed-no-effect"],
        &["own", "other"],
        &["same", "other"],
    ];
    // Whether mine and theirs are settled alike follows from the words: a fifth one, for the table.
    let with_alike = |mut situation: Vec<&'static str>| {
        situation.push(if situation[0] == situation[1] { "alike" } else { "unlike" });
        situation
    };
    let situations = product(columns).into_iter().map(with_alike).collect();
    hold_against(include_str!("../testdata/settle_lost.txt"), situations, |situation| {
        let [mine, theirs, token, request, _] = situation else { panic!("five columns") };
        let token = if *token == "own" { OWN } else { OTHER };
        let fill = u8::from(*request != "same");
        let found = match *theirs {
            "vacant" => None,
            "unreadable" => Some(unreadable()),
            word => Some(found(state(word), token, fill, Duration::from_secs(10))),
        };
        let mine = Record { fingerprint: fingerprint(0), token: OWN, epoch: Epoch::from_number(3), state: state(mine) };
        match settle_lost(found.as_ref(), &mine) {
            AfterLost::Done => "done".into(),
            AfterLost::Again => "again".into(),
            AfterLost::Insert => "insert".into(),
            AfterLost::Over(revision, epoch) => {
                assert_eq!((revision, epoch), (REVISION, FOUND_EPOCH), "the epoch never goes back");
                "over".into()
            }
            AfterLost::LeaseLost(InPlaceOfMine::OwnAnswer) => "lost own-answer".into(),
            AfterLost::LeaseLost(InPlaceOfMine::Answer(given)) => {
                assert_eq!(given, answer("theirs"));
                "lost their-answer".into()
            }
            AfterLost::LeaseLost(InPlaceOfMine::Refuse(refusal)) => format!("lost refuse-{}", refusal_word(&refusal)),
        }
    });
}

#[test]
fn an_attempt_whose_commit_was_lost_gives_its_own_answer_only_where_its_own_record_stands() {
    let columns: &[&[&str]] = &[
        &["vacant", "released", "unreadable", "in-progress", "completed", "not-kept", "failed", "failed-no-effect"],
        &["own", "other"],
        &["alive", "over"],
        &["same", "other"],
        &["refuse", "rerun"],
        &["refuse", "rerun"],
    ];
    let mine = Record { fingerprint: fingerprint(0), token: OWN, epoch: FOUND_EPOCH, state: state("completed") };
    for situation in product(columns) {
        let [word, token, lease, request, abandoned, failed] = situation[..] else { panic!("six columns") };
        let lease_left = if lease == "alive" { Duration::from_secs(10) } else { Duration::ZERO };
        let fill = u8::from(request != "same");
        let found = match word {
            "vacant" => None,
            "unreadable" => Some(unreadable()),
            word => Some(found(state(word), if token == "own" { OWN } else { OTHER }, fill, lease_left)),
        };
        let policy = policy(abandoned, failed);
        let expected = match decide(found.as_ref(), &mine.fingerprint, OWN, &policy) {
            _ if (word, token) == ("completed", "own") => AfterCommit::Done,
            Decision::Replay(answer) => AfterCommit::Replay(answer),
            Decision::Refuse(refusal) => AfterCommit::Refuse(refusal),
            Decision::Claim { .. } | Decision::Resume { .. } => AfterCommit::NothingWritten,
        };
        assert_eq!(commit_lost(found.as_ref(), &mine, &policy), expected, "{situation:?}");
    }
}

#[test]
fn a_claim_in_progress_can_be_resolved_and_nothing_else() {
    let claim = found(state("in-progress"), OTHER, 0, Duration::from_secs(1));
    let (revision, record) = resolve(&claim).unwrap();
    assert_eq!((revision, record.token), (REVISION, OTHER));
    for word in ["released", "completed", "not-kept", "failed", "failed-no-effect"] {
        assert_eq!(resolve(&found(state(word), OTHER, 0, Duration::ZERO)), Err(NotAClaim), "{word}");
    }
    assert_eq!(resolve(&unreadable()), Err(NotAClaim));
}

fn retry_after(age: Duration, lease_left: Duration) -> Duration {
    let mut found = found(State::InProgress, OTHER, 0, lease_left);
    found.age = age;
    match decide(Some(&found), &Compares(Comparison::Same), OWN, &Policy::strict()) {
        Decision::Refuse(Refusal::InProgress { retry_after }) => retry_after,
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_after_is_how_long_it_has_run_within_its_bounds() {
    let (ms, s) = (Duration::from_millis, Duration::from_secs);
    assert_eq!(retry_after(s(3), s(20)), s(3), "how long it has run");
    assert_eq!(retry_after(ms(1), s(20)), ms(200), "at least 200 ms");
    assert_eq!(retry_after(s(25), s(4)), s(4), "at most the lease left");
    assert_eq!(retry_after(s(500), s(600)), s(30), "at most 30 s");
    assert_eq!(retry_after(ms(1), ms(50)), ms(50), "the lease left comes before the 200 ms");
}

proptest! {
    #[test]
    fn retry_after_is_never_zero_and_never_past_the_lease(age in 0_u64..1 << 40, left in 1_u64..1 << 40) {
        let left = Duration::from_micros(left);
        let wait = retry_after(Duration::from_micros(age), left);
        prop_assert!(wait > Duration::ZERO && wait <= left && wait <= Duration::from_secs(30));
    }

    #[test]
    fn epochs_only_grow(epoch in any::<u64>(), lease in 0_u64..3) {
        let mut found = found(State::InProgress, OTHER, 0, Duration::from_secs(lease));
        if let Content::Readable(record) = &mut found.content {
            record.epoch = Epoch::from_number(epoch);
        }
        if let Decision::Claim { epoch: next, .. } =
            decide(Some(&found), &Compares(Comparison::Same), OWN, &policy("rerun", "rerun"))
        {
            prop_assert!(next.number() > epoch || epoch == u64::MAX);
        }
    }
}
