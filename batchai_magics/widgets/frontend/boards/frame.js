// What the views of boards have in common: an article in the page, its line to the kernel, a place for short notes.

import { el, setText } from "../core/dom.js";
import { BUSY, gone, holdWhileUsed, onKernelLost } from "../core/kernel.js";
import { hideSnapshot } from "../core/snapshot.js";
import { BoardLine } from "./line.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */

const ASKING = ".ba-scale :is(button, input, select), .ba-open"; // what asks the kernel

export class BoardFrame {
  /** Called when the kernel is gone. */
  onLost = () => {};

  /** @type {(() => void)[]} */
  #endings = [];

  /**
   * @param {BoardModel} model
   * @param {string} noun what it shows, for a sentence
   */
  constructor(model, noun) {
    this.model = model;
    this.noun = noun;
    this.note = el("span", { class: "ba-note", role: "status" });
    this.line = new BoardLine(model, (isBusy) => setText(this.note, isBusy ? BUSY : ""));
  }

  /**
   * Puts the view into the page, in the place of its still picture.
   * @param {HTMLElement} root
   * @param {string} label
   * @param {...Node} parts
   */
  show(root, label, ...parts) {
    const view = el("article", { class: "ba-view ba-board", "aria-label": label, "data-lm-suppress-shortcuts": "true" }, ...parts);
    holdWhileUsed(view, (content) => this.line.tell(content));
    const showSnapshot = hideSnapshot(this.model.get("view_id"), view, () => this.line.isAnswered);
    root.append(view);
    const stopWatching = onKernelLost(this.model, () => this.#lost(view));
    this.#endings.push(showSnapshot, stopWatching, () => view.remove());
  }

  /**
   * Calls `update` now, and whenever one of the traits changes.
   * @param {string[]} traits
   * @param {() => void} update
   */
  watch(traits, update) {
    for (const trait of traits) {
      this.model.on(`change:${trait}`, update);
      this.#endings.push(() => this.model.off(`change:${trait}`, update));
    }
    update();
  }

  /** @param {HTMLElement} view */
  #lost(view) {
    this.line.lose();
    setText(this.note, gone(this.noun));
    for (const control of view.querySelectorAll(ASKING)) /** @type {HTMLButtonElement} */ (control).disabled = true;
    for (const badge of view.querySelectorAll(".ba-badge")) /** @type {HTMLElement} */ (badge).dataset.lost = "true";
    this.onLost();
  }

  /** Takes the view out of the page, and says that nobody looks any more. */
  close() {
    this.line.close();
    for (const end of this.#endings) end();
  }
}
