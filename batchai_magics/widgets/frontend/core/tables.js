// Parts of long tables: columns, the heads that sort by them, and below a part of the rows the button for more.

import { el, setText } from "./dom.js";

export const PAGE_ROWS = 100; // rows at first, and more on each request
export const NOTHING = "–"; // in an empty cell

/**
 * A column: `of` is the text of a cell, `by` what it is sorted by; `isDescending`: the highest values come first.
 * @template Row
 * @typedef {{title: string, key: string, of: (row: Row) => string, by: (row: Row) => string | number | null, isDescending?: boolean, kind?: string}} Column
 */

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
 * The head of a column, which sorts the table when it is clicked.
 * @param {{title: string, key: string, kind?: string | null}} column
 * @param {(key: string) => void} sortBy
 */
export function sortHead({ title, key, kind }, sortBy) {
  const button = el("button", { type: "button", class: "ba-sort", title, click: () => sortBy(key) }, title);
  return el("th", { scope: "col", role: "columnheader", "data-column": key, "data-kind": kind ?? null }, button);
}

/**
 * Marks the column that a table is sorted by; none with an empty key.
 * @param {HTMLElement} row of the heads
 * @param {string} key
 * @param {boolean} isDescending
 */
export function markSorted(row, key, isDescending) {
  for (const head of row.children) {
    const isSorted = /** @type {HTMLElement} */ (head).dataset.column === key;
    if (isSorted) head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
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
