// The live view of a job, or of several, opened within a dashboard; in a plain page it has an address of its own.

import { el, setText } from "../core/dom.js";

/** @typedef {import("../core/messages.d.ts").ChildView} ChildView */
/** @typedef {import("./dashboard.js").Dashboard} Dashboard */

const TICKS_MS = 400; // after a tick, before jobs are compared: others may follow

/** An area below the table that holds the live view of a job, or of several. */
export class OpenedView {
  /** @type {string[]} */
  #names = []; // of the jobs
  /** @type {ChildView | null} */
  #view = null;
  #box = el("div", { class: "ba-opened-view" });
  #label = el("span", { class: "ba-label" });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {Dashboard} dashboard
   * @param {(names: string[]) => string} titleOf
   */
  constructor(dashboard, titleOf) {
    this.dashboard = dashboard;
    this.titleOf = titleOf;
    this.onChange = (/** @type {string[]} */ _names) => {}; // called with the names of the open jobs
    this.onClose = () => {}; // called when the user closes it
    const close = el("button", { type: "button", class: "ba-button", click: () => (this.close(), this.onClose()) }, "Close");
    const head = el("div", { class: "ba-opened-head" }, this.#label, close);
    this.element = el("section", { class: "ba-opened", hidden: true }, head, this.#box);
  }

  /** Opens jobs, or closes them if they are open. @param {string[]} names */
  async toggle(names) {
    const link = this.dashboard.host.get("link");
    if (link) location.href = link(names.length > 1 ? "compare" : "job", names);
    else if (this.close() !== names.join("\n")) await this.open(names);
  }

  /** Opens these jobs instead of others, unless yet others follow soon. @param {string[]} names */
  openSoon(names) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.open(names), TICKS_MS);
  }

  /** Opens these jobs; the open ones stay until these can be shown. @param {string[]} names */
  async open(names) {
    this.#names = names;
    this.onChange(names);
    this.element.hidden = false;
    this.element.setAttribute("aria-label", this.titleOf(names));
    setText(this.#label, this.titleOf(names));
    const { content } = await this.dashboard.connection.ask({ kind: "open", names });
    if (this.#names !== names) return;
    setText(this.dashboard.note, content.text);
    const embed = this.dashboard.host.get("embed");
    const view = content.model && embed ? await embed(content.model) : null;
    if (this.#names !== names) view?.remove();
    else if (view) this.#show(view);
    else this.close();
  }

  /** Closes the open jobs and returns their names, a line each. */
  close() {
    const names = this.#names;
    clearTimeout(this.#timer);
    this.#names = [];
    this.element.hidden = true;
    this.#view?.remove();
    this.#view = null;
    this.#box.replaceChildren();
    if (names.length) this.onChange([]);
    return names.join("\n");
  }

  /** @param {ChildView} view */
  #show(view) {
    this.#view?.remove();
    this.#view = view;
    this.#box.replaceChildren(view.el);
    this.element.scrollIntoView({ block: "nearest" });
  }
}
