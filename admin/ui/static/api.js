// The administration API, with the token of the person at the page. The token is in memory and in
// sessionStorage, which ends with the tab; other tabs of this page are asked for it.

const KEY = "posthaste-token";
let token = sessionStorage.getItem(KEY) ?? "";
let refused = () => {};

const tabs = "BroadcastChannel" in globalThis ? new BroadcastChannel("posthaste-ui") : null;
tabs?.addEventListener("message", ({ data }) => {
  if (data?.ask && token) tabs.postMessage({ token });
  if (data?.out) forget();
});

// shared resolves to whether another tab has given its token.
export function shared() {
  if (token || !tabs) return Promise.resolve(Boolean(token));
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), 250);
    tabs.addEventListener("message", ({ data }) => {
      if (!data?.token || token) return;
      clearTimeout(timer);
      keep(data.token);
      resolve(true);
    });
    tabs.postMessage({ ask: true });
  });
}

export const known = () => token !== "";

export function keep(text) {
  token = text;
  sessionStorage.setItem(KEY, text);
}

export function forget() {
  token = "";
  sessionStorage.removeItem(KEY);
  refused();
}

export function signOut() {
  tabs?.postMessage({ out: true });
  forget();
}

// whenRefused sets what happens if the token is not valid any more.
export function whenRefused(f) {
  refused = f;
}

// A Problem is a refusal by the API, or a failure to reach it (status 0).
export class Problem extends Error {
  constructor(status, detail, errors = []) {
    super([detail, ...errors.map((e) => `${e.location ? e.location + ": " : ""}${e.message}`)].join(" · "));
    this.status = status;
  }
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "omit", headers: { ...options.headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The daemon cannot be reached. It may be restarting; the page tries again.");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) forget();
  throw new Problem(answer.status, body.detail ?? answer.statusText, body.errors);
}

// query writes parameters; lists are repeated, and what is empty is left out.
export function query(params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== "" && one !== undefined && one !== null) q.append(name, one);
  }
  const text = q.toString();
  return text ? "?" + text : "";
}

export const get = async (path, params, signal) => (await request(path + query(params), { signal })).json();

export const post = async (path, body) =>
  (await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

// head returns the header of a message: what comes before the first empty line, 64 KB at most.
export async function head(id, signal) {
  const stop = new AbortController();
  signal?.addEventListener("abort", () => stop.abort());
  const answer = await request(`/v1/messages/${encodeURIComponent(id)}/content`, { signal: stop.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? "";
    const end = text.indexOf("\r\n\r\n");
    if (end >= 0 || done || text.length > 65536) {
      stop.abort();
      return end >= 0 ? text.slice(0, end) : text.slice(0, 65536);
    }
  }
}

// follow calls take with each event of a stream until the signal ends it. EventSource could not send
// the token.
export async function follow(path, params, take, signal) {
  const answer = await request(path + query(params), { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text.slice(0, end).split("\n").filter((l) => l.startsWith("data: ")).map((l) => l.slice(6)).join("\n");
      text = text.slice(end + 2);
      if (data) take(JSON.parse(data));
    }
  }
}
