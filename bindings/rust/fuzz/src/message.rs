// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile by hand, byte for byte, that asks for names in one file.

/// Addresses in the file's own terms that are asked for. The code of the kept inputs lies at 0x1df, 0x210 and 0x260.
const ASKED: [u64; 14] = [0, 1, 0x1e4, 0x1ee, 0x210, 0x218, 0x221, 0x22c, 0x236, 0x242, 0x262, 0x270, 0x1000, 1 << 40];
const START: u64 = 0x10_0000;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, tag: u64, value: u64) {
    varint(out, tag << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, tag: u64, content: &[u8]) {
    varint(out, tag << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn part(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|&(tag, value)| number(&mut out, tag, value));
    out
}

/// A sample with a location for each of the addresses, all in a mapping of the file's beginning.
pub(crate) fn of_file(path: &str, build_id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, &part(&[(1, 1), (2, 2)]));
    let mut sample = Vec::new();
    for (index, address) in ASKED.iter().enumerate() {
        let id = index as u64 + 1;
        number(&mut sample, 1, id);
        bytes(&mut out, 4, &part(&[(1, id), (2, 1), (3, START.wrapping_add(*address))]));
    }
    number(&mut sample, 2, 1);
    bytes(&mut out, 2, &sample);
    bytes(&mut out, 3, &part(&[(1, 1), (2, START), (3, START + (1 << 41)), (5, 3), (6, 4)]));
    for text in ["", "samples", "count", path, build_id] {
        bytes(&mut out, 6, text.as_bytes());
    }
    out
}
