/** Operations on messages: a preview with count and sample, then progress, then the way back. */
import { html, useEffect, useRef, useState } from "./html.js";
import { call, get, path } from "./api.js";
import { attempt, notify } from "./state.js";
import { Dialog, Facts, Failure, Input, Name, Table, Tick, Time, visible } from "./parts.js";
import { bytes, count, duration, exact } from "./format.js";

const VERBS = {
  delete: "Delete", purge: "Purge", expire: "Expire", "dead-letter": "Send to dead letters", move: "Move", copy: "Copy", retry: "Retry",
  "change-priority": "Change the priority of", "deliver-now": "Deliver now", "cancel-scheduled": "Cancel",
};
const DONE = { delete: "deleted", purge: "purged", expire: "expired", "dead-letter": "sent to dead letters", move: "moved", copy: "copied",
  retry: "returned to their queues", "change-priority": "changed", "deliver-now": "made due", "cancel-scheduled": "cancelled" };
const SAMPLE = 6; // messages of a preview that are shown, so that the button stays in view
const ASKED_MS = 500; // between looks at the progress

/** The operations that users choose from, with the fields that each takes beside rate and undo. */
export const OPERATIONS = Object.keys(VERBS);
export const verb = (name) => VERBS[name] ?? name;

const messages = (number) => `${exact(number)} ${number === 1 ? "message" : "messages"}`;

/**
 * Chooses the particulars of one operation, previews it, does it. selection: {ids}, {selector}, {everything} and
 * conditions; `chooses` offers a selection by hand.
 */
export function OperationDialog({ vhost, queue, operation, selection = { everything: true }, destination = "", onClose, onDone }) {
  const [fields, setFields] = useState({ destination, priority: "4", rate: "", limit: "", strip: "", selector: selection.selector ?? "" });
  const [undo, setUndo] = useState(true);
  const [preview, setPreview] = useState(null);
  const [problem, setProblem] = useState(null);
  const [running, setRunning] = useState(null);
  const asked = useRef(0); // the answer to an earlier choice is no preview of this one
  const changed = () => {
    asked.current += 1;
    setPreview(null);
  };
  const set = (name) => (value) => {
    setFields({ ...fields, [name]: value });
    changed();
  };
  const where = `${path("queues", vhost, queue)}/operations`;
  const body = () => bodyOf(operation, selection, fields, undo);
  const look = async () => {
    setProblem(null);
    const own = (asked.current += 1);
    try {
      const found = await call("POST", where, { body: { ...body(), preview: true } });
      if (own === asked.current) setPreview(found);
    } catch (failed) {
      setProblem(failed);
    }
  };
  const takesMore = ["move", "copy", "change-priority", "retry"].includes(operation);
  useEffect(() => {
    if (destination || !["move", "copy"].includes(operation)) look();
  }, []);
  const start = async () => {
    setProblem(null);
    try {
      setRunning(await call("POST", where, { body: body() }));
    } catch (failed) {
      setProblem(failed);
    }
  };
  const title = `${verb(operation)} messages of ${queue}`;
  if (running) return html`<${Progress} ...${{ vhost, queue, title, started: running, onClose, onDone }} />`;
  return html`<${Dialog} title=${title} onClose=${onClose} wide>
    <form onSubmit=${(event) => { event.preventDefault(); look(); }}>
      <div class="form">
        ${["move", "copy"].includes(operation) && html`<${Input} label="To the queue" value=${fields.destination} onInput=${set("destination")} required autofocus />`}
        ${operation === "change-priority" && html`<${Input} label="Priority" type="number" min="0" max="255" value=${fields.priority} onInput=${set("priority")} />`}
        ${operation === "retry" && html`<${Input} label="Headers to leave out" hint="names with commas between" value=${fields.strip} onInput=${set("strip")} />`}
        ${!selection.ids && operation !== "purge" && html`
          <${Input} label="Only messages with" hint="a selector, such as region = 'eu'" value=${fields.selector} onInput=${set("selector")} />
          <${Input} label="At most" hint="messages; empty for all" type="number" min="1" value=${fields.limit} onInput=${set("limit")} />`}
        <${Input} label="Rate" hint="messages a second; empty for full speed" type="number" min="1" value=${fields.rate} onInput=${set("rate")} />
      </div>
      ${UNDOABLE.includes(operation) && html`<p><${Tick} label="Keep the messages for an undo" checked=${undo} onChange=${(on) => { setUndo(on); changed(); }} /></p>`}
      <div class="actions"><button>${preview ? "Preview again" : "Preview"}</button></div>
    </form>
    <${Failure} problem=${problem} />
    ${preview && html`<${Preview} preview=${preview} operation=${operation} />`}
    <div class="actions">
      <button onClick=${onClose}>Close</button>
      <button class=${takesMore ? "primary" : "danger"} disabled=${!preview || !preview.count} onClick=${start}>
        ${preview ? `${verb(operation)} ${messages(preview.count)}` : "Preview first"}
      </button>
    </div>
  <//>`;
}

const UNDOABLE = ["delete", "purge", "expire", "cancel-scheduled", "move", "retry"];

function bodyOf(operation, selection, fields, undo) {
  const body = { operation, ...(operation === "purge" ? {} : selection) };
  if (fields.selector && !selection.ids && operation !== "purge") {
    delete body.everything;
    body.selector = fields.selector;
  } else if (!fields.selector && selection.selector) {
    delete body.selector;
    body.everything = true;
  }
  if (["move", "copy"].includes(operation)) body.destination = fields.destination;
  if (operation === "change-priority") body.priority = Number(fields.priority);
  const strip = fields.strip.split(",").map((one) => one.trim()).filter(Boolean);
  if (operation === "retry" && strip.length) body.strip = strip;
  if (fields.rate) body.rate = Number(fields.rate);
  if (fields.limit && operation !== "purge") body.limit = Number(fields.limit);
  if (UNDOABLE.includes(operation) && !undo) body.undo = false;
  return body;
}

function Preview({ preview, operation }) {
  const { undo } = preview;
  return html`<section aria-label="Preview">
    <div class=${preview.count ? "warning" : "well"} role="status">
      ${preview.count ? `${messages(preview.count)} would be ${DONE[operation]}, ${bytes(preview.bytes)} in all.` : "No message would be changed."}
      ${preview.refusal && html` <${Name} text=${preview.refusal} />`}
      ${undo && preview.count > 0 && undo.kept > 0 && ` ${messages(undo.kept)} can be brought back for ${duration(undo.seconds * 1000)}.`}
      ${undo && undo.unkept > 0 && html` ${messages(undo.unkept)} cannot be brought back: <${Name} text=${undo.reason} />`}
    </div>
    ${Object.entries(preview.skipped).map(([why, number]) => html`<p key=${why}>${messages(number)} skipped: ${visible(why)}</p>`)}
    ${preview.sample.length > 0 && html`<h3>Sample</h3>
      <${Table} caption="Sample of the messages" rows=${preview.sample.slice(0, SAMPLE)} rowKey=${(row) => row.id} columns=${[
        { key: "id", label: "Id", number: true },
        { key: "state", label: "State" },
        { key: "size", label: "Size", cell: (row) => bytes(row.size) },
        { key: "accepted_at", label: "Accepted", cell: (row) => html`<${Time} at=${row.accepted_at} />` },
        { key: "publisher", label: "Publisher" },
        { key: "obstacle", label: "Obstacle" },
      ]} />`}
  </section>`;
}

/** Progress of a running operation, with stop and undo. */
export function Progress({ vhost, queue, title, started, onClose, onDone }) {
  const [state, setState] = useState(started);
  const where = `${path("queues", vhost, queue)}/operations/${started.id}`;
  const running = state.state === "running";
  useEffect(() => {
    if (!running) {
      onDone?.();
      return undefined;
    }
    const timer = setInterval(() => {
      get(where, { page_size: 1 }).then(setState, (problem) => problem.status && setState({ ...state, state: "stopped", reason: problem.message }));
    }, ASKED_MS);
    return () => clearInterval(timer);
  }, [running]);
  const stop = () => attempt(async () => setState(await call("DELETE", where)), "Stopped; what was changed stays changed.");
  const way = state.undo;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <progress max=${Math.max(1, state.total)} value=${running ? state.seen : Math.max(1, state.total)} aria-label="Progress"></progress>
    <p role="status">${running ? "Running" : state.state === "finished" ? "Finished" : state.state}:
      ${" "}<strong>${messages(state.done)}</strong> ${DONE[state.operation] ?? "done"}${running ? ` of ${count(state.total)}` : ""}.
      ${state.reason && html` <${Name} text=${state.reason} />`}</p>
    <${Facts} items=${[
      ["Looked at", exact(state.seen)],
      ...Object.entries(state.skipped).map(([why, number]) => [visible(why), exact(number)]),
      way && ["Can be brought back", html`${exact(way.kept)} until <${Time} at=${way.until} />`],
    ]} />
    <div class="actions">
      ${running && html`<button class="danger" onClick=${stop}>Stop</button>`}
      ${!running && way && way.kept > 0 && html`<button onClick=${() => { onClose(); undoOperation(vhost, queue, way.undo, onDone); }}>Undo</button>`}
      <button class="primary" onClick=${onClose}>Close</button>
    </div>
  <//>`;
}

/** Bring back what an operation took away, and say how much came. */
export async function undoOperation(vhost, queue, token, onDone) {
  try {
    let state = await call("POST", path("queues", vhost, queue, "undo", token), { body: {} });
    const where = `${path("queues", vhost, queue)}/operations/${state.id}`;
    while (state.state === "running") {
      await new Promise((resolve) => setTimeout(resolve, ASKED_MS));
      state = await get(where, { page_size: 1 });
    }
    notify(`Undone: ${messages(state.done)} brought back.${state.reason ? ` ${state.reason}` : ""}`);
  } catch (problem) {
    notify(problem.message, { kind: "problem" });
  }
  onDone?.();
}
