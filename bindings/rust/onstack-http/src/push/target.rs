// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server of one kind wants to be told, and how. Each kind is a file beside this one.

use std::time::SystemTime;

use onstack_profile::Profile;
use ureq::http::Uri;

/// A kind of server.
pub trait Target: Send + Sync {
    /// Where requests go, which texts may name: without anything secret.
    fn endpoint(&self) -> &str;

    /// What each request says besides, names in small letters.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The profile as it is sent. `original` are its bytes in pprof's format, where there are some already; `ended` is when
    /// it ended, if it does not say when it began.
    ///
    /// # Errors
    /// Only where memory runs out.
    fn pack(&self, profile: Profile, original: Option<Vec<u8>>, ended: SystemTime) -> onstack::Result<Parcel>;

    /// Whether another try may help after a refusal of that status, by the server's own words.
    fn passes(&self, status: u16, words: &str) -> bool;

    /// The server's words in an answer, for people.
    fn words(&self, content_type: &str, answer: &[u8]) -> String {
        let _ = content_type;
        String::from_utf8_lossy(answer).into_owned()
    }

    /// What an answer of success refuses all the same.
    fn refused(&self, content_type: &str, answer: &[u8]) -> Option<String> {
        let _ = (content_type, answer);
        None
    }
}

/// What requests go to: the server's address, with `end` behind it where that is not its end. The URL is not repeated in a
/// text: a person may have put a password into it.
///
/// # Errors
/// A text that goes on behind the option's name.
pub(super) fn endpoint(url: &str, end: &str, example: &str) -> Result<String, String> {
    let wrong = |text: &str| Err(text.to_owned());
    let Ok(uri) = url.parse::<Uri>() else {
        return Err(format!("give the server's address, as in {example:?}"));
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return wrong("give an address that begins with http:// or https://");
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return wrong("leave user and password out: they have a place of their own, where nobody else reads them");
    }
    if uri.query().is_some() {
        return wrong("leave the query out: the server and a path are expected");
    }
    let base = url.split('#').next().unwrap_or(url).trim_end_matches('/');
    Ok(if base.ends_with(end) { base.to_owned() } else { format!("{base}{end}") })
}

/// A profile that is ready to be sent.
pub struct Parcel {
    /// The parameters of its request.
    pub query: Vec<(&'static str, String)>,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Parcel {
    /// Bytes of memory, used or not.
    pub fn held(&self) -> usize {
        self.body.capacity()
    }
}
