// What the views of boards have in common: an article in the page, its line to the kernel, a place for short notes.

import { el, setText } from "../core/dom.js";
import { BUSY, holdWhileUsed } from "../core/kernel.js";
import { hideSnapshot } from "../core/snapshot.js";
import { BoardLine } from "./line.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */

export class BoardFrame {
  /** @type {(() => void)[]} */
  #endings = [];

  /** @param {BoardModel} model */
  constructor(model) {
    this.model = model;
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
    this.#endings.push(showSnapshot, () => view.remove());
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

  /** Takes the view out of the page, and says that nobody looks any more. */
  close() {
    this.line.close();
    for (const end of this.#endings) end();
  }
}
