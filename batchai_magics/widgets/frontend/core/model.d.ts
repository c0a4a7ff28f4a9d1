// What the views of all kinds get: the model that anywidget hands to them, and a trait that several have.

/** What anywidget hands to a view. */
export interface Model {
  get(name: string): any;
  on(event: string, listener: (...values: any[]) => void): void;
  off(event?: string | null, listener?: ((...values: any[]) => void) | null): void;
  send(content: Record<string, unknown>): void;
  widget_manager?: any;
}

/** The synced trait `counts`: nodes of the cluster by state. */
export type Counts = Partial<Record<"running" | "idle" | "preparing" | "leaving" | "unusable", number>>;

/** How far a job is. Times are milliseconds since 1970. */
export interface Progress {
  fraction: number;
  words: string;
  ends: number | null;
  is_of_epoch: boolean; // all this is of the epoch that runs: nobody knows how many there are
}
