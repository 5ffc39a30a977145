// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server of one kind wants to be told, and how. Each kind is a file beside this one.

use std::time::SystemTime;

use onstack::Profile;

/// A kind of server.
pub trait Target: Send + Sync {
    /// Where requests go, which texts may name: without anything secret.
    fn endpoint(&self) -> &str;

    /// The profile as it is sent. `original` are its bytes in pprof's format, where there are some already; `ended` is when
    /// it ended, if it does not say when it began.
    ///
    /// # Errors
    /// Only where memory runs out.
    fn pack(&self, profile: Profile, original: Option<Vec<u8>>, ended: SystemTime) -> onstack::Result<Parcel>;

    /// Whether a refusal that looks final passes, by the server's own words.
    fn passes(&self, status: u16, words: &str) -> bool;
}

/// A profile that is ready to be sent.
pub struct Parcel {
    /// The parameters of its request.
    pub query: Vec<(&'static str, String)>,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Parcel {
    /// Bytes of memory, used or not.
    pub fn held(&self) -> usize {
        self.body.capacity()
    }
}
