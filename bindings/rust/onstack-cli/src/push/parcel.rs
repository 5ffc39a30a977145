// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile that is ready to be sent: known to be one, within the size that was allowed, and with its time.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use flate2::read::MultiGzDecoder;
use onstack::Profile;

use crate::failure::Failure;
use crate::input::{bytes, first};

pub struct Parcel {
    /// The file as it is.
    pub bytes: Vec<u8>,
    /// Seconds since 1970.
    pub from: u64,
    pub until: u64,
}

/// Never holds more than `limit` bytes of the file, nor of what it unpacks to.
pub fn read(path: &Path, limit: u64) -> Result<Parcel, Failure> {
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
    let (from, until) = interval(profile.start(), profile.duration(), written(path));
    Ok(Parcel { bytes, from, until })
}

const GZIP: &[u8] = &[0x1f, 0x8b];

fn written(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or_else(|_| SystemTime::now())
}

/// A profile that does not say when it began ended when its file was written. The server wants whole seconds, and more
/// than none of them.
fn interval(start: Option<SystemTime>, duration: Duration, written: SystemTime) -> (u64, u64) {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = start.map(since).unwrap_or_else(|| since(written).saturating_sub(duration));
    let end = start.saturating_add(duration);
    let until = end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0));
    (start.as_secs(), until.max(start.as_secs().saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_whole_seconds_and_never_empty() {
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        let span = Duration::from_secs_f64;
        for (start, duration, expected) in [
            (Some(at(100.5)), span(10.0), (100, 111)),
            (Some(at(100.0)), span(10.0), (100, 110)),
            (Some(at(100.0)), span(0.0), (100, 101)),
            (None, span(10.0), (990, 1000)),
            (None, span(5000.0), (0, 5000)),
        ] {
            assert_eq!(interval(start, duration, at(1000.0)), expected, "{start:?} {duration:?}");
        }
    }
}
