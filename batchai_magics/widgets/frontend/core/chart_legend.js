// The legend of a chart: the values at one point, as buttons that hide their lines.

import { el, rulerOf, setText } from "./dom.js";

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
    /** @type {Entry[]} */
    this.entries = [];
    this.element = el("div", { class: "ba-readout" }, this.step);
    /** @type {((text: string) => number) | null} */
    this.ruler = null;
  }

  /** Measures texts again from now on, since the font may have changed. */
  resized() {
    this.ruler = null;
  }

  /**
   * The width in pixels that these texts need on one line.
   * @param {string} step
   * @param {Entry[]} entries
   */
  widthOf(step, entries) {
    return entries.reduce((sum, { text }) => sum + VALUE_GAP_PX + this.#reserved(text, SWATCH_PX), VALUE_GAP_PX + this.#reserved(step));
  }

  /** @type {(text: string, more?: number) => number} */
  #reserved(text, more = 0) {
    this.ruler ??= rulerOf(this.element);
    return Math.ceil(this.ruler(withAllDigits(text))) + more;
  }

  /**
   * Keeps the width that the longest text so far needs, so that nothing moves.
   * @type {(element: HTMLElement, text: string, more?: number) => void}
   */
  #reserve(element, text, more) {
    const width = this.#reserved(text, more);
    if (width > parseFloat(element.style.minWidth || "0")) element.style.minWidth = `${width}px`;
  }

  /**
   * @param {string} step
   * @param {Entry[]} entries
   */
  show(step, entries) {
    this.entries = entries;
    setText(this.step, step);
    this.#reserve(this.step, step);
    const keys = entries.map((entry) => entry.key).join("\n");
    if (this.element.dataset.keys !== keys) this.#make(entries, keys);
    for (const { key, text } of entries) {
      const entry = this.buttons.get(key);
      if (!entry || entry.text.data === text) continue;
      entry.text.data = text;
      this.#reserve(entry.button, text, SWATCH_PX);
    }
    this.element.title = [step, ...entries.map((entry) => entry.text)].filter(Boolean).join(", ");
  }

  /**
   * @param {Entry[]} entries
   * @param {string} keys
   */
  #make(entries, keys) {
    this.element.dataset.keys = keys;
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

/** A text as long as its numbers can make it: with all their digits, each the widest one. @param {string} text */
export function withAllDigits(text) {
  return text.replace(NUMBER, (number) => number.padEnd(DIGITS, "0")).replace(/\d/g, "0");
}

const NUMBER = /\d+\.\d*/g; // counts do not get decimals
const DIGITS = 6; // of a number, with its point
const SWATCH_PX = 11; // with its margin
const VALUE_GAP_PX = 7; // before each value
