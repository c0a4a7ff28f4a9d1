// The host of a view in a plain page: the server that `batchai open` starts, which sends frames over one response.

import { StateHost } from "./state_host.js";

/** @typedef {{state?: Record<string, any>, content?: any, buffers: DataView[]}} Frame */

const LENGTH_BYTES = 4; // of the header's length, before the header
const RETRY_MS = 1000;
const MAX_RETRIES = 15; // in a row, after which the server counts as gone
const TOKEN = "batchai-token"; // of the server, in the storage that all tabs of its address and port share

let token = "";

/** Keeps the token of the page's address; the address keeps the view only. */
export function keepToken() {
  const [view, given] = location.hash.slice(1).split("?token=");
  try {
    if (given) localStorage.setItem(TOKEN, given);
    else token ||= localStorage.getItem(TOKEN) ?? "";
  } catch {
    // A browser that stores nothing: other tabs need the complete address.
  }
  if (!given) return;
  token = given;
  history.replaceState(null, "", view === "/" ? "/" : `#${view}`);
}

/** The headers that requests for more than the front end need. */
export function authorization() {
  return { authorization: `Bearer ${token}` };
}

export class PageHost extends StateHost {
  #page = Math.random().toString(36).slice(2);
  #retries = 0;
  #control = new AbortController();
  /** @type {() => void} */
  #started = () => {};
  /** @type {(problem: Error) => void} */
  #failed = () => {};

  /** @param {string} view the address of what the server is to send */
  constructor(view) {
    super();
    this.view = view;
    /** Resolved when the state has arrived, rejected with the reason why it will not arrive. @type {Promise<void>} */
    this.ready = new Promise((resolve, reject) => ([this.#started, this.#failed] = [resolve, reject]));
    void this.#follow(this.#control.signal);
  }

  /** Closes the connection, since a browser allows only few of them to a server, for all its pages together. */
  pause() {
    this.#control.abort();
  }

  /** Connects again after a pause. */
  resume() {
    this.#control = new AbortController();
    void this.#follow(this.#control.signal);
  }

  /** @param {Record<string, unknown>} content */
  send(content) {
    const body = JSON.stringify(content);
    // Errors are ignored: the sender of a request notices that no reply comes.
    fetch(this.#url("messages"), { method: "POST", headers: { "content-type": "application/json", ...authorization() }, body }).catch(() => {});
  }

  /** @param {string} path */
  #url(path) {
    return `${path}?page=${this.#page}&view=${encodeURIComponent(this.view)}`;
  }

  /** Reads frames, and connects again when the response ends, until the server refuses or is gone. @param {AbortSignal} signal */
  async #follow(signal) {
    let problem = "The page is closed: run batchai open again.";
    for (this.#retries = 0; this.#retries <= MAX_RETRIES; this.#retries += 1) {
      const refusal = await this.#read(signal).catch(() => "");
      if (signal.aborted) return;
      if (refusal) {
        problem = refusal;
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    this.#failed(new Error(problem));
    this.emit("lost");
  }

  /** Reads frames until the response ends; returns the reason if the server refuses, else "". @param {AbortSignal} signal */
  async #read(signal) {
    const response = await fetch(this.#url("stream"), { headers: authorization(), signal });
    if (!response.ok || !response.body) return response.text();
    for await (const frame of frames(response.body.getReader())) {
      this.#retries = 0;
      if (frame.content) this.emit("msg:custom", frame.content, frame.buffers);
      else this.#takeState(/** @type {Record<string, any>} */ (frame.state));
    }
    return "";
  }

  /**
   * @param {Record<string, any>} state the first one of a connection comes before all messages; `changed_rows`
   *   are those of its `rows` that differ, each with its index
   */
  #takeState({ changed_rows: changed, ...state }) {
    if (changed) state.rows = Object.assign([...this.get("rows")], Object.fromEntries(changed));
    this.setState(state);
    this.#started();
    if (state.is_first) this.emit("connected");
  }
}

/**
 * The frames of a response: the length of a header, the header as JSON, the buffers whose lengths it has.
 * @param {ReadableStreamDefaultReader<Uint8Array>} reader
 * @returns {AsyncGenerator<Frame>}
 */
export async function* frames(reader) {
  let bytes = new Uint8Array(0);
  for (;;) {
    for (let frame = firstFrame(bytes); frame; frame = firstFrame(bytes)) {
      yield frame;
      bytes = bytes.subarray(frame.size);
    }
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(bytes.length + value.length);
    joined.set(bytes);
    joined.set(value, bytes.length);
    bytes = joined;
  }
}

/**
 * The frame at the start of some bytes; null until it is complete.
 * @param {Uint8Array} bytes
 * @returns {Frame & {size: number} | null}
 */
function firstFrame(bytes) {
  if (bytes.length < LENGTH_BYTES) return null;
  const headerEnd = LENGTH_BYTES + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
  if (bytes.length < headerEnd) return null;
  const { buffers: lengths, ...header } = JSON.parse(new TextDecoder().decode(bytes.subarray(LENGTH_BYTES, headerEnd)));
  const size = headerEnd + lengths.reduce((/** @type {number} */ sum, /** @type {number} */ length) => sum + length, 0);
  if (bytes.length < size) return null;
  let at = headerEnd;
  const buffers = lengths.map((/** @type {number} */ length) => {
    at += length;
    return new DataView(bytes.buffer, bytes.byteOffset + at - length, length);
  });
  return { ...header, buffers, size };
}
