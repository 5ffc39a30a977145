// SPDX-License-Identifier: MIT OR Apache-2.0
//! OTLP over HTTP, with the profiles signal (experimental) as [`onstack_profile::Profile::write_otlp`] has it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::SystemTime;

use flate2::write::GzEncoder;
use flate2::Compression;
use onstack_profile::Profile;

use super::target::{self, Parcel, Target};

/// A collector, and whose profiles are sent there.
pub struct Otlp {
    endpoint: String,
    resource: Vec<(String, String)>,
}

const CONTENT_TYPE: &str = "application/x-protobuf";
const SERVICE: &str = "service.name";

impl Otlp {
    /// Of values that the functions below have checked. `labels` are the resource's attributes.
    pub fn new(endpoint: String, service: &str, labels: &BTreeMap<String, String>) -> Self {
        let name = (SERVICE.to_owned(), service.to_owned());
        let labels = labels.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { endpoint, resource: [name].into_iter().chain(labels).collect() }
    }
}

impl Target for Otlp {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The second says which of the signal's incompatible forms the body has.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("content-encoding", "gzip"), ("otlp-profiles-development-version", "1")]
    }

    fn pack(&self, mut profile: Profile, _: Option<Vec<u8>>, ended: SystemTime) -> onstack::Result<Parcel> {
        profile.end_at(ended);
        let resource: Vec<_> = self.resource.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(&profile.to_otlp_bytes(&resource)?).and_then(|()| encoder.finish());
        let mut body = packed.map_err(onstack::Error::Output)?;
        body.shrink_to_fit();
        Ok(Parcel { query: Vec::new(), content_type: CONTENT_TYPE, body })
    }

    /// All others must not be repeated, as the specification says.
    fn passes(&self, status: u16, _: &str) -> bool {
        matches!(status, 429 | 502 | 503 | 504)
    }

    /// The message of a google.rpc.Status, or the answer itself.
    fn words(&self, content_type: &str, answer: &[u8]) -> String {
        let words = if is_protobuf(content_type) { body(answer, 2).unwrap_or_default() } else { answer };
        String::from_utf8_lossy(words).into_owned()
    }

    /// A partial success: the server has taken some, and what it refused must not be sent again.
    fn refused(&self, content_type: &str, answer: &[u8]) -> Option<String> {
        // ExportProfilesServiceResponse.partial_success
        let partial = body(answer, 1).filter(|_| is_protobuf(content_type))?;
        let rejected = last(partial, 1).map(|field| field.1).filter(|&count| count != 0)?;
        let words = String::from_utf8_lossy(body(partial, 2).unwrap_or_default()).into_owned();
        Some(format!("the server has refused {rejected} of its parts: {words}"))
    }
}

fn is_protobuf(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(CONTENT_TYPE))
}

/// Of a protobuf message: number, value, bytes of each field, up to its end or to where it is damaged.
fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    std::iter::from_fn(move || {
        let key = number(&mut message)?;
        let length = match key & 7 {
            0 => return Some((key >> 3, number(&mut message)?, &message[..0])),
            1 => 8,
            2 => usize::try_from(number(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (bytes, rest) = message.split_at_checked(length)?;
        message = rest;
        Some((key >> 3, 0, bytes))
    })
}

fn number(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The field of that number; of several the last counts.
fn last(message: &[u8], wanted: u64) -> Option<(u64, u64, &[u8])> {
    fields(message).filter(|field| field.0 == wanted).last()
}

fn body(message: &[u8], wanted: u64) -> Option<&[u8]> {
    last(message, wanted).map(|field| field.2)
}

/// What requests go to.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn endpoint(url: &str) -> Result<String, String> {
    target::endpoint(url, "/v1development/profiles", "http://localhost:4318")
}

/// Any text.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn check_service(service: &str) -> Result<(), String> {
    if !is_attribute(service) {
        return Err(format!("{service:?}: give a name, without NUL"));
    }
    Ok(())
}

/// An attribute of the resource.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn check_label(name: &str, value: &str) -> Result<(), String> {
    if !is_attribute(name) || name == SERVICE {
        return Err(format!("name {name:?}: give one, without NUL, and not the service's"));
    }
    if value.contains('\0') {
        return Err(format!("{name}={value:?}: give a value without NUL"));
    }
    Ok(())
}

fn is_attribute(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn otlp() -> Otlp {
        Otlp::new(
            endpoint("http://localhost:4318/").unwrap(),
            "a service",
            &BTreeMap::from([("x".into(), String::new())]),
        )
    }

    #[test]
    fn answers_mean_what_the_specification_says() {
        let otlp = otlp();
        let partial = b"\x0a\x0b\x08\x02\x12\x07no room";
        let refused = otlp.refused("application/x-protobuf", partial);
        assert_eq!(refused.as_deref(), Some("the server has refused 2 of its parts: no room"));
        for (kind, answer) in [
            ("application/json", &partial[..]),
            (CONTENT_TYPE, b""),
            (CONTENT_TYPE, b"\x0a\x02\x08\x00"),
            (CONTENT_TYPE, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"),
        ] {
            assert_eq!(otlp.refused(kind, answer), None, "{answer:?}");
        }
        assert_eq!(otlp.words("application/x-protobuf; a=b", b"\x08\x03\x12\x03why"), "why");
        assert_eq!(otlp.words("text/plain", b"why"), "why");
        let passing = (300..600).filter(|&status| otlp.passes(status, ""));
        assert_eq!(passing.collect::<Vec<_>>(), [429, 502, 503, 504]);
    }

    #[test]
    fn any_text_that_is_one_may_be_said() {
        assert_eq!(check_service("a service"), Ok(()));
        assert_eq!(check_label("deployment.environment.name", "a,b}"), Ok(()));
        assert_eq!(check_label("x", ""), Ok(()));
        for name in ["", "a\0"] {
            assert!(check_service(name).unwrap_err().contains("give a name"), "{name:?}");
            assert!(check_label(name, "x").unwrap_err().contains("give one"), "{name:?}");
        }
        assert!(check_label("service.name", "x").unwrap_err().contains("not the service's"));
        assert!(check_label("a", "b\0").unwrap_err().contains("without NUL"));
    }

    #[test]
    fn what_is_sent_is_compressed_and_says_whose_it_is() {
        let profile = Profile::from_folded("main;f 3\n").unwrap();
        let parcel = otlp().pack(profile, None, SystemTime::now()).unwrap();
        let mut raw = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&parcel.body[..]), &mut raw).unwrap();
        let resource = body(body(&raw, 1).unwrap(), 1).unwrap();
        let attributes: Vec<_> = fields(resource).map(|field| body(field.2, 1).unwrap()).collect();
        assert_eq!(attributes, [&b"service.name"[..], b"x"]);
        assert_eq!(otlp().endpoint(), "http://localhost:4318/v1development/profiles");
    }
}
