// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is drawn in browsers.

use onstack_profile::Profile;
use serde_json::Value;

use crate::data;
use crate::timeline::{firefox, Timeline};

/// A pprof profile of any content as the page's data, and where it has times of samples as the Firefox Profiler's file: whole JSON.
pub fn drawn(data: &[u8]) {
    if data.starts_with(&[0x1f, 0x8b]) {
        return; // as in `profile`
    }
    let Ok(profile) = Profile::read(data) else { return };
    let page = data::encoded(&profile, None, 1.0);
    assert!(page.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)));
    let Ok(timeline) = Timeline::new(&profile) else { return };
    let is_whole = |bytes: &[u8]| matches!(serde_json::from_slice(bytes), Ok(Value::Object(_)));
    assert!(is_whole(&firefox::bytes(&timeline, "profile")));
}
