// The shapes that the kernel and the page share for runs side by side: traits and message kinds.

/** The points of one model in a scaling study, by number of processes. */
export interface Curve {
  label: string;
  processes: number[];
  rates: (number | null)[];
  ideals: (number | null)[];
  percents: (number | null)[];
}

/** The synced trait `facts`; the last three only for a scaling study. */
export interface ComparisonFacts {
  kind: "compare" | "scaling";
  jobs: number;
  going: number;
  problem: string;
  curves?: Curve[];
  unit?: string;
  sentences?: string[];
}

/** One of the synced trait `rows`: a run as far as it has come. `curve` is the place of its curve in a study. */
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

/** What an overlay can be drawn over. */
export type Over = "step" | "images" | "seconds";

/** The message with the lines of the run at place `run`: columns of one length. */
export interface Lines {
  kind: "lines";
  run: number;
  rates: (number | null)[];
  losses: (number | null)[];
  over: Partial<Record<Over, (number | null)[]>>;
}
