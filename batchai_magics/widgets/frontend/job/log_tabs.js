// The tabs over the log: its files, the first failure, the output files; below them, ranks or nodes.

import { rankColour } from "../core/chart_style.js";
import { el, oncePerFrame, setText } from "../core/dom.js";
import { nodeName } from "../core/format.js";
import { MERGED } from "./log_rows.js";

/** @typedef {{key: string, label: string, files: string[]}} Group  a tab: one file, or the file of each node */

const RANKED = /^(std(out|err)\.txt|\/output)$/;
const STAMP = /(-\d{8}t\d{6}z(-p)?)?\.(txt|log)$/;
const NODE = /-(tvm-[^.]*)(?=\.)/;
/** @type {[RegExp, string][]} */
const KNOWN = [
  [/^\/output$/, "output"],
  [/^stdout\.txt$/, "stdout"],
  [/^stderr\.txt$/, "stderr"],
  [/^stdout-job_prep/, "preparation"],
  [/^stderr-job_prep/, "preparation stderr"],
  [/^execution/, "execution"],
];

/** The tabs for these files, the most important first. @type {(files: string[]) => Group[]} */
export function groupsOf(files) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const file of files) {
    const label = KNOWN.find(([pattern]) => pattern.test(file))?.[1] ?? file.replace(STAMP, "");
    const group = groups.get(label);
    if (group) group.files.push(file);
    else groups.set(label, { key: file, label, files: [file] });
  }
  const order = KNOWN.map(([, label]) => label);
  const place = (/** @type {Group} */ group) => (order.indexOf(group.label) + 1 || order.length + 1);
  return [...groups.values()].sort((a, b) => place(a) - place(b));
}

/** Whether every rank may have written to the file. @param {string} file */
export function isRanked(file) {
  return RANKED.test(file);
}

/** The owner of a file, such as `node 2`, or the file's name if it names no node. @param {string} file */
export function ownerOf(file) {
  const node = NODE.exec(file)?.[1];
  return node ? nodeName(node) : file;
}

/** @typedef {{key: string, label: string, title?: string, colour?: string, name?: string}} Tab  `name`: for a screen reader */

class TabList {
  /**
   * @param {string} label of the tab list, for screen readers
   * @param {(key: string) => void} chosen called when the user chooses a tab
   */
  constructor(label, chosen) {
    this.chosen = chosen;
    /** @type {Tab[]} */
    this.tabs = [];
    this.current = "";
    this.sight = oncePerFrame(() => this.#bringIntoSight()); // earlier, this would lay out the page twice
    this.element = el("div", {
      class: "ba-tabs",
      role: "tablist",
      "aria-label": label,
      keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
    });
  }

  /** Updates the tabs. @param {Tab[]} tabs */
  offer(tabs) {
    if (JSON.stringify(tabs) === JSON.stringify(this.tabs)) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.tabs = tabs;
    this.element.replaceChildren(...tabs.map((tab) => this.#button(tab)));
    this.mark(this.current);
    if (hadFocus) this.#find(this.current)?.focus({ preventScroll: true });
  }

  /** Marks a tab as open. @param {string} key */
  mark(key) {
    this.current = key;
    const isThere = this.#find(key) !== undefined;
    this.tabs.forEach((tab, i) => {
      const button = /** @type {HTMLElement} */ (this.element.children[i]);
      button.setAttribute("aria-selected", String(tab.key === key));
      button.tabIndex = tab.key === key || (!isThere && i === 0) ? 0 : -1;
    });
    this.sight.ask();
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

  #bringIntoSight() {
    const button = this.#find(this.current);
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

export const FILES = "/files"; // no log can have this name
export const FAILURE = "/failure";
export const RECORD = "/record";
const RECORD_TAB = { key: RECORD, label: "Record", title: "Code, options and environment of the job" };
const MAX_TABS = 8; // for ranks or nodes; above this, a list is shown
const ALL = "all";

export class LogTabs {
  /** @param {(tab: string, rank: number | null) => void} opened called with a log file, FILES, FAILURE or RECORD */
  constructor(opened) {
    this.opened = opened;
    this.current = ""; // the file, FILES, FAILURE or RECORD
    this.hasFailure = false;
    this.isChosen = false; // the user has opened a tab
    /** @type {Group[]} */
    this.groups = [];
    this.ranks = 0;
    this.rank = ALL;
    this.list = new TabList("output", (key) => this.#opened(key));
    this.label = el("span", { class: "ba-whose-label", "aria-hidden": "true" });
    this.few = new TabList("lines of", (key) => this.#chosen(key));
    this.many = el("select", { class: "ba-select", "aria-label": "lines of", change: () => this.#chosen(this.many.value) });
    this.element = this.list.element;
    this.whose = el("div", { class: "ba-whose", hidden: true }, this.label, this.few.element, this.many);
  }

  /**
   * @param {string[]} files
   * @param {number} ranks number of ranks to which lines can be attributed
   */
  offer(files, ranks) {
    this.groups = groupsOf(files);
    this.ranks = ranks > 1 ? ranks : 0;
    const failure = this.hasFailure ? [{ key: FAILURE, label: "First failure" }] : [];
    const logs = this.groups.map(({ key, label, files: [first = "", ...more] }) => ({
      key,
      label,
      title: more.length ? `${label} of each node` : first === MERGED ? "stdout and stderr, in the order they were written" : first,
    }));
    this.list.offer([...failure, ...logs, { key: FILES, label: "Files", title: "What the job wrote" }, RECORD_TAB]);
    this.#mark();
  }

  /** @param {string} key */
  #opened(key) {
    this.isChosen = true;
    this.open(key);
  }

  /** Opens a tab: a log with its previously chosen rank or node. @param {string} key */
  open(key) {
    this.show(this.#group(key)?.files.find((file) => file === this.current) ?? key);
  }

  /** Opens a file, FILES, FAILURE or RECORD. @param {string} tab */
  show(tab) {
    this.current = tab;
    this.#mark();
    this.opened(tab, isRanked(tab) && this.ranks && this.rank !== ALL ? Number(this.rank) : null);
  }

  /** Opens a file with the lines of all ranks. @param {string} file */
  showAll(file) {
    this.rank = ALL;
    this.show(file);
  }

  /** @param {string} key */
  #chosen(key) {
    if (isRanked(this.current)) this.rank = key;
    this.show(isRanked(this.current) ? this.current : key);
  }

  /** @param {string} key a file, or the key of a tab */
  #group(key) {
    return this.groups.find((group) => group.key === key || group.files.includes(key));
  }

  #mark() {
    const group = this.#group(this.current);
    this.list.mark(group?.key ?? this.current);
    const [label, choices] = this.#choices(group);
    const chosen = isRanked(this.current) ? this.rank : this.current;
    const isShort = choices.length <= MAX_TABS + 1;
    this.whose.hidden = !choices.length;
    this.few.element.hidden = !isShort;
    this.many.hidden = isShort;
    setText(this.label, label);
    if (isShort) this.few.offer(choices);
    else if (this.many.options.length !== choices.length) {
      this.many.replaceChildren(...choices.map(({ key, name }) => el("option", { value: key }, name)));
    }
    this.few.mark(chosen);
    this.many.value = chosen;
  }

  /**
   * The ranks or nodes whose lines can be shown alone.
   * @param {Group | undefined} group
   * @returns {[string, Tab[]]}
   */
  #choices(group) {
    if (group && isRanked(group.key) && this.ranks) {
      const each = Array.from({ length: this.ranks }, (_, rank) => {
        return { key: String(rank), label: String(rank), name: `rank ${rank}`, colour: rankColour(rank) };
      });
      return ["ranks", [{ key: ALL, label: "all", name: "all ranks" }, ...each]];
    }
    if (!group || group.files.length < 2) return ["", []];
    const tabs = group.files.map((file) => {
      const name = ownerOf(file);
      return { key: file, label: name.replace(/^node /, ""), name, title: file };
    });
    return ["nodes", tabs];
  }
}
