// Long tables: their columns, the order of their rows, and the button that shows more rows.

import { el, setText } from "./dom.js";
import { compare, SECOND_MS } from "./format.js";

export const PAGE_ROWS = 100; // rows at first, and more on each request
export const NOTHING = "–"; // in an empty cell

/**
 * The head of a column: `by` is what it is sorted by; `isDescending`: the highest values come first.
 * @template Row
 * @typedef {{title: string, key: string, by: (row: Row) => string | number | null, isDescending?: boolean, kind?: string}} Head
 */
/** A column: `of` is the text of a cell. @template Row @typedef {Head<Row> & {of: (row: Row) => string}} Column */

/**
 * The column of a parameter.
 * @template Row
 * @param {string} name
 * @param {(row: Row) => string | number | boolean | null} valueOf
 * @param {(value: string | number | boolean) => string} [text]
 * @returns {Column<Row>}
 */
export function parameterColumn(name, valueOf, text = String) {
  const textOf = (/** @type {string | number | boolean | null} */ value) => (value === null ? NOTHING : text(value));
  const keyOf = (/** @type {string | number | boolean | null} */ value) => (typeof value === "boolean" ? String(value) : value);
  return { title: name, key: `parameter:${name}`, of: (row) => textOf(valueOf(row)), by: (row) => keyOf(valueOf(row)) };
}

/**
 * A table that can be sorted by each of its columns, and whose rows have clocks.
 * @template Row
 * @template {Head<Row>} OneColumn
 */
export class SortedTable {
  /** @type {OneColumn[]} */
  columns = [];
  isDescending = false;
  isOrderChosen = false; // the user has chosen the order
  isStopped = false; // the kernel is gone: no more updates
  head = el("tr", { role: "row" });
  body = el("tbody", { role: "rowgroup" }); // explicit roles: on a narrow page the rows become lines

  /**
   * @param {string} label for screen readers
   * @param {string} kind class of the table
   * @param {string} sorted the key of the column that it is sorted by at first; "" is the order of the rows
   */
  constructor(label, kind, sorted) {
    this.sorted = sorted;
    const table = el("table", { class: `ba-table ${kind}`, role: "table", "aria-label": label }, el("thead", { role: "rowgroup" }, this.head), this.body);
    this.scroller = el("div", { class: "ba-scroller", tabindex: 0, role: "region", "aria-label": label }, table);
    this.timer = setInterval(() => this.tick(), SECOND_MS);
  }

  /** Draws the rows in order. */
  draw() {}

  /** Updates the clocks of the rows, each second. */
  tick() {}

  /** Stops the clocks. */
  stop() {
    this.isStopped = true;
    clearInterval(this.timer);
  }

  /** Makes the heads of columns, which sort the table when they are clicked. @param {OneColumn[]} columns */
  setColumns(columns) {
    this.columns = columns;
    this.head.replaceChildren(
      ...columns.map((column) => {
        const button = el("button", { type: "button", class: "ba-sort", title: column.title, click: () => this.#sortBy(column) }, column.title);
        return el("th", { scope: "col", role: "columnheader", "data-column": column.key, "data-kind": column.kind }, button);
      }),
    );
  }

  /**
   * Sorts items, and marks the column that they are sorted by.
   * @template Item
   * @param {Item[]} items
   * @param {(item: Item) => Row} rowOf
   * @param {(a: Item, b: Item) => number} [tie] the order of equal items, by default their order so far
   */
  sort(items, rowOf, tie = () => 0) {
    const column = this.columns.find(({ key }) => key === this.sorted);
    if (!this.isOrderChosen) this.isDescending = Boolean(column?.isDescending);
    for (const head of /** @type {Iterable<HTMLElement>} */ (this.head.children)) {
      if (column && head.dataset.column === column.key) head.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const direction = this.isDescending ? -1 : 1;
    return column ? items.sort((a, b) => compare(column.by(rowOf(a)), column.by(rowOf(b)), direction) || tie(a, b)) : items;
  }

  /** Sorts by a column in its own direction or, if the table is sorted by it already, in the other one. @param {OneColumn} column */
  #sortBy({ key, isDescending }) {
    this.isDescending = this.sorted === key ? !this.isDescending : Boolean(isDescending);
    [this.sorted, this.isOrderChosen] = [key, true];
    this.draw();
  }
}

/**
 * How many of a table's rows are shown, and the button.
 * @param {string} noun of the rows
 * @param {() => void} draw called with a higher limit
 * @returns {{element: HTMLElement, limit: number, update: (total: number) => void}}
 */
export function moreRows(noun, draw) {
  const count = el("span");
  const button = el("button", { type: "button", class: "ba-button", click: () => ((more.limit += PAGE_ROWS), draw()) });
  const element = el("div", { class: "ba-more-rows", hidden: true }, count, button);
  const more = {
    element,
    limit: PAGE_ROWS,
    update: (/** @type {number} */ total) => {
      const rest = total - more.limit;
      element.hidden = rest <= 0;
      setText(count, `${more.limit.toLocaleString("en")} of ${total.toLocaleString("en")} ${noun}s`);
      setText(button, `Show ${Math.min(PAGE_ROWS, rest)} more`);
    },
  };
  return more;
}
