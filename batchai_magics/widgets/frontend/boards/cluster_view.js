// The live view of a cluster: its size, and its nodes as tiles. Python holds the data; this draws it.

import { el, setText } from "../core/dom.js";
import { BUSY, holdWhileUsed } from "../core/kernel.js";
import { nodeBar } from "../core/node_bar.js";
import { hideSnapshot } from "../core/snapshot.js";
import { BoardLine } from "./line.js";
import { nodeTiles } from "./node_tiles.js";
import { scaleForm } from "./scale_form.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */
/** @typedef {import("./messages.d.ts").ClusterFacts} ClusterFacts */

export default {
  /** @param {{model: BoardModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const head = clusterHead();
    const bar = nodeBar();
    const tiles = nodeTiles();
    const note = el("span", { class: "ba-note", role: "status" });
    const line = new BoardLine(model, (isBusy) => setText(note, isBusy ? BUSY : ""));
    const form = scaleForm(async (settings) => {
      setText(note, "Asking …");
      const answer = await line.ask({ kind: "scale", settings });
      setText(note, answer.done ? "Done: the nodes follow." : answer.text);
      return answer.done;
    });
    const view = el(
      "article",
      { class: "ba-view ba-board", "aria-label": `Cluster ${model.get("facts").name}`, "data-lm-suppress-shortcuts": "true" },
      head.element,
      bar.element,
      el("div", { class: "ba-tools" }, form.element, note),
      tiles.element,
    );
    holdWhileUsed(view, (content) => line.tell(content));
    const show = hideSnapshot(model.get("view_id"), view, () => line.isAnswered);
    root.append(view);

    const onFacts = () => {
      /** @type {ClusterFacts} */
      const facts = model.get("facts");
      head.update(facts);
      if (!facts.state) return;
      bar.update(facts.counts);
      form.update(facts);
    };
    const onRows = () => tiles.update(model.get("rows"));
    model.on("change:facts", onFacts);
    model.on("change:rows", onRows);
    onFacts();
    onRows();

    return () => {
      model.off("change:facts", onFacts);
      model.off("change:rows", onRows);
      line.close();
      form.stop();
      tiles.stop();
      show();
      view.remove();
    };
  },
};

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
