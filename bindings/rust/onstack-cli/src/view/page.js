// SPDX-License-Identifier: MIT OR Apache-2.0
// What is asked for by the controls, and what is shown of it.

const $ = (id) => document.getElementById(id);

// A number of that unit, for people.
function amount(value, unit) {
  const size = Math.abs(value);
  if (unit === "nanoseconds") return size >= 1e9 ? `${(value / 1e9).toFixed(2)} s` : `${(value / 1e6).toFixed(2)} ms`;
  if (unit === "bytes") return size >= 1 << 20 ? `${(value / (1 << 20)).toFixed(2)} MiB` : `${(value / 1024).toFixed(2)} KiB`;
  const number = Math.round(10 * value) / 10; // a normalized one has a fraction
  return unit === "count" || unit === "" ? String(number) : `${number} ${unit}`;
}

const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(2)} %` : "0.00 %");
const exact = (name) => `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;

// The regular expression in a field; null where it is empty, or none.
function pattern(field) {
  field.setAttribute("aria-invalid", "false");
  if (field.value === "") return null;
  try {
    return new RegExp(field.value);
  } catch {
    field.setAttribute("aria-invalid", "true");
    return null;
  }
}

function choices(select, list) {
  select.replaceChildren(...list.map(([value, text]) => new Option(text, value)));
}

class Page {
  constructor(profile) {
    this.profile = profile;
    this.isDiff = profile.sides.length > 1;
    this.graph = new Graph($("canvas"), (item) => ($("chosen").textContent = this.words(item)));
    this.table = new Table($("columns"), $("rows"), $("more"), (name) => this.find(name));
    this.heat = profile.times && new Heat($("heat"), () => this.show());
    this.fill();
    this.listen();
    this.show();
  }

  fill() {
    const { types, shown, keys } = this.profile;
    const named = keys.map((key, index) => [index, key]).sort((a, b) => (a[1] < b[1] ? -1 : 1));
    choices($("type"), types.map((type, index) => [index, type.name]));
    $("type").value = shown;
    $("type").parentElement.hidden = types.length < 2;
    choices($("key"), [[-1, "any"], ...named]);
    choices($("group"), [[-1, "nothing"], ...named]);
    $("labels").hidden = $("group").parentElement.hidden = keys.length === 0;
    $("swap").hidden = !this.isDiff;
    this.fillValues();
  }

  // The values of the chosen label, the largest first.
  fillValues() {
    const key = Number($("key").value);
    $("value").parentElement.hidden = key < 0;
    if (key < 0) return;
    const values = valuesOf(this.profile, key);
    const largest = largestFirst(values, this.profile.sides, Number($("type").value));
    choices($("value"), largest.map((value) => [value, value < 0 ? NONE : this.profile.values[value]]));
  }

  listen() {
    let typing;
    const show = () => this.show();
    for (const id of ["type", "value", "group"]) $(id).addEventListener("change", show);
    $("key").addEventListener("change", () => {
      this.fillValues();
      show();
    });
    for (const id of ["focus", "search"])
      $(id).addEventListener("input", () => {
        clearTimeout(typing);
        typing = setTimeout(show, 150);
      });
    for (const id of ["invert", "swap"])
      $(id).addEventListener("click", () => {
        $(id).setAttribute("aria-pressed", String($(id).getAttribute("aria-pressed") !== "true"));
        show();
      });
    $("always").addEventListener("click", () => this.heat.choose(null));
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    $("theme").addEventListener("click", () => this.nextTheme());
    for (const button of document.querySelectorAll("[data-view]"))
      button.addEventListener("click", () => this.view(button.dataset.view));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { "/": () => $("search").focus(), i: () => $("invert").click(), t: () => this.view("table"), g: () => this.view("graph") };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  nextTheme() {
    const themes = ["automatic", "dark", "light"];
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "automatic") + 1) % themes.length];
    if (next === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    $("theme").textContent = `Theme: ${next}`;
  }

  view(name) {
    for (const button of document.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === name));
      $(button.dataset.view).hidden = button.dataset.view !== name;
    }
    if (name === "graph") this.graph.layout();
  }

  find(name) {
    $("search").value = exact(name);
    this.view("graph");
    this.show();
  }

  isOn(id) {
    return $(id).getAttribute("aria-pressed") === "true";
  }

  show() {
    const { profile } = this;
    const type = Number($("type").value);
    const key = Number($("key").value);
    this.unit = profile.types[type].unit;
    const asked = { type, key, value: Number($("value").value), group: Number($("group").value), focus: pattern($("focus")), swap: this.isOn("swap") };
    // Of what has no time, as allocations, all is shown.
    const hasTimes = Boolean(this.heat) && profile.times.ofTypes[type];
    asked.range = hasTimes ? this.heat.range : null;
    $("time").hidden = !hasTimes;
    const groups = chosen(profile, asked);
    if (hasTimes) this.heat.show(profile.times, overTime(profile, asked));
    $("range").textContent = hasTimes ? this.heat.words() : "";
    $("always").hidden = !asked.range;
    $("hint").hidden = Boolean(asked.range);
    const tree = this.isOn("invert") ? new Callers(profile, groups) : new Calls(profile, groups);
    const search = pattern($("search"));
    const found = search && marked(profile, search);
    this.root = tree.root;
    this.graph.show(profile, tree, found && found.func, this.isDiff);
    this.table.show(profile, perFunction(profile, groups), this.columns());
    const all = profile.sides[asked.swap ? profile.sides.length - 1 : 0].values[type].reduce((sum, value) => sum + value, 0);
    const part = tree.root.total === all ? "" : `, ${percent(tree.root.total, all)} of all`;
    const before = this.isDiff ? `, compared with ${amount(tree.root.before, this.unit)}` : "";
    $("total").textContent = `${profile.types[type].name} ${amount(tree.root.total, this.unit)}${part}${before}`;
    $("found").textContent = found ? `found in ${percent(this.foundTotal(groups, found.stacks), tree.root.total)}` : "";
  }

  foundTotal(groups, stacks) {
    let total = 0;
    for (const { self } of groups) self[0].forEach((value, node) => (total += stacks[node] ? value : 0));
    return total;
  }

  columns() {
    const [now, before] = [this.root.total, this.root.before];
    const of = (title, value, side) => [
      { title, value, text: (row) => amount(value(row), this.unit) },
      { title: `${title} %`, value, text: (row) => percent(value(row), side ? before : now) },
    ];
    const name = { title: "function", value: (row) => this.profile.functions[row.func].name };
    const after = [...of("self", (row) => row.self[0], 0), ...of("total", (row) => row.total[0], 0)];
    if (!this.isDiff) return [...after, name];
    const change = { title: "change of self", value: (row) => row.self[0] - row.self[1] };
    change.text = (row) => (change.value(row) > 0 ? "+" : "") + amount(change.value(row), this.unit);
    return [change, ...after, of("self before", (row) => row.self[1], 1)[0], of("total before", (row) => row.total[1], 1)[0], name];
  }

  words(item) {
    if (!item) return "Click a function to zoom in; arrow keys, Enter and Escape do the same.";
    const parts = [item.name, `${amount(item.total, this.unit)}, ${percent(item.total, this.root.total)} of what is shown`];
    if (item.parent && item.parent.parent) parts.push(`${percent(item.total, item.parent.total)} of ${item.parent.name}`);
    if (item.func >= 0) parts.push(`itself ${amount(item.self, this.unit)}`);
    if (this.isDiff) parts.push(`before ${amount(item.before, this.unit)}, ${percent(item.before, this.root.before)}`);
    if (item.func >= 0) parts.push(`${this.profile.functions[item.func].language} ${this.profile.functions[item.func].file}`.trim());
    return parts.join(" · ");
  }
}

// For tests, and for who wants to know how long it takes.
readProfile($("data").textContent).then(
  (profile) => {
    window.onstackPage = new Page(profile);
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  },
  (error) => ($("total").textContent = `This browser cannot read the page's data: ${error}`),
);
