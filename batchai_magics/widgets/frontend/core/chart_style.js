// How uPlot draws our charts, in the colours of the page's theme.

import uPlot from "uplot"; // for its types
import { rightPadding, xOptions, yOptions } from "./chart_axes.js";

/** @typedef {import("./chart_axes.js").XAxis} XAxis */

const WATCHED = ["class", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "data-theme"];

/** The value of a colour variable, for use on a canvas. @type {(element: Element, name: string) => string} */
function colour(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim() || "#888";
}

/**
 * Calls `changed` when the page's theme changes.
 * @param {() => void} changed
 * @returns {() => void} stops watching
 */
export function onThemeChange(changed) {
  const observer = new MutationObserver(() => changed());
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributes: true, attributeFilter: WATCHED });
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", changed);
  };
}

/** @typedef {{label: string, colour: string, width: number, dash?: number[]}} Line */

/** A vertical line with its meaning. @typedef {{x: number, text: string}} Mark */

export const ACCENT = "--ba-accent";
export const FAINT = "--ba-faint"; // the line behind a smoother one
const RANK_COLOURS = 8;
const LABEL_PX = 46; // minimum width of a shaded area with a label
const POINT_PX = 12; // between points of dashed lines, at least
const FEW = 3; // values, below which each is a point
const ROUNDING = 1e-10; // of values: those that differ by a smaller share are equal, as those of a smoothed constant

/** @typedef {"train" | "val" | "test"} Phase */

/** How the lines of the phases differ: in colour and in dashes. @type {Record<Phase, {colour: string, dash?: number[]}>} */
export const PHASES = { train: { colour: ACCENT }, val: { colour: "--ba-val", dash: [6, 4] }, test: { colour: "--ba-test", dash: [2, 3] } };

const FURTHER_COLOURS = [5, 2, 4, 1, 3, 0]; // ranks whose colours the further lines of a phase have: unlike the phases' colours

/**
 * The look of each line of a chart: phases differ, and the lines of the same phase differ in colour.
 * @param {Phase[]} phases of the lines
 * @returns {{colour: string, dash?: number[]}[]}
 */
export function lineLooks(phases) {
  return phases.map((phase, i) => {
    const before = phases.slice(0, i).filter((other) => other === phase).length;
    return before ? { ...PHASES[phase], colour: rankColour(FURTHER_COLOURS[(before - 1) % FURTHER_COLOURS.length] ?? 0) } : PHASES[phase];
  });
}

/** @param {number} rank -1 if unknown */
export function rankColour(rank) {
  return `--ba-rank-${Math.max(0, rank) % RANK_COLOURS}`;
}

/** The point under the cursor: filled, unlike the rings of all others. @type {uPlot.Cursor.Points} */
export const CURSOR_POINTS = { size: 6, fill: (plot, i) => /** @type {any} */ (plot.series[i])?.stroke(plot, i) };

/**
 * @param {HTMLElement} box the element whose CSS variables define the colours
 * @param {Line[]} lines
 * @param {{bands: string[], isLog: boolean, fromZero: boolean, shadedTo: () => number | null, marks: () => Mark[],
 *   axis: XAxis}} look  `bands`: their colours; `marks`: where vertical lines are
 * @returns {Partial<uPlot.Options>}
 */
export function looks(box, lines, { bands, isLog, fromZero, shadedTo, marks, axis: x }) {
  const axis = {
    stroke: () => colour(box, "--ba-muted"),
    grid: { stroke: () => colour(box, "--ba-grid"), width: 1 },
    ticks: { show: false },
    font: `11px ${colour(box, "--ba-font")}`,
    gap: 6,
  };
  const edge = { show: true, width: 0, points: { show: false }, spanGaps: true };
  const ground = () => colour(box, "--ba-back"); // points are rings in every theme
  const fill = (/** @type {string} */ name) => () => `color-mix(in srgb, ${colour(box, name)} 16%, transparent)`;
  const high = lines.length + 1;
  return {
    legend: { show: false },
    padding: [8, rightPadding(x), 0, 0],
    scales: {
      x: { time: false, range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
      y: isLog ? { distr: 3, log: 10, range: (_, min, max) => logRange(min, max) } : { range: (_, min, max) => yRange(min, max, fromZero) },
    },
    axes: [
      { ...axis, ...xOptions(x), labelFont: axis.font },
      { ...axis, ...yOptions() },
    ],
    series: [
      { label: x.label },
      ...lines.map((line) => ({
        label: line.label,
        stroke: () => colour(box, line.colour),
        width: line.width,
        spanGaps: true,
        ...(line.dash ? { dash: line.dash } : {}),
        points: { size: 5, fill: ground, ...pointsOf(line) },
      })),
      ...bands.flatMap(() => [{ ...edge, label: "high" }, { ...edge, label: "low" }]),
    ],
    bands: bands.map((name, i) => ({ series: [high + 2 * i, high + 2 * i + 1], fill: fill(name) })),
    hooks: { drawClear: [(plot) => shade(plot, box, shadedTo())], drawAxes: [(plot) => rule(plot, box, marks())] },
  };
}

/**
 * Whether the points of a line are drawn: those of dashed lines, which may be few among those of other lines, if there is
 * room; those of thick lines as uPlot decides.
 * @param {Line} line
 * @returns {uPlot.Series.Points}
 */
function pointsOf({ width, dash }) {
  if (dash) return { show: (plot, i) => known(plot.data[i] ?? []) * POINT_PX < plot.bbox.width / (devicePixelRatio || 1) };
  return width > 1 ? {} : { show: (plot) => plot.data[0].length < FEW };
}

/** @param {ArrayLike<number | null | undefined>} column */
function known(column) {
  return Array.from(column).reduce((/** @type {number} */ count, value) => count + Number(value !== null && value !== undefined), 0);
}

/**
 * Draws vertical lines, such as those where another attempt began.
 * @param {uPlot} plot
 * @param {HTMLElement} box
 * @param {Mark[]} marks
 */
function rule(plot, box, marks) {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  const density = devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = colour(box, "--ba-muted");
  ctx.lineWidth = density;
  ctx.setLineDash([2 * density, 3 * density]);
  ctx.fillStyle = ctx.strokeStyle;
  ctx.font = `${10 * density}px ${colour(box, "--ba-font")}`;
  ctx.textBaseline = "top";
  for (const { x, text } of marks) {
    const at = plot.valToPos(x, "x", true);
    if (at < left || at > left + width) continue;
    ctx.beginPath();
    ctx.moveTo(at, top);
    ctx.lineTo(at, top + height);
    ctx.stroke();
    const isNearEnd = at + ctx.measureText(text).width + 8 * density > left + width;
    ctx.textAlign = isNearEnd ? "right" : "left";
    ctx.fillText(text, at + (isNearEnd ? -4 : 4) * density, top + 3 * density);
  }
  ctx.restore();
}

/**
 * Shades the warm-up steps.
 * @param {uPlot} plot
 * @param {HTMLElement} box
 * @param {number | null} last
 */
function shade(plot, box, last) {
  const from = plot.scales.x?.min;
  if (!last || from === undefined || from === null || last <= from) return;
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  const end = Math.min(left + width, plot.valToPos(last, "x", true));
  const density = devicePixelRatio || 1;
  ctx.save();
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = colour(box, "--ba-muted");
  ctx.fillRect(left, top, end - left, height);
  ctx.globalAlpha = 1;
  ctx.font = `${10 * density}px ${colour(box, "--ba-font")}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  if (end - left > LABEL_PX * density) ctx.fillText("warm-up", left + 4 * density, top + 3 * density);
  ctx.restore();
}

/**
 * The range of the y axis; a flat line is in its middle.
 * @param {number} min
 * @param {number} max
 * @param {boolean} fromZero
 * @returns {uPlot.Range.MinMax}
 */
export function yRange(min, max, fromZero) {
  if (min === null || max === null) return [0, 1];
  const low = fromZero ? Math.min(0, min) : min;
  const isFlat = max - low <= Math.max(Math.abs(low), Math.abs(max)) * ROUNDING;
  const room = (isFlat ? Math.abs(max) || 1 : max - low) * 0.08;
  return [fromZero && min >= 0 ? 0 : low - room, max + room];
}

/** @type {(min: number, max: number) => uPlot.Range.MinMax} */
function logRange(min, max) {
  return min === null || max === null ? [0.1, 1] : [rounded(min, Math.floor), rounded(max, Math.ceil)];
}

/**
 * Rounds to one significant digit.
 * @param {number} value more than 0
 * @param {(value: number) => number} round
 */
function rounded(value, round) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return Number((round(value / unit) * unit).toPrecision(3));
}
