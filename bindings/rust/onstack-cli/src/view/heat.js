// SPDX-License-Identifier: MIT OR Apache-2.0
// When samples were taken: a column for each second or more, which runs from its bottom to its top, and a range to choose.

const PARTS = 50; // of a column: times.rs has cells of this size
const PART_HEIGHT = 2;

// Of each cell the sum of what is asked for, whatever range is chosen.
function overTime(profile, asked) {
  const { times, sides } = profile;
  const wanted = wants(profile, asked);
  const cells = new Float64Array(times.count);
  const { set, node, values } = sides[0];
  for (let at = 0; at < set.length; at++) {
    if (!wanted(set[at], node[at])) continue;
    const each = values[asked.type][at] / times.all[at];
    for (let moment = times.first[at]; moment < times.first[at + 1]; moment++) cells[times.cell[moment]] += each * times.weight[moment];
  }
  return cells;
}

// Which part of a row's values lies in a range of cells, the last one included.
function partIn(times, at, range) {
  let found = 0;
  for (let moment = times.first[at]; moment < times.first[at + 1]; moment++)
    if (range[0] <= times.cell[moment] && times.cell[moment] <= range[1]) found += times.weight[moment];
  return times.all[at] ? found / times.all[at] : 0;
}

class Heat {
  constructor(canvas, onRange) {
    this.canvas = canvas;
    this.onRange = onRange;
    this.range = null;
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => this.end());
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(times, cells) {
    Object.assign(this, { times, cells, most: cells.reduce((most, value) => Math.max(most, value), 0) });
    this.draw();
  }

  get columns() {
    return Math.ceil(this.times.count / PARTS);
  }

  draw() {
    if (!this.times) return;
    const { canvas, cells } = this;
    const [width, height] = [canvas.parentElement.clientWidth, PARTS * PART_HEIGHT];
    const context = emptied(canvas, width, height);
    const wide = Math.min(width / this.columns, 40);
    this.wide = wide;
    for (let cell = 0; cell < cells.length; cell++) {
      const chosen = !this.range || (this.range[0] <= cell && cell <= this.range[1]);
      const heat = this.most ? Math.sqrt(cells[cell] / this.most) : 0;
      if (heat === 0 && (!this.range || !chosen)) continue;
      context.fillStyle = heat === 0 ? "rgba(90,140,230,0.25)" : `rgba(${chosen ? "225,60,30" : "140,140,150"},${0.15 + 0.85 * heat})`;
      context.fillRect(Math.floor(cell / PARTS) * wide, height - (1 + (cell % PARTS)) * PART_HEIGHT, Math.max(wide - (wide > 4 ? 1 : 0), 0.5), PART_HEIGHT);
    }
  }

  cellAt(event) {
    const place = this.canvas.getBoundingClientRect();
    const column = Math.min(Math.max(Math.floor((event.clientX - place.left) / this.wide), 0), this.columns - 1);
    const part = Math.min(Math.max(Math.floor((place.bottom - event.clientY) / PART_HEIGHT), 0), PARTS - 1);
    return Math.min(column * PARTS + part, this.times.count - 1);
  }

  begin(event) {
    this.from = this.cellAt(event);
    this.to = this.from;
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.from === undefined) return;
    this.to = this.cellAt(event);
    this.range = [Math.min(this.from, this.to), Math.max(this.from, this.to)];
    this.draw();
  }

  // Without a way the whole column is meant.
  end() {
    if (this.from === undefined) return;
    if (this.from === this.to) this.column(Math.floor(this.from / PARTS));
    else this.choose([Math.min(this.from, this.to), Math.max(this.from, this.to)]);
    this.from = undefined;
  }

  column(at) {
    const column = Math.min(Math.max(at, 0), this.columns - 1);
    this.choose([column * PARTS, Math.min((column + 1) * PARTS, this.times.count) - 1]);
  }

  choose(range) {
    this.range = range;
    this.draw();
    this.onRange(range);
  }

  // By columns; Shift moves the range's end alone.
  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === "Escape") this.choose(null);
    else if (!steps[event.key]) return;
    else if (!this.range) this.column(event.key === "ArrowRight" ? 0 : this.columns - 1);
    else if (event.shiftKey) {
      const end = Math.floor(this.range[1] / PARTS) + steps[event.key];
      const last = Math.min((end + 1) * PARTS, this.times.count) - 1;
      if (end < this.columns && last > this.range[0]) this.choose([this.range[0], last]);
    } else this.column(Math.floor(this.range[0] / PARTS) + steps[event.key]);
    event.preventDefault();
  }

  words() {
    if (!this.range) return "";
    const seconds = (cell) => ((cell * this.times.microseconds) / 1e6).toFixed(2);
    return `from ${seconds(this.range[0])} s to ${seconds(this.range[1] + 1)} s`;
  }
}
