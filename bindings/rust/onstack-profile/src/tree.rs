// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of calls: who called whom, and what that cost.

use std::collections::HashMap;
use std::fmt;

use crate::message::ProfileMessage;
use crate::plain::Amount;
use crate::plain::Plain;
use crate::stacks::Stacks;

/// A function as it was called from one path of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeNode {
    /// The function, or what is known where no name is. At the root the thread's name, where the profile tells threads
    /// apart.
    pub name: String,
    /// Spent in the function itself, called this way.
    pub flat: i64,
    /// Spent in it and in what it called.
    pub cum: i64,
    /// What it called, the most expensive first.
    pub children: Vec<TreeNode>,
}

/// The tree of calls of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tree {
    /// Where the stacks begin: threads, or outermost functions.
    pub roots: Vec<TreeNode>,
    /// Sum over the profile.
    pub total: i64,
    /// What the numbers mean, as `cpu`.
    pub value_type: String,
    /// Their unit, as `nanoseconds`.
    pub unit: String,
}

/// While it grows, nodes lie in one list: a stack can be deeper than recursion should go.
#[derive(Default)]
struct Growing {
    name: String,
    flat: i64,
    cum: i64,
    children: HashMap<String, usize>,
}

impl Tree {
    pub(crate) fn new(profile: &ProfileMessage) -> Self {
        let stacks = Stacks::new(profile);
        let index = stacks.default_value();
        let (value_type, unit) = stacks.value_names(index);
        let mut nodes = vec![Growing::default()];
        for sample in &profile.sample {
            let value = sample.value.get(index).copied().unwrap_or(0);
            if value != 0 {
                let thread = stacks.thread(sample).map(str::to_owned);
                let frames = stacks.names(sample).into_iter().rev();
                add(&mut nodes, thread.into_iter().chain(frames), value);
            }
        }
        let total = nodes[0].cum;
        Self {
            roots: std::mem::take(&mut finish(nodes).children),
            total,
            value_type: value_type.into(),
            unit: unit.into(),
        }
    }

    /// The tree with at most `depth` levels (0: all) and without what is below that share of the whole, 0 to 1.
    pub fn display(&self, depth: usize, least_share: f64) -> impl fmt::Display + '_ {
        Shown { tree: self, depth: if depth == 0 { usize::MAX } else { depth }, least_share }
    }
}

fn add(nodes: &mut Vec<Growing>, path: impl Iterator<Item = String>, value: i64) {
    let mut at = 0;
    nodes[0].cum = nodes[0].cum.saturating_add(value);
    for name in path {
        let next = nodes.len();
        let child = *nodes[at].children.entry(name.clone()).or_insert(next);
        if child == next {
            nodes.push(Growing { name, ..Growing::default() });
        }
        at = child;
        nodes[at].cum = nodes[at].cum.saturating_add(value);
    }
    nodes[at].flat = nodes[at].flat.saturating_add(value);
}

/// Children come after their parents in the list, so from its end on every node finds its children ready.
fn finish(growing: Vec<Growing>) -> TreeNode {
    let mut ready: Vec<Option<TreeNode>> = growing.iter().map(|_| None).collect();
    for (index, node) in growing.into_iter().enumerate().rev() {
        let mut children: Vec<_> = node.children.values().filter_map(|&child| ready[child].take()).collect();
        children.sort_by(|a, b| b.cum.cmp(&a.cum).then_with(|| a.name.cmp(&b.name)));
        ready[index] = Some(TreeNode { name: node.name, flat: node.flat, cum: node.cum, children });
    }
    ready.swap_remove(0).unwrap_or_default()
}

/// Taken apart level by level: stacks can be a thousand frames deep.
impl Drop for TreeNode {
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.children);
        while let Some(mut node) = rest.pop() {
            rest.append(&mut node.children);
        }
    }
}

struct Shown<'a> {
    tree: &'a Tree,
    depth: usize,
    least_share: f64,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = Amount { unit: &self.tree.unit, total: self.tree.total };
        writeln!(f, "Type: {}", Plain(&self.tree.value_type))?;
        writeln!(f, "Total: {}", amount.text(self.tree.total))?;
        writeln!(f, "{:>10} {:>6} {:>10} {:>6}  name", "cum", "cum%", "flat", "flat%")?;
        let mut rest: Vec<(&TreeNode, usize)> = self.tree.roots.iter().rev().map(|node| (node, 0)).collect();
        while let Some((node, depth)) = rest.pop() {
            if amount.share(node.cum) < self.least_share {
                continue;
            }
            writeln!(
                f,
                "{:>10} {:>5.2}% {:>10} {:>5.2}%  {:indent$}{}",
                amount.text(node.cum),
                100.0 * amount.share(node.cum),
                amount.text(node.flat),
                100.0 * amount.share(node.flat),
                "",
                Plain(&node.name),
                indent = 2 * depth.min(60)
            )?;
            if depth + 1 < self.depth {
                rest.extend(node.children.iter().rev().map(|child| (child, depth + 1)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn paths_are_shared_from_the_root() {
        let profile = Profile::from_folded("main;f;g 6\nmain;f 2\nmain;h 4\nother 1\n").unwrap();
        let tree = profile.tree();
        assert_eq!((tree.total, tree.roots.len()), (13, 2));
        let main = &tree.roots[0];
        assert_eq!((main.name.as_str(), main.cum, main.flat), ("main", 12, 0));
        assert_eq!((main.children[0].name.as_str(), main.children[0].cum, main.children[0].flat), ("f", 8, 2));
        assert_eq!(main.children[0].children[0].flat, 6);

        let shown = tree.display(2, 0.2).to_string();
        assert!(shown.contains("  main\n") && shown.contains("    f\n") && shown.contains("    h\n"), "{shown}");
        assert!(!shown.contains(" g\n") && !shown.contains("other"), "{shown}");
    }

    #[test]
    fn deep_stacks_do_not_recurse() {
        let text = vec!["f"; 200_000].join(";") + " 1\n";
        let tree = Profile::from_folded(&text).unwrap().tree();
        assert_eq!(tree.display(3, 0.0).to_string().lines().count(), 6);
    }
}
