// The bar of node states: one segment per state, with its count, a legend in words, and how it was before.

import { el, setText } from "../dom.js";
import { duration } from "../format.js";

/** @typedef {import("../messages.d.ts").Counts} Counts */
/** @typedef {keyof Counts} State */

/** @type {State[]} */
const STATES = ["running", "idle", "preparing", "leaving", "unusable"];
const SVG = "http://www.w3.org/2000/svg";
const SECOND_MS = 1000;

/** @type {State[]} */
const ORDER = ["preparing", "idle", "running", "leaving", "unusable"]; // in which the kernel lists them over time

/**
 * @returns {{element: HTMLElement, update: (counts: Counts, history?: number[][], ended?: number | null) => void}}
 */
export function nodeBar() {
  const segments = new Map(STATES.map((state) => [state, el("span", { class: "ba-segment", "data-state": state })]));
  const bar = el("div", { class: "ba-bar", role: "img" }, ...segments.values());
  const entries = new Map(
    STATES.map((state) => {
      const count = el("b");
      const swatch = el("i", { class: "ba-swatch", "data-state": state });
      return [state, { count, item: el("span", { class: "ba-legend-item" }, swatch, count, ` ${state}`) }];
    }),
  );
  const none = el("span", { class: "ba-legend-item" });
  const legend = el("div", { class: "ba-legend", "aria-hidden": "true" }, ...[...entries.values()].map((e) => e.item), none);
  const strip = el("div", { class: "ba-strip", role: "img", "aria-label": "Nodes so far" });
  const label = el("span", { class: "ba-label" }, "Nodes");
  const before = el("span", { class: "ba-so-far", "aria-hidden": "true" }, "so far");
  const element = el("div", { class: "ba-nodes" }, label, bar, before, strip, legend);

  /** @type {(counts: Counts, history?: number[][], ended?: number | null) => void} */
  const update = (counts, history = [], ended = null) => {
    const present = STATES.filter((state) => counts[state]);
    for (const state of STATES) {
      const count = counts[state] ?? 0;
      const segment = /** @type {HTMLElement} */ (segments.get(state));
      segment.style.flexGrow = String(count);
      segment.hidden = !count;
      const entry = /** @type {{count: HTMLElement, item: HTMLElement}} */ (entries.get(state));
      entry.item.hidden = !count;
      setText(entry.count, String(count));
    }
    none.hidden = present.length > 0;
    setText(none, ended === null ? "no nodes yet" : "given back");
    before.hidden = strip.hidden = !history.some((row) => sum(row.slice(1)));
    const words = present.map((state) => `${counts[state]} ${state}`).join(", ");
    bar.setAttribute("aria-label", `Nodes: ${words || none.textContent}`);
    if (!strip.hidden) drawStrip(strip, history, ended);
  };
  return { element, update };
}

/**
 * Draws how many nodes were in each state over time: time to the right, nodes upwards.
 * @param {HTMLElement} strip
 * @param {number[][]} history the time in milliseconds and the counts after it
 * @param {number | null} ended
 */
function drawStrip(strip, history, ended) {
  const [first] = history;
  if (!first) return;
  const start = Number(first[0]);
  const end = Math.max(ended ?? Date.now(), Number(history[history.length - 1]?.[0]) + SECOND_MS);
  const most = Math.max(1, ...history.map((row) => sum(row.slice(1))));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${end - start} ${most}`);
  svg.setAttribute("preserveAspectRatio", "none");
  history.forEach((row, i) => {
    const until = Number(history[i + 1]?.[0] ?? end);
    let top = most;
    ORDER.forEach((state, k) => {
      const count = Number(row[k + 1]);
      if (!count) return;
      const rect = document.createElementNS(SVG, "rect");
      top -= count;
      const place = { x: Number(row[0]) - start, y: top, width: until - Number(row[0]), height: count };
      for (const [name, value] of Object.entries(place)) rect.setAttribute(name, String(value));
      rect.dataset.state = state;
      svg.append(rect);
    });
  });
  strip.title = `The nodes over ${duration((end - start) / SECOND_MS)}`;
  strip.replaceChildren(svg);
}

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
