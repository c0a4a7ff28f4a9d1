// What failed first, with its last words; those of the other processes are folded.

import { logLine } from "./cell_link.js";
import { el } from "./dom.js";
import { counted, nodeName } from "./format.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./types.d.ts").Failure} Failure */
/** @typedef {import("./types.d.ts").LastWords} LastWords */
/** @typedef {import("./types.d.ts").Facts} Facts */

/**
 * @param {Session} session
 * @param {(offset: number, file: string) => void} reveal shows a line of a log
 * @returns {{element: HTMLElement, update: () => void}}
 */
export function failurePanel(session, reveal) {
  const element = el("section", { class: "ba-failure", "aria-label": "first failure", hidden: true });
  let isAsked = false;

  const update = async () => {
    const facts = /** @type {Facts} */ (session.model.get("facts"));
    if (isAsked || facts.state !== "failed") return;
    isAsked = true;
    const first = facts.first_failure;
    if (first) {
      element.replaceChildren(el("span", { class: "ba-label" }, titleOf({ ...first, file: "", offset: 0, lines: [], others: [] })));
      element.hidden = false;
    }
    const { content } = await session.request({ kind: "failure" });
    const failure = /** @type {Failure | undefined} */ (content.failure);
    if (!failure?.lines?.length && !failure?.others?.length) return;
    draw(failure, facts);
  };

  /**
   * @param {Failure} failure
   * @param {Facts} facts
   */
  const draw = (failure, facts) => {
    const source = { script: facts.script, job: facts.name };
    const log = el("div", { class: "ba-words", tabindex: 0, role: "group", "aria-label": "last lines" });
    const jump = el(
      "button",
      { type: "button", class: "ba-button ba-small", click: () => reveal(failure.offset, failure.file) },
      "Show in the log",
    );
    const head = el("div", { class: "ba-failure-head" }, el("span", { class: "ba-label" }, titleOf(failure)), jump);
    element.replaceChildren(head, log);
    element.hidden = false;
    log.append(...failure.lines.map((line) => logLine(line, source, element)));
    log.scrollTop = log.scrollHeight;
    if (failure.others.length) element.append(rest(failure, source, element));
  };
  return { element, update };
}

/** @param {Failure} failure */
function titleOf(failure) {
  if (failure.rank === undefined) return `Job preparation failed: ${failure.file}`;
  return `Rank ${failure.rank} on ${nodeName(failure.node ?? "")} failed first, with exit code ${failure.exit_code}`;
}

/**
 * @param {Failure} failure
 * @param {{script: string, job: string}} source
 * @param {HTMLElement} near
 */
function rest(failure, source, near) {
  const count = failure.others.length + (failure.more ?? 0);
  const each = failure.others.map((other) => {
    const title = `Rank ${other.rank} on ${nodeName(other.node ?? "")}: exit code ${other.exit_code}`;
    const words = other.lines.map((line) => logLine(line, source, near));
    return el("div", { class: "ba-other" }, el("div", {}, title), ...words);
  });
  return el("details", { class: "ba-others" }, el("summary", {}, count === 1 ? "1 other process" : `${counted(count, "other processe")}`), ...each);
}
