// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which program or library cut how many stacks, why, and what its makers can do about it.

use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};

use onstack_sys as sys;

use crate::error::{check, Result};
use crate::plain::Plain;
use crate::sample::Truncation;
use crate::stats::text;

/// What a comment about one module begins with; `key=value` follow with spaces between, and the path at the end.
pub(crate) const MODULE: &str = "onstack.module";
/// Modules that a profile's comments name.
const MOST: usize = 20;

/// The reasons by the words that comments have for them, and what helps. `ByDesign`, `Not` and the depth of the user's
/// own choice need no mending of the module.
const REASONS: [(Truncation, &str, &str); 9] = [
    (Truncation::Misaligned, "misaligned", FRAME_POINTERS),
    (Truncation::NotRising, "not_rising", FRAME_POINTERS),
    (
        Truncation::NoRule,
        "no_rule",
        "parts of it have no unwind information (assembly, most often): .cfi directives there, or -g for the assembler",
    ),
    (
        Truncation::Unreadable,
        "unreadable",
        "its frames lead to memory that cannot be read: wrong unwind information, or code that keeps no frame pointers; \
         build it with -fasynchronous-unwind-tables",
    ),
    (
        Truncation::BadReturn,
        "bad_return",
        "its callers lie in no executable memory that was known: code generated or loaded in the last moments, or wrong \
         unwind information",
    ),
    (
        Truncation::Pending,
        "pending",
        "its unwind information was still being read, as in the first moments after it is loaded or a profile begins: later \
         samples have their callers",
    ),
    (Truncation::StackSwitch, "stack_switch", "it changes stacks in a way that is not known (coroutines, fibers)"),
    (Truncation::Depth, "depth", "stacks there are deeper than the session keeps: raise the depth (max_depth)"),
    (Truncation::Unwinder, "unwinder", "the unwinder that was given ended there"),
];

/// What helps where a profile says why its stacks were cut, by the words of the frame that stands there, and not where.
pub(crate) fn advice_of(reason: &str) -> Option<&'static str> {
    let reason = match reason {
        "deeper than the maximal depth" => Truncation::Depth,
        "unreadable stack memory" => Truncation::Unreadable,
        "misaligned frame pointer" => Truncation::Misaligned,
        "frame pointer does not rise" => Truncation::NotRising,
        "no return address" => Truncation::BadReturn,
        "switch of stacks" => Truncation::StackSwitch,
        "no unwind information" => Truncation::NoRule,
        "unwind information not read yet" => Truncation::Pending,
        "by the unwinder" => Truncation::Unwinder,
        _ => return None,
    };
    REASONS.iter().find(|(known, ..)| *known == reason).map(|(_, _, advice)| *advice)
}

const FRAME_POINTERS: &str =
    "it has neither unwind tables nor frame pointers: build it with -fasynchronous-unwind-tables \
                              or -fno-omit-frame-pointer (for generated code: let the compiler keep frame pointers)";

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
        let most = REASONS.iter().max_by_key(|(reason, ..)| self.lost_by(*reason))?;
        (self.lost_by(most.0) > 0).then_some(most.2)
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

    fn comment(&self) -> String {
        let mut text = format!("{MODULE} lost={}", self.lost);
        for (reason, word, _) in REASONS {
            if self.lost_by(reason) > 0 {
                let _ = write!(text, " {word}={}", self.lost_by(reason));
            }
        }
        let _ = write!(text, " path={}", self.path.replace(['\n', '\r'], " "));
        text
    }

    fn parse(comment: &str) -> Option<Self> {
        let (counts, path) = comment.strip_prefix(MODULE)?.split_once("path=")?;
        let mut module = Self { path: path.to_owned(), ..Self::default() };
        for (key, value) in counts.split_whitespace().filter_map(|word| word.split_once('=')) {
            let value = value.parse().ok()?;
            if key == "lost" {
                module.lost = value;
            } else if let Some((reason, ..)) = REASONS.iter().find(|(_, word, _)| *word == key) {
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

/// For a profile's comments: the modules that lost stacks, those that lost most first.
pub(crate) fn comments(modules: &[ModuleStats]) -> Vec<String> {
    modules.iter().filter(|module| module.lost > 0).take(MOST).map(ModuleStats::comment).collect()
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
    fn comments_go_out_and_come_back_by_what_was_lost() {
        let some = module("/opt/a b/path=c.so", &[(Truncation::NoRule, 2), (Truncation::Misaligned, 1)]);
        let more = module("", &[(Truncation::BadReturn, 9)]);
        let comments = comments(&[some.clone(), module("/fine.so", &[]), more.clone()]);
        assert_eq!(comments.len(), 2, "{comments:?}");
        let others = ["onstack.stats ticks=1", "onstack.module", "onstack.module lost=x path=y"];
        let back = of_comments(others.into_iter().chain(comments.iter().map(String::as_str)));
        assert_eq!(back, [more, some]);
    }

    #[test]
    fn advice_is_that_of_the_commonest_reason() {
        let module = module("/a.so", &[(Truncation::NoRule, 2), (Truncation::NotRising, 5)]);
        assert_eq!(module.advice(), Some(FRAME_POINTERS));
        assert_eq!(ModuleStats::default().advice(), None);
        assert!(module.to_string().starts_with("/a.so: it has neither"));
    }
}
