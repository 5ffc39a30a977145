// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information that lies beside a program: packages, files of units, what links lead to. The programs are sound.

use std::fs;
use std::path::Path;

use onstack_profile::Profile;

use crate::{debug_file, own_file};

/// Its unit is in `beside.dwo`, in the directory that [`ROOM`] stands for, or in the package of the program's name.
const SPLIT: &[u8] = include_bytes!("../programs/split");
/// Has nothing but a link to `beside.debug`.
const LINKED: &[u8] = include_bytes!("../programs/linked");
/// Whole, and shares some with `beside.debug`.
const SHARED: &[u8] = include_bytes!("../programs/shared");
const ROOM: [u8; 64] = [b'#'; 64];

/// The program with the directory of now in the room that is left for it.
fn split_in(directory: &Path) -> Vec<u8> {
    let mut name = directory.to_string_lossy().into_owned().into_bytes();
    assert!(name.len() <= ROOM.len(), "set TMPDIR to a shorter name");
    name.resize(ROOM.len(), b'/');
    let mut program = SPLIT.to_vec();
    while let Some(at) = program.windows(ROOM.len()).position(|bytes| bytes == ROOM) {
        program[at..at + ROOM.len()].copy_from_slice(&name);
    }
    program
}

/// A file of any content under each of the names: no panic gets out. Returns a profile of each program.
pub fn beside(data: &[u8]) -> Vec<Profile> {
    let Some(place) = own_file("") else { return Vec::new() };
    for name in ["object.dwp", "beside.dwo", "beside.debug"] {
        fs::write(place.join(name), data).expect("the temporary directory can be written");
    }
    let programs = [&split_in(&place), LINKED, SHARED];
    let profiles = programs.into_iter().filter_map(debug_file).collect();
    // The target `debug_file` has the same directory and wants none of them.
    for name in ["object.dwp", "beside.dwo", "beside.debug"] {
        fs::remove_file(place.join(name)).expect("it was just written");
    }
    profiles
}
