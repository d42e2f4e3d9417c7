/** All queues: a list of any length, of which only the shown part is read and drawn. */
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { administrator, call, get, may, path, pauseAfter, returned, writer } from "../api.js";
import { Badge, Cell, Choice, Dialog, Empty, Failure, Field, Figure, Head, Input, Name, Page, Spark, Tick, visible } from "../parts.js";
import { adjust, chosenHost, go, hosts, link, place, remember, remembered, notify, vhost } from "../state.js";
import { bytes, count, rate } from "../format.js";
import { undoOperation } from "../operations.js";

const PAGE = 100; // queues of one request
const ROW = 38; // height of a row in pixels, as in the style sheet
const EVERY_MS = 2000;
const ALL_UP_TO = 200; // queues of which the whole order is read each time; of more, the shown ones by name
const ORDER_MS = 300000; // the longest time between two readings of the order of very many queues
const NAMES_MAX = 4000; // characters of the names in a request
const SPARKS = 30; // readings of a sparkline
const PAGES_KEPT = 40; // pages of queues in memory

const STATE_TONE = { paused: "warn", blocked: "bad", running: "good" };
export const stateOf = (queue) => (queue.paused ? "paused" : queue.blocked ? "blocked" : "running");

/** Every column: what it needs of the API, and how it is drawn. */
const COLUMNS = [
  { key: "name", label: "Queue", needs: ["name", "vhost"], cell: (row) => html`<a href=${link(["queues", row.vhost, row.name])}><${Name} text=${row.name} /></a>` },
  { key: "vhost", label: "Virtual host", needs: ["vhost"] },
  { key: "state", label: "State", needs: ["paused", "blocked"], sort: false, cell: (row) => html`<${Badge} tone=${STATE_TONE[stateOf(row)]}>${stateOf(row)}<//>` },
  { key: "messages", label: "Messages", needs: ["messages"], number: true },
  { key: "trend", label: "Trend", needs: ["messages"], sort: false, cell: (row) => html`<${Spark} values=${row.trend ?? []} label=${`Messages of ${visible(row.name)}`} />` },
  { key: "messages_ready", label: "Ready", needs: ["messages_ready"], number: true },
  { key: "messages_unacknowledged", label: "Not settled", needs: ["messages_unacknowledged"], number: true },
  { key: "scheduled_count", label: "Scheduled", needs: ["scheduled_count"], number: true },
  { key: "consumers", label: "Consumers", needs: ["consumers"], number: true },
  { key: "rate_in", label: "In", needs: ["messages_added"], number: true, sort: false, cell: (row) => html`<${Figure} name="rate_in" as="rate" value=${row.rate_in} />` },
  { key: "rate_acknowledged", label: "Acknowledged", needs: ["messages_acknowledged"], number: true, sort: false, cell: (row) => html`<${Figure} name="rate_acknowledged" as="rate" value=${row.rate_acknowledged} />` },
  { key: "pending_bytes", label: "Bytes", needs: ["pending_bytes"], number: true, cell: (row) => html`<${Figure} name="pending_bytes" as="bytes" value=${row.pending_bytes} />` },
  { key: "messages_added", label: "Entered", needs: ["messages_added"], number: true },
  { key: "messages_acknowledged", label: "Acknowledged in all", needs: ["messages_acknowledged"], number: true },
  { key: "messages_expired", label: "Expired", needs: ["messages_expired"], number: true },
  { key: "messages_replaced", label: "Replaced", needs: ["messages_replaced"], number: true },
  { key: "messages_dropped", label: "Dropped", needs: ["messages_dropped"], number: true },
  { key: "messages_dead_lettered", label: "Dead letters", needs: ["messages_dead_lettered"], number: true },
  { key: "durable", label: "Durable", needs: ["durable"], cell: (row) => (row.durable ? "yes" : "no") },
];
const SHOWN = ["name", "state", "messages", "trend", "messages_unacknowledged", "consumers", "rate_in", "rate_acknowledged"];

const rowKey = (row) => `${row.vhost}\0${row.name}`;

/** Reads pages of queues behind each other's cursors, keeps a few, and computes rates between two readings. */
class Pages {
  constructor(parameters) {
    this.parameters = parameters;
    this.pages = new Map(); // number: {items, next}
    this.before = new Map(); // key of a queue: {at, counters, trend}
    this.total = null;
    this.all = 0;
    this.due = 0; // when the order may be read again
    this.next = 0; // and the figures
  }

  /** Reads the figures of rows that are shown, in their places. Returns whether it could. */
  async refresh(rows) {
    const only = rows.map((row) => path(row.vhost, row.name)).join(",");
    if (!rows.length || rows.length > PAGE || only.length > NAMES_MAX) return false;
    const found = await get("queues", { columns: this.parameters.columns, only, page_size: PAGE });
    const at = Date.now();
    this.next = at + pauseAfter(found, EVERY_MS) - EVERY_MS / 2;
    const later = new Map(found.items.map((row) => [rowKey(row), this.withRates(row, at)]));
    for (const page of this.pages.values()) page.items = page.items.map((row) => later.get(rowKey(row)) ?? row);
    return true;
  }

  async read(number) {
    const cursor = this.pages.get(number - 1)?.next;
    const place = cursor ? { cursor } : { page: number + 1 };
    const found = await get("queues", { ...this.parameters, page_size: PAGE, ...place });
    const at = Date.now();
    this.total = found.filtered_count;
    this.all = found.total_count;
    this.due = at + pauseAfter(found, EVERY_MS, ORDER_MS);
    this.next = this.all > ALL_UP_TO ? 0 : this.due - EVERY_MS / 2; // of many, the shown ones are read before the order is due
    this.pages.set(number, { items: found.items.map((row) => this.withRates(row, at)), next: found.next });
    for (const kept of this.pages.keys()) {
      if (this.pages.size > PAGES_KEPT && Math.abs(kept - number) > 2) this.pages.delete(kept);
    }
  }

  withRates(row, at) {
    const key = rowKey(row);
    const last = this.before.get(key);
    const seconds = last ? (at - last.at) / 1000 : 0;
    const trend = [...(last?.trend ?? []), row.messages].slice(-SPARKS);
    if (this.before.size > PAGE * PAGES_KEPT) this.before.clear();
    this.before.set(key, { at, row, trend });
    const each = (name) => (seconds > 0 && row[name] !== undefined ? Math.max(0, (row[name] - last.row[name]) / seconds) : undefined);
    return { ...row, trend, rate_in: each("messages_added"), rate_acknowledged: each("messages_acknowledged") };
  }

  row(number) {
    return this.pages.get(Math.floor(number / PAGE))?.items[number % PAGE];
  }
}

function useQueues(parameters, first, last) {
  const key = JSON.stringify(parameters);
  const source = useMemo(() => new Pages(parameters), [key]);
  const [, setDrawn] = useState(0);
  const [problem, setProblem] = useState(null);
  const shown = useRef([0, 0]);
  shown.current = [Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)];
  const reading = useRef(null);
  const rows = () => {
    const found = [];
    for (let number = first; number < last; number += 1) {
      const row = source.row(number);
      if (row) found.push(row);
    }
    return found;
  };
  const shownRows = useRef(rows);
  shownRows.current = rows;
  const read = async (again) => {
    if (reading.current === source || document.hidden || (again === true && Date.now() < source.next)) return;
    reading.current = source;
    try {
      const [from, to] = shown.current;
      const spare = again === true && source.all > ALL_UP_TO && Date.now() < source.due;
      if (!spare || !(await source.refresh(shownRows.current()))) for (let number = from; number <= to; number += 1) await source.read(number);
      setProblem(null);
    } catch (failed) {
      setProblem(failed);
    }
    if (reading.current === source) reading.current = null;
    setDrawn((number) => number + 1);
  };
  const missing = !source.pages.has(shown.current[0]) || !source.pages.has(shown.current[1]);
  useEffect(() => {
    if (missing) {
      const timer = setTimeout(() => read(), 60); // while somebody scrolls, only the place where they stop is read
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [source, ...shown.current, missing]);
  useEffect(() => {
    const timer = setInterval(() => read(true), EVERY_MS);
    document.addEventListener("visibilitychange", read);
    const unsubscribe = returned.subscribe(() => void read());
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", read);
      unsubscribe();
    };
  }, [source]);
  return { source, problem, read };
}

export function Queues() {
  const { parameters } = place.value;
  const [columns, setColumns] = useState(() => remembered("queues.columns", SHOWN));
  const [view, setView] = useState({ top: 0, height: 600 });
  const [chosen, setChosen] = useState(() => new Map());
  const [dialog, setDialog] = useState("");
  const box = useRef(null);
  const choices = { ...remembered("queues.order", { sort: "messages", reverse: "true" }), ...parameters };
  const columnsShown = COLUMNS.filter((column) => columns.includes(column.key));
  const needs = [...new Set(["name", "vhost", "messages", ...columnsShown.flatMap((column) => column.needs)])];
  const asked = {
    columns: needs.join(","), vhost: vhost.value, name: choices.name, kind: choices.kind, state: choices.state,
    nonempty: choices.nonempty, sort: choices.sort === "name" ? "" : choices.sort, sort_reverse: choices.reverse === "true" ? "true" : "",
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - 5);
  const last = Math.ceil((view.top + view.height) / ROW) + 5;
  const { source, problem, read } = useQueues(asked, first, last);
  const set = (changes) => {
    adjust(changes);
    setView({ ...view, top: 0 });
    if (box.current) box.current.scrollTop = 0;
  };
  const sort = (key) => {
    const reverse = choices.sort === key ? String(choices.reverse !== "true") : String(key !== "name" && key !== "vhost");
    remember("queues.order", { sort: key, reverse });
    set({ sort: key, reverse });
  };
  const pick = (row, on) => {
    const next = new Map(chosen);
    if (on) next.set(rowKey(row), row);
    else next.delete(rowKey(row));
    setChosen(next);
  };
  const canMake = administrator() || writer();
  return html`<${Page} title="Queues" actions=${html`
      <button onClick=${() => setDialog("columns")}>Columns</button>
      ${canMake && html`<button class="primary" onClick=${() => setDialog("new")}>Make a queue</button>`}`}>
    <${Filters} choices=${choices} set=${set} />
    <${Failure} problem=${problem} again=${() => read()} />
    ${chosen.size > 0 && html`<${Bulk} chosen=${[...chosen.values()]} onDone=${() => { setChosen(new Map()); read(); }} />`}
    ${source.total === null ? !problem && html`<p class="quiet loading" role="status">Loading …</p>` : source.total === 0
      ? html`<${Empty}>${source.all ? "No queue passes the filter." : "There is no queue yet. Clients declare queues, or press “Make a queue”."}<//>`
      : html`<p class="quiet" role="status">${count(source.total)} queues${source.total < source.all ? ` of ${count(source.all)}` : ""}</p>
        <${Rows} ...${{ source, columns: columnsShown, first, last, choices, sort, box, setView, chosen, pick }} />`}
    ${dialog === "columns" && html`<${Columns} columns=${columns} onClose=${() => setDialog("")} onChange=${(next) => {
        setColumns(next);
        remember("queues.columns", next);
      }} />`}
    ${(dialog === "new" || parameters.new) && canMake && html`<${NewQueue} onClose=${() => { setDialog(""); adjust({ new: "" }); }} />`}
  <//>`;
}

const KINDS = [["", "of any kind"], ["fifo", "first in, first out"], ["ring", "rings"], ["last-value", "last value"], ["priorities", "priorities"],
  ["sorted", "sorted"], ["groups", "groups"], ["fair", "fair turns"], ["limited", "with limits"]];

const Filters = ({ choices, set }) => html`<div class="filters" role="search">
  <${Field} label="Name has"><input type="search" value=${choices.name ?? ""} onInput=${(event) => set({ name: event.target.value })} /><//>
  <${Choice} label="Kind" value=${choices.kind ?? ""} options=${KINDS} onChange=${(kind) => set({ kind })} />
  <${Choice} label="State" value=${choices.state ?? ""} options=${[["", "any"], ["running", "running"], ["paused", "paused"], ["blocked", "blocked"]]} onChange=${(state) => set({ state })} />
  <${Tick} label="Only with messages" checked=${choices.nonempty === "true"} onChange=${(on) => set({ nonempty: on ? "true" : "" })} />
</div>`;

function Rows({ source, columns, first, last, choices, sort, box, setView, chosen, pick }) {
  const until = Math.min(last, source.total);
  const numbers = [];
  for (let number = Math.min(first, until); number < until; number += 1) numbers.push(number);
  useEffect(() => {
    const look = () => box.current && setView({ top: box.current.scrollTop, height: box.current.clientHeight });
    look();
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  const sorted = { key: choices.sort, reverse: choices.reverse === "true" };
  return html`<div class="scroll virtual" ref=${box} tabindex="0" role="region" aria-label="Queues"
      onScroll=${(event) => setView({ top: event.target.scrollTop, height: event.target.clientHeight })}>
    <table aria-rowcount=${source.total + 1}>
      <caption class="hidden">Queues</caption>
      <thead><tr aria-rowindex="1"><th class="tick"><span class="hidden">Choose</span></th>
        ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sorted=${sorted} onSort=${sort} />`)}</tr></thead>
      <tbody>
        ${numbers[0] > 0 && html`<tr class="space" key="above" aria-hidden="true"><td colspan=${columns.length + 1} style=${{ height: `${numbers[0] * ROW}px` }}></td></tr>`}
        ${numbers.map((number) => {
          const row = source.row(number);
          if (!row) return html`<tr key=${number} aria-rowindex=${number + 2}><td class="tick"></td><td class="quiet" colspan=${columns.length}>…</td></tr>`;
          return html`<tr key=${number} aria-rowindex=${number + 2}>
            <td class="tick"><input type="checkbox" aria-label=${`Choose ${visible(row.name)}`} checked=${chosen.has(rowKey(row))} onChange=${(event) => pick(row, event.target.checked)} /></td>
            ${columns.map((column) => html`<${Cell} key=${column.key} column=${column} row=${row} />`)}</tr>`;
        })}
        ${until < source.total && html`<tr class="space" key="below" aria-hidden="true"><td colspan=${columns.length + 1} style=${{ height: `${(source.total - until) * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

const Columns = ({ columns, onChange, onClose }) => html`<${Dialog} title="Columns" onClose=${onClose}>
  <div class="form">${COLUMNS.slice(1).map((column) => html`<${Tick} key=${column.key} label=${column.label} checked=${columns.includes(column.key)}
    onChange=${(on) => onChange(COLUMNS.map((one) => one.key).filter((key) => (key === column.key ? on : columns.includes(key))))} />`)}</div>
  <div class="actions"><button onClick=${() => onChange(SHOWN)}>The usual ones</button><button class="primary" onClick=${onClose}>Close</button></div>
<//>`;

const ACTIONS = [
  { key: "purge", label: "Purge", permission: "manage", tone: "danger" },
  { key: "pause", label: "Pause", permission: "manage" },
  { key: "resume", label: "Resume", permission: "manage" },
  { key: "delete", label: "Delete", permission: "configure", tone: "danger" },
];

/** Actions on chosen queues: a preview of each queue's messages first. */
function Bulk({ chosen, onDone }) {
  const [action, setAction] = useState(null);
  const possible = ACTIONS.filter((one) => chosen.every((row) => may(one.permission, row.vhost, row.name)));
  return html`<div class="card actions">
    <strong>${chosen.length} chosen</strong>
    ${possible.map((one) => html`<button key=${one.key} class=${one.tone ?? ""} onClick=${() => setAction(one)}>${one.label}</button>`)}
    ${!possible.length && html`<span class="quiet">You may change none of them.</span>`}
    <button onClick=${onDone}>Choose none</button>
    ${action && html`<${BulkDialog} ...${{ action, chosen }} onClose=${() => setAction(null)} onDone=${() => { setAction(null); onDone(); }} />`}
  </div>`;
}

function BulkDialog({ action, chosen, onClose, onDone }) {
  const [found, setFound] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    Promise.all(chosen.map((row) => get(path("queues", row.vhost, row.name)))).then(setFound, (problem) => {
      notify(problem.message, { kind: "problem" });
      onClose();
    });
  }, []);
  const run = async () => {
    setBusy(true);
    const failed = [];
    for (const row of chosen) {
      const where = path("queues", row.vhost, row.name);
      try {
        if (action.key === "delete") await call("DELETE", where);
        else if (action.key === "purge") await purge(row);
        else await call("POST", `${where}/${action.key}`, { body: {} });
      } catch (problem) {
        failed.push(problem.message);
      }
    }
    notify(failed.length ? `${failed.length} of ${chosen.length} failed: ${failed[0]}` : `${action.label}: ${chosen.length} queues done.`, { kind: failed.length ? "problem" : "done" });
    onDone();
  };
  const messages = found?.reduce((sum, one) => sum + one.messages_ready + one.scheduled_count, 0);
  const consumers = found?.reduce((sum, one) => sum + one.consumers, 0);
  return html`<${Dialog} title=${`${action.label} ${chosen.length} queues`} onClose=${onClose}>
    ${found ? html`<div class="warning" role="status">${effect(action.key, messages, consumers, chosen.length)}</div>
      <ul>${found.map((one) => html`<li key=${rowKey(one)}><${Name} text=${one.name} />: ${count(one.messages)} messages, ${count(one.consumers)} consumers</li>`)}</ul>`
      : html`<p class="quiet">Counting …</p>`}
    <div class="actions"><button onClick=${onClose}>Cancel</button>
      <button class=${action.tone ?? "primary"} disabled=${!found || busy} onClick=${run}>${action.label}</button></div>
  <//>`;
}

function effect(action, messages, consumers, queues) {
  if (action === "delete") return `${queues} queues and ${count(messages)} messages would be gone, ${count(consumers)} consumers end. "annulet undo" brings queues and messages back for a time.`;
  if (action === "purge") return `${count(messages)} messages would be removed. An undo is offered for each queue on its page.`;
  return action === "pause" ? `${count(consumers)} consumers would get nothing until the queues are resumed.` : "Consumers get messages again.";
}

async function purge(row) {
  const begun = await call("POST", `${path("queues", row.vhost, row.name)}/operations`, { body: { operation: "purge" } });
  if (chosenOne(begun)) notify(`Purged ${visible(row.name)}.`, { action: { label: "Undo", run: () => undoOperation(row.vhost, row.name, begun.undo.undo) } });
}

const chosenOne = (begun) => Boolean(begun.undo);

/** Arguments that most queues want; any other one is given by name. */
const PRESETS = [
  ["ring-size", "Keep the last N messages", "number"],
  ["last-value-key", "Keep the last message per value of", "text"],
  ["max-priority", "Priorities from 0 to", "number"],
  ["message-ttl", "Messages expire after (ms)", "number"],
  ["max-length", "At most N messages", "number"],
  ["dead-letter-address", "Dead letters to the address", "text"],
];

function NewQueue({ onClose }) {
  const [host, setHost] = useState(chosenHost());
  const [name, setName] = useState("");
  const [durable, setDurable] = useState(true);
  const [values, setValues] = useState({});
  const [more, setMore] = useState("");
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      const given = PRESETS.filter(([key]) => values[key]).map(([key, , type]) => [key, type === "number" ? Number(values[key]) : values[key]]);
      const args = { ...Object.fromEntries(given), ...(more.trim() ? JSON.parse(more) : {}) };
      await call("PUT", path("queues", host, name), { body: { durable, arguments: args }, headers: { "If-None-Match": "*" } });
      notify(`Made the queue ${visible(name)}.`);
      go(["queues", host, name]);
    } catch (failed) {
      setProblem({ status: failed.status || 400, title: "Not made", message: failed.message });
    }
  };
  return html`<${Dialog} title="Make a queue" onClose=${onClose} wide><form onSubmit=${submit}>
    <${Failure} problem=${problem} />
    <div class="form">
      <${Input} label="Name" value=${name} onInput=${setName} required autofocus />
      <${Choice} label="Virtual host" value=${host} options=${hosts.value.map((one) => [one, one])} onChange=${setHost} />
      ${PRESETS.map(([key, label, type]) => html`<${Input} key=${key} label=${label} type=${type} hint=${key} value=${values[key] ?? ""} onInput=${(value) => setValues({ ...values, [key]: value })} />`)}
      <div class="whole"><${Field} label="Further arguments" hint='as JSON, such as {"group-mode": "sticky"}; the documentation has the list of queue arguments'>
        <textarea value=${more} onInput=${(event) => setMore(event.target.value)}></textarea><//></div>
    </div>
    <p><${Tick} label="Durable: it is there after a restart of the broker" checked=${durable} onChange=${setDurable} /></p>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary" disabled=${!may("configure", host, name)}>Make it</button></div>
  </form><//>`;
}
