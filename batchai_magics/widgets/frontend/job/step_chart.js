// A chart over steps: a line per rank, one over all ranks with its jitter, a legend, zoom.

import uPlot from "uplot";
import { FramedChart, MOVE_SHARE, smallButton } from "../core/chart_frame.js";
import { ACCENT, FAINT, looks, rankColour } from "../core/chart_style.js";
import { el, setText } from "../core/dom.js";
import { error, quantity } from "../core/format.js";
import { smoothed } from "./chart_points.js";

/** @typedef {import("../core/chart_frame.js").Entry} Entry */
/** @typedef {import("./chart_points.js").Quantity} Quantity */
/** @typedef {import("./chart_points.js").Table} Table */

/**
 * What a chart shows. `band` is the half-width of the band around the line over all ranks.
 * @typedef {{title: string, table: Table, values: Quantity, band?: Quantity, over: string, fromZero?: boolean,
 *   hasWarmUp?: boolean}} Subject
 */

export const ALL = "all";
export const EACH = "ranks";
const MAX_RANKS = 4;
const WORDS_PX = 224; // width of the legend without its ranks; below, per rank
const RANK_PX = 74;
const SMOOTH_PX = 100; // of the smoothed line's value
const HEIGHT_PX = 190;
const BUTTONS_PX = 120; // width of the header's buttons
const TITLE_PX = 70; // assumed for all titles, so that charts side by side have headers of equal height
const BRIEF_PX = 350; // width of a legend with the range over all ranks

export class StepChart extends FramedChart {
  /**
   * @param {Subject} subject
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(subject, syncKey) {
    super(subject.title, syncKey, HEIGHT_PX);
    this.subject = subject;
    this.isLog = false;
    this.weight = 0; // smoothing weight of earlier values, for the line over all ranks
    this.isComplete = false; // no more values will come
    /** @type {number | null} */
    this.warmUp = null;
    this.log = smallButton("log", () => this.#toggleLog(), {
      title: "Logarithmic scale",
      "aria-pressed": "false",
    });
    this.head = el("div", { class: "ba-chart-head" }, this.title, this.legend.element, this.log, this.reset);
    this.isEach = false; // whether the legend has room for every rank
    this.element = el("div", { class: "ba-chart", role: "group", "aria-label": subject.title }, this.head, this.box);
  }

  /** Draws new data in the next frame. */
  update() {
    this.frame.ask();
  }

  /**
   * Draws a smoothed line over all ranks in front of the original one.
   * @param {number} weight of earlier values, from 0 to less than 1
   */
  smooth(weight) {
    this.weight = weight;
    this.showLines();
    this.update();
  }

  #toggleLog() {
    this.isLog = !this.isLog;
    this.log.setAttribute("aria-pressed", String(this.isLog));
    this.paint();
  }

  resized() {
    this.showLines();
    this.describe();
  }

  draw() {
    const { table, values } = this.subject;
    table.settle();
    const hasData = values.hasValues;
    this.empty.hidden = hasData;
    this.log.hidden = !hasData;
    setText(this.empty, this.#emptyMessage);
    if (!hasData) {
      this.plot?.destroy();
      this.plot = null;
      this.describe();
      return;
    }
    const lines = values.ranks.length > 1 ? values.ranks : [];
    const wanted = `${lines.length} ${this.isLog} ${Boolean(this.weight)}`;
    if (!this.plot || this.drawn !== wanted) this.#make(lines);
    this.drawn = wanted;
    const plot = /** @type {uPlot} */ (this.plot);
    plot.setData(/** @type {uPlot.AlignedData} */ (this.#data(lines)), !this.isZoomed);
    if (this.isZoomed) plot.redraw();
    this.describe();
  }

  /** The smoothed line, if it is drawn. */
  get #smooth() {
    return this.weight ? smoothed(this.subject.values.all, this.weight) : undefined;
  }

  /** The message of an empty chart. */
  get #emptyMessage() {
    const { title } = this.subject;
    return this.isComplete ? `No ${title} in the log` : `Waiting for the first ${title}`;
  }

  /** @param {number[]} lines */
  #data(lines) {
    const { table, values, band } = this.subject;
    const smooth = this.#smooth;
    const own = [...lines.map((rank) => values.byRank.get(rank) ?? []), values.all, ...(smooth ? [smooth] : [])];
    const columns = this.isLog ? own.map((column) => column.map((value) => (value !== null && value > 0 ? value : null))) : own;
    const edge = (/** @type {number} */ sign) =>
      values.all.map((value, i) => (value === null ? null : Math.max(0, value + sign * (band?.all[i] ?? 0))));
    return [table.steps, ...columns, ...(band ? [edge(1), edge(-1)] : [])];
  }

  /** @param {number[]} ranks */
  #make(ranks) {
    const zoom = this.isZoomed && this.plot ? { ...this.plot.scales.x } : null;
    this.plot?.destroy();
    const lines = [
      ...ranks.map((rank) => ({ label: `rank ${rank}`, colour: rankColour(rank), width: 1 })),
      ...(this.weight ? [{ label: `${this.subject.over}, as it is`, colour: FAINT, width: 1 }] : []),
      { label: this.subject.over, colour: ACCENT, width: 2 },
    ];
    const style = looks(this.box, lines, {
      hasBand: Boolean(this.subject.band),
      isLog: this.isLog,
      fromZero: Boolean(this.subject.fromZero),
      shadedTo: () => (this.subject.hasWarmUp ? this.warmUp : null),
    });
    /** @type {uPlot.Options} */
    const options = {
      ...style,
      series: style.series ?? [],
      width: this.box.clientWidth,
      height: HEIGHT_PX,
      cursor: this.cursor(true),
      hooks: { ...style.hooks, ...this.hooks() },
    };
    this.plot = new uPlot(options, /** @type {uPlot.AlignedData} */ (this.#data(ranks)), this.box);
    if (zoom) this.plot.setScale("x", { min: zoom.min ?? 0, max: zoom.max ?? 1 });
    this.showLines();
  }

  /** Moves the legend to a line of its own if it needs the room. */
  #layOutLegend() {
    const count = this.subject.values.ranks.length;
    const hasRoom = (/** @type {number} */ width) => hasRoomFor(count, width, this.weight > 0);
    const width = this.head.clientWidth;
    const isBeside = hasRoom(width - this.title.offsetWidth - BUTTONS_PX);
    this.isEach = isBeside || hasRoom(width);
    const isTight = count > 1 && width - TITLE_PX - BUTTONS_PX < BRIEF_PX;
    this.head.classList.toggle("ba-two-lines", this.isEach ? !isBeside : isTight);
  }

  /** Applies the legend's hidden lines. */
  showLines() {
    const plot = this.plot;
    if (!plot) return;
    this.#layOutLegend();
    const { ranks } = this.subject.values;
    const count = ranks.length > 1 ? ranks.length : 0;
    plot.batch(() => {
      plot.series.forEach((_, i) => {
        if (!i) return;
        const key = i <= count ? (this.isEach ? `r${ranks[i - 1]}` : EACH) : ALL;
        plot.setSeries(i, { show: !this.legend.hidden.has(key) });
      });
    });
  }

  /** Updates legend and label with the values under the cursor, or the latest ones. */
  describe() {
    const { values, table, title, over, band } = this.subject;
    const index = this.plot?.cursor.idx ?? lastIndex(values.all) ?? (values.hasValues ? table.steps.length - 1 : null);
    const value = index === null ? null : values.all[index];
    if (index === null || value === undefined) {
      this.legend.show("", []);
      this.box.setAttribute("aria-label", `${title}: ${this.#emptyMessage}`);
      return;
    }
    const entries = entriesAt(index, { values, over, band, smooth: this.#smooth, isEach: this.isEach });
    this.legend.show(`step ${table.steps[index]}`, entries);
    this.box.setAttribute("aria-label", `${title} at ${this.legend.words}`);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const plot = this.plot;
    if (!plot) return;
    if (event.key === "Escape") this.onReset();
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const [from, to] = plot.series[0]?.idxs ?? [0, 0];
      const way = event.key === "ArrowLeft" ? -1 : 1;
      const stride = Math.max(1, Math.round((to - from) * MOVE_SHARE)) * way;
      const index = Math.min(to, Math.max(from, (plot.cursor.idx ?? (way < 0 ? to + 1 : from - 1)) + stride));
      const step = this.subject.table.steps[index];
      if (step !== undefined) plot.setCursor({ left: plot.valToPos(step, "x"), top: 10 });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/**
 * The entries of the legend.
 * @param {number} index of the step
 * @param {{values: Quantity, over: string, band?: Quantity, smooth?: (number | null)[], isEach: boolean}} what
 *   `isEach`: show every rank; `smooth`: the smoothed line over all ranks
 * @returns {Entry[]}
 */
export function entriesAt(index, { values, over, band, smooth, isEach }) {
  const { ranks } = values;
  const at = (/** @type {number} */ rank) => values.byRank.get(rank)?.[index] ?? null;
  const word = ranks.length > 1 ? `${over} ` : "";
  const spread = band?.all[index] ? ` ± ${error(band.all[index], values.all[index])} jitter` : "";
  const line = smooth ? `, smooth ${quantity(smooth[index])}` : "";
  /** @type {Entry[]} */
  const entries = [{ key: ALL, text: `${word}${quantity(values.all[index])}${spread}${line}`, colour: ACCENT }];
  if (ranks.length < 2) return entries;
  if (isEach) {
    ranks.forEach((rank) => entries.push({ key: `r${rank}`, text: `r${rank} ${quantity(at(rank))}`, colour: rankColour(rank) }));
    return entries;
  }
  const known = ranks.map(at).filter((value) => value !== null);
  const text = known.length ? `${quantity(Math.min(...known))}–${quantity(Math.max(...known))}` : "–";
  return [...entries, { key: EACH, text: `ranks ${text}`, colour: "" }];
}

/**
 * Whether a legend has room for every rank.
 * @param {number} ranks number of ranks
 * @param {number} width in pixels
 * @param {boolean} isSmooth whether it also shows the smoothed line
 */
export function hasRoomFor(ranks, width, isSmooth) {
  return ranks <= MAX_RANKS && width >= WORDS_PX + ranks * RANK_PX + (isSmooth ? SMOOTH_PX : 0);
}

/**
 * The index of a column's latest value; null if it has none.
 * @param {(number | null)[]} column
 */
export function lastIndex(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) if (column[i] !== null) return i;
  return null;
}
