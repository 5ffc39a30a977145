// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a page knows: the tree of all stacks, and sums for each of its nodes and each set of labels.

use std::borrow::Cow;
use std::collections::HashMap;

use onstack_profile::view::{Function, Seen, View};
use onstack_profile::Profile;

use super::encode::Bytes;
use super::times::Times;

/// Node 0 is the root of all; each other one was met behind its caller.
struct Node {
    parent: u32,
    function: u32,
    children: HashMap<u32, u32>,
}

/// Sums of samples with one node and one set of labels.
type Sums = HashMap<(u32, u32), Vec<i64>>;

#[derive(Default)]
struct Texts<'a> {
    list: Vec<Cow<'a, str>>,
    known: HashMap<Cow<'a, str>, u32>,
}

impl<'a> Texts<'a> {
    fn index(&mut self, text: Cow<'a, str>) -> u32 {
        let next = self.list.len() as u32;
        let index = *self.known.entry(text.clone()).or_insert(next);
        if index == next {
            self.list.push(text);
        }
        index
    }
}

struct Data<'a> {
    functions: Vec<Function<'a>>,
    known: HashMap<Function<'a>, u32>,
    nodes: Vec<Node>,
    keys: Texts<'a>,
    values: Texts<'a>,
    sets: Vec<Vec<(u32, u32)>>,
    known_sets: HashMap<Vec<(u32, u32)>, u32>,
}

impl<'a> Data<'a> {
    fn new() -> Self {
        Self {
            functions: Vec::new(),
            known: HashMap::new(),
            nodes: vec![Node { parent: 0, function: 0, children: HashMap::new() }],
            keys: Texts::default(),
            values: Texts::default(),
            sets: Vec::new(),
            known_sets: HashMap::new(),
        }
    }

    fn function(&mut self, function: &Function<'a>) -> u32 {
        let next = self.functions.len() as u32;
        let index = *self.known.entry(function.clone()).or_insert(next);
        if index == next {
            self.functions.push(function.clone());
        }
        index
    }

    /// The node of a stack of functions, leaf first.
    fn node(&mut self, frames: impl DoubleEndedIterator<Item = u32>) -> u32 {
        let mut at = 0;
        for function in frames.rev() {
            let next = self.nodes.len() as u32;
            let child = *self.nodes[at as usize].children.entry(function).or_insert(next);
            if child == next {
                self.nodes.push(Node { parent: at, function, children: HashMap::new() });
            }
            at = child;
        }
        at
    }

    fn set(&mut self, labels: &[(&'a str, Cow<'a, str>)]) -> u32 {
        let pairs =
            labels.iter().map(|(key, value)| (self.keys.index((*key).into()), self.values.index(value.clone())));
        let mut set: Vec<_> = pairs.collect();
        set.sort_unstable();
        let next = self.sets.len() as u32;
        let index = *self.known_sets.entry(set.clone()).or_insert(next);
        if index == next {
            self.sets.push(set);
        }
        index
    }

    fn add(&mut self, view: &View<'a>, mut times: Option<&mut Times>) -> Sums {
        let functions: Vec<u32> = view.functions.iter().map(|function| self.function(function)).collect();
        let (mut sums, types) = (Sums::new(), view.types().len());
        view.each(|&Seen { frames, labels, values, times: moments }| {
            let row = (self.node(frames.iter().map(|&frame| functions[frame as usize])), self.set(labels));
            if let Some(times) = &mut times {
                times.add(row, moments, || view.tick(values));
            }
            let sum = sums.entry(row).or_insert_with(|| vec![0; types]);
            sum.iter_mut().zip(values).for_each(|(sum, &value)| *sum = sum.saturating_add(value));
        });
        sums
    }

    /// The nodes with callers before callees and callees by their names, and the new number of each.
    fn ordered(&self) -> (Vec<u32>, Vec<u32>) {
        let mut by_name: Vec<u32> = (0..self.functions.len() as u32).collect();
        by_name.sort_by_key(|&function| &self.functions[function as usize].name);
        let mut rank = vec![0; by_name.len()];
        by_name.iter().zip(0u32..).for_each(|(&function, place)| rank[function as usize] = place);
        let (mut order, mut number, mut rest) =
            (Vec::with_capacity(self.nodes.len()), vec![0; self.nodes.len()], vec![0u32]);
        while let Some(node) = rest.pop() {
            number[node as usize] = order.len() as u32;
            order.push(node);
            let begin = rest.len();
            rest.extend(self.nodes[node as usize].children.values());
            rest[begin..]
                .sort_unstable_by_key(|&child| std::cmp::Reverse(rank[self.nodes[child as usize].function as usize]));
        }
        (order, number)
    }

    fn write_nodes(&self, bytes: &mut Bytes, order: &[u32], number: &[u32]) {
        let mut depth = vec![0u32; order.len()];
        bytes.number(order.len() as u64);
        let mut before = 0;
        for (at, &node) in order.iter().enumerate().skip(1) {
            let Node { parent, function, .. } = self.nodes[node as usize];
            depth[at] = depth[number[parent as usize] as usize] + 1;
            bytes.number(u64::from(function));
            bytes.number(u64::from(before + 1 - depth[at]));
            before = depth[at];
        }
    }
}

/// In the order of the page, which has other numbers for nodes.
fn rows(sums: &Sums, number: &[u32]) -> Vec<(u32, u32)> {
    let mut rows: Vec<_> = sums.keys().copied().collect();
    rows.sort_unstable_by_key(|&(node, set)| (number[node as usize], set));
    rows
}

/// `factor`: what the page takes the values times. Rounded here, a tick's half would be none, or a whole one.
fn write_sums(bytes: &mut Bytes, sums: &Sums, factor: f64, number: &[u32]) {
    bytes.text(&factor.to_string());
    let mut before = 0;
    bytes.list(rows(sums, number).into_iter(), |bytes, row| {
        let (node, set) = (number[row.0 as usize], row.1);
        bytes.number(u64::from(node - before));
        bytes.number(u64::from(set));
        sums[&row].iter().for_each(|&value| bytes.signed(value));
        before = node;
    });
}

/// What the script of the page reads, in letters and digits. `before`: what the profile is compared with, its values taken
/// `factor` times.
pub fn encoded(profile: &Profile, before: Option<&Profile>, factor: f64) -> String {
    let view = View::new(profile);
    let other = before.map(View::new);
    let mut data = Data::new();
    let mut times = Times::default();
    // A moment of one profile is none of the other.
    let sums = data.add(&view, before.is_none().then_some(&mut times));
    let others = other.as_ref().map(|other| data.add(other, None));
    let (order, number) = data.ordered();

    let mut bytes = Bytes::default();
    bytes.list(view.types().into_iter(), |bytes, (name, unit)| {
        bytes.text(name);
        bytes.text(unit);
    });
    bytes.number(view.default_type() as u64);
    bytes.list(data.functions.iter(), |bytes, function| {
        bytes.text(&function.name);
        bytes.text(function.file);
        bytes.text(function.language.name());
    });
    bytes.list(data.keys.list.iter(), |bytes, text| bytes.text(text));
    bytes.list(data.values.list.iter(), |bytes, text| bytes.text(text));
    bytes.list(data.sets.iter(), |bytes, set| {
        bytes.list(set.iter(), |bytes, &(key, value)| {
            bytes.number(u64::from(key));
            bytes.number(u64::from(value));
        });
    });
    data.write_nodes(&mut bytes, &order, &number);
    let sides: Vec<_> =
        [Some((&sums, 1.0)), others.as_ref().map(|sums| (sums, factor))].into_iter().flatten().collect();
    bytes.list(sides.into_iter(), |bytes, (sums, factor)| write_sums(bytes, sums, factor, &number));
    times.write(&mut bytes, &rows(&sums, &number));
    bytes.packed()
}
