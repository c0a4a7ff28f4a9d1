// The live list of jobs: filters, the table, and below it one job and a comparison of jobs; in a plain page these have
// addresses. Python holds the data; this draws it.

import { isProgressShown, progressBar, sparkline } from "../core/bars.js";
import { el, oncePerFrame, setText } from "../core/dom.js";
import { counted, duration, quantity, SECOND_MS } from "../core/format.js";
import { moreRows, SortedTable } from "../core/tables.js";
import { Dashboard, dashboardHead } from "./dashboard.js";
import { OpenedView } from "./opened_view.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").JobsFacts} JobsFacts */
/** @typedef {import("../core/messages.d.ts").JobRow} JobRow */

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "jobs");
    const head = dashboardHead(dashboard.note);
    const opened = new OpenedView(dashboard, ([name = ""]) => `Job ${name}`);
    opened.onChange = ([name = ""]) => table.mark(name);
    const compared = new OpenedView(dashboard, (names) => `Comparison of ${counted(names.length, "job")}`);
    compared.onClose = () => table.untick();
    const places = linksOf(dashboard.host.get("link"));
    const tick = (/** @type {string[]} */ names) => (names.length > 1 ? compared.openSoon(names) : compared.close());
    const table = new JobTable((name) => void opened.toggle([name]), places?.tick ?? tick, places?.of);
    dashboard.onLost = () => table.stop(); // no more updates will come
    const filter = stateFilter((isShown) => table.show(isShown));
    dashboard.show(root, places ? "All jobs" : `Jobs of ${model.get("facts").name}`, head.element, filter.element, ...(places?.elements ?? []), table.element, compared.element, opened.element);
    dashboard.onMessage = (content) => {
      if (content.kind === "rates") table.setRates(content.rates);
    };
    dashboard.watch(["rows"], () => {
      table.update(model.get("rows"));
      filter.update(model.get("rows"));
      places?.update(model.get("rows"));
    });
    dashboard.watch(["rows", "facts"], () => {
      const { name, of, total, problem } = /** @type {JobsFacts} */ (model.get("facts"));
      const shown = model.get("rows").length; // number of jobs that have a row
      const jobs = counted(total, "job");
      const listed = shown < total ? `the newest ${shown.toLocaleString("en")} of ${jobs}` : jobs;
      head.update({ name, facts: `${of}  ·  ${listed}`, problem });
    });
    return () => {
      for (const view of [opened, compared]) view.close();
      table.stop();
      dashboard.close();
    };
  },
};

/** @typedef {JobRow["state"]} State */

/** @type {State[]} */
const STATES = ["queued", "running", "terminating", "succeeded", "failed", "cancelled", "stopped"];

/**
 * @param {(isShown: (row: JobRow) => boolean) => void} apply
 * @returns {{element: HTMLElement, update: (rows: JobRow[]) => void}}
 */
function stateFilter(apply) {
  /** @type {Set<State>} */
  const chosen = new Set();
  const text = el("input", { type: "search", class: "ba-field", "aria-label": "Filter by name, tag or parameter", placeholder: "Name, tag, parameter", input: () => changed() });
  const chips = new Map(
    STATES.map((state) => {
      const count = el("b");
      const button = el(
        "button",
        { type: "button", class: "ba-chip", "aria-pressed": "false", click: () => toggle(state) },
        el("i", { class: "ba-swatch", "data-state": state }),
        count,
        ` ${state}`,
      );
      return [state, { button, count }];
    }),
  );
  const buttons = [...chips.values()].map((chip) => chip.button);
  const element = el("div", { class: "ba-tools" }, el("div", { class: "ba-chips", role: "group", "aria-label": "Show only jobs that are" }, ...buttons), text);

  /** @param {State} state */
  const toggle = (state) => {
    if (!chosen.delete(state)) chosen.add(state);
    chips.get(state)?.button.setAttribute("aria-pressed", String(chosen.has(state)));
    changed();
  };
  const changed = () => {
    const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    apply((row) => {
      const words = [row.name, ...row.tags, parametersOf(row)].join(" ").toLowerCase();
      return (!chosen.size || chosen.has(row.state)) && wanted.every((word) => words.includes(word));
    });
  };
  /** @param {JobRow[]} rows */
  const update = (rows) => {
    for (const [state, { button, count }] of chips) {
      const matching = rows.filter((row) => row.state === state).length;
      setText(count, String(matching));
      button.hidden = !matching && !chosen.has(state);
    }
  };
  return { element, update };
}

const SWEEP = "sweep:"; // before the name of a sweep: the tag of its trials

/**
 * The links from the list to other views of a plain page: the comparison of the ticked jobs, and the sweeps of all jobs.
 * @param {((kind: string, names: string[]) => string) | undefined} link
 */
function linksOf(link) {
  if (!link) return null;
  const compare = el("a", { class: "ba-button ba-compare", hidden: true });
  const sweeps = el("span", { class: "ba-sweeps", hidden: true });
  return {
    elements: [el("div", { class: "ba-places" }, compare, sweeps)],
    of: (/** @type {string} */ name) => link("job", [name]),
    tick: (/** @type {string[]} */ names) => {
      compare.hidden = names.length < 2;
      compare.href = link("compare", names);
      setText(compare, `Compare ${counted(names.length, "job")}`);
    },
    update: (/** @type {JobRow[]} */ rows) => {
      const names = [...new Set(rows.flatMap(sweepsOf))];
      sweeps.hidden = !names.length;
      if (sweeps.dataset.names === names.join("\n")) return;
      sweeps.dataset.names = names.join("\n");
      sweeps.replaceChildren(names.length > 1 ? "Sweeps" : "Sweep", ...names.map((name) => el("a", { href: link("sweep", [name]) }, name)));
    },
  };
}

/** The sweeps of which a job is a trial, by their names in addresses. @param {JobRow} row */
function sweepsOf({ name, tags }) {
  const prefix = name.slice(0, name.lastIndexOf("/") + 1);
  return tags.filter((tag) => tag.startsWith(SWEEP)).map((tag) => prefix + tag.slice(SWEEP.length));
}

/** @typedef {import("../core/messages.d.ts").JobRates} JobRates */

/** @typedef {import("../core/tables.js").Head<JobRow>} Column */
/** @typedef {{element: HTMLTableRowElement, update: (row: JobRow) => void, tick: () => void}} Line */

/** @type {(table: JobTable) => Column[]} */
const columnsOf = (table) => [
  { title: "Job", key: "name", by: (row) => row.name },
  { title: "State", key: "state", by: (row) => row.state },
  { title: "Progress", key: "progress", by: (row) => table.progressOf(row)?.fraction ?? (row.waiting || table.rates.get(row.name)?.failure ? -1 : null), isDescending: true },
  { title: "Metric", key: "rate", by: (row) => table.rates.get(row.name)?.values.at(-1) ?? null, isDescending: true },
  { title: "Parameters", key: "parameters", by: (row) => parametersOf(row) || null, isDescending: true },
  { title: "Tags", key: "tags", by: (row) => row.tags.join(", ") || null, isDescending: true },
  { title: "Nodes", key: "nodes", by: (row) => row.nodes, isDescending: true },
  { title: "Cluster", key: "cluster", by: (row) => row.cluster, isDescending: true },
  { title: "Toolkit", key: "toolkit", by: (row) => row.toolkit, isDescending: true },
  { title: "Created", key: "created", by: (row) => row.created, isDescending: true },
  { title: "Ran for", key: "elapsed", by: (row) => elapsed(row), isDescending: true },
  { title: "Exit", key: "exit", by: (row) => row.exit_code, isDescending: true },
];

const MAY_BE_EMPTY = new Set(["progress", "rate", "parameters", "tags", "exit"]);
/** What a narrow table leaves out, in this order: columns, parts of columns; at last, it breaks lines within the words of names. */
const DISPENSABLE = ["toolkit", "cluster", "created", "nodes", "tags", "spark", "parameters", "exit", "progress-words", "rate", "whole-words"];

/** @type {Record<"tags" | "parameters", (row: JobRow) => string>} */
const COLUMN_OF = { tags: (row) => row.tags.join(", "), parameters: (row) => parametersOf(row) };

/** @extends {SortedTable<JobRow, Column>} */
export class JobTable extends SortedTable {
  /**
   * @param {(name: string) => void} onOpen
   * @param {(names: string[]) => void} onTick called with the names of all ticked jobs
   * @param {(name: string) => string} [addressOf] the address of a job's view; without it `onOpen` opens it
   */
  constructor(onOpen, onTick, addressOf) {
    super("Jobs", "", "created");
    this.onOpen = onOpen;
    this.onTick = onTick;
    this.addressOf = addressOf;
    /** @type {Set<string>} */
    this.ticked = new Set();
    /** @type {JobRow[]} */
    this.rows = [];
    /** @type {Map<string, Line>} */
    this.lines = new Map();
    /** @type {Map<string, JobRates>} */
    this.rates = new Map(); // by the job's name
    this.opened = "";
    /** @type {(row: JobRow) => boolean} */
    this.isShown = () => true;
    this.setColumns(columnsOf(this));
    this.none = el("p", { class: "ba-empty-dashboard" });
    this.more = moreRows("job", () => this.#draw());
    this.element = el("div", {}, this.scroller, this.more.element, this.none);
    this.frame = oncePerFrame(() => this.#draw());
    this.empty = ""; // the keys of the columns in which no job has a value
    this.fitting = oncePerFrame(() => this.#fit());
    this.resizing = new ResizeObserver(() => this.fitting.ask());
    for (const one of [this.scroller, /** @type {Element} */ (this.scroller.firstElementChild)]) this.resizing.observe(one);
  }

  draw() {
    this.frame.ask();
  }

  tick() {
    this.lines.forEach((line) => line.tick());
  }

  /** @param {JobRow[]} rows */
  update(rows) {
    this.rows = rows;
    const names = new Set(rows.map((row) => row.name));
    for (const [name, line] of this.lines) {
      if (names.has(name)) continue;
      line.element.remove();
      this.lines.delete(name);
      this.rates.delete(name);
      if (this.ticked.has(name)) this.#tick(name, false);
    }
    for (const row of rows) this.lines.get(row.name)?.update(row);
    this.#toggleColumns();
    this.frame.ask();
  }

  /** @param {Record<string, JobRates>} rates by the job's name */
  setRates(rates) {
    for (const [name, one] of Object.entries(rates)) this.rates.set(name, { ...one, progress: one.progress ?? this.rates.get(name)?.progress ?? null });
    for (const row of this.rows) if (rates[row.name]) this.lines.get(row.name)?.update(row);
    if (this.sorted === "rate" || this.sorted === "progress") this.frame.ask();
    this.#toggleColumns();
  }

  /** The progress of a job that runs or did not succeed. @param {JobRow} row */
  progressOf(row) {
    return isProgressShown(row.state) ? (this.rates.get(row.name)?.progress ?? null) : null;
  }

  /** @param {(row: JobRow) => boolean} isShown */
  show(isShown) {
    this.isShown = isShown;
    this.frame.ask();
  }

  /** @param {string} name the open job; "" for none */
  mark(name) {
    this.opened = name;
    for (const row of this.rows) this.lines.get(row.name)?.update(row);
  }

  /** Unticks all jobs. */
  untick() {
    this.ticked.clear();
    for (const row of this.rows) this.lines.get(row.name)?.update(row);
  }

  /** @type {(name: string, isTicked: boolean) => void} */
  #tick(name, isTicked) {
    if (isTicked) this.ticked.add(name);
    else this.ticked.delete(name);
    this.onTick([...this.ticked]);
  }

  /** Stops the table's timers. */
  stop() {
    super.stop();
    this.frame.stop();
    this.fitting.stop();
    this.resizing.disconnect();
    this.tick();
  }

  /** Shows a column that may be empty only if some job has a value in it. */
  #toggleColumns() {
    const empty = this.columns.filter(({ key, by }) => MAY_BE_EMPTY.has(key) && this.rows.every((row) => by(row) === null));
    const keys = empty.map(({ key }) => key).join(" ");
    if (keys === this.empty) return;
    this.empty = keys;
    this.#fit();
  }

  /** Leaves out empty columns and then, one by one, the least important parts until the table fits. */
  #fit() {
    const { scroller, element } = this;
    element.dataset.without = this.empty;
    for (const key of DISPENSABLE) {
      if (scroller.scrollWidth <= scroller.clientWidth) return;
      element.dataset.without += ` ${key}`;
    }
  }

  #draw() {
    const shown = this.sort(this.rows.filter(this.isShown), (row) => row, (a, b) => b.created - a.created);
    const elements = shown.slice(0, this.more.limit).map((row) => this.#lineOf(row).element);
    this.more.update(shown.length);
    const isSame = elements.length === this.body.children.length && elements.every((element, i) => this.body.children[i] === element);
    if (!isSame) {
      const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
      this.body.replaceChildren(...elements);
      if (focused instanceof HTMLElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
    }
    this.scroller.hidden = !shown.length;
    this.none.hidden = shown.length > 0;
    setText(this.none, this.rows.length ? "No jobs match." : "No jobs yet. Those of %%batchai_job cells and of batchai run appear here.");
  }

  /** The line of a job, which is made when it is drawn first. @param {JobRow} row */
  #lineOf(row) {
    let line = this.lines.get(row.name);
    if (!line) this.lines.set(row.name, (line = this.#line(row)));
    return line;
  }

  /** @type {(first: JobRow) => Line} */
  #line(first) {
    const open = this.addressOf
      ? el("a", { class: "ba-open", href: this.addressOf(first.name) }, first.name)
      : el("button", { type: "button", class: "ba-open", click: () => this.onOpen(first.name) }, first.name);
    const tick = el("input", { type: "checkbox", class: "ba-tick", "aria-label": `Compare ${first.name}`, title: "Compare the ticked jobs", change: () => this.#tick(first.name, tick.checked) });
    const badge = el("span", { class: "ba-badge" });
    const spark = sparkline();
    const rate = el("span", { class: "ba-rate" });
    const label = el("span", { class: "ba-metric" });
    const bar = progressBar();
    const waits = el("span", { class: "ba-waits" });
    const cells = new Map(this.columns.map(({ key }) => [key, el("td", { "data-column": key })]));
    const cell = (/** @type {string} */ key) => /** @type {HTMLElement} */ (cells.get(key));
    cell("name").append(el("span", { class: "ba-job-name" }, tick, open));
    cell("state").append(badge);
    cell("progress").append(bar.element, waits);
    cell("rate").append(el("span", { class: "ba-rates" }, spark.element, label, rate));
    const element = el("tr", {}, ...cells.values());
    let row = first;
    const count = () => {
      setText(cell("elapsed"), row.started === null ? "" : duration((elapsed(row) ?? 0) / SECOND_MS));
      bar.update(this.progressOf(row), row.state, !this.isStopped, this.rates.get(row.name)?.failure);
    };

    let drawn = "";
    /** @param {JobRow} now */
    const update = (now) => {
      row = now;
      const isOpen = this.opened === row.name;
      const { values = [], last = "", label: metric = "" } = this.rates.get(row.name) ?? {};
      const wanted = JSON.stringify([row, isOpen, values, last, metric]);
      count();
      tick.checked = this.ticked.has(row.name); // the user ticks it, too
      if (wanted === drawn) return;
      drawn = wanted;
      if (!this.addressOf) {
        open.setAttribute("aria-expanded", String(isOpen));
        open.title = isOpen ? "Close the job's view" : "Open the job's view below";
      }
      element.dataset.open = String(isOpen);
      waits.title = row.waiting;
      setText(waits, row.waiting);
      setText(badge, row.state);
      badge.dataset.state = row.state;
      spark.update(values, 0, !metric.includes("/s")); // rates stand above zero
      label.title = values.length || last ? metric : "";
      setText(label, label.title);
      setText(rate, last || (values.length ? quantity(values.at(-1)) : ""));
      for (const key of /** @type {const} */ (["nodes", "cluster", "toolkit"])) setText(cell(key), String(row[key]));
      setText(cell("created"), formatTime(row.created));
      setText(cell("exit"), row.exit_code === null ? "" : String(row.exit_code));
      cell("exit").dataset.failed = String(Boolean(row.exit_code));
      for (const key of /** @type {const} */ (["tags", "parameters"])) setText(cell(key), (cell(key).title = COLUMN_OF[key](row)));
    };
    update(first);
    return { element, update, tick: count };
  }
}

/** @param {JobRow} row */
function parametersOf(row) {
  return Object.entries(row.parameters).map((pair) => pair.join(" ")).join(", ");
}

/** @param {JobRow} row */
function elapsed(row) {
  return row.started === null ? null : (row.ended ?? Date.now()) - row.started;
}

/** Formats a timestamp: the time if it is today, else the date. @param {number} milliseconds */
function formatTime(milliseconds) {
  const moment = new Date(milliseconds);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday
    ? moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : moment.toLocaleDateString([], { month: "short", day: "numeric" });
}
