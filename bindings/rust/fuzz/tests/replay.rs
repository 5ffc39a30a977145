// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kept inputs of each target and some thousand crude mutations of them, the same at each run, by any toolchain.

use std::fs;
use std::panic;
use std::path::Path;
use std::sync::Mutex;

/// What changes inputs; xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const ODD: [u64; 6] = [0, 1, 0x7f, 0xffff, u64::MAX, u64::MAX - 7];
        for _ in 0..=self.below(6) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.next() as u8,
                2 => {
                    let value = ODD[self.below(ODD.len())].to_le_bytes();
                    let width = (1 << self.below(4)).min(bytes.len() - at);
                    bytes[at..at + width].copy_from_slice(&value[..width]);
                }
                3 => {
                    let length = 1 + self.below(bytes.len() - at);
                    let to = self.below(bytes.len() - length + 1);
                    bytes.copy_within(at..at + length, to);
                }
                _ if self.below(4) == 0 => bytes.truncate(at),
                _ => (),
            }
        }
    }
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn replay(target: &str, run: fn(&[u8]), most: usize) {
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "no inputs are kept for {target}");
    inputs.iter().for_each(|input| run(input));
    let asked = std::env::var("FUZZ_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let mut random = Random(88_172_645_463_325_252);
    for round in 0..asked.unwrap_or(3000).min(most) {
        let mut input = inputs[random.below(inputs.len())].clone();
        random.mutate(&mut input);
        let failed = panic::catch_unwind(|| run(&input)).is_err();
        assert!(!failed, "{target}: mutation {round}: {input:?}");
    }
}

#[test]
fn profile() {
    replay("profile", onstack_fuzz::profile, usize::MAX);
}

#[test]
fn folded() {
    replay("folded", onstack_fuzz::folded, usize::MAX);
}

/// Both write to one directory of the process.
static FILES: Mutex<()> = Mutex::new(());

#[test]
fn debug_file() {
    let _alone = FILES.lock();
    replay("debug_file", |data| drop(onstack_fuzz::debug_file(data)), 1000);
}

#[test]
fn beside() {
    let _alone = FILES.lock();
    let kept = inputs("beside");
    let profiles = kept.iter().flat_map(|data| onstack_fuzz::beside(data));
    // One program needs nothing from beside, one the whole file, and one has its unit in a file or in a package.
    let named = profiles.filter(|profile| profile.top().get("outer").is_some()).count();
    assert_eq!(named, kept.len() + 1 + 2);
    replay("beside", |data| drop(onstack_fuzz::beside(data)), 300);
}

#[test]
fn status() {
    replay("status", onstack_fuzz::status, usize::MAX);
}

#[test]
fn program() {
    let _alone = FILES.lock();
    replay("program", onstack_fuzz::program, 1000);
}

#[test]
fn diff() {
    replay("diff", onstack_fuzz::diff, 1000);
}

#[test]
fn drawn() {
    replay("drawn", onstack_fuzz::drawn, 2000);
}

/// Stacks are as deep as a file says: what is made of them must not need stack for each frame.
#[test]
fn a_stack_of_a_million_frames() {
    let text = "f;".repeat(1_000_000) + "g 1\n";
    onstack_fuzz::folded(text.as_bytes());
}
