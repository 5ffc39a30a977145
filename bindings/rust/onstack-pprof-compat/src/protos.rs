// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of a pprof profile, as `github.com/google/pprof/proto/profile.proto` has them; what that file says about
//! each field holds here. With the feature `prost-codec` they are types of `prost`, with `protobuf-codec`, which wins
//! when both are on, of `protobuf`.

#[cfg(feature = "prost-codec")]
#[cfg_attr(feature = "protobuf-codec", allow(unreachable_pub, dead_code))]
pub(crate) mod prost_messages;

#[cfg(all(feature = "prost-codec", not(feature = "protobuf-codec")))]
pub use {prost::Message, prost_messages::*};

#[cfg(feature = "protobuf-codec")]
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/protos/mod.rs"));
}

#[cfg(feature = "protobuf-codec")]
pub use {generated::profile, generated::profile::*, protobuf::Message};

/// The codec's type out of the bytes that this crate writes.
#[cfg(all(feature = "prost-codec", not(feature = "protobuf-codec")))]
pub(crate) fn from_bytes(bytes: &[u8]) -> onstack::Result<Profile> {
    Profile::decode(bytes).map_err(|error| onstack::Error::Input(error.to_string()))
}

/// As above.
#[cfg(feature = "protobuf-codec")]
pub(crate) fn from_bytes(bytes: &[u8]) -> onstack::Result<Profile> {
    Profile::parse_from_bytes(bytes).map_err(|error| onstack::Error::Input(error.to_string()))
}
