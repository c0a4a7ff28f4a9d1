// Formats numbers, durations and sizes; orders the values of cells, and searches sorted values.

export const SECOND_MS = 1000;

/** A duration: `0:07`, `12:31`, `3:04:05`. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A long duration in its two largest units: `6 d 23 h`, `12 min`, `40 s`. @param {number} seconds */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [d, h, m] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (d) return h ? `${d} d ${h} h` : `${d} d`;
  if (h) return m ? `${h} h ${m} min` : `${h} h`;
  return m ? `${m} min` : `${whole} s`;
}

/** Shortens a node's name: `tvm-1690037429_2-20261121t033128z-p` becomes `node 2`. @param {string} name */
export function nodeName(name) {
  return name.replace(/tvm-\d+_(\d+)(-\d{8}t\d{6}z(-p)?)?/, "node $1");
}

/** A size: `812 B`, `64 KB`, `1.2 GB`. @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A measured value with three to four significant digits. @param {number | null | undefined} value */
export function quantity(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const magnitude = Math.abs(value);
  if (magnitude >= 1e6 || (magnitude > 0 && magnitude < 1e-3)) return value.toExponential(2);
  if (magnitude >= 1000) return Math.round(value).toLocaleString("en");
  return value.toFixed(magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3);
}

/**
 * The uncertainty of a value, with as many decimals as the value has.
 * @param {number} uncertainty
 * @param {number | null | undefined} value
 */
export function error(uncertainty, value) {
  const decimals = quantity(value).split(".")[1] ?? "";
  if (/\D/.test(decimals) || !Number(uncertainty.toFixed(decimals.length))) return quantity(uncertainty);
  return uncertainty.toFixed(decimals.length);
}

/**
 * A count with its noun: `1 line`, `12,340 lines`.
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Compares two values; null sorts last in either direction.
 * @param {string | number | null} a
 * @param {string | number | null} b
 * @param {number} direction 1 or -1
 */
export function compare(a, b, direction) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
  return String(a).localeCompare(String(b), "en", { numeric: true }) * direction;
}

/**
 * The last index for which a condition holds, given that it holds for all before; -1 without any.
 * @param {number} count of the indexes
 * @param {(index: number) => boolean} holds
 */
export function lastIndexWhere(count, holds) {
  let [low, high] = [-1, count - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
