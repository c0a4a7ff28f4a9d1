// Converts lines with their own x values to columns over shared x values, as uPlot expects them.

/** @typedef {(number | null)[]} Column */
/** @typedef {{key: string, label: string, colour: string, isDashed?: boolean, isQuiet?: boolean, x: Column, y: Column}} Line */

/**
 * All x values in order, and a column for each line with its values at them.
 * @param {Line[]} lines
 * @returns {{xs: number[], columns: Column[]}}
 */
export function merged(lines) {
  const known = lines.map(pointsOf);
  const xs = [...new Set(known.flatMap((points) => [...points.keys()]))].sort((a, b) => a - b);
  return { xs, columns: known.map((points) => xs.map((x) => points.get(x) ?? null)) };
}

/**
 * A column's value at a row, or the nearest one before it; null before its first and after its last value.
 * @param {Column} column
 * @param {number} row
 * @returns {number | null}
 */
export function valueAt(column, row) {
  if (!column.slice(row).some((value) => value !== null)) return null;
  for (let i = row; i >= 0; i -= 1) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/**
 * @param {Column} column
 * @returns {number | null}
 */
export function latest(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/**
 * @param {Line} line
 * @returns {Map<number, number>}
 */
function pointsOf({ x, y }) {
  /** @type {Map<number, number>} */
  const points = new Map();
  x.forEach((place, i) => {
    const value = y[i];
    if (place !== null && value !== null && value !== undefined) points.set(place, value);
  });
  return points;
}
