// SPDX-License-Identifier: MIT OR Apache-2.0
// The profile as it is asked for: sums of the samples that are wanted, by caller and by callee. An item is a box of the flame
// graph: { func, name, total, self, before, parent }, and what its tree needs to find those below it.

const NONE = "[none]";

// Of each set of labels: the value's number for a key, or -1.
function valuesOf(profile, key) {
  return profile.sets.map((set) => {
    const pair = set.find(([known]) => known === key);
    return pair ? pair[1] : -1;
  });
}

// For each node whether a function of its stack is wanted; for each function whether it is one.
function marked(profile, pattern) {
  const func = profile.functions.map((known) => pattern.test(known.name));
  const { count, parent } = profile.nodes;
  const stacks = new Uint8Array(count);
  for (let node = 1; node < count; node++) stacks[node] = stacks[parent[node]] || func[profile.nodes.func[node]] ? 1 : 0;
  return { func, stacks };
}

// Whether samples with a set of labels and a node are asked for.
function wants(profile, asked) {
  const sets = asked.key < 0 ? null : valuesOf(profile, asked.key).map((value) => value === asked.value);
  const focus = asked.focus && marked(profile, asked.focus).stacks;
  return (set, node) => (!sets || sets[set]) && (!focus || focus[node]);
}

// What is asked for: { type, key, value, group, focus, swap, range }; key and group are numbers of keys or -1, a range is of time,
// or null. Returns groups of sums for each node: one, or one for each value of a label.
function chosen(profile, asked) {
  const wanted = wants(profile, asked);
  const groups = grouped(profile, asked);
  const sides = asked.swap ? [...profile.sides].reverse() : profile.sides;
  sides.forEach((sums, side) => {
    const values = sums.values[asked.type];
    for (let at = 0; at < values.length; at++) {
      if (!wanted(sums.set[at], sums.node[at])) continue;
      const part = asked.range && sums === profile.sides[0] ? partIn(profile.times, at, asked.range) : 1;
      if (part > 0) groups.list[groups.of[sums.set[at]]].self[side][sums.node[at]] += values[at] * part;
    }
  });
  for (const group of groups.list) group.total = group.self.map((self) => totals(profile.nodes, self));
  return groups.list.filter((group) => group.total.some((total) => total[0] !== 0));
}

// The values of a label, by their numbers, the largest first; `values`: of each set of labels.
function largestFirst(values, sides, type) {
  const sums = new Map(values.map((value) => [value, 0]));
  for (const side of sides) side.set.forEach((set, at) => sums.set(values[set], sums.get(values[set]) + side.values[type][at]));
  return [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
}

const GROUPS = 12; // Each has sums of its own for all nodes; what is smaller stands together.

function grouped(profile, asked) {
  const make = (name) => ({ name, self: profile.sides.map(() => new Float64Array(profile.nodes.count)) });
  if (asked.group < 0) return { list: [make("all")], of: profile.sets.map(() => 0) };
  const values = valuesOf(profile, asked.group);
  const largest = largestFirst(values, profile.sides.slice(0, 1), asked.type);
  const list = largest.slice(0, GROUPS).map((value) => make(value < 0 ? NONE : profile.values[value]));
  if (largest.length > GROUPS) list.push(make(`[${largest.length - GROUPS} others]`));
  const place = new Map(largest.map((value, at) => [value, Math.min(at, GROUPS)]));
  return { list, of: values.map((value) => place.get(value)) };
}

function totals(nodes, self) {
  const total = Float64Array.from(self);
  for (let node = nodes.count - 1; node > 0; node--) total[nodes.parent[node]] += total[node];
  return total;
}

function rootOf(groups) {
  return { func: -1, name: "all", total: sum(groups, 0), self: 0, before: sum(groups, 1), parent: null };
}

// From callers to what they call.
class Calls {
  constructor(profile, groups) {
    this.profile = profile;
    this.root = rootOf(groups);
    this.root.below =
      groups.length === 1 && groups[0].name === "all"
        ? this.callees(this.root, groups[0], 0)
        : groups.map((group) => this.item(this.root, group, 0, -1, group.name));
  }

  item(parent, group, node, func, name) {
    const [total, before] = group.total.map((sums) => sums[node]);
    return { func, name, total, self: group.self[0][node], before: before || 0, parent, group, node };
  }

  callees(parent, group, node) {
    const { func, end } = this.profile.nodes;
    const below = [];
    for (let child = node + 1; child < end[node]; child = end[child])
      if (group.total[0][child] > 0) below.push(this.item(parent, group, child, func[child], this.profile.functions[func[child]].name));
    return below;
  }

  below(item) {
    return (item.below ??= this.callees(item, item.group, item.node));
  }
}

// From what was running to its callers.
class Callers {
  constructor(profile, groups) {
    this.profile = profile;
    this.root = rootOf(groups);
    const tops = groups.map((group) => {
      const paths = [];
      for (let node = 1; node < profile.nodes.count; node++) if (group.self.some((self) => self[node] !== 0)) paths.push([node, node]);
      const [total, before] = group.total.map((sums) => sums[0]);
      return { func: -1, name: group.name, total, self: 0, before: before || 0, parent: this.root, group, paths };
    });
    this.root.below = tops.length === 1 && tops[0].name === "all" ? this.callers(tops[0], this.root) : tops;
  }

  // A path is the node that ran, and that of it or its callers which the item stands for.
  callers(item, parent = item) {
    const { nodes, functions } = this.profile;
    const found = new Map();
    for (const [leaf, at] of item.paths) {
      if (at === 0) continue;
      const func = nodes.func[at];
      let caller = found.get(func);
      if (!caller) {
        caller = { func, name: functions[func].name, total: 0, self: 0, before: 0, parent, group: item.group, paths: [] };
        found.set(func, caller);
      }
      const [now, before] = item.group.self.map((self) => self[leaf]);
      caller.total += now;
      caller.before += before || 0;
      if (item.func < 0) caller.self += now;
      caller.paths.push([leaf, nodes.parent[at]]);
    }
    const callers = [...found.values()].filter((caller) => caller.total > 0);
    return callers.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }

  below(item) {
    return (item.below ??= this.callers(item));
  }
}

function sum(groups, side) {
  return groups.reduce((all, group) => all + (group.total[side] ? group.total[side][0] : 0), 0);
}

// What each function spent itself, and with what it called; once where it calls itself.
function perFunction(profile, groups) {
  const { nodes, functions } = profile;
  const rows = functions.map((_, func) => ({ func, self: [0, 0], total: [0, 0] }));
  const open = new Uint32Array(functions.length);
  const path = [];
  for (let node = 1; node < nodes.count; node++) {
    while (path.length && nodes.end[path[path.length - 1]] <= node) open[nodes.func[path.pop()]]--;
    const row = rows[nodes.func[node]];
    for (const group of groups)
      group.self.forEach((self, side) => {
        row.self[side] += self[node];
        if (open[row.func] === 0) row.total[side] += group.total[side][node];
      });
    open[row.func]++;
    path.push(node);
  }
  return rows.filter((row) => row.total[0] !== 0 || row.total[1] !== 0);
}
