// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests of real programs under the library that `make lib` leaves.

use std::path::{Path, PathBuf};

/// Where a test's files lie.
pub fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Without the library nothing can be recorded, and that is said.
pub fn library() -> Option<PathBuf> {
    let named = std::env::var_os("ONSTACK_PRELOAD").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build/lib/libonstack-preload.so");
    let library = named.unwrap_or(built);
    if !library.exists() {
        eprintln!("SKIPPED: {} is not built: `onstack record` was NOT tried on a real program", library.display());
        return None;
    }
    Some(library)
}
