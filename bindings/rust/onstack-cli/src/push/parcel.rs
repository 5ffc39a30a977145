// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that is ready to be sent: known to be a profile, and within the size that was allowed.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;
use onstack_http::push::target::{Parcel, Target};
use onstack_profile::Profile;

use crate::failure::Failure;
use crate::input::{bytes, first};

/// Never holds more than `limit` bytes of the file, nor of what it unpacks to.
pub fn read(path: &Path, limit: u64, target: &dyn Target) -> Result<Parcel, Failure> {
    let large = |how: &str| {
        let mebibytes = limit >> 20;
        Failure::new(path, format!("is larger than {mebibytes} MiB{how}: `--max-size` sets another limit"))
    };
    let bytes = bytes(path, limit)?.ok_or_else(|| large(""))?;

    let unpacked = bytes.starts_with(GZIP).then(|| first(MultiGzDecoder::new(&bytes[..]), limit)).transpose();
    let unpacked = unpacked.map_err(|error| Failure::new(path, format!("the gzip data is damaged ({error})")))?;
    let unpacked = unpacked.map(|plain| plain.ok_or_else(|| large(" when unpacked"))).transpose()?;
    let plain = unpacked.as_deref().unwrap_or(&bytes);
    if unpacked.is_some() && plain.starts_with(GZIP) {
        return Err(Failure::new(path, "not a pprof profile: it is compressed twice"));
    }
    let profile = Profile::read(plain).map_err(|error| Failure::new(path, error))?;
    target.pack(profile, Some(bytes), written(path)).map_err(|error| Failure::new(path, error))
}

const GZIP: &[u8] = &[0x1f, 0x8b];

fn written(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or_else(|_| SystemTime::now())
}
