// SPDX-License-Identifier: MIT OR Apache-2.0
//! Something that costs time.

use std::hint::black_box;
use std::ops::Range;

use tokio::task::yield_now;

/// How many primes there are below `limit`, in slices: between two of them other tasks have their turn, and the next one may
/// run on another thread.
pub async fn primes_below(limit: u32) -> usize {
    const SLICE: u32 = 100_000;
    let mut found = 0;
    for start in (2..limit).step_by(SLICE as usize) {
        found += primes_in(start..limit.min(start + SLICE));
        yield_now().await;
    }
    found
}

/// As [`primes_below`], in one piece, for a thread that may be kept.
pub fn primes_in(numbers: Range<u32>) -> usize {
    numbers.filter(|&number| is_prime(number)).count()
}

#[inline(never)]
fn is_prime(number: u32) -> bool {
    (2..)
        .take_while(|divisor| divisor * divisor <= number)
        .all(|divisor| black_box(number) % divisor != 0)
}
