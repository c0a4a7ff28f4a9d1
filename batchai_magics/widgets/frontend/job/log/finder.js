// What is searched for, and where it is in a line.

const MOST_LOOPS = 2; // in a row
const FEW = 8; // repetitions of something that varies
const SIGN = /\\.|\[\^?\]?(?:\\.|[^\]])*\]|\{\d*,?\d*\}|\(\?[:=!]|[^]/g; // of an expression

/**
 * A finder for `query`, or the reason why it is none.
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
 * Whether the browser's own search could hang on an expression: for a repetition of what repeats or branches itself,
 * or for many repetitions. Only the kernel, which has another way to search, is asked for such a one.
 * @param {string} source
 */
export function isRisky(source) {
  /** @type {boolean[]} */
  const groups = [false]; // for each open group, whether something of no fixed length is in it
  let loops = 0;
  const signs = source.match(SIGN) ?? [];
  for (let i = 0; i < signs.length; i += 1) {
    const sign = /** @type {string} */ (signs[i]);
    const top = groups.length - 1;
    loops += Number(mostTimes(sign) === Infinity);
    if (sign.startsWith("(")) groups.push(false);
    else if (sign === ")" && top > 0) {
      const isOpen = groups.pop() ?? false;
      if (isOpen && mostTimes(signs[i + 1] ?? "") > FEW) return true;
      groups[top - 1] ||= isOpen;
    } else groups[top] ||= sign === "|" || /^(?:[*+?]|\{\d*,)/.test(sign);
  }
  return loops > MOST_LOOPS;
}

/**
 * How often a sign of an expression lets the one before it repeat, at most.
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
 * Pieces of styled text cut so that each is wholly inside or outside of a found range.
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
