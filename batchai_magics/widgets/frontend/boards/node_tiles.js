// Nodes as tiles: what each does, since when, and for which job.

import { el, setText } from "../core/dom.js";
import { duration } from "../core/format.js";

/** @typedef {import("./messages.d.ts").NodeRow} NodeRow */
/** @typedef {{element: HTMLElement, update: (row: NodeRow) => void, tick: () => void}} Tile */

const SECOND_MS = 1000;

/** @returns {{element: HTMLElement, update: (rows: NodeRow[]) => void, stop: () => void}} */
export function nodeTiles() {
  const list = el("ul", { class: "ba-tiles", tabindex: 0, role: "list", "aria-label": "Nodes" });
  const none = el("p", { class: "ba-empty-board" }, "No nodes. They come when the cluster is resized, or when a job needs them.");
  const element = el("div", {}, list, none);
  /** @type {Map<string, Tile>} */
  const tiles = new Map();

  /** @param {NodeRow[]} rows */
  const update = (rows) => {
    none.hidden = rows.length > 0;
    list.hidden = !rows.length;
    const ids = new Set(rows.map((row) => row.id));
    for (const [id, old] of tiles) {
      if (ids.has(id)) continue;
      old.element.remove();
      tiles.delete(id);
    }
    rows.forEach((row, i) => {
      let one = tiles.get(row.id);
      if (!one) tiles.set(row.id, (one = tile(row.id)));
      one.update(row);
      if (list.children[i] !== one.element) list.insertBefore(one.element, list.children[i] ?? null);
    });
  };
  const timer = setInterval(() => tiles.forEach((one) => one.tick()), SECOND_MS);
  return { element, update, stop: () => clearInterval(timer) };
}

/**
 * @param {string} id
 * @returns {Tile}
 */
function tile(id) {
  const name = el("strong", { title: id }, shortName(id));
  const state = el("span", { class: "ba-tile-state" });
  const time = el("span", { class: "ba-tile-time" });
  const job = el("span", { class: "ba-tile-job" });
  const element = el("li", { class: "ba-tile" }, el("div", { class: "ba-tile-head" }, name, time), state, job);
  /** @type {number | null} */
  let since = null;
  const tick = () => setText(time, since === null ? "" : duration((Date.now() - since) / SECOND_MS));

  /** @param {NodeRow} row */
  const update = (row) => {
    element.dataset.state = row.state;
    setText(state, row.state);
    setText(job, row.job || (row.state === "idle" ? "ready for a job" : ""));
    job.title = row.job;
    element.dataset.busy = String(Boolean(row.job));
    time.title = `${row.state} for so long`;
    since = row.since;
    tick();
  };
  return { element, update, tick };
}

/**
 * What tells one node from the others: `node 2` of `tvm-1783593343_2-20260301t120000z-p`.
 * @param {string} id
 */
function shortName(id) {
  const match = /_(\d+)-\d{8}t/.exec(id);
  return match ? `node ${match[1]}` : id;
}
