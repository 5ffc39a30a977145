// SPDX-License-Identifier: MIT OR Apache-2.0
function digest(text) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 65521;
  return sum;
}
function sorted(count) {
  const all = [];
  for (let i = 0; i < count; i++) all.push((i * 7919) % 10007);
  return all.sort((a, b) => a - b);
}
function walk(node) {
  return node === null ? 0 : node.value + walk(node.left) + walk(node.right);
}
function tree(depth) {
  return depth === 0 ? null : { value: depth, left: tree(depth - 1), right: tree(depth - 1) };
}
function serve(round) {
  return digest("request " + round + " of many ".repeat(200)) + sorted(2000)[round % 2000] + walk(tree(12));
}
function used() {
  const { user, system } = process.cpuUsage();
  return user + system;
}
function program() {
  const end = used() + 3000000;
  let sum = 0;
  for (let round = 0; used() < end; round++) sum += serve(round);
  return sum;
}
console.log(program() > 0);
