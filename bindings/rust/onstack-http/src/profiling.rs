// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a program wants to be profiled: a change to the builder that the crate would use by itself.

use std::fmt;
use std::sync::Arc;

use onstack::ProfilerGuardBuilder;

type Change = dyn Fn(ProfilerGuardBuilder) -> ProfilerGuardBuilder + Send + Sync;

/// Nothing is changed unless set.
#[derive(Clone, Default)]
pub(crate) struct Profiling(Option<Arc<Change>>);

impl Profiling {
    pub(crate) fn by(change: impl Fn(ProfilerGuardBuilder) -> ProfilerGuardBuilder + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(change)))
    }

    pub(crate) fn of(&self, builder: ProfilerGuardBuilder) -> ProfilerGuardBuilder {
        match &self.0 {
            Some(change) => change(builder),
            None => builder,
        }
    }
}

impl fmt::Debug for Profiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "changed" } else { "default" })
    }
}
