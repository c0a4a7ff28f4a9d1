// The live view of a cluster: its size, and its nodes as tiles. Python holds the data; this draws it.

import { nodeBar } from "../core/bars.js";
import { el, setText } from "../core/dom.js";
import { duration, nodeName, SECOND_MS } from "../core/format.js";
import { Dashboard, dashboardHead } from "./dashboard.js";

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
  const { content } = await dashboard.connection.ask({ kind: "scale", settings });
  setText(dashboard.note, content.text || "Resizing: the nodes will follow.");
  return !content.text;
}

/** @returns {{element: HTMLElement, update: (facts: ClusterFacts) => void}} */
function clusterHead() {
  const size = el("span", { class: "ba-node-count" });
  const { element, update: show } = dashboardHead(el("div", { class: "ba-status" }, size));

  /** @param {ClusterFacts} now */
  const update = (now) => {
    const reasons = [now.problem, ...(now.errors ?? []).map((error) => `${error.code}: ${error.message}`)].filter(Boolean);
    const { name, state } = now;
    const problem = reasons.join("  ·  ");
    if (!state) return show({ name, problem });
    const facts = [now.vm_size, now.is_low_priority ? "low priority" : "", now.scale_words].filter(Boolean).join("  ·  ");
    setText(size, sizeOf(now));
    show({ name, problem, state, facts, spoken: `Cluster ${name} is ${state}: ${sizeOf(now)}.` });
  };
  return { element, update };
}

/** @param {ClusterFacts} facts */
function sizeOf(facts) {
  const nodes = `node${facts.target === 1 ? "" : "s"}`;
  return facts.current === facts.target ? `${facts.current} ${nodes}` : `${facts.current} of ${facts.target} ${nodes}`;
}

/** @typedef {{element: HTMLElement, update: (row: NodeRow) => void, tick: () => void}} Tile */


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

/** @type {(id: string) => Tile} */
function tile(id) {
  const name = el("strong", { title: id }, nodeName(id));
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

/** @typedef {Record<string, unknown>} Settings `scaleSettings` of cluster.json */

const MAX_NODES = 10_000;
const WHEN_LEAVING = [
  ["requeue", "queue their jobs again"],
  ["waitforjobcompletion", "wait for their jobs"],
  ["terminate", "end their jobs"],
];

/** The form: manual or auto-scale, the numbers, and what happens to jobs on leaving nodes. */
export class ScaleForm {
  #current = 0; // nodes
  #isEdited = false;
  #target = number("Number of nodes");
  #least = number("Fewest nodes");
  #most = number("Most nodes");
  #fixed = el("span", { class: "ba-choice" }, this.#target, " nodes");
  #auto = el("span", { class: "ba-choice" }, this.#least, " to ", this.#most, " nodes");
  #submit = el("button", { type: "submit", class: "ba-button" }, "Resize");

  /** @param {(settings: Settings) => Promise<boolean>} apply resolves with whether it succeeded */
  constructor(apply) {
    this.apply = apply;
    const edited = () => ((this.#isEdited = true), this.#arrange());
    this.kind = choice("How the cluster is scaled", edited, [
      ["manual", "Fixed size"],
      ["auto", "Auto-scale"],
    ]);
    this.leaving = choice("What happens to the jobs of nodes that leave", edited, WHEN_LEAVING);
    this.gone = el("label", { class: "ba-choice" }, "leaving nodes", this.leaving);
    for (const field of [this.#target, this.#least, this.#most]) field.addEventListener("input", edited);
    const submit = (/** @type {Event} */ event) => this.#onSubmit(event);
    this.element = el("form", { class: "ba-scale ba-choice", submit }, this.kind, this.#fixed, this.#auto, this.gone, this.#submit);
  }

  /** Shows the cluster's size, unless the user is editing it. @param {ClusterFacts} facts */
  update({ current, scale, target }) {
    this.#current = current;
    if (!this.#isEdited) {
      this.kind.value = scale.kind;
      this.#target.value = String(scale.target ?? target);
      this.#least.value = String(scale.minimum ?? 0);
      this.#most.value = String(scale.maximum ?? Math.max(1, target));
    }
    this.#arrange();
  }

  /** Hides the fields that do not apply. */
  #arrange() {
    const isAuto = this.kind.value === "auto";
    this.#fixed.hidden = isAuto;
    this.#auto.hidden = !isAuto;
    for (const field of [this.#least, this.#most]) field.disabled = !isAuto;
    this.#target.disabled = isAuto;
    this.gone.hidden = isAuto || Number(this.#target.value) >= this.#current;
    this.#most.min = this.#least.value || "0";
    this.#submit.disabled = !this.#isEdited;
  }

  /** @param {Event} event */
  async #onSubmit(event) {
    event.preventDefault();
    const auto = { minimumNodeCount: Number(this.#least.value), maximumNodeCount: Number(this.#most.value) };
    const manual = { targetNodeCount: Number(this.#target.value), nodeDeallocationOption: this.leaving.value };
    this.#isEdited = !(await this.apply(this.kind.value === "auto" ? { autoScale: auto } : { manual }));
    this.#arrange();
  }
}

/**
 * @param {string} label
 * @param {() => void} change
 * @param {string[][]} options pairs of value and label
 */
function choice(label, change, options) {
  const items = options.map(([value, words]) => el("option", { value: value ?? "" }, `${words}`));
  return el("select", { class: "ba-field", "aria-label": label, change }, ...items);
}

/** @param {string} label */
function number(label) {
  const limits = { min: 0, max: MAX_NODES, step: 1, required: true };
  return el("input", { type: "number", class: "ba-field ba-number", "aria-label": label, ...limits });
}
