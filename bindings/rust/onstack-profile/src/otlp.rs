// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile in OpenTelemetry's format: an ExportProfilesServiceRequest of opentelemetry-proto 1.11, package
//! `opentelemetry.proto.profiles.v1development`. The core writes its own profiles likewise; this is for all profiles in
//! pprof's format. Numbers of fields stand where they are written.

mod dictionary;
mod encode;
mod labels;

use crate::message::{ProfileMessage, ValueType};
use dictionary::Dictionary;
use encode::Out;

/// The message; `resource` says whose profile it is. Of two attributes with one key the first stands.
pub(crate) fn encode(message: &ProfileMessage, resource: &[(&str, &str)]) -> Vec<u8> {
    let mut dictionary = Dictionary::new(message);
    let shown = shown(message);
    // The one that is shown comes first, as readers expect.
    let columns: Vec<usize> =
        [shown].into_iter().chain((0..message.sample_type.len()).filter(|&column| column != shown)).collect();

    let mut scope_profiles = Out::default();
    scope_profiles.message(1, &scope(message, &columns));
    let samples = identities(message, &mut dictionary);
    for &column in &columns {
        scope_profiles.message(2, &profile(message, &mut dictionary, &samples, column));
    }
    let mut resource_profiles = Out::default();
    resource_profiles.message(1, &resource_of(message, resource));
    resource_profiles.message(2, &scope_profiles);
    let mut request = Out::default();
    request.message(1, &resource_profiles);
    request.message(2, &dictionary.finish());
    request.0
}

/// Readers show the last column unless a profile says otherwise.
fn shown(message: &ProfileMessage) -> usize {
    let named = message.sample_type.iter().position(|column| column.r#type == message.default_sample_type);
    named.filter(|_| message.default_sample_type != 0).unwrap_or(message.sample_type.len().saturating_sub(1))
}

/// An AnyValue.
fn text_value(text: &str) -> Out {
    let mut value = Out::default();
    value.text(1, text);
    value
}

fn list_value<'a>(values: impl IntoIterator<Item = &'a Out>) -> Out {
    let mut list = Out::default();
    values.into_iter().for_each(|value| list.message(1, value));
    let mut value = Out::default();
    value.message(5, &list);
    value
}

fn key_value(key: &str, value: &Out) -> Out {
    let mut pair = Out::default();
    pair.text(1, key);
    pair.message(2, value);
    pair
}

/// Says what a reader needs to make the pprof profile again: which of the Profiles was which of its columns.
fn scope(message: &ProfileMessage, columns: &[usize]) -> Out {
    let mut scope = Out::default();
    scope.text(1, "onstack");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    if message.default_sample_type != 0 {
        let value = text_value(message.text(message.default_sample_type));
        scope.message(3, &key_value("pprof.scope.default_sample_type", &value));
    }
    let order: Vec<Out> = columns
        .iter()
        .map(|&column| {
            let mut value = Out::default();
            value.chosen(3, column as u64);
            value
        })
        .collect();
    scope.message(3, &key_value("pprof.scope.sample_type_order", &list_value(&order)));
    scope
}

/// A resource must have a name; OpenTelemetry's libraries make the same one where they were given none.
fn resource_of(message: &ProfileMessage, given: &[(&str, &str)]) -> Out {
    let mut resource = Out::default();
    for (at, (key, value)) in given.iter().enumerate() {
        if !given[..at].iter().any(|(before, _)| before == key) {
            resource.message(1, &key_value(key, &text_value(value)));
        }
    }
    if !given.iter().any(|(key, _)| *key == "service.name") {
        let program = message.mapping.first().map_or("", |mapping| message.text(mapping.filename));
        let name = match program.rsplit('/').next() {
            Some(base) if !base.is_empty() => format!("unknown_service:{base}"),
            _ => "unknown_service".into(),
        };
        resource.message(1, &key_value("service.name", &text_value(&name)));
    }
    resource
}

/// Of each sample, what it has in all Profiles.
fn identities(message: &ProfileMessage, dictionary: &mut Dictionary<'_>) -> Vec<Vec<u8>> {
    let identity = |sample| {
        let said = labels::of(message, sample, dictionary);
        let mut identity = Out::default();
        identity.number(1, dictionary.stack(sample));
        identity.packed(2, said.attributes);
        identity.number(3, said.link);
        identity.0
    };
    message.sample.iter().map(identity).collect()
}

fn profile(message: &ProfileMessage, dictionary: &mut Dictionary<'_>, samples: &[Vec<u8>], column: usize) -> Out {
    let mut profile = Out::default();
    profile.message(1, &value_type(message.sample_type[column], dictionary));
    for (sample, identity) in message.sample.iter().zip(samples) {
        // None where the sample's are in other Profiles.
        let value = sample.value.get(column).copied().unwrap_or(0);
        if value != 0 {
            let mut one = Out(identity.clone());
            one.packed(4, [value as u64]);
            profile.message(2, &one);
        }
    }
    profile.fixed(3, message.time_nanos as u64);
    profile.number(4, message.duration_nanos as u64);
    if let Some(period_type) = message.period_type {
        profile.message(5, &value_type(period_type, dictionary));
    }
    profile.number(6, message.period as u64);
    profile.packed(11, remarks(message, dictionary));
    profile
}

fn value_type(value_type: ValueType, dictionary: &mut Dictionary<'_>) -> Out {
    let mut out = Out::default();
    out.number(1, dictionary.string(value_type.r#type));
    out.number(2, dictionary.string(value_type.unit));
    out
}

/// What pprof says of a whole profile, as attributes.
fn remarks(message: &ProfileMessage, dictionary: &mut Dictionary<'_>) -> Vec<u64> {
    let mut numbers = Vec::new();
    let comments: Vec<Out> = message.comment.iter().map(|&comment| text_value(message.text(comment))).collect();
    if !comments.is_empty() {
        numbers.push(dictionary.attribute("pprof.profile.comment", &list_value(&comments)));
    }
    for (key, text) in
        [("pprof.profile.drop_frames", message.drop_frames), ("pprof.profile.keep_frames", message.keep_frames)]
    {
        if text != 0 {
            numbers.push(dictionary.attribute(key, &text_value(message.text(text))));
        }
    }
    numbers
}

#[cfg(test)]
mod tests;
