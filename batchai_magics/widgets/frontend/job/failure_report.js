// What failed first, with its last output, and links from tracebacks to lines of the cell.

import { el } from "../core/dom.js";
import { counted, nodeName } from "../core/format.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("../core/messages.d.ts").Failure} Failure */
/** @typedef {import("../core/messages.d.ts").LastOutput} LastOutput */
/** @typedef {import("../core/messages.d.ts").JobFacts} JobFacts */

const FIRST_LINE = 2; // of the script in its cell, after the magic line
const FOLDER = /File "[^"]*[/\\](?=[^"/\\]+", line)/; // the script's folder is not useful to show
const MARKS = /^\s*[~^][~^\s]*$/; // below the code that failed
const PLACE = /File "(?:[^"]*[/\\])?([^"/\\]+)", line (\d+)/;

/**
 * The line of the cell that a log line refers to.
 * @param {string} text
 * @param {string} script the file name of the cell's script
 * @returns {number | null}
 */
export function cellLine(text, script) {
  const match = script ? PLACE.exec(text) : null;
  return match && match[1] === script ? Number(match[2]) + FIRST_LINE - 1 : null;
}

/**
 * A log line; one that refers to the cell's script names the cell line, with a link if the front end allows it.
 * @param {string} text
 * @param {{script: string, job: string}} source
 * @param {HTMLElement} near an element of the view
 */
function logLine(text, { script, job }, near) {
  const number = cellLine(text, script);
  const line = el("div", { class: "ba-trace" }, number === null ? text || " " : text.replace(FOLDER, `File "`));
  if (number === null) return line;
  line.title = text.trim();
  const label = `cell line ${number}`;
  const go = () => goTo(editorOf(near, job), number);
  const canGo = editorOf(near, job) !== null;
  line.append(
    canGo
      ? el("button", { type: "button", class: "ba-cell-line", title: "Go to this line of the cell", click: go }, label)
      : el("span", { class: "ba-cell-line" }, label),
  );
  return line;
}

/**
 * The editor of the cell that submitted the job: the one above the view, or another cell that names the job.
 * @param {HTMLElement} near
 * @param {string} job
 * @returns {any} a CodeMirror view
 */
function editorOf(near, job) {
  const cell = near.closest(".jp-Cell");
  const notebook = near.closest(".jp-Notebook");
  const editors = [cell, ...(notebook?.querySelectorAll(".jp-CodeCell") ?? [])].map(viewIn).filter(Boolean);
  const name = job.replace(/-\d+$/, "");
  const starts = editors.map((editor) => /^%%batchai_job\s+(\S+)/.exec(editor.state.doc.line(1).text)?.[1]);
  const at = starts.findIndex((start) => start === job || start === name);
  return at < 0 ? null : editors[at];
}

/** @type {(cell: Element | null) => any} */
function viewIn(cell) {
  const content = /** @type {any} */ (cell?.querySelector(".jp-InputArea-editor .cm-content"));
  return content?.cmTile?.view ?? content?.cmView?.view ?? content?.cmView?.rootView?.view ?? null;
}

/**
 * @param {any} editor
 * @param {number} number
 */
function goTo(editor, number) {
  if (!editor) return;
  const { doc } = editor.state;
  const { from, to } = doc.line(Math.min(number, doc.lines));
  editor.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
  editor.focus();
  const { node } = editor.domAtPos(from);
  (node instanceof Element ? node : node.parentElement)?.scrollIntoView({ block: "center" });
}

export class FailurePanel {
  /**
   * @param {JobSession} session
   * @param {{found: () => void, reveal: (offset: number, file: string) => void}} on
   */
  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.isAsked = false;
    /** @type {HTMLElement | undefined} */
    this.last = undefined; // the last line
    this.words = el("div", { class: "ba-words", tabindex: 0, role: "group", "aria-label": "last lines" });
    const label = `first failure of ${session.host.get("facts").name}`;
    this.element = el("section", { class: "ba-failure", "aria-label": label, hidden: true });
  }

  /** Requests the failure report once the job has failed. */
  async update() {
    const facts = /** @type {JobFacts} */ (this.session.host.get("facts"));
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
   * @param {JobFacts} facts
   */
  #draw(failure, facts) {
    const jump = el(
      "button",
      { type: "button", class: "ba-button ba-small", click: () => this.on.reveal(failure.offset, failure.file) },
      "Show in the log",
    );
    const head = el("div", { class: "ba-failure-head" }, el("span", { class: "ba-label" }, `The last lines of ${failure.rank === undefined ? "" : `rank ${failure.rank} in `}${failure.file}`), jump);
    const lines = (/** @type {LastOutput} */ { lines: all }) =>
      all.map((text, index) => {
        const line = logLine(text, { script: facts.script, job: facts.name }, this.element);
        const isMarked = [text, all[index + 1] ?? ""].some((one) => MARKS.test(one));
        line.classList.toggle("ba-marked", isMarked);
        return line;
      });
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
 * @param {Failure} failure
 * @param {(words: LastOutput) => HTMLElement[]} lines
 */
function rest(failure, lines) {
  const count = failure.others.length + (failure.more ?? 0);
  const each = failure.others.map((other) => {
    const title = `Rank ${other.rank} on ${nodeName(other.node ?? "")}: exit code ${other.exit_code}${other.meaning ? `: ${other.meaning}` : ""}`;
    return el("div", { class: "ba-other" }, el("div", {}, title), ...lines(other));
  });
  return el("details", { class: "ba-others" }, el("summary", {}, count === 1 ? "1 other process" : `${counted(count, "other processe")}`), ...each);
}
