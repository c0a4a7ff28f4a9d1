// The shapes that the kernel and the page share: the model that anywidget passes to a view, traits and messages.

/** The model that anywidget passes to a view. */
export interface Model {
  get(name: string): any;
  on(event: string, listener: (...values: any[]) => void): void;
  off(event?: string | null, listener?: ((...values: any[]) => void) | null): void;
  send(content: Record<string, unknown>): void;
  widget_manager?: any;
}

/** The synced trait `counts`: nodes of the cluster by state. */
export type Counts = Partial<Record<"running" | "idle" | "preparing" | "leaving" | "unusable", number>>;

/** The progress of a job. Times are milliseconds since 1970. */
export interface Progress {
  fraction: number;
  words: string;
  ends: number | null;
  is_of_epoch: boolean; // it refers to the current epoch: the number of epochs is unknown
}

/** A model that can look up other models: anywidget's, in every front end except marimo. */
export interface DashboardModel extends Model {
  widget_manager?: {
    get_model(id: string): Promise<unknown>;
    create_view(model: unknown, options?: object): Promise<ChildView>;
  };
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
}

/** The answer to a request; `model` is the id of a newly created view. */
export interface DashboardAnswer {
  kind: "answer";
  id: string;
  text: string;
  done: boolean;
  model?: string;
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
  curves?: Curve[];
  unit?: string;
  sentences?: string[];
}

/** One of the synced trait `rows` of a comparison: a run so far. `curve` is the index of its curve in a study. */
export interface RunRow {
  name: string;
  state: "queued" | "running" | "terminating" | "succeeded" | "failed" | "cancelled" | "stopped" | "deleted" | "log";
  workers: number | null;
  model: string | null;
  batch_size_global: number | null;
  steps: number;
  images_per_sec: number | null;
  uncertainty: number | null;
  jitter: number | null;
  speedup: number | null;
  stragglers: string;
  last_loss: number | null;
  loss_trend: string | null;
  has_nan: boolean;
  curve?: number | null;
}

/** The x axes of an overlay. */
export type Over = "step" | "images" | "seconds";

/** The message with the lines of the run with index `run`: columns of equal length. */
export interface Lines {
  kind: "lines";
  run: number;
  rates: (number | null)[];
  losses: (number | null)[];
  over: Partial<Record<Over, (number | null)[]>>;
}
