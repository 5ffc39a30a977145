// SPDX-License-Identifier: MIT OR Apache-2.0
//! pprof-rs's guard over ours.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::Deref;

use onstack::Result;
use onstack_profile::message::ProfileMessage;
use onstack_profile::{Profile, Profiled};

use crate::MAX_DEPTH;

/// Chooses what a [`ProfilerGuard`] does.
#[derive(Clone, Debug)]
pub struct ProfilerGuardBuilder {
    options: onstack::ProfilerGuardBuilder,
    blocklist: Vec<String>,
}

impl Default for ProfilerGuardBuilder {
    fn default() -> Self {
        Self { options: onstack::ProfilerGuardBuilder::default().max_depth(MAX_DEPTH as u32), blocklist: Vec::new() }
    }
}

impl ProfilerGuardBuilder {
    /// Ticks a second of CPU time, 1 to 10,000; 99 unless set.
    #[must_use]
    pub fn frequency(self, frequency: c_int) -> Self {
        self.with(|options| options.frequency(frequency))
    }

    /// Sets what pprof-rs has no options for: `.with(|options| options.unwinder("frame_pointer").fork(onstack::Fork::Follow))`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(onstack::ProfilerGuardBuilder) -> onstack::ProfilerGuardBuilder) -> Self {
        self.options = change(self.options);
        self
    }

    /// Leaves samples out of reports and profiles whose interrupted instruction lies in a file whose name contains one of these,
    /// as `libc`.
    ///
    /// Nothing needs it: every place can be sampled safely. What is left out is missing in the totals; a comment
    /// `onstack.stats blocklisted=N` of each profile says how many ticks it was.
    #[must_use]
    pub fn blocklist<T: AsRef<str>>(mut self, blocklist: &[T]) -> Self {
        self.blocklist =
            blocklist.iter().map(|part| part.as_ref().to_owned()).filter(|part| !part.is_empty()).collect();
        self
    }

    /// Starts profiling.
    ///
    /// # Errors
    /// Those of [`onstack::ProfilerGuardBuilder::build`].
    pub fn build(self) -> Result<ProfilerGuard<'static>> {
        Ok(ProfilerGuard { guard: self.options.build()?, blocklist: self.blocklist, lifetime: PhantomData })
    }
}

/// Profiles from its making to its drop, or to [`stop`](onstack::ProfilerGuard::stop). It is an [`onstack::ProfilerGuard`], too.
#[derive(Debug)]
pub struct ProfilerGuard<'a> {
    guard: onstack::ProfilerGuard,
    blocklist: Vec<String>,
    lifetime: PhantomData<&'a ()>,
}

impl ProfilerGuard<'static> {
    /// Profiles at that many ticks a second of CPU time.
    ///
    /// # Errors
    /// Those of [`onstack::ProfilerGuard::new`].
    pub fn new(frequency: c_int) -> Result<Self> {
        ProfilerGuardBuilder::default().frequency(frequency).build()
    }
}

impl ProfilerGuard<'_> {
    /// What has been sampled so far, in pprof's format; profiling goes on. Takes less memory than a report.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn profile(&self) -> Result<Profile> {
        self.guard.profile().map(|profile| self.without_blocked(profile))
    }

    /// As [`ProfilerGuard::profile`], and profiling goes on with an empty one: every sample is in exactly one of the profiles
    /// that are taken.
    ///
    /// # Errors
    /// Only where memory runs out; the samples are lost then.
    pub fn take_profile(&self) -> Result<Profile> {
        self.guard.take_profile().map(|profile| self.without_blocked(profile))
    }

    pub(crate) fn profile_without_names(&self) -> Result<Profile> {
        Profile::read(&self.guard.pprof_without_names()?[..]).map(|profile| self.without_blocked(profile))
    }

    fn without_blocked(&self, profile: Profile) -> Profile {
        if self.blocklist.is_empty() {
            return profile;
        }
        let mut message = profile.into_message();
        let blocked = block(&mut message, &self.blocklist);
        let mut profile = Profile::from(message);
        profile.add_comment(&format!("onstack.stats blocklisted={blocked}"));
        profile
    }
}

/// Takes out samples whose leaf lies in a file whose name contains one of `parts`; their ticks.
fn block(message: &mut ProfileMessage, parts: &[String]) -> i64 {
    // The name alone: `libc` means the library, not what lies below some /srv/libc/.
    let name = |path: &str| path.rsplit('/').next().is_some_and(|name| parts.iter().any(|part| name.contains(part)));
    let mappings: Vec<u64> = message
        .mapping
        .iter()
        .filter(|mapping| name(message.text(mapping.filename)))
        .map(|mapping| mapping.id)
        .collect();
    let places = message.location.iter().filter(|location| mappings.contains(&location.mapping_id));
    let places: std::collections::HashSet<u64> = places.map(|location| location.id).collect();
    let mut ticks = 0;
    message.sample.retain(|sample| {
        let is_blocked = sample.location_id.first().is_some_and(|leaf| places.contains(leaf));
        ticks += if is_blocked { sample.value.first().copied().unwrap_or(0) } else { 0 };
        !is_blocked
    });
    ticks
}

impl Deref for ProfilerGuard<'_> {
    type Target = onstack::ProfilerGuard;

    fn deref(&self) -> &Self::Target {
        &self.guard
    }
}
