// The text of a log line: terminal output resolved to styled spans, the matches of a query in it, its element.

import { rankColour } from "../core/chart_style.js";
import { el } from "../core/dom.js";
import { counted, size } from "../core/format.js";
import { foldElement } from "./log_folds.js";
import { isFold, isGap, isOfStderr, rankOf } from "./log_rows.js";

/** @typedef {import("./log_rows.js").ShownRow} Row */

/** @typedef {{text: string, classes: string}} Span */

// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Za-z0-9]|\x1b[=>78cDEHMNOZ]/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const MAX_LOOPS = 2; // unbounded repetitions
const MAX_REPEATS = 8; // of a group of variable length
const SIGN = /\\.|\[\^?\]?(?:\\.|[^\]])*\]|\{\d*,?\d*\}|\(\?[:=!]|[^]/g; // of an expression
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** The part of a line that a terminal shows after its carriage returns. @type {(line: string) => string} */
export function collapse(line) {
  if (!line.includes("\r")) return line;
  const parts = line.split("\r").filter((part) => part !== "");
  if (parts.some((part) => part.includes("\x1b"))) return parts[parts.length - 1] ?? "";
  return parts.reduce((shown, part) => part + shown.slice(part.length), "");
}

/** A line without escape sequences, as searched. @type {(line: string) => string} */
export function plain(line) {
  const text = collapse(line);
  return text.includes("\x1b") ? text.replace(SEQUENCE, "").replace(CONTROL, "") : text.replace(CONTROL, "");
}

/** The styled spans of a line; their texts joined are `plain(line)`. @type {(line: string) => Span[]} */
export function spans(line) {
  const text = collapse(line);
  if (!text.includes("\x1b")) return [{ text: text.replace(CONTROL, ""), classes: "" }];
  /** @type {Span[]} */
  const pieces = [];
  let style = new Style();
  let from = 0;
  const push = (/** @type {string} */ raw) => {
    const piece = raw.replace(CONTROL, "");
    if (piece) pieces.push({ text: piece, classes: style.classes });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = style.after(match[1] ?? "");
  }
  push(text.slice(from));
  return pieces;
}

/** The style after a number of escape sequences. */
class Style {
  /**
   * @param {string} [foreground]
   * @param {string} [background]
   * @param {ReadonlySet<string>} [marks]
   */
  constructor(foreground = "", background = "", marks = new Set()) {
    this.foreground = foreground;
    this.background = background;
    this.marks = marks;
  }

  /** The CSS classes of the style. */
  get classes() {
    return [this.foreground, this.background, ...this.marks].filter(Boolean).join(" ");
  }

  /** The style after one `ESC [ … m`. @type {(parameters: string) => Style} */
  after(parameters) {
    const codes = parameters.split(/[;:]/).map((code) => Number(code) || 0);
    let { foreground, background } = this;
    let marks = new Set(this.marks);
    for (let i = 0; i < codes.length; i += 1) {
      const code = /** @type {number} */ (codes[i]);
      const colour = COLOURS[code % 10] ?? "";
      if (code === 0) [foreground, background, marks] = ["", "", new Set()];
      else if (code === 1) marks.add("ba-bold");
      else if (code === 2) marks.add("ba-dim");
      else if (code === 3) marks.add("ba-italic");
      else if (code === 4) marks.add("ba-underline");
      else if (code === 22) ["ba-bold", "ba-dim"].forEach((mark) => marks.delete(mark));
      else if (code === 39) foreground = "";
      else if (code === 49) background = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) foreground = `ba-fg-${colour}`;
      else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) background = `ba-bg-${colour}`;
      else if (code === 38 || code === 48) {
        // 256 and 24-bit colours: only the first sixteen have an equivalent in the theme.
        const is256 = codes[i + 1] === 5;
        const index = codes[i + 2] ?? 0;
        const name = is256 && index < 16 ? COLOURS[index % 8] : "";
        if (code === 38) foreground = name ? `ba-fg-${name}` : "";
        else background = name ? `ba-bg-${name}` : "";
        i += is256 ? 2 : 4;
      }
    }
    return new Style(foreground, background, marks);
  }
}

/**
 * The element of a line with its colours and matches, or of a gap with its size.
 * @param {Row} row
 * @param {((text: string) => [number, number][]) | null} find
 * @param {boolean} isCurrent whether it is the current match
 * @returns {HTMLElement}
 */
export function rowElement(row, find, isCurrent) {
  if (isGap(row)) {
    const lines = row.lines === null ? "" : `${counted(row.lines, "line")}, `;
    const text = `⋯ ${lines}${size(row.end - row.start)} not shown yet ⋯`;
    return el("div", { class: "ba-row ba-gap", "data-start": row.start }, text);
  }
  if (isFold(row)) return foldElement(row);
  const hits = find ? find(plain(row.text)) : [];
  const element = el("div", { class: isCurrent ? "ba-row ba-current" : "ba-row", "data-start": row.start });
  const rank = rankOf(row);
  if (rank >= 0) {
    element.classList.add("ba-of-rank");
    element.style.setProperty("--ba-mark", `var(${rankColour(rank)})`);
    element.title = `rank ${rank}`;
  }
  if (isOfStderr(row)) {
    element.classList.add("ba-of-stderr");
    element.title = [element.title, "stderr"].filter(Boolean).join(", ");
  }
  for (const piece of marked(spans(row.text), hits)) {
    if (piece.isHit) element.append(el("mark", { class: piece.classes }, piece.text));
    else element.append(piece.classes ? el("span", { class: piece.classes }, piece.text) : piece.text);
  }
  return element;
}

/**
 * A finder for `query`, or the reason why it is invalid.
 * @param {string} query
 * @param {boolean} isRegex
 * @returns {{find: ((text: string) => [number, number][]) | null, error: string}}
 */
export function finder(query, isRegex) {
  if (!query) return { find: null, error: "" };
  const source = isRegex ? query : query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const hasUpper = /[A-Z]/.test(query) && !isRegex;
  try {
    const pattern = new RegExp(source, hasUpper ? "g" : "gi");
    return { find: (text) => ranges(pattern, text), error: "" };
  } catch (error) {
    return { find: null, error: String(/** @type {Error} */ (error).message).replace(/^.*?: /, "") };
  }
}

/**
 * Whether an expression could make the browser's engine backtrack exponentially: nested repetitions, repeated
 * alternatives, or many repetitions. Such an expression is left to the kernel, which searches in linear time.
 * @param {string} source
 */
export function isRisky(source) {
  /** @type {boolean[]} */
  const groups = [false]; // for each open group, whether it has variable length
  let loops = 0;
  const signs = source.match(SIGN) ?? [];
  for (let i = 0; i < signs.length; i += 1) {
    const sign = /** @type {string} */ (signs[i]);
    const top = groups.length - 1;
    loops += Number(mostTimes(sign) === Infinity);
    if (sign.startsWith("(")) groups.push(false);
    else if (sign === ")" && top > 0) {
      const isOpen = groups.pop() ?? false;
      if (isOpen && mostTimes(signs[i + 1] ?? "") > MAX_REPEATS) return true;
      groups[top - 1] ||= isOpen;
    } else groups[top] ||= sign === "|" || /^(?:[*+?]|\{\d*,)/.test(sign);
  }
  return loops > MAX_LOOPS;
}

/** The maximum number of repetitions that a token allows the previous one. @param {string} sign */
function mostTimes(sign) {
  if (sign === "*" || sign === "+") return Infinity;
  const [, least, comma, most] = /^\{(\d*)(,?)(\d*)\}$/.exec(sign) ?? [];
  return least === undefined ? 1 : Number(comma ? most || Infinity : least);
}

/** @type {(pattern: RegExp, text: string) => [number, number][]} */
function ranges(pattern, text) {
  /** @type {[number, number][]} */
  const hits = [];
  for (const match of text.matchAll(pattern)) {
    if (match[0]) hits.push([match.index, match.index + match[0].length]);
  }
  return hits;
}

/**
 * Splits styled text so that each piece is entirely inside or outside a match.
 * @param {{text: string, classes: string}[]} pieces
 * @param {[number, number][]} hits
 * @returns {{text: string, classes: string, isHit: boolean}[]}
 */
export function marked(pieces, hits) {
  const cuts = hits.flat();
  /** @type {{text: string, classes: string, isHit: boolean}[]} */
  const out = [];
  let at = 0;
  for (const { text, classes } of pieces) {
    const end = at + text.length;
    const edges = [at, ...cuts.filter((cut) => cut > at && cut < end), end];
    for (let i = 0; i + 1 < edges.length; i += 1) {
      const [from, to] = [/** @type {number} */ (edges[i]), /** @type {number} */ (edges[i + 1])];
      const isHit = hits.some(([start, stop]) => from >= start && to <= stop);
      out.push({ text: text.slice(from - at, to - at), classes, isHit });
    }
    at = end;
  }
  return out;
}
