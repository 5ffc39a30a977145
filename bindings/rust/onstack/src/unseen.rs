// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocators whose blocks a heap profile lacks, as its comments name them.

use std::fmt;

use crate::plain::Plain;

/// What such a comment begins with (core/preload/allocator.h).
const UNSEEN: &str = "onstack.unseen function=";

/// A function of the profiled program that allocates without malloc. A heap profile of the preload lacks its blocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct UnseenAllocator {
    /// As `_rjem_malloc`, which is jemalloc's in a Rust program, `mi_malloc` or `operator new`.
    pub function: String,
    /// The file of the program or library that defines it.
    pub path: String,
}

impl UnseenAllocator {
    fn parse(comment: &str) -> Option<Self> {
        let (function, path) = comment.strip_prefix(UNSEEN)?.split_once(" path=")?;
        Some(Self { function: function.to_owned(), path: path.to_owned() })
    }
}

/// Those that a profile's comments name.
pub(crate) fn of_comments<'a>(comments: impl Iterator<Item = &'a str>) -> Vec<UnseenAllocator> {
    let mut allocators: Vec<_> = comments.filter_map(UnseenAllocator::parse).collect();
    allocators.sort();
    allocators.dedup();
    allocators
}

/// What is missing, and what helps.
impl fmt::Display for UnseenAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this profile lacks the memory of {} in {}, which allocates without malloc: in Rust wrap the global allocator in \
             onstack::heap::Allocator and profile from inside, or build the program with the system's allocator",
            Plain(&self.function),
            Plain(&self.path)
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn tables_and_summaries_name_allocators_that_were_not_seen() {
        let mut profile = Profile::from_folded("main;f 1\n").unwrap();
        assert!(profile.summary().unseen.is_empty() && profile.top().unseen.is_empty());
        let lines = ["_rjem_malloc path=/srv/a b", "mi_malloc path=/srv/c", "mi_malloc path=/srv/c", "odd"];
        lines.iter().for_each(|line| profile.add_comment(&format!("onstack.unseen function={line}")));
        let (summary, top) = (profile.summary(), profile.top());
        let named: Vec<_> = summary.unseen.iter().map(|one| (one.function.as_str(), one.path.as_str())).collect();
        assert_eq!(named, [("_rjem_malloc", "/srv/a b"), ("mi_malloc", "/srv/c")]);
        for text in [summary.to_string(), top.to_string()] {
            assert!(text.contains("lacks the memory of _rjem_malloc in /srv/a b, which allocates"), "{text}");
            assert_eq!(text.matches("lacks the memory of").count(), 2, "{text}");
        }
    }
}
