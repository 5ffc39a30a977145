// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of a sample by key and value: attributes, and the link to a span.

use crate::message::{Label, ProfileMessage, Sample};

use super::dictionary::Dictionary;
use super::encode::Out;
use super::text_value;

/// By their numbers; a link 0 is none.
pub(super) struct Said {
    pub(super) attributes: Vec<u64>,
    pub(super) link: u64,
}

/// An attribute without a key says nothing, and a second one with the same key must not be: the first stands.
pub(super) fn of(message: &ProfileMessage, sample: &Sample, dictionary: &mut Dictionary<'_>) -> Said {
    let link = link(message, sample);
    let mut said = Said { attributes: Vec::new(), link: link.as_ref().map_or(0, |link| dictionary.link(link)) };
    let mut keys = Vec::new();
    for label in &sample.label {
        let key = key(message, label);
        let linked = link.is_some() && matches!(key, "trace_id" | "span_id");
        if key.is_empty() || linked || keys.contains(&key) {
            continue;
        }
        keys.push(key);
        said.attributes.push(dictionary.attribute_in(key, &value(message, label), label.num_unit));
    }
    said
}

/// The threads' have names in OpenTelemetry.
fn key<'a>(message: &'a ProfileMessage, label: &Label) -> &'a str {
    match message.text(label.key) {
        "thread" => "thread.name",
        "thread_id" => "thread.id",
        key => key,
    }
}

fn value(message: &ProfileMessage, label: &Label) -> Out {
    if label.str == 0 && (label.num != 0 || label.num_unit != 0) {
        let mut value = Out::default();
        value.chosen(3, label.num as u64);
        return value;
    }
    text_value(message.text(label.str))
}

/// The link that the labels `trace_id` and `span_id` mean together.
fn link(message: &ProfileMessage, sample: &Sample) -> Option<Out> {
    let text = |wanted| {
        let label = sample.label.iter().find(|label| message.text(label.key) == wanted)?;
        Some(message.text(label.str))
    };
    let (trace, span) = (id::<16>(text("trace_id")?)?, id::<8>(text("span_id")?)?);
    let mut link = Out::default();
    link.bytes(1, &trace);
    link.bytes(2, &span);
    Some(link)
}

/// An id in hexadecimal digits. All zeros are none by definition.
fn id<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.as_bytes();
    let digit = |at: usize| char::from(digits[at]).to_digit(16).map(|digit| digit as u8);
    let mut id = [0; BYTES];
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = digit(2 * at)? << 4 | digit(2 * at + 1)?;
    }
    (id != [0; BYTES]).then_some(id)
}
