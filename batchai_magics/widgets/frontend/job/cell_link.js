// From a line of a traceback to the line of the notebook cell that the script came from.

import { el } from "../core/dom.js";

const FIRST_LINE = 2; // of the script in its cell: the magic line is the first
const FOLDER = /File "[^"]*[/\\](?=[^"/\\]+", line)/; // where the script lay tells nobody anything
const PLACE = /File "(?:[^"]*[/\\])?([^"/\\]+)", line (\d+)/;

/**
 * Which line of the cell a log line is about.
 * @param {string} text
 * @param {string} script the file name of the cell's script
 * @returns {number | null}
 */
export function cellLine(text, script) {
  const place = script ? PLACE.exec(text) : null;
  return place && place[1] === script ? Number(place[2]) + FIRST_LINE - 1 : null;
}

/**
 * A log line; one about the cell's script says which line of the cell, and leads there where the page lets us.
 * @param {string} text
 * @param {{script: string, job: string}} source
 * @param {HTMLElement} near an element of the view
 */
export function logLine(text, { script, job }, near) {
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
 * The editor of the cell that the job came from: the one above the view, or another of the notebook that names it.
 * @param {HTMLElement} near
 * @param {string} job
 * @returns {any} a CodeMirror view
 */
function editorOf(near, job) {
  const own = near.closest(".jp-Cell");
  const notebook = near.closest(".jp-Notebook");
  const editors = [own, ...(notebook?.querySelectorAll(".jp-CodeCell") ?? [])].map(viewIn).filter(Boolean);
  const name = job.replace(/-\d+$/, "");
  const starts = editors.map((editor) => /^%%batchai_job\s+(\S+)/.exec(editor.state.doc.line(1).text)?.[1]);
  const at = starts.findIndex((start) => start === job || start === name);
  return at < 0 ? null : editors[at];
}

/**
 * @param {Element | null} cell
 * @returns {any}
 */
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
