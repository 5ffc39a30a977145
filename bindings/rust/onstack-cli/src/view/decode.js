// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the page's data (encode.rs, data.rs).

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.decoder = new TextDecoder();
  }

  // Exact up to 2^53: a hundred days in nanoseconds.
  number() {
    const first = this.bytes[this.at++];
    if (first < 128) return first;
    let value = first & 127;
    for (let factor = 128; ; factor *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      if (!(byte >= 128)) return value;
    }
  }

  signed() {
    const number = this.number();
    return number % 2 ? -(number + 1) / 2 : number / 2;
  }

  text() {
    const length = this.number();
    this.at += length;
    return this.decoder.decode(this.bytes.subarray(this.at - length, this.at));
  }

  list(read) {
    return Array.from({ length: this.number() }, read);
  }
}

// Nodes are in the order of their first visit, so what node n calls lies between n and end[n].
function readNodes(reader) {
  const count = reader.number();
  const nodes = { count, func: new Uint32Array(count), parent: new Uint32Array(count), end: new Uint32Array(count).fill(count) };
  const path = [0];
  for (let node = 1; node < count; node++) {
    nodes.func[node] = reader.number();
    for (let pops = reader.number(); pops > 0; pops--) nodes.end[path.pop()] = node;
    nodes.parent[node] = path[path.length - 1];
    path.push(node);
  }
  return nodes;
}

function readSums(reader, types) {
  const factor = Number(reader.text());
  const count = reader.number();
  const sums = { node: new Uint32Array(count), set: new Uint32Array(count), values: types.map(() => new Float64Array(count)) };
  let node = 0;
  for (let at = 0; at < count; at++) {
    sums.node[at] = node += reader.number();
    sums.set[at] = reader.number();
    for (const values of sums.values) values[at] = reader.signed() * factor;
  }
  return sums;
}

// When the samples of each row of sums were taken, in cells of some microseconds; null where that is not known.
function readTimes(reader, rows) {
  const microseconds = reader.number();
  if (microseconds === 0) return null;
  const [count, moments] = [reader.number(), reader.number()];
  const times = { microseconds, count, first: new Uint32Array(rows + 1), all: new Float64Array(rows) };
  times.cell = new Uint32Array(moments);
  times.weight = new Float64Array(moments);
  for (let row = 0, moment = 0; row < rows; row++) {
    times.first[row] = moment;
    for (let left = reader.number(), cell = 0; left > 0; left--, moment++) {
      times.cell[moment] = cell += reader.number();
      times.all[row] += times.weight[moment] = reader.number();
    }
    times.first[row + 1] = moment;
  }
  return times;
}

async function readProfile(letters) {
  const packed = atob(letters);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const reader = new Reader(new Uint8Array(await new Response(stream).arrayBuffer()));
  const text = () => reader.text();
  const types = reader.list(() => ({ name: text(), unit: text() }));
  const shown = reader.number();
  const functions = reader.list(() => ({ name: text(), file: text(), language: text() }));
  const keys = reader.list(text);
  const values = reader.list(text);
  const sets = reader.list(() => reader.list(() => [reader.number(), reader.number()]));
  const nodes = readNodes(reader);
  // The profile, and the one that it is compared with.
  const sides = reader.list(() => readSums(reader, types));
  const times = readTimes(reader, sides[0].node.length);
  // Of more ticks than there are times for, a part is at no time.
  const ticks = types.findIndex(({ name, unit }) => name === "samples" && unit === "count");
  if (times && ticks >= 0) sides[0].values[ticks].forEach((value, row) => (times.all[row] = Math.max(times.all[row], value)));
  if (times) times.ofTypes = sides[0].values.map((list) => list.some((value, row) => value > 0 && times.first[row] < times.first[row + 1]));
  return { types, shown, functions, keys, values, sets, nodes, sides, times };
}
