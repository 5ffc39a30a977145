// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust as cargo builds it in release: sorting, hashing, formatting, threads, and a panic that is caught.
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::panic;

#[no_mangle]
pub static subject_whole: bool = false;
#[no_mangle]
pub static subject_name: [u8; 5] = *b"rust\0";

struct Guard<'a>(&'a std::cell::Cell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[inline(never)]
fn sort() -> bool {
    let mut numbers: Vec<u32> = (0..70u32).map(|n| n.wrapping_mul(2654435761) >> 7).collect();
    numbers.sort();
    let stable = numbers.windows(2).all(|pair| pair[0] <= pair[1]);
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    stable && numbers.windows(2).all(|pair| pair[0] >= pair[1])
}

#[inline(never)]
fn maps() -> bool {
    let mut hashed: HashMap<String, usize> = HashMap::new();
    let mut ordered = BTreeMap::new();
    for n in 0..24usize {
        *hashed.entry(format!("key {} {:>6.2}", n % 17, n as f64 / 8.0)).or_default() += n;
        ordered.insert(n * 31 % 29, n.to_string());
    }
    hashed.len() == 24 && ordered.keys().copied().next() == Some(0)
}

#[inline(never)]
fn dive(depth: u32, drops: &std::cell::Cell<u32>) -> u32 {
    let _guard = Guard(drops);
    if depth == 0 {
        panic!("at the bottom");
    }
    dive(black_box(depth - 1), drops) + 1
}

#[inline(never)]
fn panics() -> bool {
    let drops = std::cell::Cell::new(0);
    let caught = panic::catch_unwind(panic::AssertUnwindSafe(|| dive(black_box(3), &drops)));
    caught.is_err() && drops.get() == 4
}

fn closures() -> bool {
    let boxed: Vec<Box<dyn Fn(u64) -> u64>> = vec![Box::new(|n| n + 1), Box::new(|n| n * n), Box::new(u64::reverse_bits)];
    black_box(boxed).iter().fold(3, |n, f| f(n)) == 16u64.reverse_bits()
}

#[no_mangle]
pub extern "C" fn subject_run() -> i32 {
    panic::set_hook(Box::new(|_| {}));
    let in_thread = std::thread::spawn(sort).join().unwrap_or(false);
    let good = in_thread && maps() && panics() && closures();
    i32::from(!good)
}
