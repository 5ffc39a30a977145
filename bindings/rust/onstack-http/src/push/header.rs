// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers of requests. No text repeats a value: they are secrets.

use base64::prelude::{Engine, BASE64_STANDARD};
use ureq::http::header::{
    HeaderMap, HeaderName, HeaderValue, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
};

/// Set for each request.
const OURS: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING, HOST];

/// The value of `Authorization` for a user and a password.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// Finds now what would otherwise make every request fail. `targets` are those that the server's kind sets.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn checked(headers: &[(String, String)], targets: &[(&str, &str)]) -> Result<HeaderMap, String> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let Ok(key) = HeaderName::try_from(name.as_str()) else {
            return Err(format!("name {name:?} is none: give letters, digits and hyphens"));
        };
        if OURS.contains(&key) || targets.iter().any(|(name, _)| key == *name) {
            return Err(format!("{name} is not yours to set: leave it out"));
        }
        let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) else {
            return Err(format!("the value of {name} has a control character: is there a line end behind a token?"));
        };
        value.set_sensitive(true);
        checked.append(key, value);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_would_fail_are_named_and_their_values_are_not() {
        let check = |name: &str, value: &str| checked(&[(name.to_owned(), value.to_owned())], &[("x-kind", "1")]);
        for (name, value, text) in [
            ("A b", "hunter2", "\"A b\" is none"),
            ("", "hunter2", "is none"),
            ("content-type", "hunter2", "not yours to set"),
            ("X-Kind", "hunter2", "X-Kind is not yours to set"),
            ("Authorization", "hunter2\n", "the value of Authorization"),
        ] {
            let refusal = check(name, value).unwrap_err();
            assert!(refusal.contains(text) && !refusal.contains("hunter2"), "{refusal}");
        }
        let headers = check("Authorization", &basic("me", "hunter2")).unwrap();
        assert_eq!(headers["authorization"], "Basic bWU6aHVudGVyMg==");
        assert!(!format!("{headers:?}").contains("bWU6"));
    }
}
