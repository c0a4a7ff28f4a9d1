// The live comparison of runs: their parameters and metrics as a table and as charts, or a scaling study.

import { countAxis } from "../core/chart_axes.js";
import { el } from "../core/dom.js";
import { counted } from "../core/format.js";
import { Dashboard, dashboardHead, sentenceList } from "../dashboards/dashboard.js";
import { DASH, LinesChart, runColour } from "./lines_chart.js";
import { ParallelCoordinates } from "./parallel_coordinates.js";
import { RunCharts } from "./run_charts.js";
import { groupRows } from "./run_parameters.js";
import { RunTable } from "./run_table.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").ComparisonFacts} ComparisonFacts */
/** @typedef {import("../core/messages.d.ts").RunRow} RunRow */

const STUDY_METRICS = 4; // columns of a scaling study
const PARALLEL_METRICS = 4; // axes beside the parameters

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "runs");
    const isScaling = model.get("facts").kind === "scaling";
    const head = dashboardHead(dashboard.note);
    const part = (isScaling ? scalingPart : overlayPart)(model, dashboard);
    dashboard.show(root, isScaling ? "Scaling of runs" : "Runs side by side", head.element, ...part.elements);
    dashboard.onLost = part.stopTicking;
    dashboard.watch(["facts", "rows"], () => {
      const { going, problem } = /** @type {ComparisonFacts} */ (model.get("facts"));
      const name = isScaling ? "Scaling" : "Comparison";
      const sentence = going ? `${going} of ${counted(model.get("rows").length, "run")} still running` : "all runs have ended";
      const [state, colour] = going ? ["running", "running"] : ["ended", "succeeded"];
      head.update({ name, state, colour, facts: sentence, problem, spoken: `${name}: ${sentence}.` });
      part.update(model.get("facts"), model.get("rows"));
    });
    return () => {
      part.stop();
      dashboard.close();
    };
  },
};

/** @typedef {{elements: HTMLElement[], update: (facts: ComparisonFacts, rows: RunRow[]) => void, stop: () => void, stopTicking: () => void}} Part */

/**
 * The charts and the table of compared runs, which belong together.
 * @param {KernelModel} model
 * @param {Dashboard} dashboard
 * @returns {Part}
 */
function overlayPart(model, dashboard) {
  const charts = new RunCharts(model.get("view_id"), {
    ask: (metrics) => dashboard.connection.tell({ kind: "draw", metrics, page: dashboard.connection.page }),
    group: () => update(model.get("facts"), model.get("rows")),
    focus: (run) => (table.mark(run), parallel.mark(run)),
  });
  const parallel = new ParallelCoordinates("run", {
    focus: (run) => (table.mark(run), charts.focus(run)),
    select: (runs) => table.select(runs),
  });
  const link = dashboard.host.get("link");
  const table = new RunTable("Runs compared", {
    toggle: (index) => (charts.toggleRun(index), drawParallel(model.get("facts"), model.get("rows"))),
    focus: (run) => (charts.focus(run), parallel.mark(run)),
    valuesOf: (index, metric) => charts.valuesOf(index, metric),
    addressOf: link && ((index) => link("job", [model.get("names")[index]])),
  });
  charts.groups.after(table.bases);
  const sentences = sentenceList();
  dashboard.onMessage = (content) => {
    if (content.kind !== "lines") return;
    charts.take(content);
    if (!charts.groupedBy) table.updateSparks(content.runs.map((/** @type {{run: number}} */ { run }) => run));
  };

  /** Draws the runs that the charts show, unless they are grouped. @type {Part["update"]} */
  const drawParallel = ({ parameters, metrics }, rows) => {
    const indexes = charts.groupedBy || !parameters.length ? [] : rows.map((_, index) => index).filter((index) => !table.hidden.has(index));
    const axisOf = (/** @type {string} */ key, /** @type {string} */ title, /** @type {(row: RunRow) => any} */ of) => ({ key, title, values: indexes.map((index) => of(/** @type {RunRow} */ (rows[index]))) });
    const results = metrics.slice(0, PARALLEL_METRICS).map(({ name, label }) => axisOf(`metric:${name}`, label, ({ values }) => values[name]?.[1] ?? values[name]?.[0]));
    parallel.update([...parameters.map((name) => axisOf(`parameter:${name}`, name, (row) => row.parameters[name])), ...results], indexes.map((index) => ({ key: String(index), colour: `var(${runColour(index)})` })));
  };

  /** @type {Part["update"]} */
  const update = (facts, rows) => {
    charts.update(facts, rows);
    drawParallel(facts, rows);
    sentences.update(facts.sentences);
    const { groupedBy } = charts;
    if (groupedBy) table.update(facts, groupRows(rows, groupedBy), true);
    else table.update(facts, rows);
  };
  const stop = () => [charts, parallel, table].forEach((part) => part.stop());
  return { elements: [charts.element, parallel.element, table.element, sentences.element], update, stop, stopTicking: () => table.stop() };
}

/**
 * The rate against processes with the ideal, the efficiency, and the table of runs.
 * @param {KernelModel} model
 * @returns {Part}
 */
function scalingPart(model) {
  const syncKey = `ba-${model.get("view_id")}`;
  const empty = "Waiting for the first images/sec line";
  const speeds = new LinesChart({ title: "images/sec against processes", empty, fromZero: true, hasPoints: true }, syncKey);
  const shares = new LinesChart({ title: "efficiency", empty, fromZero: true, hasPoints: true, unit: " %" }, syncKey);
  const table = new RunTable("Runs of the study", { toggle: () => {}, focus: () => {}, valuesOf: () => [] });
  const sentences = sentenceList();

  /** @type {Part["update"]} */
  const update = (facts, rows) => {
    const { curves = [], unit = "processes" } = facts;
    const axis = { ...countAxis(unit), words: (/** @type {number} */ x) => `${x} ${unit}` };
    speeds.name(`images/sec against ${unit}`);
    const looks = curves.map((curve, index) => ({ key: String(index), label: curve.label, colour: runColour(index), x: curve.processes }));
    const ideals = looks.map((look) => ({ ...look, key: "ideal", label: "ideal", isQuiet: true, dash: DASH }));
    speeds.show([...ideals.map((look, i) => ({ ...look, y: curves[i]?.ideals ?? [] })), ...looks.map((look, i) => ({ ...look, y: curves[i]?.rates ?? [] }))], axis);
    const whole = ideals.map((look) => ({ ...look, y: look.x.map(() => 100) }));
    shares.show([...whole, ...looks.map((look, i) => ({ ...look, y: curves[i]?.percents ?? [] }))], axis);
    sentences.update(facts.sentences);
    table.update({ ...facts, parameters: [], metrics: facts.metrics.slice(0, STUDY_METRICS) }, rows);
  };
  const stop = () => [speeds, shares, table].forEach((each) => each.stop());
  const plots = el("div", { class: "ba-charts" }, speeds.element, shares.element);
  return { elements: [plots, sentences.element, table.element], update, stop, stopTicking: () => table.stop() };
}
