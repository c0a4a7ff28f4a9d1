// What is under the cursor, in words; each value is a button that hides its line.

import { el, setText } from "../dom.js";

/** @typedef {{key: string, text: string, colour: string, isDashed?: boolean}} Entry */

export class Legend {
  /** @param {(key: string) => void} toggle */
  constructor(toggle) {
    this.toggle = toggle;
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.step = el("span", { class: "ba-value" });
    /** @type {Map<string, {button: HTMLElement, text: Text}>} */
    this.buttons = new Map();
    this.element = el("div", { class: "ba-readout" }, this.step);
  }

  /**
   * @param {string} step
   * @param {Entry[]} entries
   */
  show(step, entries) {
    setText(this.step, step);
    const wanted = entries.map((entry) => entry.key).join("\n");
    if (this.element.dataset.keys !== wanted) this.#make(entries, wanted);
    for (const { key, text } of entries) {
      const made = this.buttons.get(key);
      if (made && made.text.data !== text) made.text.data = text;
    }
    this.element.title = [step, ...entries.map((entry) => entry.text)].filter(Boolean).join(", ");
  }

  /** What is shown, as one text. */
  get words() {
    return this.element.title;
  }

  /**
   * @param {Entry[]} entries
   * @param {string} wanted
   */
  #make(entries, wanted) {
    this.element.dataset.keys = wanted;
    this.buttons.clear();
    for (const { key, colour, isDashed } of entries) {
      const text = document.createTextNode("");
      const swatch = el("i", { class: isDashed ? "ba-swatch ba-dashed" : "ba-swatch", style: `background: ${colour ? `var(${colour})` : "var(--ba-muted)"}` });
      const button = el(
        "button",
        { type: "button", class: "ba-value", "aria-pressed": String(!this.hidden.has(key)), click: () => this.#click(key) },
        swatch,
        text,
      );
      this.buttons.set(key, { button, text });
    }
    this.element.replaceChildren(this.step, ...[...this.buttons.values()].map(({ button }) => button));
  }

  /** @param {string} key */
  #click(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.buttons.get(key)?.button.setAttribute("aria-pressed", String(!this.hidden.has(key)));
    this.toggle(key);
  }
}
