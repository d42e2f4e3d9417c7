/** Requests to /api/v1, the session, and what the page knows of the broker being there. */
import { signal, useEffect, useRef, useState } from "./html.js";

const BASE = "/api/v1/";
const PROBE_MS = 1500; // between attempts to reach a broker that does not answer
const ANSWER_MS = 20000; // a request without an answer for so long counts as lost

/** undefined: not known yet; null: nobody is signed in; else {user, tags, csrf, permissions, scope}. */
export const session = signal(undefined);
/** Whether the last request got an answer at all. */
export const online = signal(true);
/** Counts the times that the broker came back, so that pages read anew at once. */
export const returned = signal(0);

/** An answer that is an error, in the broker's words. */
export class Problem extends Error {
  constructor(status, detail, title) {
    super(detail);
    this.status = status;
    this.title = title;
  }
}

/** A path of encoded names: path("queues", "/", "orders") is "queues/%2F/orders". */
export const path = (...names) => names.map((name) => encodeURIComponent(String(name))).join("/");

/** A query of the parameters that have a value. */
export function query(parameters = {}) {
  const given = Object.entries(parameters).filter(([, one]) => one !== undefined && one !== null && one !== "");
  return given.length ? "?" + new URLSearchParams(given).toString() : "";
}

export async function call(method, where, { body, parameters, headers = {}, text } = {}) {
  const given = { Accept: "application/json", ...headers };
  if (method !== "GET" && session.value) given["X-CSRF-Token"] = session.value.csrf;
  if (body !== undefined || text !== undefined) given["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(BASE + where + query(parameters), {
      method,
      headers: given,
      body: text ?? (body === undefined ? undefined : JSON.stringify(body)),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  } catch {
    lost();
    throw new Problem(0, "The broker does not answer. The page tries again by itself.", "No answer");
  }
  back();
  const content = await answer.text();
  let read = null;
  try {
    read = content ? JSON.parse(content) : null;
  } catch {
    read = { detail: content.slice(0, 500) };
  }
  if (answer.status === 401 && where !== "session") session.value = null;
  if (!answer.ok) throw new Problem(answer.status, read?.detail || read?.reason || answer.statusText, read?.title);
  const spent = /dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "");
  if (read && spent) costs.set(read, Number(spent[1]));
  if (read && answer.headers.get("ETag")) tags.set(read, answer.headers.get("ETag"));
  return read;
}

const tags = new WeakMap();
const costs = new WeakMap(); // milliseconds of the broker's loop that an answer took, as the broker says
const FRAME_MS = 0.6; // and what it says nothing of: reading the request and writing the answer
const SHARE = 2000; // the lists of a page take a two-thousandth of the loop together: 0.5 ms a second
const PAUSE_MOST_MS = 10000;
let readers = 0; // lists that are read again and again

/** How long to wait before something is read again: `every`, and longer where its last answer was dear. */
export function pauseAfter(read, every, most = PAUSE_MOST_MS) {
  return Math.max(every, Math.min(most, (FRAME_MS + (costs.get(read) ?? 0)) * SHARE * Math.max(1, readers)));
}

/** Headers with which a change is refused when its object is not any more as `read` says. */
export const ifUnchanged = (read) => (tags.has(read) ? { "If-Match": tags.get(read) } : {});

export const get = (where, parameters) => call("GET", where, { parameters });

function back() {
  if (online.value) return;
  online.value = true;
  returned.value += 1;
}

function lost() {
  if (!online.value) return;
  online.value = false;
  const probe = () => {
    fetch(BASE + "session", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) }).then(
      (answer) => {
        back();
        if (answer.status === 401) session.value = null; // a broker that started again knows no sessions
      },
      () => setTimeout(probe, PROBE_MS),
    );
  };
  setTimeout(probe, PROBE_MS);
}

export async function findSession() {
  try {
    session.value = await get("session");
  } catch (problem) {
    if (problem.status) session.value = null;
    else setTimeout(findSession, PROBE_MS);
  }
}

export async function signIn(user, password) {
  session.value = await call("POST", "session", { body: { user, password } });
}

export async function signOut() {
  await call("DELETE", "session");
  session.value = null;
}

const IMPLIED_BY = { browse: "read", manage: "configure" };

/** Whether a button that takes a permission is shown: the rule of the broker, which decides in the end. */
export function may(kind, vhost, name) {
  const own = session.value;
  if (!own) return false;
  if (own.scope && !scopeAllows(own.scope, kind, vhost)) return false;
  if (own.tags.includes("administrator")) return true;
  if (kind !== "read" && kind !== "browse" && !own.tags.includes("management")) return false;
  const patterns = own.permissions.find((one) => one.vhost === vhost);
  if (!patterns) return false;
  return matches(patterns[kind], name || "amq.default") || (IMPLIED_BY[kind] ? may(IMPLIED_BY[kind], vhost, name) : false);
}

function scopeAllows(scope, kind, vhost) {
  const operations = scope.operations;
  const implied = IMPLIED_BY[kind];
  if (!operations.includes(kind) && !(implied && operations.includes(implied))) return false;
  return !scope.virtual_hosts.length || scope.virtual_hosts.includes(vhost);
}

function matches(pattern, name) {
  if (!pattern) return false;
  try {
    return new RegExp(pattern, "u").test(name);
  } catch {
    return true; // an expression of Python that JavaScript does not know: the broker decides
  }
}

export const administrator = () => Boolean(session.value?.tags.includes("administrator"));
/** Whether the user sees what tells of every virtual host, such as the log. */
export const overseer = () => (administrator() || Boolean(session.value?.tags.includes("monitoring"))) && !session.value.scope?.virtual_hosts.length;
export const writer = () => administrator() || Boolean(session.value?.tags.includes("management"));

/**
 * What a path answers, read again after `every` ms or later (pauseAfter) while the page is shown. `where` of null reads
 * nothing. Data of the last answer stay when a later one fails.
 */
export function useLive(where, { parameters, every = 2000, most } = {}) {
  const address = where === null ? null : where + query(parameters);
  const [state, setState] = useState({ data: null, problem: null, address: null });
  const again = useRef(() => undefined);
  useEffect(() => {
    if (address === null) return undefined;
    let timer = 0;
    let ended = false;
    let reading = false;
    let pause = every;
    if (every) readers += 1;
    const read = async () => {
      clearTimeout(timer);
      if (ended || reading || document.hidden) return;
      reading = true;
      try {
        const data = await get(address);
        pause = pauseAfter(data, every, most);
        if (!ended) setState({ data, problem: null, address });
      } catch (problem) {
        if (!ended) setState((old) => ({ data: old.address === address ? old.data : null, problem, address }));
      }
      reading = false;
      if (!ended && every) timer = setTimeout(read, pause);
    };
    again.current = read;
    document.addEventListener("visibilitychange", read);
    const unsubscribe = returned.subscribe(() => void read());
    return () => {
      ended = true;
      if (every) readers -= 1;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", read);
      unsubscribe();
    };
  }, [address, every]);
  const fresh = state.address === address;
  return { data: fresh ? state.data : null, problem: fresh ? state.problem : null, again: () => again.current() };
}
