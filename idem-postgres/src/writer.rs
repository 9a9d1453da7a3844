//! What carries writes out, alone or in groups: the connections, and what is common to claims and replacements.

use core::time::Duration;
use std::sync::Arc;

use idem_core::{Found, NewRecord, ScopedKey, State, StoreError};
use sqlx::query;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::PostgresConfig;
use crate::error::{Stage, store_error};
use crate::group::{Asked, Write};
use crate::queries::FIND;
use crate::row::{KeyColumns, Seen, seen};
use crate::session::Sessions;

/// How often a write looks again after a race that left nothing to see. Each turn has newer data.
pub(crate) const ROUNDS: usize = 4;

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the row changed between every look and every write")]
pub(crate) struct Contended;

/// After this long, a write that goes alone lets the next group go beside it.
const HAND_OVER: Duration = Duration::from_millis(10);

/// Shared by the store and the groups that are under way.
pub(crate) struct Writer {
    pub(crate) sessions: Sessions,
    pub(crate) group_lock_timeout: Duration,
    /// For what a group could not do.
    turns_alone: Semaphore,
    /// The longest that a write takes alone.
    patience: Duration,
}

impl Writer {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let for_groups = 2 * config.groups_in_flight;
        let alone = (config.max_connections as usize).saturating_sub(for_groups).max(1);
        Self {
            sessions: Sessions::new(config),
            group_lock_timeout: config.group_lock_timeout,
            turns_alone: Semaphore::new(alone),
            patience: config.connect_timeout + config.command_timeout,
        }
    }

    pub(crate) async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        let columns = KeyColumns::of(key);
        let statement = query(FIND).bind(columns.principal).bind(columns.route).bind(columns.key);
        let rows = self.sessions.fetch(statement).await?;
        match rows.first().map(|row| seen(row, 0)).transpose() {
            Ok(seen) => Ok(seen.and_then(Seen::alive)),
            Err(error) => Err(store_error(error, Stage::Sent)),
        }
    }

    /// Carries out, one by one, what a group could not. One that waits for a lock holds up neither the others nor the
    /// next group: after a moment, it goes on in a task of its own.
    pub(crate) async fn each_alone<W: Write + Sync>(self: Arc<Self>, mut writes: Vec<Asked<W>>) {
        if writes.len() > 1 {
            for asked in writes {
                drop(tokio::spawn(Arc::clone(&self).alone_in_turn(asked)));
            }
        } else if let Some(asked) = writes.pop() {
            let mut alone = Box::pin(self.alone(asked));
            if timeout(HAND_OVER, &mut alone).await.is_err() {
                drop(tokio::spawn(alone));
            }
        }
    }

    /// Leaves connections for the groups that follow.
    async fn alone_in_turn<W: Write + Sync>(self: Arc<Self>, asked: Asked<W>) {
        let turn = self.turns_alone.acquire().await;
        Arc::clone(&self).alone(asked).await;
        drop(turn);
    }

    /// A write whose caller has given up is not begun, nor gone on with beyond his patience: he has drawn his conclusions.
    async fn alone<W: Write + Sync>(self: Arc<Self>, asked: Asked<W>) {
        if asked.is_abandoned() {
            return;
        }
        if let Ok(answer) = timeout(self.patience, asked.write.carry_out(&self)).await {
            asked.answer(answer);
        }
    }
}

/// What a record adds to its statement, about.
pub(crate) fn bytes_of(record: &NewRecord) -> usize {
    match &record.record().state {
        State::Completed(answer) => answer.size(),
        _ => 0,
    }
}
