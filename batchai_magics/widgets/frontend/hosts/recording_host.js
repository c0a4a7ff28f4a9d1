// The host of a view that replays a recording: it sends what another view was sent, at the same times.

import { bytesOf, numbersOf, valueBuffers } from "../job/job_data.js";
import { LogDocument } from "../job/log_document.js";
import { isGap, rankOf, ranksFrom } from "../job/log_rows.js";
import { finder, isRisky, plain } from "../job/log_text.js";
import { StateHost } from "./state_host.js";

/**
 * A line of a recording, `t` seconds after its start: a state by name, a message with its buffers (base64), or the
 * answer to later requests of the kind `reply`.
 * @typedef {{t: number, state?: Record<string, any>, content?: any, buffers?: string[], reply?: string}} Entry
 */
/** The first line. @typedef {{format: string, version: number, name: string, started: number, report?: string}} Header */

const FORMAT = "batchai-recording";
const VERSION = 2;
const NOT_RECORDED = "This was not recorded.";
const TIMES = /** @type {const} */ (["created", "started", "ended"]);

export class RecordingHost extends StateHost {
  #position = 0;
  #logs = new RecordedLogs();

  /**
   * @param {Header} header
   * @param {Entry[]} entries in the order of their times
   */
  constructor(header, entries) {
    super();
    this.header = header;
    this.entries = entries;
    this.duration = entries.at(-1)?.t ?? 0; // seconds
    this.time = 0; // seconds, of what was replayed last
    this.replies = new Map(entries.flatMap(({ reply, content }) => (reply ? [[reply, content]] : [])));
  }

  /**
   * A part of the state, as if it were recorded now: its times are as long ago as they were then.
   * @param {string} name
   */
  get(name) {
    const value = super.get(name);
    const shift = this.#shift;
    if (name === "history") return value.map((/** @type {number[]} */ [time = 0, ...counts]) => [time + shift, ...counts]);
    if (name !== "facts") return value;
    const times = Object.fromEntries(TIMES.map((each) => [each, value[each] && value[each] + shift]));
    return { ...value, ...times, directories: [], can_again: false, can_profile: false };
  }

  /** Replies to a request: from the recorded logs, with the recorded reply, or that none was recorded. @param {Record<string, any>} request */
  send(request) {
    const { kind, id } = request;
    if (id === undefined) return;
    const recorded = { content: this.replies.get(kind) ?? { kind: "reply", text: NOT_RECORDED }, buffers: [] };
    const { content, buffers } = this.#logs.answer(request) ?? recorded;
    queueMicrotask(() => this.emit("msg:custom", { ...content, id }, buffers));
  }

  /** Goes back to the start; the views of this host must be replaced by new ones. */
  rewind() {
    this.#position = this.time = 0;
    this.#logs.clear();
  }

  /** Replays everything up to a time. @param {number} time seconds */
  advance(time) {
    this.time = Math.min(time, this.duration);
    for (let entry = this.entries[this.#position]; entry && entry.t <= this.time; entry = this.entries[this.#position]) {
      this.#position += 1;
      this.#replay(entry);
    }
  }

  /** Milliseconds from what was recorded to what is shown now. */
  get #shift() {
    return Date.now() - (this.header.started + this.time * 1000);
  }

  /** @param {Entry} entry */
  #replay({ state, content, buffers = [], reply }) {
    if (state) this.setState(state);
    else if (!reply && content) {
      const views = buffers.map(viewOf);
      this.#logs.take(content, views);
      this.emit("msg:custom", this.#current(content), views);
    }
  }

  /** A message whose expected end of the job is moved to the time of the replay. @param {any} content */
  #current(content) {
    const progress = content.status?.progress;
    if (!progress?.ends) return content;
    return { ...content, status: { ...content.status, progress: { ...progress, ends: progress.ends + this.#shift } } };
  }
}

/** Reads a recording: gzip of JSON lines. @type {(response: Response) => Promise<RecordingHost>} */
export async function readRecording(response) {
  if (!response.ok || !response.body) throw new Error(`The recording cannot be read: ${response.statusText}`);
  const text = await new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).text();
  const [header, ...entries] = text.trimEnd().split("\n").map((line) => JSON.parse(line));
  if (header?.format !== FORMAT) throw new Error("This is not a recording of a job.");
  if (header.version !== VERSION) throw new Error(`This recording has version ${header.version}; version ${VERSION} can be replayed.`);
  return new RecordingHost(header, entries);
}

/** @param {string} base64 */
function viewOf(base64) {
  return new DataView(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer);
}

/** @typedef {import("../job/log_rows.js").Line} Line */
/** @typedef {{content: Record<string, any>, buffers: ArrayBuffer[]}} Answer  without the id of its request */

const RISKY = "This expression may take too long; only a kernel can search for it.";

export class RecordedLogs {
  /** @type {Map<string, LogDocument>} */
  #logs = new Map();

  /** Drops all logs, for a replay from the start. */
  clear() {
    this.#logs.clear();
  }

  /**
   * Takes the logs of a replayed batch.
   * @param {Record<string, any>} batch
   * @param {DataView[]} buffers
   */
  take(batch, buffers) {
    let next = 0; // those of values come before those of logs
    for (const part of batch.values ?? []) next += valueBuffers(part);
    for (const part of batch.logs ?? []) {
      if (part.restarted) this.#logs.delete(part.file);
      const log = this.#logs.get(part.file) ?? new LogDocument();
      this.#logs.set(part.file, log);
      const bytes = bytesOf(buffers[next++]).slice();
      log.append(part.offset, bytes, part.skipped, part.ranked ? ranksFrom(part.offset, numbersOf(Int32Array, buffers[next++])) : undefined);
    }
  }

  /**
   * The answer to a request for lines of a rank or for a search; undefined for any other.
   * @param {Record<string, any>} request
   * @returns {Answer | undefined}
   */
  answer(request) {
    if (request.kind === "lines") return this.#linesOf(request);
    return request.kind === "search" ? this.#search(request) : undefined;
  }

  /** @type {(request: Record<string, any>) => Answer} */
  #linesOf({ file, rank, offset, backward }) {
    const end = this.#logs.get(file)?.end ?? 0;
    const start = backward ? 0 : offset;
    const lines = this.#lines(file, rank).filter((line) => line.start >= start);
    const text = lines.map((line) => (line.isOpen ? line.text : `${line.text}\n`)).join("");
    const content = { kind: "reply", start, end, size: end };
    return { content, buffers: [new TextEncoder().encode(text).buffer, starts(lines)] };
  }

  /** @type {(request: Record<string, any>) => Answer} */
  #search({ file, rank, query, regex }) {
    if (regex && isRisky(query)) return { content: { kind: "reply", text: RISKY }, buffers: [] };
    const { find } = finder(query, regex);
    const hits = this.#lines(file, rank).filter((line) => find?.(plain(line.text)).length);
    return { content: { kind: "reply", total: hits.length, first: 0, complete: true }, buffers: [starts(hits)] };
  }

  /**
   * The lines that were recorded, of one rank or of all.
   * @param {string} file
   * @param {number | null} rank
   * @returns {Line[]}
   */
  #lines(file, rank) {
    const rows = this.#logs.get(file)?.rows ?? [];
    return rows.flatMap((row) => (isGap(row) || (rank !== null && rankOf(row) !== rank) ? [] : [row]));
  }
}

/** The first bytes of lines, as the kernel sends them. @param {Line[]} lines */
function starts(lines) {
  return new Float64Array(lines.map((line) => line.start)).buffer;
}
