// What failed first, with its last words; those of the other processes are folded.

import { el } from "../core/dom.js";
import { counted, nodeName } from "../core/format.js";
import { logLine } from "./cell_link.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./messages.d.ts").Failure} Failure */
/** @typedef {import("./messages.d.ts").LastWords} LastWords */
/** @typedef {import("./messages.d.ts").Facts} Facts */

export class FailurePanel {
  /**
   * @param {Session} session
   * @param {{found: () => void, reveal: (offset: number, file: string) => void}} on
   */
  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.isAsked = false;
    /** @type {HTMLElement | undefined} */
    this.last = undefined; // of its words
    this.words = el("div", { class: "ba-words", tabindex: 0, role: "group", "aria-label": "last lines" });
    const label = `first failure of ${session.model.get("facts").name}`;
    this.element = el("section", { class: "ba-failure", "aria-label": label, hidden: true });
  }

  /** Asks for the failure, once the job has failed. */
  async update() {
    const facts = /** @type {Facts} */ (this.session.model.get("facts"));
    if (this.isAsked || facts.state !== "failed") return;
    this.isAsked = true;
    const { content } = await this.session.request({ kind: "failure" });
    const failure = /** @type {Failure | undefined} */ (content.failure);
    if (!failure?.lines?.length && !failure?.others?.length) return;
    this.#draw(failure, facts);
    this.on.found();
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.element.hidden = !isShown;
    if (!isShown || !this.last) return;
    const end = this.last.offsetTop + this.last.offsetHeight - this.words.offsetTop;
    this.words.scrollTop = Math.max(0, end - this.words.clientHeight);
  }

  /**
   * @param {Failure} failure
   * @param {Facts} facts
   */
  #draw(failure, facts) {
    const jump = el(
      "button",
      { type: "button", class: "ba-button ba-small", click: () => this.on.reveal(failure.offset, failure.file) },
      "Show in the log",
    );
    const head = el("div", { class: "ba-failure-head" }, el("span", { class: "ba-label" }, wordsTitle(failure)), jump);
    const lines = (/** @type {LastWords} */ { lines: all }) =>
      all.map((line) => logLine(line, { script: facts.script, job: facts.name }, this.element));
    const words = lines(failure);
    this.last = words[words.length - 1];
    this.words.replaceChildren(...words);
    if (failure.before?.length) {
      const heading = el("div", { class: "ba-before" }, "its last lines on stdout");
      this.words.append(heading, ...lines({ file: "", offset: 0, lines: failure.before }));
    }
    this.element.replaceChildren(head, this.words, ...(failure.others.length ? [rest(failure, lines)] : []));
  }
}

/**
 * What failed first, in one sentence.
 * @param {{rank?: number, node?: string, exit_code?: number, meaning?: string}} failure
 */
export function failureTitle({ rank, node = "", exit_code: code, meaning = "" }) {
  const words = meaning && `: ${meaning}`;
  return `Rank ${rank} on ${nodeName(node)} failed first, with exit code ${code}${words}`;
}

/**
 * Whose last words these are: how that failed stands in the head of the view.
 * @param {LastWords} words
 */
function wordsTitle({ rank, file }) {
  return rank === undefined ? `The last lines of ${file}` : `The last lines of rank ${rank} in ${file}`;
}

/**
 * @param {Failure} failure
 * @param {(words: LastWords) => HTMLElement[]} lines
 */
function rest(failure, lines) {
  const count = failure.others.length + (failure.more ?? 0);
  const each = failure.others.map((other) => {
    const title = `Rank ${other.rank} on ${nodeName(other.node ?? "")}: exit code ${other.exit_code}${other.meaning ? `: ${other.meaning}` : ""}`;
    return el("div", { class: "ba-other" }, el("div", {}, title), ...lines(other));
  });
  return el("details", { class: "ba-others" }, el("summary", {}, count === 1 ? "1 other process" : `${counted(count, "other processe")}`), ...each);
}
