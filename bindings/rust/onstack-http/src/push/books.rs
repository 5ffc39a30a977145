// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a pusher: a profile is always in exactly one of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of a [`Pusher`](crate::Pusher). At any time `taken == sent + failed + dropped + empty + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushStats {
    /// Profiles: one each interval, and the last.
    pub taken: u64,
    /// The server took them.
    pub sent: u64,
    /// The server refused them for good, or they could not be made.
    pub failed: u64,
    /// They had no room to wait, or no time left after the end.
    pub dropped: u64,
    /// Without a sample, as no thread used CPU time: nothing to send.
    pub empty: u64,
    /// The one that is being sent among them.
    pub waiting: u64,
    /// Attempts, not profiles, that failed and left the profile waiting for another.
    pub retries: u64,
}

/// What a profile that was taken, or one that waited, has become.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Sent,
    Failed,
    Dropped,
    Empty,
}

#[derive(Default)]
pub(super) struct Books {
    pub(super) stats: PushStats,
}

impl Books {
    /// A new profile waits.
    pub(super) fn waits(&mut self) {
        self.stats.taken += 1;
        self.stats.waiting += 1;
    }

    /// A new profile does not.
    pub(super) fn ends_at_once(&mut self, fate: Fate) {
        self.waits();
        self.ends(fate);
    }

    /// One that waited.
    pub(super) fn ends(&mut self, fate: Fate) {
        self.stats.waiting -= 1;
        *match fate {
            Fate::Sent => &mut self.stats.sent,
            Fate::Failed => &mut self.stats.failed,
            Fate::Dropped => &mut self.stats.dropped,
            Fate::Empty => &mut self.stats.empty,
        } += 1;
    }
}

pub(super) fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
