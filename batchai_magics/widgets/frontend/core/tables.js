// Parts of long tables: the heads that sort them, and below a part of their rows the button for more.

import { el, setText } from "./dom.js";

export const PAGE_ROWS = 100; // rows at first, and more on each request

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
