// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of benchmarks by [criterion](https://docs.rs/criterion), when they are run with `--profile-time`.
//!
//! ```ignore
//! criterion_group! {
//!     name = benches;
//!     config = Criterion::default().with_profiler(PProfProfiler::new(100, Output::Flamegraph(None)));
//!     targets = bench
//! }
//! ```
//!
//! `cargo bench --bench NAME -- --profile-time 5` then leaves `target/criterion/BENCHMARK/profile/flamegraph.svg`, or
//! `profile.pb` there. The feature `criterion` is for criterion 0.5; `criterion-0_6`, `criterion-0_7` and `criterion-0_8`
//! for the later ones. Several can be on.

use std::ffi::c_int;
use std::fs;
use std::marker::PhantomData;
use std::path::Path;

use crate::{Error, ProfilerGuard, Result};

/// What a benchmark's profile becomes.
#[allow(clippy::large_enum_variant)] // there is one of them, and its shape is what users know
#[non_exhaustive]
pub enum Output<'a> {
    /// `flamegraph.svg`, drawn as the options say.
    #[cfg(feature = "flamegraph")]
    #[cfg_attr(docsrs, doc(cfg(feature = "flamegraph")))]
    Flamegraph(Option<crate::flamegraph::Options<'a>>),
    /// `profile.pb`, in pprof's format, not compressed.
    Protobuf,
    /// For the lifetime alone; it writes nothing.
    #[doc(hidden)]
    _Phantom(PhantomData<&'a ()>),
}

/// A profiler for `Criterion::with_profiler`.
pub struct PProfProfiler<'a, 'b> {
    frequency: c_int,
    output: Output<'b>,
    active: Option<ProfilerGuard<'a>>,
}

impl<'b> PProfProfiler<'_, 'b> {
    /// Profiles at that many ticks a second of CPU time.
    pub fn new(frequency: c_int, output: Output<'b>) -> Self {
        Self { frequency, output, active: None }
    }

    /// Criterion has no place for errors of profilers, and a benchmark that silently has no profile helps nobody.
    #[allow(clippy::panic)]
    fn start(&mut self) {
        match ProfilerGuard::new(self.frequency) {
            Ok(guard) => self.active = Some(guard),
            Err(error) => panic!("onstack: cannot profile the benchmark: {error}"),
        }
    }

    #[allow(clippy::panic)]
    fn stop(&mut self, directory: &Path) {
        let Some(guard) = self.active.take() else { return };
        // The work is over, and what is written now is none of it.
        let written = guard.stop().and_then(|()| self.write(&guard, directory));
        match written {
            // A benchmark that was too short for a tick has nothing to show, and the others go on.
            Err(Error::Empty) => eprintln!("onstack: no samples for {}", directory.display()),
            Err(error) => panic!("onstack: cannot write the profile into {}: {error}", directory.display()),
            Ok(()) => {}
        }
    }

    fn write(&mut self, guard: &ProfilerGuard<'_>, directory: &Path) -> Result<()> {
        let profile = guard.profile()?;
        let mut bytes = Vec::new();
        let name = match &mut self.output {
            #[cfg(feature = "flamegraph")]
            Output::Flamegraph(options) => {
                let mut default = crate::flamegraph::Options::default();
                profile.flamegraph_with_options(&mut bytes, options.as_mut().unwrap_or(&mut default))?;
                "flamegraph.svg"
            }
            Output::Protobuf => {
                bytes = profile.to_bytes();
                "profile.pb"
            }
            Output::_Phantom(_) => return Ok(()),
        };
        fs::create_dir_all(directory)?;
        Ok(fs::write(directory.join(name), bytes)?)
    }
}

macro_rules! adapters {
    ($($feature:literal $version:ident)*) => {$(
        #[cfg(feature = $feature)]
        impl $version::profiler::Profiler for PProfProfiler<'_, '_> {
            fn start_profiling(&mut self, _benchmark_id: &str, _benchmark_dir: &Path) {
                self.start();
            }
            fn stop_profiling(&mut self, _benchmark_id: &str, benchmark_dir: &Path) {
                self.stop(benchmark_dir);
            }
        }
    )*};
}

adapters! {
    "criterion" criterion_0_5
    "criterion-0_6" criterion_0_6
    "criterion-0_7" criterion_0_7
    "criterion-0_8" criterion_0_8
}
