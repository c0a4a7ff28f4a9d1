// The live view of a cluster: its size, and its nodes as tiles. Python holds the data; this draws it.

import { nodeBar } from "../core/bars.js";
import { el, setText } from "../core/dom.js";
import { duration } from "../core/format.js";
import { Dashboard } from "./dashboard.js";
import { ScaleForm } from "./scale_form.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").ClusterFacts} ClusterFacts */
/** @typedef {import("../core/messages.d.ts").NodeRow} NodeRow */

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "cluster");
    const head = clusterHead();
    const bar = nodeBar();
    const tiles = nodeTiles();
    dashboard.onLost = () => tiles.stop(); // no more updates will come
    const form = new ScaleForm((settings) => resize(dashboard, settings));
    const tools = el("div", { class: "ba-tools" }, form.element, dashboard.note);
    dashboard.show(root, `Cluster ${model.get("facts").name}`, head.element, bar.element, tools, tiles.element);
    dashboard.watch(["facts"], () => {
      /** @type {ClusterFacts} */
      const facts = model.get("facts");
      head.update(facts);
      if (!facts.state) return;
      bar.update(facts.counts);
      form.update(facts);
    });
    dashboard.watch(["rows"], () => tiles.update(model.get("rows")));
    return () => {
      form.stop();
      tiles.stop();
      dashboard.close();
    };
  },
};

/**
 * Requests another size; resolves with whether the request succeeded.
 * @param {Dashboard} dashboard
 * @param {Record<string, unknown>} settings
 */
async function resize(dashboard, settings) {
  setText(dashboard.note, "Asking …");
  const answer = await dashboard.connection.ask({ kind: "scale", settings });
  setText(dashboard.note, answer.done ? "Resizing: the nodes will follow." : answer.text);
  return answer.done;
}

/** @returns {{element: HTMLElement, update: (facts: ClusterFacts) => void}} */
function clusterHead() {
  const badge = el("span", { class: "ba-badge" });
  const name = el("strong", { class: "ba-name" });
  const facts = el("span", { class: "ba-facts" });
  const size = el("span", { class: "ba-node-count" });
  const problem = el("div", { class: "ba-problem", hidden: true });
  const spoken = el("span", { class: "ba-spoken", role: "status" });
  const title = el("div", { class: "ba-title" }, badge, name, facts);
  const element = el("header", { class: "ba-header" }, title, el("div", { class: "ba-status" }, size), problem, spoken);

  /** @param {ClusterFacts} now */
  const update = (now) => {
    setText(name, now.name);
    name.title = now.name;
    const reasons = [now.problem, ...(now.errors ?? []).map((error) => `${error.code}: ${error.message}`)].filter(Boolean);
    problem.hidden = !reasons.length;
    setText(problem, reasons.join("  ·  "));
    badge.hidden = !now.state;
    if (!now.state) return;
    setText(badge, now.state);
    badge.dataset.state = now.state;
    setText(facts, [now.vm_size, now.is_low_priority ? "low priority" : "", now.scale_words].filter(Boolean).join("  ·  "));
    setText(size, sizeOf(now));
    setText(spoken, `Cluster ${now.name} is ${now.state}: ${sizeOf(now)}.`);
  };
  return { element, update };
}

/** @param {ClusterFacts} facts */
function sizeOf(facts) {
  const nodes = `node${facts.target === 1 ? "" : "s"}`;
  return facts.current === facts.target ? `${facts.current} ${nodes}` : `${facts.current} of ${facts.target} ${nodes}`;
}

/** @typedef {{element: HTMLElement, update: (row: NodeRow) => void, tick: () => void}} Tile */

const SECOND_MS = 1000;

/** @returns {{element: HTMLElement, update: (rows: NodeRow[]) => void, stop: () => void}} */
function nodeTiles() {
  const list = el("ul", { class: "ba-tiles", tabindex: 0, role: "list", "aria-label": "Nodes" });
  const none = el("p", { class: "ba-empty-dashboard" }, "No nodes. They are added when the cluster is resized, or when a job needs them.");
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
 * Shortens a node's id: `tvm-1783593343_2-20260301t120000z-p` becomes `node 2`.
 * @param {string} id
 */
function shortName(id) {
  const match = /_(\d+)-\d{8}t/.exec(id);
  return match ? `node ${match[1]}` : id;
}
