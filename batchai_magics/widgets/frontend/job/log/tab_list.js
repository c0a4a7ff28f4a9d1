// A row of tabs: one is open; the arrow keys, Home and End go from one to the next.

import { el } from "../../core/dom.js";

/** @typedef {{key: string, label: string, title?: string, colour?: string, name?: string}} Tab  `name`: for a screen reader */

export class TabList {
  /**
   * @param {string} label what the tabs are, for a screen reader
   * @param {(key: string) => void} chosen the reader has chosen a tab
   */
  constructor(label, chosen) {
    this.chosen = chosen;
    /** @type {Tab[]} */
    this.tabs = [];
    this.current = "";
    this.element = el("div", {
      class: "ba-tabs",
      role: "tablist",
      "aria-label": label,
      keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
    });
  }

  /**
   * Offers these tabs; those that are there stay as they are.
   * @param {Tab[]} tabs
   */
  offer(tabs) {
    if (JSON.stringify(tabs) === JSON.stringify(this.tabs)) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.tabs = tabs;
    this.element.replaceChildren(...tabs.map((tab) => this.#button(tab)));
    this.mark(this.current);
    if (hadFocus) this.#find(this.current)?.focus({ preventScroll: true });
  }

  /**
   * Shows a tab as the open one.
   * @param {string} key
   */
  mark(key) {
    this.current = key;
    const isThere = this.#find(key) !== undefined;
    this.tabs.forEach((tab, i) => {
      const button = /** @type {HTMLElement} */ (this.element.children[i]);
      button.setAttribute("aria-selected", String(tab.key === key));
      button.tabIndex = tab.key === key || (!isThere && i === 0) ? 0 : -1;
    });
    this.#bringIntoSight(key);
  }

  /** @param {Tab} tab */
  #button({ key, label, title, colour, name }) {
    return el(
      "button",
      {
        type: "button",
        role: "tab",
        class: "ba-tab",
        "data-key": key,
        "aria-label": name,
        title: title ?? name,
        style: colour && `--ba-mark: var(${colour})`,
        click: () => this.chosen(key),
      },
      label,
    );
  }

  /** @param {string} key */
  #bringIntoSight(key) {
    const button = this.#find(key);
    const { element } = this;
    if (!button) return;
    const start = button.offsetLeft - element.offsetLeft;
    if (start < element.scrollLeft) element.scrollLeft = start;
    else if (start + button.offsetWidth > element.scrollLeft + element.clientWidth) {
      element.scrollLeft = start + button.offsetWidth - element.clientWidth;
    }
  }

  /** @param {string} key */
  #find(key) {
    const at = this.tabs.findIndex((tab) => tab.key === key);
    return /** @type {HTMLElement | undefined} */ (this.element.children[at]);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const { length } = this.tabs;
    const at = this.tabs.findIndex((tab) => tab.key === this.current);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: length - 1 }[event.key];
    if (next === undefined) return;
    const tab = /** @type {Tab} */ (this.tabs[(next + length) % length]);
    this.chosen(tab.key);
    this.#find(tab.key)?.focus({ preventScroll: true });
    event.preventDefault();
  }
}
