// SPDX-License-Identifier: MIT OR Apache-2.0
//! Something that costs time.

/// How many primes there are below `limit`.
#[inline(never)]
pub fn primes_below(limit: u32) -> usize {
    (2..limit).filter(|&number| is_prime(number)).count()
}

#[inline(never)]
fn is_prime(number: u32) -> bool {
    (2..)
        .take_while(|divisor| divisor * divisor <= number)
        .all(|divisor| number % divisor != 0)
}
