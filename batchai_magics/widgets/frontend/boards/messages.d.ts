// The shapes that the kernel and the page share for clusters and lists of jobs: traits and message kinds.

import type { Counts, Model, Progress } from "../core/model.d.ts";

export type { Progress };

/** A model that can find others: anywidget's, in every front end but marimo. */
export interface BoardModel extends Model {
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

/** How many nodes: the trait's `scale`. */
export interface Scale {
  kind: "manual" | "auto";
  target?: number;
  minimum?: number;
  maximum?: number;
}

/** The synced trait `facts` of a cluster; all but name and problem are missing until it was seen. */
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

/** The answer to a request; `model` is the id of a view that was made. */
export interface BoardAnswer {
  kind: "answer";
  id: string;
  text: string;
  done: boolean;
  model?: string;
}
