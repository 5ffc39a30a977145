// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests that have a profile, of all handlers: they share the process's sessions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::query::DURATION;

/// When each of their profiles will be over.
static TAKEN: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

fn taken() -> MutexGuard<'static, Vec<Instant>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of them, from the request on until the answer's bytes are gone: what a slow client still reads takes memory.
pub(crate) struct Seat(Instant);

impl Seat {
    /// Nothing where there are `most` already.
    pub(crate) fn take(over: Instant, most: usize) -> Option<Self> {
        let mut taken = taken();
        let free = taken.len() < most;
        free.then(|| {
            taken.push(over);
            Self(over)
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = taken();
        let at = taken.iter().position(|over| *over == self.0);
        at.map(|at| taken.swap_remove(at));
        if taken.is_empty() {
            taken.shrink_to_fit();
        }
    }
}

/// How long it takes until the first of them is over, or a profile without `?seconds` where there is none.
pub(crate) fn next_end() -> Duration {
    let first = taken().iter().min().copied();
    first.map_or(DURATION, |over| over.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_counts_and_seats_come_back() {
        assert_eq!(next_end(), DURATION);
        let begun = Instant::now();
        let seat = |seconds| Seat::take(begun + Duration::from_secs(seconds), 3);
        let (long, short, other) = (seat(6000), seat(2000), seat(4000));
        assert!(long.is_some() && short.is_some() && other.is_some());
        assert!(seat(1).is_none());
        assert!(next_end() <= Duration::from_secs(2000) && next_end() > Duration::from_secs(1000));
        drop(short);
        assert!(next_end() <= Duration::from_secs(4000) && next_end() > Duration::from_secs(3000));
        drop((long, other));
        assert_eq!((next_end(), taken().capacity()), (DURATION, 0));
    }
}
