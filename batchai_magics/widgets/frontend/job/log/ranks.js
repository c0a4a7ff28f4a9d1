// Who wrote which line: as the kernel tells it, or as the line's own tag does.

export const MERGED = "/output"; // stdout and stderr as one: no file of a job can have this name
const STDERR = 1 << 20; // added by the kernel to the rank of bytes of stderr, and one more
const TAG = /^\[(?:[^[\]\s@]{1,64}@)?(?:\d+,)?(\d{1,6})\]<std(?:out|err|diag)>:/;

/** @typedef {(offset: number) => number} RankAt  the rank that wrote a byte; -1: nobody knows */

/**
 * Reads pairs of a byte, counted from `offset`, and the rank that wrote from there on.
 * @param {number} offset
 * @param {Int32Array} pairs
 * @returns {RankAt}
 */
export function ranksFrom(offset, pairs) {
  return (at) => {
    let [low, high] = [-1, pairs.length / 2 - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (Number(pairs[2 * middle]) <= at - offset) low = middle;
      else high = middle - 1;
    }
    return low < 0 ? -1 : Number(pairs[2 * low + 1]);
  };
}

/**
 * The rank of a line, or -1.
 * @param {{text: string, rank?: number}} line
 */
export function rankOf({ text, rank = -1 }) {
  const tag = TAG.exec(text);
  if (tag) return Number(tag[1]);
  return rank < STDERR ? rank : rank - STDERR - 1;
}

/**
 * Whether a line of the merged log is of stderr.
 * @param {{rank?: number}} line
 */
export function isOfStderr({ rank = -1 }) {
  return rank >= STDERR;
}

/** What stands for the rank of a line of stderr that nobody else has written to. */
export const OF_STDERR = STDERR;
