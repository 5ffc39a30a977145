// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server wants to know about who sends: out of the environment, never out of the command line, which every user
//! of the machine can read. No text names a value.

use std::env;
use std::path::Path;

use onstack_http::push::basic;

use crate::failure::Failure;

const TOKEN: &str = "ONSTACK_PUSH_TOKEN";
const USER: &str = "ONSTACK_PUSH_USER";
const PASSWORD: &str = "ONSTACK_PUSH_PASSWORD";
const TENANT: &str = "ONSTACK_PUSH_TENANT";

/// Headers.
pub fn of_environment() -> Result<Vec<(String, String)>, Failure> {
    let authorization = match (variable(TOKEN)?, variable(USER)?, variable(PASSWORD)?) {
        (None, None, None) => None,
        (Some(token), None, None) => Some(format!("Bearer {token}")),
        (None, Some(user), password) => Some(basic(&user, &password.unwrap_or_default())),
        (None, None, Some(_)) => {
            return Err(Failure::of_arguments(format!("{PASSWORD} is set without {USER}")));
        }
        _ => {
            let what = format!("{TOKEN} and {USER} or {PASSWORD} are set: only one of the two can be sent");
            return Err(Failure::of_arguments(what));
        }
    };
    let headers = [("Authorization", authorization), ("X-Scope-OrgID", variable(TENANT)?)];
    Ok(headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// Nothing where it is empty: that is how scripts unset what they pass on.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    let cannot = |what| Err(Failure::new(Path::new(name), what));
    match env::var(name) {
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => cannot("is no text"),
        Ok(value) if value.is_empty() => Ok(None),
        // A line end would end the header.
        Ok(value) if value.chars().any(char::is_control) => cannot("holds a line end or another control character"),
        Ok(value) => Ok(Some(value)),
    }
}
