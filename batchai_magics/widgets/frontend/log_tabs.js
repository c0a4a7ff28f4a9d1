// The tabs over the log: its files, one per node's preparation among them, then the output files; and whose lines.

import { el } from "./dom.js";
import { nodeName } from "./format.js";

export const FILES = "/files"; // no log can have this name
const STAMP = /(-\d{8}t\d{6}z(-p)?)?\.(txt|log)$/;

/** @param {string} file */
function labelOf(file) {
  return nodeName(file.replace(STAMP, "")).replace("-node", " node").replace(/(-)?job_prep$/, " preparation");
}

export class LogTabs {
  /** @param {(tab: string, rank: number | null) => void} opened */
  constructor(opened) {
    this.opened = opened;
    this.current = "";
    /** @type {string[]} */
    this.names = [];
    this.list = el("div", { class: "ba-tabs", role: "tablist", "aria-label": "output" });
    this.ranks = el("select", {
      class: "ba-select",
      "aria-label": "Lines of",
      title: "Whose lines to show",
      hidden: true,
      change: () => this.open(this.current),
    });
    this.element = el("div", { class: "ba-tab-row" }, this.list, this.ranks);
  }

  /** Whose lines are shown; null: everybody's. */
  get rank() {
    return this.ranks.hidden || !this.ranks.value ? null : Number(this.ranks.value);
  }

  /**
   * @param {string[]} logs
   * @param {number} ranks how many processes can be told apart
   */
  offer(logs, ranks) {
    if (this.ranks.options.length !== ranks + 1) {
      const chosen = this.ranks.value;
      const each = Array.from({ length: ranks }, (_, rank) => el("option", { value: rank }, `rank ${rank}`));
      this.ranks.replaceChildren(el("option", { value: "" }, "all ranks"), ...each);
      this.ranks.value = chosen;
    }
    const names = [...logs, FILES];
    if (names.join("\n") !== this.names.join("\n")) this.#make(names);
    this.#mark();
  }

  /** @param {string} tab */
  open(tab) {
    this.current = tab;
    this.#mark();
    const element = this.#tab(tab);
    if (element) this.list.scrollLeft = element.offsetLeft - this.list.offsetLeft - element.offsetWidth / 2;
    this.opened(tab, this.rank);
  }

  /** @param {string[]} names */
  #make(names) {
    this.names = names;
    const had = this.list.contains(document.activeElement);
    this.list.replaceChildren(
      ...names.map((name) =>
        el(
          "button",
          {
            type: "button",
            role: "tab",
            class: "ba-tab",
            "data-file": name,
            title: name === FILES ? "What the job wrote" : name,
            click: () => this.open(name),
            keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
          },
          name === FILES ? "Files" : labelOf(name),
        ),
      ),
    );
    if (had) this.#tab(this.current)?.focus({ preventScroll: true });
  }

  #mark() {
    this.ranks.hidden = this.ranks.options.length < 3 || !/^std(out|err)\.txt$/.test(this.current);
    for (const tab of /** @type {NodeListOf<HTMLElement>} */ (this.list.querySelectorAll("[role=tab]"))) {
      const isOpen = tab.dataset.file === this.current;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
    }
  }

  /** @param {string} name */
  #tab(name) {
    return /** @type {HTMLElement | undefined} */ (this.list.children[this.names.indexOf(name)]);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    const next = /** @type {string} */ (this.names[(this.names.indexOf(this.current) + way + this.names.length) % this.names.length]);
    this.open(next);
    this.#tab(next)?.focus();
    event.preventDefault();
  }
}
