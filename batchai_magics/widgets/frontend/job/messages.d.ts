// The shapes that the kernel and the page share for a job: trait names and message kinds, nothing else.

import type { Progress } from "../core/messages.d.ts";

/** The synced trait `facts`: what the header says. Times are milliseconds since 1970. */
export interface Facts {
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
  /** What is worth a look and made no failure of the job. */
  warnings: string[];
  first_failure: { rank: number; node: string; exit_code: number; meaning: string } | null;
  problem: string;
  attempt: number;
  before: string[];
  log_faults: string[];
  max_s: number;
  script: string;
  way_back: string;
  can_again: boolean; // whether it can be submitted once more from here
  warm_up: number | null;
  unread: { line: string; option: string } | null; // a line whose numbers nobody reads, and what would
  has_ranks: boolean;
  directories: string[];
}

/** How far the job is, and what it does while it has printed nothing. */
export interface Standing {
  activity: string;
  progress: Progress | null;
}

/** A line of stdout or stderr that has no end yet, as a terminal shows it. */
export interface OpenLine {
  text: string;
  is_error: boolean;
}

/** What one rank, GPU or machine uses: the last value of each number, and few points of its course. */
export interface UseRow {
  rank?: number;
  node?: string; // of a rank
  gpu?: number;
  machine?: string;
  curves: Record<string, { points: number[]; last: number }>;
}

/** What the processes of a job use; `slow` says of stragglers why. */
export interface Use {
  ranks: UseRow[];
  more: number; // ranks that are not there
  gpus: UseRow[];
  machines: UseRow[];
  notes: string[];
  slow: Record<string, string>;
}

/** One message of the stream. Buffers: 5 point columns if there are points, 3 per part of values, for each log part its bytes
 *  and, if it is `ranked`, who wrote them, and last a `Use` as JSON if there is a new one. */
export interface Batch {
  kind: "batch";
  seq: number;
  complete: boolean;
  standing?: Standing; // when it is new
  open?: OpenLine[]; // of the merged log, when they are new
  use?: true; // a buffer says what its processes use
  points?: { first: number; generation: number };
  values?: { name: string; first: number }[];
  logs?: { file: string; offset: number; size: number; skipped: number | null; ranked?: boolean; restarted: boolean }[];
}

/** The answer to `read`: a buffer of bytes, and one of who wrote them where that is known. */
export interface Page {
  kind: "page";
  id: string;
  file: string;
  offset: number;
  size: number;
}

/** The answer to `lines`: of what one rank wrote between `start` and `end`, a buffer of lines, and one of where each starts. */
export interface LinesPage {
  kind: "lines";
  id: string;
  file: string;
  rank: number;
  start: number;
  end: number;
  size: number;
}

/** The answer to `cancel` and `detach`. */
export interface Answer {
  kind: "answer";
  id: string;
  text: string;
}

/** The answer to a `request`: what it says, and its first buffer. */
export interface Reply {
  content: any;
  bytes: Uint8Array;
}

/** What a process wrote last. */
export interface LastWords {
  rank?: number;
  node?: string;
  exit_code?: number;
  meaning?: string; // of the exit code
  file: string;
  offset: number;
  lines: string[];
}

/** The answer to `failure`: of the process that failed first (of a job preparation: without a rank), and the others. */
export interface Failure extends LastWords {
  before?: string[]; // its last lines on stdout, where the others are of stderr
  others: LastWords[];
  more?: number;
}
