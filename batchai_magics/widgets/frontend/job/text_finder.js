// Finds a query in lines, and marks the matches in styled text.

const MAX_LOOPS = 2; // unbounded repetitions
const MAX_REPEATS = 8; // of a group of variable length
const SIGN = /\\.|\[\^?\]?(?:\\.|[^\]])*\]|\{\d*,?\d*\}|\(\?[:=!]|[^]/g; // of an expression

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

/**
 * The maximum number of repetitions that a token allows the previous one.
 * @param {string} sign
 */
function mostTimes(sign) {
  if (sign === "*" || sign === "+") return Infinity;
  const [, least, comma, most] = /^\{(\d*)(,?)(\d*)\}$/.exec(sign) ?? [];
  return least === undefined ? 1 : Number(comma ? most || Infinity : least);
}

/**
 * @param {RegExp} pattern
 * @param {string} text
 * @returns {[number, number][]}
 */
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
