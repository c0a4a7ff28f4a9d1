// The live view of a job. Python holds the data; this draws it.

import { childView, holdWhileUsed } from "../core/kernel.js";
import { el } from "../core/dom.js";
import { nodeBar, progressBar } from "../core/bars.js";
import { hideSnapshot, keepInPage, snapshotOf } from "../core/snapshot.js";
import { Charts } from "./charts/charts.js";
import { Header } from "./header.js";
import { LogPanel } from "./log/panel.js";
import { Session } from "./session.js";
import { UsePanel } from "./use.js";

/** @typedef {import("../core/messages.d.ts").Model} Model */

const SECOND_MS = 1000;

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
      const view = new JobView(session, model, root);
      return () => view.out();
    },
  };
};

/** A job shown in one place of the page. */
class JobView {
  /**
   * Puts the view into `root`.
   * @param {Session} session
   * @param {Model} model
   * @param {HTMLElement} root
   */
  constructor(session, model, root) {
    this.session = session;
    this.model = model;
    /** The view of the run that was submitted from this one. */
    this.next = el("div", { class: "ba-next", hidden: true });
    /** @type {import("../core/kernel.js").ChildView | null} */
    this.following = null;
    this.head = new Header(session, (id) => this.#open(id));
    this.nodes = nodeBar();
    this.progress = progressBar();
    this.ticking = setInterval(() => this.#updateProgress(), SECOND_MS);
    this.charts = new Charts(session, model.get("view_id"));
    this.use = new UsePanel();
    this.output = new LogPanel(session);
    /** @type {(() => void) | null} */
    this.leave = null; // takes a view that was kept out of the page
    this.isOver = false;
    this.element = this.#put(root);
    this.showSnapshot = hideSnapshot(model.get("view_id"), this.element, () => session.isAnswered);
    holdWhileUsed(this.element, (content) => session.tell(content));
    this.stopListening = session.listen((kind, file, added) => this.#take(kind, file, added));
    const onCounts = () => this.nodes.update(model.get("counts"), model.get("history"), model.get("facts").ended);
    /** @type {[string, () => void][]} */
    this.traits = [
      ["change:facts", () => this.#updateFacts()],
      ["change:counts", onCounts],
      ["change:history", onCounts],
      ["change:files", () => this.output.offer()],
    ];
    for (const [event, listener] of this.traits) model.on(event, listener);
    this.#updateFacts();
    this.use.update(session.data.use);
    onCounts();
    session.enter();
  }

  /** Takes the view out, or keeps it beside its output, which becomes a still picture. */
  out() {
    if (this.session.isKept) this.#keep();
    if (!this.leave) this.#end();
  }

  /** @param {HTMLElement} root */
  #put(root) {
    const { head, nodes, charts, use, output, model } = this;
    const element = el(
      "article",
      { class: "ba-view", "aria-label": `Job ${model.get("facts").name}`, "data-lm-suppress-shortcuts": "true" },
      head.element,
      el("div", { class: "ba-below" }, nodes.element, this.progress.element, head.problem),
      charts.element,
      use.element,
      output.element,
      this.next,
    );
    root.append(element);
    return element;
  }

  /** @type {(kind: string, file: string, added: number) => void} */
  #take(kind, file, added) {
    if (kind === "keep") this.#keep();
    else if (kind === "closed" || (kind === "lost" && this.leave)) this.#end(); // the picture says all there is to say
    else if (kind === "points") this.charts.update();
    else if (kind === "use") this.use.update(this.session.data.use);
    else if (kind === "standing") {
      this.#updateProgress();
      this.output.offer();
    }
    else if (kind === "log" || kind === "page") this.output.update(kind, file, added);
    else if (kind === "complete") {
      this.output.offer();
      this.charts.update();
    }
  }

  /** @param {string} id of the model of another job's view */
  async #open(id) {
    const view = await childView(this.model.widget_manager, id);
    this.following?.remove();
    this.following = view;
    this.next.hidden = false;
    this.next.replaceChildren(view.el);
    this.next.scrollIntoView({ block: "nearest" });
  }

  #updateFacts() {
    this.head.update();
    this.#updateProgress();
    this.output.offer();
    this.charts.update();
  }

  /** How far the job is, or came: how it goes on without the kernel nobody here knows. */
  #updateProgress() {
    this.progress.update(this.session.standing.progress, this.model.get("facts").state, !this.session.isKernelLost);
  }

  #keep() {
    if (this.leave) return;
    this.leave = keepInPage(this.element, snapshotOf(this.model.get("view_id")), () => this.#end());
    if (this.leave) this.output.moved();
  }

  #end() {
    if (this.isOver) return;
    this.isOver = true;
    this.following?.remove();
    this.stopListening();
    for (const [event, listener] of this.traits) this.model.off(event, listener);
    clearInterval(this.ticking);
    for (const part of [this.head, this.charts, this.output]) part.stop();
    this.leave?.();
    this.showSnapshot();
    this.element.remove();
    this.session.bye();
  }
}
