// The line below a long table that draws a part of its rows: how many are shown, and a button for more.

import { el, setText } from "./dom.js";

export const PAGE_ROWS = 100; // rows at first, and more on each request

/**
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
