// One row of a log as an element.

import { rankColour } from "../../core/chart_style.js";
import { el } from "../../core/dom.js";
import { counted, size } from "../../core/format.js";
import { plain, spans } from "./ansi.js";
import { isGap } from "./document.js";
import { marked } from "./finder.js";
import { isOfStderr, rankOf } from "./ranks.js";

/** @typedef {import("./document.js").Row} Row */

/**
 * A line with its colours and what was found in it, or a gap that says how much is not here.
 * @param {Row} row
 * @param {((text: string) => [number, number][]) | null} find
 * @param {boolean} isCurrent the search stands on it
 * @returns {HTMLElement}
 */
export function rowElement(row, find, isCurrent) {
  if (isGap(row)) {
    const lines = row.lines === null ? "" : `${counted(row.lines, "line")}, `;
    const text = `⋯ ${lines}${size(row.end - row.start)} not shown yet ⋯`;
    return el("div", { class: "ba-row ba-gap", "data-start": row.start }, text);
  }
  const hits = find ? find(plain(row.text)) : [];
  const element = el("div", { class: isCurrent ? "ba-row ba-current" : "ba-row", "data-start": row.start });
  const rank = rankOf(row);
  if (rank >= 0) {
    element.classList.add("ba-of-rank");
    element.style.setProperty("--ba-mark", `var(${rankColour(rank)})`);
    element.title = `rank ${rank}`;
  }
  if (isOfStderr(row)) {
    element.classList.add("ba-of-stderr");
    element.title = [element.title, "stderr"].filter(Boolean).join(", ");
  }
  for (const piece of marked(spans(row.text), hits)) {
    if (piece.isHit) element.append(el("mark", { class: piece.classes }, piece.text));
    else element.append(piece.classes ? el("span", { class: piece.classes }, piece.text) : piece.text);
  }
  return element;
}
