// Which charts a job has: a chart a number, speeds first, then losses, then the rest as they came.

/** @typedef {import("./points.js").PointTable} PointTable */
/** @typedef {import("./chart.js").Subject} Subject */

// Rates in the words of other programs, the best first.
const RATES = [/^images_per_sec/, /^samples_per_sec$/, /^total_samples_per_sec$/, /^(?!eval|mean|spread).*(_per_|\/)sec$/];
const ONCE = /^(mean_|spread_|devices$)/; // what is said once of all steps is no line over steps
const LOSS = /(^|[_\/ -])loss$/;

/**
 * What can be drawn of a job's numbers, in order.
 * @param {PointTable} points
 * @returns {Subject[]}
 */
export function subjectsOf(points) {
  const names = [...points.others.keys()].filter((name) => !ONCE.test(name));
  const rate = points.count ? undefined : rateAmong(names);
  const rest = names.filter((name) => name !== rate);
  const losses = rest.filter((name) => LOSS.test(name)).sort((a, b) => Number(b === "loss") - Number(a === "loss"));
  const others = rest.filter((name) => !LOSS.test(name));
  const steps = points.count ? stepLines(points) : [];
  return [...steps, ...[...(rate === undefined ? [] : [rate]), ...losses, ...others].map((name) => other(points, name, name === rate))];
}

/** @param {string[]} names */
export function rateAmong(names) {
  for (const rate of RATES) {
    const name = names.find((each) => rate.test(each));
    if (name !== undefined) return name;
  }
  return undefined;
}

/**
 * What the lines of tf_cnn_benchmarks tell.
 * @param {PointTable} table
 * @returns {Subject[]}
 */
function stepLines(table) {
  const { rates, jitters, losses } = table;
  return [
    { title: "images/sec", table, values: rates, band: jitters, over: "total", fromZero: true, hasWarmUp: true },
    { title: "loss", table, values: losses, over: "mean" },
  ];
}

/**
 * @param {PointTable} points
 * @param {string} name
 * @param {boolean} fromZero
 * @returns {Subject}
 */
function other(points, name, fromZero) {
  const table = points.other(name);
  const over = table.values.over === "sum" ? "total" : "mean";
  return { title: name, table, values: table.values, over, fromZero };
}
