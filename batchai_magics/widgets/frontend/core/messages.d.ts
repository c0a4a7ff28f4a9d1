// The shapes that a view and its host share: the host itself, state and messages.

type Listener = (...values: any[]) => void;

/**
 * Where a view has its data from and sends its messages to: a kernel, the server of a plain page, or a recording.
 *
 * `get` returns a part of the state, such as `facts`; `embed` is a function that creates another view, or null; `link` one
 * that returns the address of a view in a plain page, from its kind and names; `cells` the cells of the notebook. Events:
 * `change:NAME` of the state, `msg:custom` with content and buffers, `lost` when no more answers will come, and
 * `connected` when the view has to say hello again.
 */
export interface Host {
  get(name: string): any;
  on(event: string, listener: Listener): void;
  off(event: string, listener: Listener): void;
  send(content: Record<string, unknown>): void;
}

/** The model that anywidget passes to a view. It looks up other models in every front end except marimo. */
export interface KernelModel extends Host {
  widget_manager?: {
    kernel?: { statusChanged?: Signal } | null;
    get_model(id: string): Promise<unknown>;
    create_view(model: unknown, options?: object): Promise<ChildView>;
    context?: { model?: { cells: Iterable<NotebookCell> } }; // in JupyterLab and Notebook 7
  };
}

/** A cell of the notebook that the page shows; only one of code has outputs. */
export interface NotebookCell {
  outputs?: {
    length: number;
    get(index: number): { data: Record<string, any> };
    set(index: number, output: object): void;
  };
}

interface Signal {
  connect(slot: (sender: unknown, status: string) => void): void;
  disconnect(slot: (sender: unknown, status: string) => void): void;
}

/** The synced trait `counts`: nodes of the cluster by state. */
export type Counts = Partial<Record<"running" | "idle" | "preparing" | "leaving" | "unusable" | "preempted", number>>;

/** The progress of a job. Times are milliseconds since 1970. */
export interface Progress {
  fraction: number;
  words: string;
  ends: number | null;
  is_of_epoch: boolean; // it refers to the current epoch: the number of epochs is unknown
}

/** Another widget's view. */
export interface ChildView {
  el: HTMLElement;
  remove(): void;
}

/** The scale settings: `scale` of the trait `facts`. */
export interface Scale {
  kind: "manual" | "auto";
  target?: number;
  minimum?: number;
  maximum?: number;
}

/** The synced trait `facts` of a cluster; until the first poll it has only name and problem. */
export interface ClusterFacts {
  name: string;
  problem: string;
  state?: "steady" | "resizing";
  since: number;
  vm_size: string;
  is_low_priority: boolean;
  current: number;
  target: number;
  scale: Scale;
  scale_words: string;
  counts: Counts;
  errors: { code: string; message: string }[];
}

/** One of the synced trait `rows` of a cluster. */
export interface NodeRow {
  id: string;
  state: keyof Counts;
  job: string;
  since: number | null;
}

/** The synced trait `facts` of a list of jobs. */
export interface JobsFacts {
  name: string;
  of: string; // what it lists
  total: number;
  problem: string;
}

/** One of the synced trait `rows` of a list of jobs. Times are milliseconds since 1970. */
export interface JobRow {
  name: string;
  state: "queued" | "running" | "terminating" | "succeeded" | "failed" | "cancelled" | "stopped";
  nodes: number;
  toolkit: string;
  cluster: string;
  created: number;
  started: number | null;
  ended: number | null;
  exit_code: number | null;
  waiting: string; // why it is queued, if that is known
  tags: string[];
  parameters: Record<string, string>; // those that differ between jobs
}

/** What the logs of a job tell for the list: its headline metric, which `label` names, its progress, why it failed. */
export interface JobRates {
  values: number[]; // the finite ones
  last: string; // the last value if it is not finite: "nan"
  label: string;
  progress: Progress | null;
  failure: string;
}

/** The curve of one model in a scaling study, by number of processes. */
export interface Curve {
  label: string;
  processes: number[];
  rates: (number | null)[];
  ideals: (number | null)[];
  percents: (number | null)[];
}

/** The synced trait `facts` of a comparison; the last three only for a scaling study. */
export interface ComparisonFacts {
  kind: "compare" | "scaling";
  jobs: number;
  going: number;
  problem: string;
  parameters: string[]; // those that differ between the runs
  metrics: RunMetric[]; // the headline first
  charts: Omit<Chart, "unit">[]; // the headline's first
  axis: "step" | "epoch" | "order"; // the x axis that suits the runs
  baseline: number | null; // index of the run that others are compared with
  curves?: Curve[];
  unit?: string;
  sentences: string[]; // of a comparison, one for each group of runs that differ in their seed alone
}

/** A metric of the compared runs; `best` is the index of the run with the best value. */
export interface RunMetric {
  name: string;
  label: string;
  direction: Chart["direction"];
  best: number | null;
}

/** The value that stands for a metric, its best value, and its standard error. */
export type Figures = [number | null, number | null, number | null];

/** One of the synced trait `rows` of a comparison: a run so far. `curve` is the index of its curve in a study. */
export interface RunRow {
  name: string;
  state: "queued" | "running" | "terminating" | "succeeded" | "failed" | "cancelled" | "stopped" | "deleted" | "log";
  workers: number | null;
  model: string | null;
  batch_size_global: number | null;
  steps: number;
  images_per_sec: number | null;
  speedup: number | null;
  stragglers: string;
  loss_trend: string | null;
  has_nan: boolean;
  parameters: Record<string, string | number | boolean>;
  tags: string[];
  progress: Progress | null;
  values: Record<string, Figures>; // by metric
  curve?: number | null;
}

/** The synced trait `facts` of a sweep; `sign` is 1 if lower values are better, −1 if higher ones are, else 0. */
export interface SweepFacts {
  name: string;
  problem: string;
  state: string;
  note: string; // why it was stopped
  parameters: string[];
  metric: string;
  sign: number;
  metrics: { name: string; label: string; is_rising: boolean }[]; // the others, in the order of their first values
  cost: string;
  total: number;
  counts: Record<string, number>; // trials by state
  best: number | null; // number of the best trial
  sentences: string[]; // one for each group of trials that differ in their seed alone
}

/** A trial as the kernel sends it: the fields of `Trial` in order. */
export type TrialRow = [number, string, string, number, number | null, number | null, number | null, number | null, string, (string | number | boolean | null)[], (number | null)[], number[], Progress | null, string];

/** A trial of a sweep; times are milliseconds since 1970, `parameters` and `metrics` in the order of the facts. */
export interface Trial {
  number: number;
  name: string;
  state: string;
  attempts: number;
  value: number | null;
  best: number | null;
  started: number | null;
  ended: number | null;
  cost: string;
  parameters: (string | number | boolean | null)[];
  metrics: (number | null)[];
  curve: number[]; // the metric over the steps so far
  progress: Progress | null;
  failure: string; // why it failed; empty if it did not
}

/** Two columns of equal length: steps and values. */
export type StepColumns = [number[], (number | null)[]];

/** A segment of a metric, such as a fold: its name, which may be empty, its columns, and its own x axes by step. */
export type Segment = [string, ...StepColumns, Partial<Record<"epoch" | "time", StepColumns>>];

/** The lines of one run, and its time by step, which all segments have in common. */
export interface RunLines {
  run: number;
  metrics: Record<string, Segment[]>;
  time?: StepColumns;
}

/** The message with new lines of some runs. */
export interface Lines {
  kind: "lines";
  runs: RunLines[];
}

/** The synced trait `facts` of a job: what the header shows. Times are milliseconds since 1970. */
export interface JobFacts {
  name: string;
  experiment: string;
  cluster: string;
  toolkit: string;
  state: "queued" | "running" | "terminating" | "succeeded" | "failed" | "cancelled" | "stopped";
  nodes: number;
  processes: number;
  created: number;
  started: number | null;
  ended: number | null;
  exit_code: number | null;
  errors: { code: string; message: string }[];
  warnings: string[]; // problems that did not fail the job
  failure: { cause: string; hints: string[] } | null; // why it failed, in one line, and what may help
  problem: string;
  attempt: number;
  before: string[];
  log_faults: string[];
  metric_notices: string[]; // matches of --metric that are not numbers
  saving?: string; // that it has been told to end, and how long that may take
  standstill?: string; // that the job prints nothing, and where its ranks are
  max_s: number;
  script: string;
  copies?: string; // an expression for what precedes the user's own paths in the log
  way_back: string;
  can_again: boolean; // whether the view can submit the job again
  is_read_only: boolean; // whether it can change nothing
  can_profile: boolean; // whether its ranks can be sampled while it runs
  warm_up: number | null;
  unread: { line: string; option: string } | null; // a line whose numbers are not read, and an option that would read them
  charts: Chart[]; // the headline's first
  axis: "step" | "epoch" | "order"; // the x axis that suits the run
  attempt_steps: [number, number][]; // attempts after the first one, each with its first step
  has_ranks: boolean;
  directories: string[];
}

/** What the ranks of a job do with their time, or why that is not known. */
export interface RunProfile {
  is_running: boolean; // another one is being taken
  text: string;
  titles?: string[];
  rows?: string[][];
  remarks?: string[];
}

/** A chart: one quantity, with a line for each phase. Timers are not drawn by default. */
export interface Chart {
  title: string;
  quantity: string;
  unit: string;
  direction: "falls" | "rises" | "unknown";
  is_rate: boolean;
  is_summed: boolean; // over ranks; other metrics are averaged
  is_default: boolean;
  lines: { name: string; phase: "train" | "val" | "test"; label?: string }[]; // the label is that of a fit, if it is not the name
  band?: string; // the metric that tells how far the first line's values scatter
}

/** The job's progress, and its activity before the first output. */
export interface JobStatus {
  activity: string;
  progress: Progress | null;
}

/** An unterminated line of stdout or stderr, as a terminal shows it. */
export interface OpenLine {
  text: string;
  is_error: boolean;
}

/** The usage of one rank, GPU or machine: for each quantity the last value and a downsampled curve. */
export interface UsageRow {
  rank?: number;
  node?: string; // of a rank
  gpu?: number;
  machine?: string;
  curves: Record<string, { points: number[]; last: number }>;
}

/** The resource usage of a job; `slow` has the reasons of stragglers. */
export interface ResourceUsage {
  ranks: UsageRow[];
  more: number; // ranks left out
  gpus: UsageRow[];
  machines: UsageRow[];
  notes: string[];
  slow: Record<string, string>;
}

/** One message of the stream. Buffers: for each part of values steps, ranks, values, epochs and times, or values alone if they are
 *  at the same positions as those before; for each log part its bytes and, if it is `ranked`, their ranks; last a `ResourceUsage`
 *  as JSON if it is new. Another generation makes all values void that were sent before. */
export interface Batch {
  kind: "batch";
  seq: number;
  complete: boolean;
  status?: JobStatus; // when it is new
  open?: OpenLine[]; // of the merged log, when they are new
  use?: true; // a buffer says what its processes use
  generation?: number;
  values?: { name: string; first: number; is_at_same?: boolean }[];
  logs?: { file: string; offset: number; size: number; skipped: number | null; ranked?: boolean; restarted: boolean }[];
}

/** The reply to `read`: a buffer of bytes, and one of their ranks if known. */
export interface Page {
  offset: number;
  size: number;
}

/** The reply to `lines`: the lines of one rank between `start` and `end`, a buffer of text and one of line offsets. */
export interface LinesPage {
  start: number;
  end: number;
  size: number;
}

/** The reply to a request. Its content has the kind `reply`, the request's id, and a `text` for the user if there is one. */
export interface Reply {
  content: any;
  buffers: DataView[];
}

/** The last output of a rank. */
export interface LastOutput {
  rank?: number;
  node?: string;
  exit_code?: number;
  meaning?: string; // of the exit code
  file: string;
  offset: number;
  lines: string[];
}

/** The reply to `record`: titles and texts of what the job was made of, and long texts to open. */
export interface RunRecord {
  facts: [string, string][];
  sections: [string, string][];
}

/** The reply to `failure`: the rank that failed first (none for a job preparation), and the others. */
export interface Failure extends LastOutput {
  before?: string[]; // its last lines on stdout, if `lines` are from stderr
  others: LastOutput[];
  more?: number;
}
