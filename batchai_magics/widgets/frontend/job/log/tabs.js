// The tabs over the log: its files, what failed first, the output files; and below, whose lines: of which rank or node.

import { rankColour } from "../../core/chart_style.js";
import { el, setText } from "../../core/dom.js";
import { groupsOf, isRanked, ownerOf } from "./groups.js";
import { MERGED } from "./ranks.js";
import { TabList } from "./tab_list.js";

/** @typedef {import("./groups.js").Group} Group */
/** @typedef {import("./tab_list.js").Tab} Tab */

export const FILES = "/files"; // no log can have this name
export const FAILURE = "/failure";
const MOST_TABS = 8; // for ranks or nodes; more of them are in a list
const ALL = "all";

export class LogTabs {
  /** @param {(tab: string, rank: number | null) => void} opened a log file, FILES or FAILURE */
  constructor(opened) {
    this.opened = opened;
    this.current = ""; // the file, FILES or FAILURE
    this.hasFailure = false;
    this.isChosen = false; // the reader has opened some tab
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
   * @param {number} ranks how many processes can be told apart
   */
  offer(files, ranks) {
    this.groups = groupsOf(files);
    this.ranks = ranks > 1 ? ranks : 0;
    const failure = this.hasFailure ? [{ key: FAILURE, label: "First failure" }] : [];
    const logs = this.groups.map(({ key, label, files: [first = "", ...more] }) => ({
      key,
      label,
      title: more.length ? `${label} of each node` : first === MERGED ? "stdout and stderr as they were written" : first,
    }));
    this.list.offer([...failure, ...logs, { key: FILES, label: "Files", title: "What the job wrote" }]);
    this.#mark();
  }

  /** @param {string} key */
  #opened(key) {
    this.isChosen = true;
    this.open(key);
  }

  /**
   * Opens a tab: a log with the ranks or the node that were chosen there before.
   * @param {string} key
   */
  open(key) {
    this.show(this.#group(key)?.files.find((file) => file === this.current) ?? key);
  }

  /**
   * Opens a file, FILES or FAILURE.
   * @param {string} tab
   */
  show(tab) {
    this.current = tab;
    this.#mark();
    this.opened(tab, isRanked(tab) && this.ranks && this.rank !== ALL ? Number(this.rank) : null);
  }

  /**
   * Opens a file with the lines of all ranks.
   * @param {string} file
   */
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
    const isShort = choices.length <= MOST_TABS + 1;
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
   * Whose lines can be shown alone.
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
