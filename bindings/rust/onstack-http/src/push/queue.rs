// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles that wait, oldest first, in bounded memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::target::Parcel;

pub(super) struct Queue {
    most: usize,
    most_bytes: usize,
    waiting: VecDeque<Arc<Parcel>>,
    /// Bytes of these.
    held: usize,
}

impl Queue {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { most, most_bytes, waiting: VecDeque::new(), held: 0 }
    }

    /// Whether it could never wait: the others would have to go for nothing.
    pub(super) fn is_too_large(&self, parcel: &Parcel) -> bool {
        parcel.held() > self.most_bytes
    }

    pub(super) fn has_room(&self, parcel: &Parcel) -> bool {
        self.waiting.len() < self.most && parcel.held() <= self.most_bytes - self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// There must be room.
    pub(super) fn push(&mut self, parcel: Arc<Parcel>) {
        self.held += parcel.held();
        self.waiting.push_back(parcel);
    }

    /// There must be room. For one that was taken out and has to wait again.
    pub(super) fn put_back(&mut self, parcel: Arc<Parcel>) {
        self.held += parcel.held();
        self.waiting.push_front(parcel);
    }

    pub(super) fn take(&mut self) -> Option<Arc<Parcel>> {
        let parcel = self.waiting.pop_front()?;
        self.held -= parcel.held();
        Some(parcel)
    }
}
