// What is searched for, and where it is in a line.

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
 * @param {RegExp} pattern
 * @param {string} text
 * @returns {[number, number][]}
 */
function ranges(pattern, text) {
  /** @type {[number, number][]} */
  const found = [];
  for (const match of text.matchAll(pattern)) {
    if (match[0]) found.push([match.index, match.index + match[0].length]);
  }
  return found;
}

/**
 * Pieces of styled text cut so that each is wholly inside or outside of a found range.
 * @param {{text: string, classes: string}[]} pieces
 * @param {[number, number][]} found
 * @returns {{text: string, classes: string, isHit: boolean}[]}
 */
export function marked(pieces, found) {
  const cuts = found.flat();
  /** @type {{text: string, classes: string, isHit: boolean}[]} */
  const out = [];
  let at = 0;
  for (const { text, classes } of pieces) {
    const end = at + text.length;
    const edges = [at, ...cuts.filter((cut) => cut > at && cut < end), end];
    for (let i = 0; i + 1 < edges.length; i += 1) {
      const [from, to] = [/** @type {number} */ (edges[i]), /** @type {number} */ (edges[i + 1])];
      const isHit = found.some(([start, stop]) => from >= start && to <= stop);
      out.push({ text: text.slice(from - at, to - at), classes, isHit });
    }
    at = end;
  }
  return out;
}
