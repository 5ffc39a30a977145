// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of this process, with names, lines and inlined functions from debug information.

use std::collections::HashMap;
use std::time::Duration;

use onstack::{Named, ProfilerGuard, Result};

use crate::profile::Profile;

/// Profiles of a [`ProfilerGuard`], with names, lines and inlined functions.
///
/// ```
/// use onstack_profile::Profiled;
///
/// let guard = onstack::ProfilerGuard::new(199)?;
/// // ... work ...
/// println!("{:#}", guard.profile()?.top());
/// # Ok::<(), onstack::Error>(())
/// ```
pub trait Profiled {
    /// What has been sampled so far; profiling goes on. Debug information that was read is freed at the end.
    ///
    /// # Errors
    /// Those of [`ProfilerGuard::pprof`].
    fn profile(&self) -> Result<Profile>;

    /// As [`ProfilerGuard::pprof_in_use_for`].
    ///
    /// # Errors
    /// Those of [`ProfilerGuard::pprof_in_use_for`].
    fn profile_in_use_for(&self, age: Duration) -> Result<Profile>;

    /// As [`ProfilerGuard::take_pprof`]: every sample is in exactly one of the profiles that are taken.
    ///
    /// # Errors
    /// Those of [`ProfilerGuard::take_pprof`].
    fn take_profile(&self) -> Result<Profile>;
}

impl Profiled for ProfilerGuard {
    fn profile(&self) -> Result<Profile> {
        Profile::of_this_process(&self.pprof()?)
    }

    fn profile_in_use_for(&self, age: Duration) -> Result<Profile> {
        Profile::of_this_process(&self.pprof_in_use_for(age)?)
    }

    fn take_profile(&self) -> Result<Profile> {
        Profile::of_this_process(&self.take_pprof()?)
    }
}

impl Profile {
    /// Of bytes that [`onstack`] gave to this process, with names from debug information. [`Profile::read`] takes everything else.
    ///
    /// # Errors
    /// [`Error::Input`](onstack::Error::Input) for bytes that are no profile.
    pub fn of_this_process(bytes: &[u8]) -> Result<Self> {
        let mut profile = Self::decode(bytes)?;
        profile.symbolize();
        Ok(profile)
    }
}

/// Where every thread of the process is now, as text: [`onstack::dump`] with lines and inlined functions.
///
/// ```
/// # fn main() -> onstack::Result<()> {
/// # if matches!(onstack_profile::dump(), Err(onstack::Error::Clock)) { return Ok(()) } // an emulator
/// eprintln!("{}", onstack_profile::dump()?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`onstack::dump`].
pub fn dump() -> Result<String> {
    onstack::dump(named)
}

/// The same as a profile: [`onstack::dump_pprof`] with lines and inlined functions.
///
/// # Errors
/// Those of [`onstack::dump`].
pub fn dump_profile() -> Result<Profile> {
    Profile::of_this_process(&onstack::dump_pprof()?)
}

/// The functions at places of this process. The core asks for names of what it holds, so the places are looked up in a profile
/// of their own.
fn named(addresses: &[u64]) -> Vec<Vec<Named>> {
    let mut places: HashMap<u64, Vec<Named>> = HashMap::new();
    for part in addresses.chunks(onstack::MAX_DEPTH as usize) {
        let profile = onstack::pprof_of_addresses(part).and_then(|bytes| Profile::of_this_process(&bytes));
        let Ok(Profile { message }) = profile else { continue };
        let functions: HashMap<_, _> = message.function.iter().map(|function| (function.id, function)).collect();
        for location in &message.location {
            let lines = location.line.iter().filter_map(|line| {
                let function = functions.get(&line.function_id)?;
                let text = |index| message.text(index).to_owned();
                let (name, system_name, file) =
                    (text(function.name), text(function.system_name), text(function.filename));
                Some(Named { name, system_name, file, line: line.line })
            });
            // What debug information does not know the core names better.
            let lines: Vec<_> = lines.collect();
            if lines.iter().any(|line| !line.file.is_empty()) {
                places.insert(location.address, lines);
            }
        }
    }
    addresses.iter().map(|address| places.remove(address).unwrap_or_default()).collect()
}
