// The live view of a cluster: its size, and its nodes as tiles. Python holds the data; this draws it.

import { el, setText } from "../core/dom.js";
import { nodeBar } from "../core/bars/node_bar.js";
import { BoardFrame } from "./frame.js";
import { nodeTiles } from "./node_tiles.js";
import { ScaleForm } from "./scale_form.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */
/** @typedef {import("./messages.d.ts").ClusterFacts} ClusterFacts */

export default {
  /** @param {{model: BoardModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const board = new BoardFrame(model, "cluster");
    const head = clusterHead();
    const bar = nodeBar();
    const tiles = nodeTiles();
    board.onLost = () => tiles.stop(); // how it goes on nobody here knows
    const form = new ScaleForm((settings) => scaled(board, settings));
    const tools = el("div", { class: "ba-tools" }, form.element, board.note);
    board.show(root, `Cluster ${model.get("facts").name}`, head.element, bar.element, tools, tiles.element);
    board.watch(["facts"], () => {
      /** @type {ClusterFacts} */
      const facts = model.get("facts");
      head.update(facts);
      if (!facts.state) return;
      bar.update(facts.counts);
      form.update(facts);
    });
    board.watch(["rows"], () => tiles.update(model.get("rows")));
    return () => {
      form.stop();
      tiles.stop();
      board.close();
    };
  },
};

/**
 * Asks for another size; gives whether it was done.
 * @param {BoardFrame} board
 * @param {Record<string, unknown>} settings
 */
async function scaled(board, settings) {
  setText(board.note, "Asking …");
  const answer = await board.line.ask({ kind: "scale", settings });
  setText(board.note, answer.done ? "Done: the nodes follow." : answer.text);
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
