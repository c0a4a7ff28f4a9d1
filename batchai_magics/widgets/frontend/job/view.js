// The live view of a job. Python holds the data; this draws it.

import { el } from "../core/dom.js";
import { holdWhileUsed } from "../core/kernel.js";
import { nodeBar } from "../core/node_bar.js";
import { hideSnapshot, keepInPage, snapshotOf } from "../core/snapshot.js";
import { Charts } from "./charts.js";
import { header } from "./header.js";
import { LogPanel } from "./log/panel.js";
import { Session } from "./session.js";

/** @typedef {import("../core/model.d.ts").Model} Model */

export default () => {
  /** @type {Session} */
  let session;
  return {
    /** @param {{model: Model}} context */
    initialize({ model }) {
      session = new Session(model);
      return () => session.close();
    },
    /** @param {{model: Model, el: HTMLElement}} context */
    render({ model, el: root }) {
      return draw(session, model, root);
    },
  };
};

/**
 * Puts a view into `root` and returns what takes it out again.
 * @param {Session} session
 * @param {Model} model
 * @param {HTMLElement} root
 * @returns {() => void}
 */
function draw(session, model, root) {
  const head = header(session);
  const nodes = nodeBar();
  const charts = new Charts(session, model.get("view_id"));
  const output = new LogPanel(session);
  const view = el(
    "article",
    { class: "ba-view", "aria-label": `Job ${model.get("facts").name}`, "data-lm-suppress-shortcuts": "true" },
    head.element,
    el("div", { class: "ba-below" }, nodes.element, head.problem),
    charts.element,
    output.element,
  );
  const showSnapshot = hideSnapshot(model.get("view_id"), view, () => session.isAnswered);
  holdWhileUsed(view, (content) => session.tell(content));
  root.append(view);

  const onFacts = () => {
    head.update();
    output.offer();
    charts.update();
  };
  const onCounts = () => nodes.update(model.get("counts"), model.get("history"), model.get("facts").ended);
  const onFiles = () => output.offer();
  /** @type {(() => void) | null} */
  let leave = null;
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    stopListening();
    model.off("change:facts", onFacts);
    model.off("change:counts", onCounts);
    model.off("change:history", onCounts);
    model.off("change:files", onFiles);
    [head, charts, output].forEach((part) => part.stop());
    leave?.();
    showSnapshot();
    view.remove();
    session.bye();
  };
  const keep = () => {
    if (leave) return;
    leave = keepInPage(view, snapshotOf(model.get("view_id")), end);
    if (leave) output.moved();
  };
  const stopListening = session.listen((kind, file, added) => {
    if (kind === "keep") keep();
    else if (kind === "closed" || (kind === "lost" && leave)) end(); // the picture says all there is to say
    else if (kind === "points") charts.update();
    else if (kind === "log" || kind === "page") output.update(kind, file, added);
    else if (kind === "complete") [onFiles, () => charts.update()].forEach((update) => update());
  });
  model.on("change:facts", onFacts);
  model.on("change:counts", onCounts);
  model.on("change:history", onCounts);
  model.on("change:files", onFiles);
  [onFacts, onCounts].forEach((update) => update());
  session.enter();

  return () => {
    if (session.isKept) keep();
    if (!leave) end();
  };
}
