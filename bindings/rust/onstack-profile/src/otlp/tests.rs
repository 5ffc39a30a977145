// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::message::{Function, Label, Line, Location, Mapping, Sample};
use crate::wire::{Reader, Value};

const TRACE: &str = "0AF7651916CD43DD8448EB211C80319C";
const SPAN: &str = "b7ad6b7169203331";

fn message(labels: &[(i64, i64)]) -> ProfileMessage {
    let strings = ["", "cpu", "nanoseconds", "f", "/bin/shop", "trace_id", TRACE, "span_id", SPAN, "route", "/", "0"];
    ProfileMessage {
        sample_type: vec![ValueType { r#type: 3, unit: 2 }, ValueType { r#type: 1, unit: 2 }],
        string_table: strings.map(String::from).to_vec(),
        function: vec![Function { id: 9, name: 3, system_name: 3, ..Function::default() }],
        mapping: vec![Mapping { id: 7, filename: 4, ..Mapping::default() }],
        location: vec![Location {
            id: 5,
            mapping_id: 7,
            address: 16,
            line: vec![Line { function_id: 9, line: 1, ..Line::default() }],
            ..Location::default()
        }],
        sample: vec![Sample {
            location_id: vec![5, 5, 77],
            value: vec![0, 3],
            label: labels.iter().map(|&(key, str)| Label { key, str, ..Label::default() }).collect(),
            ..Sample::default()
        }],
        ..ProfileMessage::default()
    }
}

/// The bodies of all fields with these numbers, one inside the other.
fn bodies<'a>(message: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
    let Some((&wanted, rest)) = path.split_first() else { return vec![message] };
    let (mut reader, mut found) = (Reader(message), Vec::new());
    while !reader.0.is_empty() {
        let (tag, value) = reader.field().unwrap();
        if let (true, Value::Bytes(body)) = (tag == wanted, value) {
            found.extend(bodies(body, rest));
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn ids_of_a_span_become_a_link_and_nothing_else() {
    let linked = encode(&message(&[(9, 10), (5, 6), (7, 8)]), &[]);
    assert_eq!(bodies(&linked, &[2, 4]).len(), 2);
    assert!(!contains(&linked, "trace_id") && contains(&linked, "route"));
    // Together, of that length, and not all zeros.
    for labels in [&[(5, 6)][..], &[(7, 8)], &[(5, 8), (7, 8)], &[(5, 6), (7, 11)]] {
        let plain = encode(&message(labels), &[]);
        assert_eq!(bodies(&plain, &[2, 4]).len(), 1, "{labels:?}");
        assert!(contains(&plain, "_id"), "{labels:?}");
    }
}

#[test]
fn a_profile_for_each_sample_type_with_a_value_each() {
    let bytes = encode(&message(&[]), &[]);
    let samples = |profile: &[u8]| bodies(profile, &[2]).len();
    let profiles = bodies(&bytes, &[1, 2, 2]);
    // The last one is shown first, and the other one's value is 0.
    assert_eq!(profiles.iter().map(|profile| samples(profile)).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(bodies(&bytes, &[2, 7])[1], [1 << 3 | 2, 3, 1, 1, 0]);
}

#[test]
fn the_resource_has_a_name() {
    for (given, name) in [
        (&[][..], "unknown_service:shop"),
        (&[("service.name", "a"), ("service.name", "b")], "service.name\x12\x03\n\x01a"),
    ] {
        let bytes = encode(&message(&[]), given);
        let resource = bodies(&bytes, &[1, 1]);
        assert!(contains(resource[0], name), "{given:?}");
        assert_eq!(bodies(&bytes, &[1, 1, 1]).len(), 1, "{given:?}");
    }
}

#[test]
fn symbols_of_rust_are_known() {
    for name in ["_RNvC1a1b", "_ZN4core3fmt5write17h0123456789abcdefE"] {
        assert!(is_rust(name), "{name}");
    }
    for name in ["", "_ZN3foo3barE", "_ZNK3foo3barEv", "write", "17h0123456789abcdefE"] {
        assert!(!is_rust(name), "{name}");
    }
}

fn is_rust(name: &str) -> bool {
    dictionary::is_rust_name(name)
}
