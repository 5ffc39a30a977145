// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: an allocator that reports to heap profiles.

use std::alloc::{GlobalAlloc, Layout, System};

use onstack_sys as sys;

/// A global allocator that lets another one do the work, and reports each block to the profile of [`Clock::Heap`] that runs.
///
/// While none runs, an allocation costs a load and a branch more, and so does its end. Blocks are those of the other
/// allocator, unchanged: it may be any, as jemalloc's or mimalloc's crate.
///
/// ```
/// use onstack::heap::Allocator;
/// use onstack::{Clock, ProfilerGuardBuilder};
///
/// #[global_allocator]
/// static ALLOCATOR: Allocator = Allocator::system(); // or Allocator::new(another one)
///
/// # fn main() -> onstack::Result<()> {
/// let guard = ProfilerGuardBuilder::default().clock(Clock::Heap).build()?;
/// let kept = vec![0u8; 10 << 20];
/// let profile = guard.pprof()?; // bytes in use now, by stack; also inuse_objects, alloc_space and alloc_objects
/// # assert!(!profile.is_empty());
/// # drop(kept);
/// # Ok(())
/// # }
/// ```
///
/// Only one heap profile runs at a time: a second start is [`Error::Sessions`](crate::Error::Sessions). C code in the process
/// that calls malloc by itself is not seen by this allocator.
///
/// [`Clock::Heap`]: crate::Clock::Heap
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator<A = System>(A);

impl Allocator {
    /// Over the system's malloc.
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> Allocator<A> {
    /// Over another allocator.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

fn begun(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: any address may be told of; the call neither allocates nor locks, and null is nothing.
    unsafe { sys::onstack_heap_allocated(block.cast(), size) };
    block
}

fn ended(block: *mut u8) {
    // SAFETY: as above.
    unsafe { sys::onstack_heap_freed(block.cast()) };
}

// SAFETY: the other allocator does all the work, with the layouts that it was asked for.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        begun(unsafe { self.0.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        begun(unsafe { self.0.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ended(block); // before another thread can have the address
                      // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    /// One that fails leaves its block without a sample: whether it would fail is known too late.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ended(block);
        // SAFETY: as above.
        begun(unsafe { self.0.realloc(block, layout, new_size) }, new_size)
    }
}
