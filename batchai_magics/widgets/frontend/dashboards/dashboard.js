// The base of all dashboards: the article in the page, the connection to the kernel, a status note.

import { el, setText } from "../core/dom.js";
import { BUSY, gone, holdWhileUsed, KernelConnection } from "../core/kernel.js";
import { hideSnapshot } from "../core/snapshot.js";
import { kernelHost } from "../hosts/kernel_host.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */

const REQUESTING = ".ba-scale :is(button, input, select), .ba-open, .ba-compare, .ba-tick"; // controls that send requests

export class Dashboard {
  /** Called when the kernel is gone. */
  onLost = () => {};

  /** Called with each message of the kernel that is no reply. */
  onMessage = (/** @type {any} */ _content) => {};

  /** @type {(() => void)[]} */
  #cleanups = [];

  /**
   * @param {KernelModel} model
   * @param {string} noun what the dashboard shows, for messages
   */
  constructor(model, noun) {
    this.host = kernelHost(model);
    this.noun = noun;
    this.note = el("span", { class: "ba-note", role: "status" });
    this.view = el("article", { class: "ba-view ba-dashboard", "data-lm-suppress-shortcuts": "true" });
    this.connection = new KernelConnection(this.host, {
      message: (content) => this.onMessage(content),
      busy: () => setText(this.note, this.connection.isBusy ? BUSY : ""),
      lost: () => this.#onKernelLost(),
    });
    this.connection.enter();
  }

  /**
   * Adds the view to the page and hides its snapshot.
   * @param {HTMLElement} root
   * @param {string} label
   * @param {...Node} parts
   */
  show(root, label, ...parts) {
    const { view } = this;
    view.setAttribute("aria-label", label);
    view.append(...parts);
    holdWhileUsed(view, (content) => this.connection.tell(content));
    const showSnapshot = hideSnapshot(this.host.get("view_id"), view, () => this.connection.isAnswered);
    root.append(view);
    this.#cleanups.push(showSnapshot, () => view.remove());
  }

  /**
   * Calls `update` now and whenever one of the traits changes.
   * @param {string[]} traits
   * @param {() => void} update
   */
  watch(traits, update) {
    for (const trait of traits) {
      this.host.on(`change:${trait}`, update);
      this.#cleanups.push(() => this.host.off(`change:${trait}`, update));
    }
    update();
  }

  #onKernelLost() {
    setText(this.note, gone(this.noun, this.host.get("link")));
    for (const control of this.view.querySelectorAll(REQUESTING)) /** @type {HTMLButtonElement} */ (control).disabled = true;
    for (const badge of this.view.querySelectorAll(".ba-badge")) /** @type {HTMLElement} */ (badge).dataset.lost = "true";
    this.onLost();
  }

  /** Removes the view from the page and tells the kernel. */
  close() {
    this.connection.leave();
    this.connection.close();
    for (const end of this.#cleanups) end();
  }
}

/**
 * The header of a dashboard: a badge, a name and facts, a problem, and further parts.
 * @param {...HTMLElement} parts
 */
export function dashboardHead(...parts) {
  const badge = el("span", { class: "ba-badge", hidden: true });
  const name = el("strong", { class: "ba-name" });
  const facts = el("span", { class: "ba-facts" });
  const problem = el("div", { class: "ba-problem", hidden: true });
  const spoken = el("span", { class: "ba-spoken", role: "status" });
  const element = el("header", { class: "ba-header" }, el("div", { class: "ba-title" }, badge, name, facts), ...parts, problem, spoken);

  /** @param {{name: string, facts?: string, problem: string, state?: string | undefined, colour?: string | undefined, spoken?: string}} now `colour`: the state whose colour the badge has */
  const update = (now) => {
    badge.hidden = !now.state;
    setText(badge, now.state ?? "");
    badge.dataset.state = now.colour ?? now.state ?? "";
    setText(name, now.name);
    name.title = now.name;
    setText(facts, now.facts ?? "");
    problem.hidden = !now.problem;
    setText(problem, now.problem);
    setText(spoken, now.spoken ?? "");
  };
  return { element, update };
}

/** A paragraph for each sentence; a text that the user has selected in an unchanged one stays selected. */
export function sentenceList() {
  const element = el("div", { class: "ba-sentences" });
  /** @param {string[]} sentences */
  const update = (sentences) => {
    if (element.dataset.text === sentences.join("\n")) return;
    element.dataset.text = sentences.join("\n");
    element.replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
  };
  return { element, update };
}
