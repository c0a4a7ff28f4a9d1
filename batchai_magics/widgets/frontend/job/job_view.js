// The live view of a job: header, nodes, progress, charts, resource usage and log. Python holds the data; this draws it.

import { nodeBar, progressBar } from "../core/bars.js";
import { el } from "../core/dom.js";
import { SECOND_MS } from "../core/format.js";
import { holdWhileUsed } from "../core/kernel.js";
import { hideSnapshot, keepInPage, snapshotOf } from "../core/snapshot.js";
import { kernelHost } from "../hosts/kernel_host.js";
import { JobCharts } from "./job_charts.js";
import { JobHeader } from "./job_header.js";
import { JobSession, MAIN_LOG } from "./job_session.js";
import { LogPanel } from "./log_panel.js";
import { ProfilePanel } from "./profile_panel.js";
import { UsagePanel } from "./resource_usage.js";
import { ViewMemory } from "./view_memory.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */

export default () => {
  /** @type {JobSession} */
  let session;
  return {
    /** @param {{model: KernelModel}} context */
    initialize({ model }) {
      session = new JobSession(kernelHost(model));
      return () => session.close();
    },
    /** @param {{el: HTMLElement}} context */
    render({ el: root }) {
      const view = new JobView(session, root);
      return () => view.out();
    },
  };
};

/** A job shown in one place of the page. */
export class JobView {
  /**
   * Puts the view into `root`.
   * @param {JobSession} session
   * @param {HTMLElement} root
   */
  constructor(session, root) {
    const { host } = session;
    this.session = session;
    this.host = host;
    /** The view of the job that was submitted again from this one, which it replaces. */
    this.next = el("div", { class: "ba-next", hidden: true });
    /** @type {import("../core/messages.d.ts").ChildView | null} */
    this.following = null;
    this.head = new JobHeader(session, (id) => this.#open(id));
    this.nodes = nodeBar();
    this.progress = progressBar();
    this.ticking = setInterval(() => this.#updateProgress(), SECOND_MS);
    const memory = new ViewMemory(host.get("facts"));
    this.charts = new JobCharts(session, host.get("view_id"), memory);
    this.use = new UsagePanel();
    this.profile = new ProfilePanel(session);
    this.output = new LogPanel(session, memory);
    /** @type {(() => void) | null} */
    this.leave = null; // removes a view that was kept in the page
    this.isOver = false;
    this.element = this.#put(root);
    this.showSnapshot = hideSnapshot(host.get("view_id"), this.element, () => session.isAnswered);
    holdWhileUsed(this.element, (content) => session.tell(content));
    this.stopListening = session.listen((kind, file, added) => this.#take(kind, file, added));
    const onCounts = () => this.nodes.update(host.get("counts"), host.get("history"), host.get("facts").ended);
    /** @type {[string, () => void][]} */
    this.traits = [
      ["change:facts", () => this.#updateFacts()],
      ["change:counts", onCounts],
      ["change:history", onCounts],
      ["change:files", () => this.output.offer()],
      ["change:profile", () => this.profile.update()],
    ];
    for (const [event, listener] of this.traits) host.on(event, listener);
    this.#updateFacts();
    this.use.update(session.use);
    onCounts();
    session.enter();
  }

  /** Removes the view, or keeps it beside its output, which is frozen. */
  out() {
    if (this.session.isKept) this.#keep();
    if (!this.leave) this.#end();
  }

  /** @param {HTMLElement} root */
  #put(root) {
    const { head, nodes, charts, use, profile, output, host } = this;
    const element = el(
      "article",
      { class: "ba-view ba-waiting", "aria-label": `Job ${host.get("facts").name}`, "data-lm-suppress-shortcuts": "true" },
      head.element,
      el("div", { class: "ba-below" }, nodes.element, this.progress.element, head.problem),
      charts.element,
      el("div", { class: "ba-use-row" }, use.element, profile.button),
      profile.element,
      output.element,
      this.next,
    );
    root.append(element);
    return element;
  }

  /** @type {(kind: string, file: string, added: number) => void} */
  #take(kind, file, added) {
    if (kind === "keep") this.#keep();
    else if (kind === "closed" || (kind === "lost" && this.leave)) this.#end(); // the snapshot is complete
    else if (kind === "points") this.charts.draw();
    else if (kind === "use") this.use.update(this.session.use);
    else if (kind === "status") {
      this.#updateProgress();
      this.output.offer();
    }
    else if (kind === "log" || kind === "page") this.output.update(kind, file, added);
    else if (kind === "complete") {
      this.output.offer();
      this.charts.draw();
    }
  }

  /** @param {string} id model id of another job's view; in a plain page, the job's name */
  async #open(id) {
    const link = this.host.get("link");
    if (link) return void (location.href = link("job", [id]));
    const view = await this.host.get("embed")(id);
    this.following?.remove();
    this.following = view;
    this.next.replaceChildren(view.el);
    for (const part of /** @type {Iterable<HTMLElement>} */ (this.element.children)) part.hidden = part !== this.next;
  }

  #updateFacts() {
    this.#expand();
    this.head.update();
    this.profile.update();
    this.#updateProgress();
    this.output.offer();
    this.charts.draw();
  }

  /** Makes the view tall when the job leaves the queue, and keeps it so: a requeued job has output already. */
  #expand() {
    const isWaiting = this.host.get("facts").state === "queued" && !this.session.logs.get(MAIN_LOG)?.size;
    if (!isWaiting) this.element.classList.remove("ba-waiting");
  }

  /** Updates the progress bar, which stops when the kernel is lost. */
  #updateProgress() {
    this.progress.update(this.session.status.progress, this.host.get("facts").state, !this.session.isKernelLost);
  }

  #keep() {
    if (this.leave) return;
    this.leave = keepInPage(this.element, snapshotOf(this.host.get("view_id")), () => this.#end());
    if (this.leave) this.output.moved();
  }

  #end() {
    if (this.isOver) return;
    this.isOver = true;
    this.following?.remove();
    this.stopListening();
    for (const [event, listener] of this.traits) this.host.off(event, listener);
    clearInterval(this.ticking);
    for (const part of [this.head, this.charts, this.profile, this.output]) part.stop();
    this.leave?.();
    this.showSnapshot();
    this.element.remove();
    this.session.bye();
  }
}
