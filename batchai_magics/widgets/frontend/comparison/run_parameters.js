// The parameters of runs: the x axis of one, and the groups of runs that share its value.

import { DASH, interpolated, isDashed, runColour } from "./lines_chart.js";

/** @typedef {import("../core/chart_axes.js").XAxis} XAxis */
/** @typedef {import("../core/messages.d.ts").Figures} Figures */
/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */
/** @typedef {import("./lines_chart.js").Line} Line */
/** @typedef {string | number | boolean | undefined} Parameter */
/** `valueAt` is the inverse of `placeOf`. @typedef {{axis: XAxis, placeOf: (value: Parameter) => number | null, valueAt: (place: number) => string | number}} ParameterAxis */

const SPREAD = 20; // ratio of the values of a parameter, from which on its axis is logarithmic
const STATES = /** @type {const} */ (["running", "terminating", "queued", "failed", "stopped", "cancelled"]); // that stand for a group

/**
 * The x axis of a parameter: its numbers, logarithmic if they are far apart; texts in order.
 * @param {string} name
 * @param {RunRow[]} rows
 * @returns {ParameterAxis}
 */
export function parameterAxis(name, rows) {
  const values = [...new Set(rows.map((row) => row.parameters[name]).filter((value) => value !== undefined))];
  const numbers = values.map(Number);
  if (!values.every((value, i) => typeof value !== "boolean" && value !== "" && Number.isFinite(numbers[i]))) {
    const texts = values.map(String).sort(inOrder);
    const textAt = (/** @type {number} */ x) => texts[x] ?? "";
    return {
      axis: { label: name, increments: [1, 2, 5, 10, 20, 50, 100], tick: textAt, words: (x) => `${name} ${textAt(x)}` },
      placeOf: (value) => (value === undefined ? null : texts.indexOf(String(value))),
      valueAt: textAt,
    };
  }
  const isLog = Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) >= SPREAD;
  const valueAt = (/** @type {number} */ x) => (isLog ? 10 ** x : x);
  const text = (/** @type {number} */ x) => {
    const value = Number(valueAt(x).toPrecision(2));
    return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential() : String(value);
  };
  const increments = isLog ? [0.5, 1, 2, 5, 10] : Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((first) => first * 10 ** (i - 6))).flat();
  return {
    axis: { label: name, increments, tick: text, words: (x) => `${name} ${text(x)}` },
    placeOf: (value) => (value === undefined ? null : isLog ? Math.log10(Number(value)) : Number(value)),
    valueAt,
  };
}

/**
 * The mean of the lines of each value of a parameter, with the standard deviation around it.
 * @param {Line[]} lines
 * @param {RunRow[]} rows
 * @param {string} parameter
 * @returns {Line[]}
 */
export function grouped(lines, rows, parameter) {
  const groups = groupsOf(rows, parameter);
  return [...groups].flatMap(([value, indexes], i) => {
    const groupLines = lines.filter(({ run }) => indexes.includes(Number(run)) && run !== undefined);
    const phases = [...new Set(groupLines.map(({ label, run }) => label.slice((rows[Number(run)]?.name ?? "").length)))];
    return phases.map((phase, k) => {
      const members = groupLines.filter(({ label, run }) => label === (rows[Number(run)]?.name ?? "") + phase && label !== "");
      const dash = members[0]?.dash && k ? members[0].dash : isDashed(i) ? DASH : undefined;
      const look = { key: `${value}${phase}`, label: `${parameter} ${value}${phase}`, colour: runColour(i), ...(dash ? { dash } : {}) };
      return { ...look, ...meanOf(members) };
    });
  });
}

/**
 * Value of a parameter → the indexes of the runs that have it, in the order of values.
 * @param {RunRow[]} rows
 * @param {string} parameter
 * @returns {Map<string, number[]>}
 */
export function groupsOf(rows, parameter) {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  rows.forEach((row, index) => {
    const value = String(row.parameters[parameter] ?? "–");
    groups.set(value, [...(groups.get(value) ?? []), index]);
  });
  return new Map([...groups].sort(([a], [b]) => inOrder(a, b)));
}

/** The order of a parameter's values: of numbers, else of texts. @type {(a: string, b: string) => number} */
function inOrder(a, b) {
  return Number(a) - Number(b) || a.localeCompare(b, "en", { numeric: true });
}

/** The mean of lines where any of them is, and its spread. @param {Line[]} lines */
function meanOf(lines) {
  const xs = /** @type {number[]} */ ([...new Set(lines.flatMap(({ x }) => x))].filter((x) => x !== null)).sort((a, b) => a - b);
  const columns = lines.map(({ x, y }) => {
    const known = x.map((_, i) => i).filter((i) => x[i] !== null && y[i] !== null && y[i] !== undefined);
    return interpolated(known.map((i) => Number(x[i])), known.map((i) => Number(y[i])), xs);
  });
  const moments = xs.map((_, row) => momentsOf(columns.map((column) => column[row] ?? null)));
  return { x: xs, y: moments.map(({ mean }) => mean), spread: moments.map(({ deviation }) => deviation) };
}

/**
 * The mean and the standard deviation of the values that are known; null without any.
 * @param {(number | null)[]} values
 */
export function momentsOf(values) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null && Number.isFinite(value)));
  if (!known.length) return { mean: null, deviation: null };
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const squares = known.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, deviation: known.length > 1 ? Math.sqrt(squares / (known.length - 1)) : 0 };
}

/**
 * A row for each value of a parameter: the mean of each metric, with its spread as the error.
 * @param {RunRow[]} rows
 * @param {string} parameter
 * @returns {RunRow[]}
 */
export function groupRows(rows, parameter) {
  return [...groupsOf(rows, parameter)].map(([value, indexes]) => {
    const members = indexes.map((index) => /** @type {RunRow} */ (rows[index]));
    const first = /** @type {RunRow} */ (members[0]);
    const names = [...new Set(members.flatMap((row) => Object.keys(row.values)))];
    return {
      ...first,
      name: `${parameter} ${value}, ${members.length} run${members.length === 1 ? "" : "s"}`,
      state: STATES.find((state) => members.some((row) => row.state === state)) ?? first.state,
      parameters: parameter in first.parameters ? { [parameter]: first.parameters[parameter] ?? "" } : {},
      tags: [],
      progress: null,
      steps: Math.max(...members.map(({ steps }) => steps)),
      speedup: momentsOf(members.map(({ speedup }) => speedup)).mean,
      values: Object.fromEntries(names.map((name) => [name, figuresOf(members.map((row) => row.values[name]?.[0] ?? null))])),
    };
  });
}

/** @type {(values: (number | null)[]) => Figures} */
function figuresOf(values) {
  const { mean, deviation } = momentsOf(values);
  return [mean, null, values.filter((value) => value !== null).length > 1 ? deviation : null];
}
