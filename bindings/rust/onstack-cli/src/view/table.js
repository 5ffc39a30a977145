// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of functions: sorted by any column, some hundred rows at a time.

const ROWS = 200;

class Table {
  constructor(head, body, more, onFunction) {
    Object.assign(this, { head, body, more, onFunction, rows: [], sorted: 0, isUp: false, shown: ROWS });
    more.addEventListener("click", () => {
      this.shown += ROWS;
      this.draw();
    });
  }

  // Columns: { title, value, text }; the last one is the name.
  show(profile, rows, columns) {
    if (this.sorted >= columns.length) this.sorted = 0;
    Object.assign(this, { profile, rows, columns, shown: ROWS });
    this.sort();
  }

  sort() {
    const { value } = this.columns[this.sorted];
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    this.rows.sort((a, b) => (this.isUp ? order(value(a), value(b)) : order(value(b), value(a))) || a.func - b.func);
    this.draw();
  }

  draw() {
    this.head.replaceChildren(...this.columns.map((column, index) => this.title(column, index)));
    this.body.replaceChildren(...this.rows.slice(0, this.shown).map((row) => this.line(row)));
    const hidden = this.rows.length - this.shown;
    this.more.hidden = hidden <= 0;
    this.more.textContent = `Show ${Math.min(ROWS, hidden)} of ${hidden} more`;
  }

  title({ title }, index) {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    const isSorted = index === this.sorted;
    cell.scope = "col";
    cell.setAttribute("aria-sort", isSorted ? (this.isUp ? "ascending" : "descending") : "none");
    button.type = "button";
    button.textContent = title + (isSorted ? (this.isUp ? " ▲" : " ▼") : "");
    button.addEventListener("click", () => {
      this.isUp = isSorted ? !this.isUp : index === this.columns.length - 1;
      this.sorted = index;
      this.sort();
      this.head.children[index].firstChild.focus();
    });
    cell.append(button);
    return cell;
  }

  line(row) {
    const line = document.createElement("tr");
    const { name, file } = this.profile.functions[row.func];
    for (const { text } of this.columns.slice(0, -1)) line.insertCell().textContent = text(row);
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Find it in the flame graph";
    button.textContent = name;
    button.addEventListener("click", () => this.onFunction(name));
    const place = document.createElement("small");
    place.textContent = file;
    line.insertCell().append(button, place);
    return line;
  }
}
