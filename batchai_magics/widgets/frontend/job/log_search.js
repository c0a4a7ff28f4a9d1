// The search in a log: in the loaded rows or, if some are not loaded, in the whole file by the kernel.

import { el, setText } from "../core/dom.js";
import { numbersOf } from "./job_data.js";
import { isGap } from "./log_rows.js";
import { finder, isRisky, plain } from "./log_text.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("./log_window.js").LogWindow} LogWindow */

const TYPING_MS = 250;
const GROWING_MS = 1000; // between searches while the log grows
const BUDGET_MS = 80; // for searching the loaded rows
const BLOCK = 2000; // offsets per reply of the kernel
/** @type {Set<number>} */
const NONE = new Set();

/**
 * The offset of the first line that looks like an error; null without one. The kernel scans a piece per request.
 * @param {Pick<JobSession, "request">} session
 * @param {string} file
 * @param {number | null} rank
 * @returns {Promise<number | null>}
 */
export async function firstError(session, file, rank) {
  for (;;) {
    const { content } = await session.request({ kind: "first_error", file, rank });
    if (typeof content.offset === "number") return content.offset;
    if (content.complete !== false) return null; // all is scanned, or it failed
  }
}

export class LogSearch {
  /**
   * @param {JobSession} session
   * @param {LogWindow} view
   * @param {(offset: number) => void} reveal shows a line
   */
  constructor(session, view, reveal) {
    this.session = session;
    this.view = view;
    this.reveal = reveal;
    this.isRegex = false;
    this.error = "";
    this.total = 0;
    this.at = -1; // index of the current match
    this.isWhole = true; // the whole file has been searched
    this.first = 0; // index of the first of `offsets`
    /** @type {ArrayLike<number>} */
    this.offsets = [];
    this.turn = 0; // number of the search: replies to older ones are ignored
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined; // until the input is searched for
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.growing = undefined; // until appended lines are searched, too
    this.asked = 0; // pending requests of this turn
    this.input = el("input", {
      type: "search",
      class: "ba-search",
      placeholder: "Search the log",
      "aria-label": "Search the log",
      spellcheck: "false",
      input: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.run(true), TYPING_MS);
      },
      keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
    });
    this.regex = this.#icon("Regular expression", ".*", () => this.#toggleRegex());
    this.regex.setAttribute("aria-pressed", "false");
    this.count = el("span", { class: "ba-count", "aria-live": "polite" });
    this.element = el(
      "div",
      { class: "ba-find", role: "group", "aria-label": "search" },
      this.count,
      this.input,
      this.regex,
      this.#icon("Previous match", "↑", () => this.go(-1)),
      this.#icon("Next match", "↓", () => this.go(1)),
    );
  }

  /** Called when the log has grown. */
  grown() {
    if (!this.input.value || this.growing !== undefined) return;
    this.growing = setTimeout(() => {
      this.growing = undefined;
      if (this.asked) this.grown(); // searching again would discard pending replies
      else this.run(false);
    }, GROWING_MS);
  }

  /** Focuses the search field. */
  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Stops timers; pending replies are ignored. */
  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.growing);
    this.turn += 1;
  }

  /** Runs the search; a new one goes to the last match. @param {boolean} isNew */
  run(isNew) {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.turn += 1;
    this.asked = 0;
    const isHard = this.isRegex && isRisky(this.input.value);
    const { find, error } = finder(isHard ? "" : this.input.value, this.isRegex);
    this.view.find = find;
    this.error = error;
    this.input.setAttribute("aria-invalid", String(Boolean(error)));
    if (isNew) [this.at, this.total, this.offsets, this.view.current] = [-1, 0, [], null];
    this.#mark();
    if (isHard || (find && !this.#searchHere(isNew))) void this.#askKernel(this.turn, isNew);
    this.#show();
  }

  /** @param {number} way 1 for the next match, -1 for the previous one */
  async go(way) {
    if (!this.total) return;
    this.at = this.at < 0 ? (way < 0 ? this.total - 1 : 0) : (this.at + way + this.total) % this.total;
    let offset = this.#offset();
    if (offset === undefined) {
      await this.#ask(Math.floor(this.at / BLOCK) * BLOCK, this.turn);
      offset = this.#offset();
    }
    if (offset !== undefined) this.reveal(offset);
    this.#show();
  }

  #offset() {
    return this.offsets[this.at - this.first];
  }

  /** Searches the loaded rows; returns whether they are the whole file. @param {boolean} isNew */
  #searchHere(isNew) {
    const find = this.view.find;
    const started = performance.now();
    /** @type {number[]} */
    const hits = [];
    let isAll = true;
    for (const row of this.view.log.rows) {
      if (isGap(row)) isAll = false;
      else if (find?.(plain(row.text)).length) hits.push(row.start);
      if (performance.now() - started > BUDGET_MS) isAll = false;
      if (!isAll) break;
    }
    if (!isAll) return false;
    [this.offsets, this.first, this.total, this.isWhole] = [hits, 0, hits.length, true];
    if (isNew) void this.go(-1);
    return true;
  }

  /**
   * @param {number} turn
   * @param {boolean} isNew
   */
  async #askKernel(turn, isNew) {
    this.isWhole = false;
    do {
      await this.#ask(isNew || !this.offsets.length ? -1 : this.first, turn);
      if (turn !== this.turn) return;
      this.#show();
    } while (!this.isWhole && !this.error);
    if (isNew) await this.go(-1);
  }

  /**
   * @param {number} first
   * @param {number} turn
   */
  async #ask(first, turn) {
    const search = { kind: "search", file: this.view.log.file, rank: this.view.log.rank, first };
    this.asked += 1;
    const { content, buffers } = await this.session.request({ ...search, query: this.input.value, regex: this.isRegex });
    if (turn !== this.turn) return;
    this.asked -= 1;
    this.error = content.text ?? "";
    this.total = content.total ?? 0;
    this.first = content.first ?? 0;
    this.isWhole = content.complete ?? true;
    this.offsets = numbersOf(Float64Array, buffers[0]);
    if (!this.view.find) this.#mark();
  }

  /** Highlights matches, or whole rows if only the kernel can evaluate the expression. */
  #mark() {
    this.view.hits = this.input.value && !this.view.find ? new Set(Array.from(this.offsets)) : NONE;
    this.view.redraw();
  }

  #show() {
    this.count.title = this.error || (this.isWhole ? "" : "Searching the whole file");
    if (this.error) setText(this.count, "invalid expression");
    else if (!this.input.value) setText(this.count, "");
    else if (!this.total) setText(this.count, this.isWhole ? "none" : "searching …");
    else setText(this.count, `${(this.at + 1).toLocaleString("en")} of ${this.total.toLocaleString("en")}${this.isWhole ? "" : "+"}`);
  }

  #toggleRegex() {
    this.isRegex = !this.isRegex;
    this.regex.setAttribute("aria-pressed", String(this.isRegex));
    this.run(true);
  }

  /**
   * @param {string} label
   * @param {string} sign
   * @param {() => void} click
   */
  #icon(label, sign, click) {
    return el("button", { type: "button", class: "ba-icon", title: label, "aria-label": label, click }, sign);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key === "Enter") {
      if (this.timer !== undefined) this.run(true);
      else void this.go(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.input.value = "";
      this.run(true);
      this.view.box.focus({ preventScroll: true });
    }
  }
}
