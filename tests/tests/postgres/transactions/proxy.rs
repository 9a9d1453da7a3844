//! A TCP proxy before the server that can lose what a commit says.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to the next connection that says COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Nothing,
    /// The connection ends, and the server never hears it.
    BeforeCommit,
    /// The server hears it, and its reply never arrives.
    AfterCommit,
}

pub(crate) struct Proxy {
    port: u16,
    next: Arc<Mutex<Cut>>,
    /// Once true, every connection ends, and none begins.
    dead: watch::Sender<bool>,
    /// While true, what the server says waits here.
    holds: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ((dead, is_dead), (holds, is_held)) = (watch::channel(false), watch::channel(false));
        let next = Arc::new(Mutex::new(Cut::Nothing));
        let cut = Arc::clone(&next);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (cut, mut is_dead, is_held) = (Arc::clone(&cut), is_dead.clone(), is_held.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass(client, server, &cut, is_held) => {}
                        _ = is_dead.wait_for(|dead| *dead) => {}
                    }
                });
            }
        });
        Self { port, next, dead, holds }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn cut_once(&self, cut: Cut) {
        *self.next.lock().unwrap() = cut;
    }

    pub(crate) fn hold_replies(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    /// Ends whoever talks through it, as the crash of their process would.
    pub(crate) fn die(&self) {
        self.dead.send_replace(true);
    }
}

async fn pass(client: TcpStream, server: u16, cut: &Mutex<Cut>, is_held: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (mute, is_mute) = watch::channel(false);
    // Whichever side ends, ends both.
    tokio::select! {
        () = requests(from_client, to_server, cut, &mute) => {}
        () = replies(from_server, to_client, is_mute, is_held) => {}
    }
}

async fn requests(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, cut: &Mutex<Cut>, mute: &watch::Sender<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut buffer).await {
        let said = &buffer[..length];
        if said.windows(7).any(|text| text == b"COMMIT\0") {
            match std::mem::replace(&mut *cut.lock().unwrap(), Cut::Nothing) {
                Cut::Nothing => {}
                Cut::BeforeCommit => return,
                Cut::AfterCommit => drop(mute.send_replace(true)),
            }
        }
        if server.write_all(said).await.is_err() {
            return;
        }
    }
}

async fn replies(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    is_mute: watch::Receiver<bool>,
    mut is_held: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        if is_held.wait_for(|is_held| !is_held).await.is_err() {
            return;
        }
        // The reply is here, so that the commit took place; and here it stays.
        if *is_mute.borrow() || client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
