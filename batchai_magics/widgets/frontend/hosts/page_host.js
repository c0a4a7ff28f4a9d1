// The host of a view in a plain page: the server that `batchai open` starts, which sends frames over one response.

import { StateHost } from "./state_host.js";

/** @typedef {{state?: Record<string, any>, content?: any, buffers: DataView[]}} Frame */

const LENGTH_BYTES = 4; // of the header's length, before the header
const RETRY_MS = 1000;
const MAX_RETRIES = 15; // in a row, after which the server counts as gone

export class PageHost extends StateHost {
  #page = Math.random().toString(36).slice(2);
  #retries = 0;
  /** @type {() => void} */
  #started = () => {};

  /** @param {string} [address] of the server, with a slash at its end */
  constructor(address = "") {
    super();
    this.address = address;
    /** Resolved when the state has come. @type {Promise<void>} */
    this.ready = new Promise((resolve) => (this.#started = resolve));
    void this.#follow();
  }

  /** @param {Record<string, unknown>} content */
  send(content) {
    const body = JSON.stringify(content);
    // An answer that never comes is noticed by who waits for it.
    fetch(this.#url("messages"), { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => {});
  }

  /** @param {string} path */
  #url(path) {
    return `${this.address}${path}?page=${this.#page}`;
  }

  /** Reads frames, and connects again when the response ends, until the server is gone. */
  async #follow() {
    while (this.#retries <= MAX_RETRIES) {
      await this.#read().catch(() => {});
      this.#retries += 1;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    this.emit("lost");
  }

  async #read() {
    const response = await fetch(this.#url("stream"));
    if (!response.ok || !response.body) throw new Error(response.statusText);
    for await (const frame of frames(response.body.getReader())) {
      this.#retries = 0;
      if (frame.content) this.emit("msg:custom", frame.content, frame.buffers);
      else this.#takeState(/** @type {Record<string, any>} */ (frame.state));
    }
  }

  /** @param {Record<string, any>} state the first one of a connection comes before all messages */
  #takeState(state) {
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
