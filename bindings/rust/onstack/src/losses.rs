// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which program or library cut how many stacks, why, and what its makers can do about it.

use std::ffi::{c_int, c_void, CStr, CString};
use std::fmt;

use onstack_sys as sys;

use crate::error::{check, Result};
use crate::plain::Plain;
use crate::sample::Truncation;
use crate::stats::text;

/// What a comment about one module begins with; `key=value` follow with spaces between, and the path at the end.
const MODULE: &str = "onstack.module";

/// The reasons by the keys that comments have for them.
const REASONS: [(Truncation, &str); 10] = [
    (Truncation::Misaligned, "misaligned"),
    (Truncation::NotRising, "not_rising"),
    (Truncation::NoRule, "no_rule"),
    (Truncation::Unreadable, "unreadable"),
    (Truncation::BadReturn, "bad_return"),
    (Truncation::Pending, "pending"),
    (Truncation::StackSwitch, "stack_switch"),
    (Truncation::Depth, "depth"),
    (Truncation::ByDesign, "by_design"),
    (Truncation::Unwinder, "unwinder"),
];

/// What a key of comments or the reason in a frame `[truncated: reason]` means and what helps, by the core. Options have
/// the same names there as here.
pub(crate) fn advice(key: &str) -> Option<&'static str> {
    let key = CString::new(key).ok()?;
    // SAFETY: takes any C string, which lives during the call.
    let text = unsafe { sys::onstack_advice(key.as_ptr()) };
    // SAFETY: null is left out, and what the core returns is a constant of ASCII.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().ok())?
}

/// How frames in one program or library led to their callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleStats {
    /// As the loader names it; empty for code in no file (generated at run time).
    pub path: String,
    /// Frames left by unwind tables.
    pub rules: u64,
    /// Frames left by Go's own tables.
    pub go: u64,
    /// Frames left by the chain of frame pointers.
    pub frame_pointer: u64,
    /// Frames left by the user's unwinder.
    pub unwinder: u64,
    /// Stacks whose root lies here.
    pub ended: u64,
    /// Stacks that were cut behind a frame that lies here.
    pub lost: u64,
    lost_by: [u64; 16],
}

impl ModuleStats {
    /// Stacks that were cut here for that reason.
    pub fn lost_by(&self, reason: Truncation) -> u64 {
        self.lost_by.get(reason.code() as usize).copied().unwrap_or(0)
    }

    /// What would keep most of the stacks that were lost; nothing where none was.
    pub fn advice(&self) -> Option<&'static str> {
        let lost = REASONS.iter().filter_map(|(reason, key)| Some((self.lost_by(*reason), advice(key)?)));
        lost.filter(|(lost, _)| *lost > 0).max_by_key(|(lost, _)| *lost).map(|(_, advice)| advice)
    }

    /// Asks the core.
    ///
    /// # Safety
    /// `session` is a live handle.
    pub(crate) unsafe fn read(session: *mut sys::onstack_session) -> Result<Vec<Self>> {
        let mut modules: Vec<Self> = Vec::new();
        let data = (&mut modules as *mut Vec<Self>).cast::<c_void>();
        // SAFETY: the caller's promise; the vector lives during the call.
        check(unsafe { sys::onstack_session_modules(session, Some(visit), data) })?;
        Ok(modules)
    }

    fn parse(comment: &str) -> Option<Self> {
        let (counts, path) = comment.strip_prefix(MODULE)?.split_once("path=")?;
        let mut module = Self { path: unescape(path), ..Self::default() };
        for (key, value) in counts.split_whitespace().filter_map(|word| word.split_once('=')) {
            let value = value.parse().ok()?;
            if key == "lost" {
                module.lost = value;
            } else if let Some((reason, _)) = REASONS.iter().find(|(_, known)| *known == key) {
                *module.lost_by.get_mut(reason.code() as usize)? = value;
            }
        }
        Some(module)
    }
}

/// Copies what the core says of one module.
unsafe extern "C" fn visit(data: *mut c_void, module: *const sys::onstack_module_stats) -> c_int {
    // SAFETY: the vector of `read`, and a structure that lives during this call with a path that lives for ever.
    let (modules, raw) = unsafe { (&mut *data.cast::<Vec<ModuleStats>>(), &*module) };
    // SAFETY: as above.
    let path = unsafe { text(raw.path) };
    modules.push(ModuleStats {
        path,
        rules: raw.rules,
        go: raw.go,
        frame_pointer: raw.frame_pointer,
        unwinder: raw.unwinder,
        ended: raw.ended,
        lost: raw.lost,
        lost_by: raw.lost_by,
    });
    0
}

/// The core writes a byte that is no plain text as `\ooo`, in octal.
fn unescape(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..3).filter(|digits| !digits.starts_with('+'));
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            bytes.extend(&part.as_bytes()[3..]);
        } else {
            bytes.push(b'\\');
            bytes.extend(part.as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The modules that a profile's comments name.
pub(crate) fn of_comments<'a>(comments: impl Iterator<Item = &'a str>) -> Vec<ModuleStats> {
    let mut modules: Vec<_> = comments.filter_map(ModuleStats::parse).filter(|module| module.lost > 0).collect();
    modules.sort_by_key(|module| std::cmp::Reverse(module.lost));
    modules
}

/// `12  /usr/lib/x.so: what to do`.
impl fmt::Display for ModuleStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "code generated at run time" } else { &self.path };
        write!(f, "{}: {}", Plain(path), self.advice().unwrap_or("nothing was lost there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str, lost: &[(Truncation, u64)]) -> ModuleStats {
        let mut module = ModuleStats { path: path.into(), ..ModuleStats::default() };
        for &(reason, count) in lost {
            module.lost += count;
            module.lost_by[reason.code() as usize] = count;
        }
        module
    }

    #[test]
    fn comments_are_read_by_what_was_lost() {
        let comments = [
            "onstack.stats ticks=1",
            "onstack.module",
            "onstack.module lost=x path=y",
            "onstack.module lost=3 no_rule=2 misaligned=1 path=/opt/a b/path=c.so",
            "onstack.module lost=9 bad_return=9 new_key=1 path=",
            r"onstack.module lost=1 path=/a\012\134\377\9\777\+12\",
        ];
        let back = of_comments(comments.into_iter());
        let mut strange = module("/a\n\\\u{fffd}\\9\\777\\+12\\", &[]);
        strange.lost = 1;
        let some = module("/opt/a b/path=c.so", &[(Truncation::NoRule, 2), (Truncation::Misaligned, 1)]);
        assert_eq!(back, [module("", &[(Truncation::BadReturn, 9)]), some, strange]);
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn the_core_has_an_advice_for_each_reason() {
        for (reason, key) in REASONS {
            assert_eq!(advice(key).is_some(), reason != Truncation::ByDesign, "{key}");
        }
        assert_eq!(advice("a\0b"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn advice_is_that_of_the_commonest_reason() {
        let module = module("/a.so", &[(Truncation::NoRule, 2), (Truncation::NotRising, 5)]);
        assert_eq!(module.advice(), advice("not_rising"));
        assert_eq!(ModuleStats::default().advice(), None);
        assert!(module.to_string().starts_with("/a.so: it has neither"));
    }
}
