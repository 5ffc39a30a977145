// SPDX-License-Identifier: MIT OR Apache-2.0
// The flame graph: boxes on a canvas that is as large as what is seen of it, however deep the stacks are.

const ROW = 18;
const LEAST = 0.5; // pixels: what is narrower is not drawn, nor is what lies below it
const LANGUAGES = {
  C: [110, 155, 225], "C++": [165, 130, 220], Rust: [225, 130, 75], Go: [75, 190, 205],
  interpreted: [235, 200, 75], generated: [120, 195, 105], unnamed: [185, 185, 185],
};

// Names of one language are told apart by their brightness, the same in each picture.
function languageColor(language, name) {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  const shift = ((hash >>> 16) % 28) - 10;
  return `rgb(${(LANGUAGES[language] || LANGUAGES.unnamed).map((part) => part + shift).join()})`;
}

// By the change of an item's share: red has grown, blue has shrunk; white is the same.
function changeColor(item, root) {
  const change = item.total / root.total - (root.before ? item.before / root.before : 0);
  const most = Math.max(item.total / root.total, root.before ? item.before / root.before : 0) || 1;
  const pale = Math.round(240 - 150 * Math.min(1, Math.abs(change) / most));
  return change > 0 ? `rgb(240,${pale},${pale})` : `rgb(${pale},${pale},240)`;
}

// To draw on a canvas of that size, in the page's pixels.
function emptied(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

class Graph {
  constructor(canvas, onChosen) {
    this.canvas = canvas;
    this.scroll = canvas.parentElement.parentElement;
    this.space = canvas.parentElement;
    this.onChosen = onChosen;
    this.rows = [];
    canvas.addEventListener("mousemove", (event) => this.point(this.at(event)));
    canvas.addEventListener("mouseleave", () => this.point(null));
    canvas.addEventListener("click", (event) => this.zoom(this.at(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.layout()).observe(this.scroll);
  }

  // `isFound`: of each function whether the search names it, or null. What was zoomed into stays, if it is there.
  show(profile, tree, isFound, isDiff) {
    const path = [];
    for (let item = this.zoomed; item && item.parent; item = item.parent) path.unshift(item);
    Object.assign(this, { profile, tree, isFound, isDiff, zoomed: tree.root, focused: null });
    for (const item of path) {
      const next = tree.below(this.zoomed).find((known) => known.func === item.func && known.name === item.name);
      if (!next) break;
      this.zoomed = next;
    }
    this.layout();
    this.onChosen(this.zoomed.parent ? this.zoomed : null);
  }

  layout() {
    if (!this.tree) return;
    const width = this.scroll.clientWidth;
    this.rows = [];
    const put = (row, item, left, right) => (this.rows[row] ??= []).push({ item, left, right });
    const above = [];
    for (let item = this.zoomed.parent; item; item = item.parent) above.unshift(item);
    above.forEach((item, row) => put(row, item, 0, width));
    const rest = [[this.zoomed, 0, above.length]];
    const scale = width / (this.zoomed.total || 1);
    // What lies below is looked for in wide boxes alone, from the left to the right.
    for (let next = 0; next < rest.length; next++) {
      const [item, left, row] = rest[next];
      put(row, item, left, left + item.total * scale);
      let x = left;
      if (item.total * scale < LEAST) continue;
      for (const child of this.tree.below(item)) {
        if (child.total * scale >= LEAST) rest.push([child, x, row + 1]);
        x += child.total * scale;
      }
    }
    this.space.style.height = `${Math.max(this.rows.length * ROW, this.scroll.clientHeight)}px`;
    this.draw();
  }

  draw() {
    const height = this.scroll.clientHeight;
    const context = emptied(this.canvas, this.scroll.clientWidth, height);
    context.font = "12px ui-monospace, monospace";
    context.textBaseline = "middle";
    this.letter = context.measureText("m").width;
    const first = Math.floor(this.scroll.scrollTop / ROW);
    for (let row = first; row < this.rows.length && (row - first) * ROW < height + ROW; row++)
      for (const box of this.rows[row]) this.box(context, box, row * ROW - this.scroll.scrollTop);
  }

  box(context, { item, left, right }, top) {
    const width = Math.max(right - left - 0.5, 0.5);
    context.globalAlpha = this.isAbove(item) ? 0.6 : 1;
    context.fillStyle = this.color(item);
    context.fillRect(left, top, width, ROW - 1);
    const letters = Math.floor((width - 6) / this.letter);
    if (letters >= 3) {
      const { name } = item;
      context.fillStyle = "#111";
      context.fillText(name.length <= letters ? name : `${name.slice(0, letters - 1)}…`, left + 3, top + ROW / 2);
    }
    context.globalAlpha = 1;
    if (item !== this.focused) return;
    context.strokeStyle = "#000";
    context.lineWidth = 2;
    context.strokeRect(left + 1, top + 1, Math.max(width - 2, 1), ROW - 3);
  }

  color(item) {
    if (this.isFound && item.func >= 0 && this.isFound[item.func]) return "rgb(225,90,200)";
    if (this.isDiff) return changeColor(item, this.tree.root);
    if (item.func < 0) return languageColor("unnamed", item.name);
    return languageColor(this.profile.functions[item.func].language, item.name);
  }

  isAbove(item) {
    for (let above = this.zoomed.parent; above; above = above.parent) if (above === item) return true;
    return false;
  }

  at(event) {
    const place = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top + this.scroll.scrollTop];
    const box = (this.rows[Math.floor(y / ROW)] || []).find(({ left, right }) => left <= x && x < right);
    return box ? box.item : null;
  }

  point(item) {
    this.canvas.style.cursor = item ? "pointer" : "";
    if (item || !this.focused) this.onChosen(item || (this.zoomed && this.zoomed.parent ? this.zoomed : null));
  }

  focus(item) {
    if (!item) return;
    this.focused = item;
    const row = this.rows.findIndex((boxes) => boxes.some((box) => box.item === item));
    const { scrollTop, clientHeight } = this.scroll;
    if (row * ROW < scrollTop) this.scroll.scrollTop = row * ROW;
    if ((row + 1) * ROW > scrollTop + clientHeight) this.scroll.scrollTop = (row + 1) * ROW - clientHeight;
    this.draw();
    this.onChosen(item);
  }

  zoom(item) {
    if (!item) return;
    this.zoomed = this.focused = item;
    this.layout();
    this.focus(item);
  }

  key(event) {
    const at = this.focused || this.zoomed;
    const drawn = (item) => this.rows.some((boxes) => boxes.some((box) => box.item === item));
    const beside = (step) => {
      const all = at.parent ? this.tree.below(at.parent).filter(drawn) : [];
      return all[all.indexOf(at) + step];
    };
    const largest = () => this.tree.below(at).reduce((most, item) => (most && most.total >= item.total ? most : item), null);
    const steps = {
      ArrowDown: () => this.focus(drawn(largest()) ? largest() : null),
      ArrowUp: () => this.focus(at.parent),
      ArrowLeft: () => this.focus(beside(-1)),
      ArrowRight: () => this.focus(beside(1)),
      Enter: () => this.zoom(at),
      Escape: () => this.zoom(this.zoomed.parent || this.zoomed),
      Home: () => this.zoom(this.tree.root),
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    steps[event.key]();
  }
}
