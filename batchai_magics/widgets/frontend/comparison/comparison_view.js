// The live comparison of runs: an overlay of their lines, or a scaling study.

import { el, setText } from "../core/dom.js";
import { counted, duration } from "../core/format.js";
import { Dashboard } from "../dashboards/dashboard.js";
import { runTable } from "./run_table.js";
import { isDashed, LinesChart, runColour } from "./runs_chart.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").ComparisonFacts} ComparisonFacts */
/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */
/** @typedef {import("../core/messages.d.ts").Lines} Lines */
/** @typedef {import("../core/messages.d.ts").Over} Over */
/** @typedef {import("./runs_chart.js").Line} Line */

/** @typedef {{charts: LinesChart[], update: (facts: ComparisonFacts, rows: RunRow[]) => void, take: (lines: Lines) => void}} Charts */

const OVERS = /** @type {Record<Over, string>} */ ({ step: "over steps", images: "over images seen", seconds: "over training time" });
const ALONG = /** @type {Record<Over, string>} */ ({ step: "step", images: "images seen", seconds: "training time (s)" });
const TELL = /** @type {Record<Over, (x: number) => string>} */ ({
  step: (x) => `step ${x.toLocaleString("en")}`,
  images: (x) => counted(x, "image"),
  seconds: (x) => `after ${duration(x)}`,
});

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "runs");
    const isScaling = model.get("facts").kind === "scaling";
    const head = comparisonHead(isScaling ? "Scaling" : "Comparison", dashboard.note);
    const table = runTable(isScaling ? "Runs of the study" : "Runs compared");
    const charts = isScaling ? scalingCharts(model.get("view_id")) : overlayCharts(model.get("view_id"));
    const plots = el("div", { class: "ba-charts" }, ...charts.charts.map((chart) => chart.element));
    const sentences = el("div", { class: "ba-sentences" });
    dashboard.show(root, isScaling ? "Scaling of runs" : "Runs side by side", head.element, plots, sentences, table.element);
    dashboard.connection.onMessage = (content) => {
      if (content.kind === "lines") charts.take(content);
    };
    dashboard.watch(["facts", "rows"], () => {
      /** @type {ComparisonFacts} */
      const facts = model.get("facts");
      /** @type {RunRow[]} */
      const rows = model.get("rows");
      head.update(facts, rows);
      table.update(rows);
      charts.update(facts, rows);
      sentences.replaceChildren(...(facts.sentences ?? []).map((sentence) => el("p", {}, sentence)));
    });
    return () => {
      charts.charts.forEach((chart) => chart.stop());
      dashboard.close();
    };
  },
};

/**
 * @param {string} title
 * @param {HTMLElement} note
 */
function comparisonHead(title, note) {
  const badge = el("span", { class: "ba-badge" });
  const facts = el("span", { class: "ba-facts" });
  const problem = el("div", { class: "ba-problem", hidden: true });
  const spoken = el("span", { class: "ba-spoken", role: "status" });
  const name = el("strong", { class: "ba-name" }, title);
  const element = el("header", { class: "ba-header" }, el("div", { class: "ba-title" }, badge, name, facts), note, problem, spoken);

  /**
   * @param {ComparisonFacts} now
   * @param {RunRow[]} rows
   */
  const update = (now, rows) => {
    const sentence = now.going ? `${now.going} of ${counted(rows.length, "run")} ${now.going === 1 ? "goes" : "go"} on` : "all runs have ended";
    setText(badge, now.going ? "running" : "ended");
    badge.dataset.state = now.going ? "running" : "succeeded";
    setText(facts, sentence);
    setText(spoken, `${title}: ${sentence}.`);
    problem.hidden = !now.problem;
    setText(problem, now.problem);
  };
  return { element, update };
}

/**
 * images/sec and loss of all runs, one colour per run.
 * @param {string} viewId
 * @returns {Charts}
 */
function overlayCharts(viewId) {
  const rates = new LinesChart({ title: "images/sec", empty: "Waiting for the first images/sec line", fromZero: true }, `ba-${viewId}`);
  const losses = new LinesChart({ title: "loss", empty: "Waiting for the first loss" }, `ba-${viewId}`);
  /** @type {Map<number, Lines>} */
  const known = new Map();
  /** @type {RunRow[]} */
  let runs = [];
  rates.menu.replaceChildren(...Object.entries(OVERS).map(([over, words]) => el("option", { value: over }, words)));
  rates.menu.addEventListener("change", () => draw());

  const draw = () => {
    const over = /** @type {Over} */ (rates.menu.value);
    for (const [chart, values] of /** @type {[LinesChart, "rates" | "losses"][]} */ ([[rates, "rates"], [losses, "losses"]])) {
      chart.show(runs.map((run, place) => runLine(run, place, known.get(place), over, values)), TELL[over], ALONG[over]);
    }
  };
  return {
    charts: [rates, losses],
    update: (_, rows) => {
      runs = rows;
      draw();
    },
    take: (lines) => {
      known.set(lines.run, lines);
      rates.menu.hidden = ![...known.values()].some((one) => one.over.images);
      draw();
    },
  };
}

/**
 * @param {RunRow} run
 * @param {number} place
 * @param {Lines | undefined} lines
 * @param {Over} over
 * @param {"rates" | "losses"} values
 * @returns {Line}
 */
function runLine(run, place, lines, over, values) {
  const look = { key: String(place), label: run.name, colour: runColour(place), isDashed: isDashed(place) };
  return { ...look, x: lines?.over[over] ?? [], y: lines?.[values] ?? [] };
}

/**
 * images/sec against processes with the ideal, and the efficiency.
 * @param {string} viewId
 * @returns {Charts}
 */
function scalingCharts(viewId) {
  const empty = "Waiting for the first images/sec line";
  const speeds = new LinesChart({ title: "images/sec against processes", empty, fromZero: true, hasPoints: true }, `ba-${viewId}`);
  const shares = new LinesChart({ title: "efficiency", empty, fromZero: true, hasPoints: true, unit: " %" }, `ba-${viewId}`);

  /** @param {ComparisonFacts} facts */
  const update = ({ curves = [], unit = "processes" }) => {
    const tell = (/** @type {number} */ count) => `${count} ${unit}`;
    speeds.name(`images/sec against ${unit}`);
    const looks = curves.map((curve, place) => ({ key: String(place), label: curve.label, colour: runColour(place), x: curve.processes }));
    const ideals = looks.map((look) => ({ ...look, key: "ideal", label: "ideal", isQuiet: true, isDashed: true }));
    speeds.show([...ideals.map((look, i) => ({ ...look, y: curves[i]?.ideals ?? [] })), ...looks.map((look, i) => ({ ...look, y: curves[i]?.rates ?? [] }))], tell, unit);
    const whole = ideals.map((look) => ({ ...look, y: look.x.map(() => 100) }));
    shares.show([...whole, ...looks.map((look, i) => ({ ...look, y: curves[i]?.percents ?? [] }))], tell, unit);
  };
  return { charts: [speeds, shares], update, take: () => {} };
}
