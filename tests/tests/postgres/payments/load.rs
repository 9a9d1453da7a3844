//! Clients that pay and pay while something beneath them is killed.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use idem_tests::{Answer, Call, Caller, Random, Server, eventually};
use tokio::task::JoinHandle;

use crate::support::{Mode, assert_refused_for_now, once_it_is_free, slug};

/// Clients at work. Each pays one order after the other, and tries each until it knows what became of it.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Vec<Payment>>>,
}

struct Shared {
    mode: Mode,
    /// Whether a connection may end without an answer.
    may_break_off: bool,
    /// The clients as callers of the process that serves now.
    callers: Mutex<Vec<Caller>>,
    is_over: AtomicBool,
    charged: AtomicUsize,
    without_answer: AtomicUsize,
}

/// One key, and what its client knows in the end.
pub(crate) struct Payment {
    client: usize,
    key: String,
    /// The receipt; none where the API said that nobody knows whether there was a charge.
    pub(crate) receipt: Option<Answer>,
}

const CLIENTS: usize = 8;

/// For whatever should take a moment.
const PATIENCE: Duration = Duration::from_secs(30);

impl Load {
    pub(crate) fn start(mode: Mode, server: &Server, may_break_off: bool) -> Self {
        let shared = Arc::new(Shared {
            mode,
            may_break_off,
            callers: Mutex::new(callers(server)),
            is_over: AtomicBool::new(false),
            charged: AtomicUsize::new(0),
            without_answer: AtomicUsize::new(0),
        });
        let mut random = Random::seeded();
        let clients =
            (0..CLIENTS).map(|number| tokio::spawn(Arc::clone(&shared).pay_on_and_on(number, random.fork()))).collect();
        Self { shared, clients }
    }

    /// Sends the clients to another process.
    pub(crate) fn go_to(&self, server: &Server) {
        *self.shared.callers.lock().expect("nobody panics under it") = callers(server);
    }

    /// Waits until so many more payments are known to be made.
    pub(crate) async fn until_charged(&self, payments: usize) {
        let enough = self.shared.charged.load(Ordering::SeqCst) + payments;
        eventually("the clients pay", async || self.shared.charged.load(Ordering::SeqCst) >= enough).await;
    }

    /// Waits until so many more requests got no answer of their own: refused for what is down, or broken off.
    pub(crate) async fn until_without_answer(&self, requests: usize) {
        let enough = self.shared.without_answer.load(Ordering::SeqCst) + requests;
        eventually("the clients notice", async || self.shared.without_answer.load(Ordering::SeqCst) >= enough).await;
    }

    /// Lets every client come to the end of its payment.
    pub(crate) async fn stop(self) -> Vec<Payment> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let mut payments = Vec::new();
        for client in self.clients {
            payments.extend(client.await.expect("no client panics"));
        }
        let unknown = payments.iter().filter(|payment| payment.receipt.is_none()).count();
        let without_answer = self.shared.without_answer.load(Ordering::SeqCst);
        let mode = self.shared.mode;
        eprintln!("{mode:?}: {} payments, {unknown} unknown; {without_answer} without an answer", payments.len());
        payments
    }
}

fn callers(server: &Server) -> Vec<Caller> {
    (0..CLIENTS).map(|number| server.caller(&name(number))).collect()
}

fn name(client: usize) -> String {
    format!("client-{client}")
}

impl Shared {
    async fn pay_on_and_on(self: Arc<Self>, client: usize, mut random: Random) -> Vec<Payment> {
        let mut payments = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            let key = format!("payment-{}", payments.len());
            let receipt = self.pay(client, &key, random.within(0..40)).await;
            payments.push(Payment { client, key, receipt });
        }
        payments
    }

    async fn pay(&self, client: usize, key: &str, slow: u64) -> Option<Answer> {
        loop {
            let caller = self.callers.lock().expect("nobody panics under it")[client].clone();
            let call = caller.pay(key).bank(format!("slow={slow}"));
            let pause = match call.try_send().await {
                Err(broken_off) => {
                    assert!(self.may_break_off, "{broken_off}");
                    self.without_answer.fetch_add(1, Ordering::SeqCst);
                    Duration::from_millis(20)
                }
                Ok(answer) => match (answer.status, slug(&answer).as_deref()) {
                    (201, None) => {
                        self.charged.fetch_add(1, Ordering::SeqCst);
                        return Some(answer);
                    }
                    (503, _) => {
                        assert_refused_for_now(&answer);
                        self.without_answer.fetch_add(1, Ordering::SeqCst);
                        Duration::from_millis(50)
                    }
                    (409, Some("in-progress")) => answer.assert_in_progress().min(Duration::from_millis(200)),
                    // The ledger broke off under the charge. What became of it, a retry is told.
                    (502, Some("bank-gave-no-answer")) if self.mode == Mode::Claim => Duration::ZERO,
                    (409, Some("outcome-unknown")) | (500, Some("previous-attempt-failed"))
                        if self.mode == Mode::Claim =>
                    {
                        assert_eq!(answer.json()["safe_to_use_new_key"], false, "{answer:?}");
                        return None;
                    }
                    _ => panic!("{:?}: {answer:?}", self.mode),
                },
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// The receipt, once it can be had: the connections that the look went over may have died with the database. Under a
/// claim, the answer goes out also where its record is still to be written, and that may be after the lease.
async fn once_it_is_written(retry: &Call) -> Answer {
    loop {
        let answer = once_it_is_free(retry).await;
        if slug(&answer).as_deref() != Some("outcome-unknown") {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Holds the ledger to what the clients were told: no key was charged twice, every receipt is of a charge that is
/// there, and its retry gets it again, byte for byte.
pub(crate) async fn assert_kept(mode: Mode, server: &Server, payments: &[Payment]) {
    let ledger = server.ledger().await;
    let keys: HashSet<_> = ledger.iter().map(|charge| &charge.bank_key).collect();
    assert_eq!(keys.len(), ledger.len(), "{mode:?}: a key was charged twice: {ledger:?}");
    let charges: HashSet<_> = ledger.iter().map(|charge| (&*charge.principal, &*charge.id)).collect();
    for payment in payments {
        let Some(receipt) = &payment.receipt else { continue };
        let (client, id) = (name(payment.client), receipt.id());
        assert!(charges.contains(&(&*client, &*id)), "{mode:?}: {id} of {client} is not in the ledger");
        let retry = server.caller(&client).pay(&payment.key);
        let replay = tokio::time::timeout(PATIENCE, once_it_is_written(&retry)).await;
        replay.expect("the receipt is replayed").assert_replay_of(receipt);
    }
    let receipts = payments.iter().filter(|payment| payment.receipt.is_some()).count();
    match mode {
        Mode::Transaction => assert_eq!((ledger.len(), receipts), (payments.len(), payments.len())),
        Mode::Claim => assert!((receipts..=payments.len()).contains(&ledger.len()), "{} charges", ledger.len()),
    }
}
