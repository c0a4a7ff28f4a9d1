// The heads of a table that can be sorted by any column.

import { el } from "./dom.js";

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
