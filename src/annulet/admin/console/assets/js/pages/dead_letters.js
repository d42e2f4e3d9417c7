/** Dead letters by origin and reason, and their way back. */
import { html, useEffect, useRef, useState } from "../html.js";
import { get, may, path, pauseAfter, useLive } from "../api.js";
import { Badge, Failure, Input, Name, Page, Shown, Table, Time } from "../parts.js";
import { adjust, link, place, vhost } from "../state.js";
import { count, exact } from "../format.js";
import { reason } from "../definitions.js";
import { OperationDialog } from "../operations.js";
import { Message } from "./queue_messages.js";

const ORIGINS = 200; // queues that sent most dead letters
const EVERY_MS = 2500; // between two looks, for each request of a look
const PAUSE_MS = 300000; // the longest time between two, with very many queues
const PART = 500; // messages of a queue that are sorted by their origins at a time

/** Targets of a queue's dead letters: names of queues, or of the exchange that decides. */
function targetOf(settings, name) {
  if (settings.dead_letter_address) return { exchange: settings.dead_letter_address };
  if (settings.dead_letter_exchange) return { exchange: settings.dead_letter_exchange };
  if (settings.dead_letter_routing_key) return { queue: settings.dead_letter_routing_key };
  return null;
}

async function queuesOf(host, { queue, exchange }) {
  if (queue) return [queue];
  const found = await get("bindings", { vhost: host, source: exchange, page_size: 100 });
  const bound = found.items.filter((one) => one.destination_type === "queue").map((one) => one.destination);
  return bound.length ? bound : [exchange]; // an address without bindings has a queue of its name
}

/** Every queue that dead letters go to, with the queues that send them there. */
async function survey(host) {
  const found = await get("queues", { vhost: host, columns: "vhost,name,messages_dead_lettered,settings", sort: "messages_dead_lettered", sort_reverse: "true", page_size: ORIGINS });
  const targets = new Map();
  for (const row of found.items) {
    const target = targetOf(row.settings, row.name);
    if (!target) continue;
    for (const name of await queuesOf(row.vhost, target)) {
      const key = `${row.vhost}\0${name}`;
      const entry = targets.get(key) ?? { vhost: row.vhost, name, origins: [] };
      entry.origins.push({ name: row.name, sent: row.messages_dead_lettered });
      targets.set(key, entry);
    }
  }
  const read = await Promise.all([...targets.values()].map(async (one) => {
    try {
      return { ...one, ...(await get(path("queues", one.vhost, one.name))) };
    } catch {
      return { ...one, messages: null }; // the target is not there, which is told in the list
    }
  }));
  return { read, pause: pauseAfter(found, EVERY_MS * (1 + read.length), PAUSE_MS) };
}

export function DeadLetters() {
  const [targets, setTargets] = useState(null);
  const [problem, setProblem] = useState(null);
  const chosen = place.value.parameters.queue;
  const host = vhost.value;
  const pause = useRef(0);
  const read = () => survey(host).then((found) => { pause.current = found.pause; setTargets(found.read); setProblem(null); }, setProblem);
  useEffect(() => {
    let timer = 0;
    const again = async () => {
      if (!document.hidden) await read();
      if (timer !== null) timer = setTimeout(again, pause.current || EVERY_MS);
    };
    again();
    return () => { clearTimeout(timer); timer = null; };
  }, [host]);
  const one = targets?.find((each) => `${each.vhost}/${each.name}` === chosen);
  return html`<${Page} title="Dead letters">
    <${Failure} problem=${problem} again=${read} />
    ${targets === null ? !problem && html`<p class="quiet loading">Loading …</p>` : html`<${Table} caption="Queues of dead letters" rows=${targets} rowKey=${(row) => `${row.vhost}\0${row.name}`}
      empty="No queue sends dead letters. A queue does with the setting dead-letter-address: rejected, expired and undeliverable messages go there in place of being gone."
      columns=${[
        { key: "name", label: "Dead letters are in", cell: (row) => (row.messages === null ? html`<${Name} text=${row.name} /> <${Badge} tone="bad">is not there: dead letters are lost<//>` : html`<a href=${link(["queues", row.vhost, row.name])}><${Name} text=${row.name} /></a>`) },
        { key: "vhost", label: "Virtual host" },
        { key: "messages", label: "Messages", number: true },
        { key: "origins", label: "Come from", wide: true, cell: (row) => row.origins.slice(0, 5).map((origin) => html`<div key=${origin.name}><a href=${link(["queues", row.vhost, origin.name])}><${Name} text=${origin.name} /></a> <small>${count(origin.sent)} sent</small></div>`) },
        { key: "do", label: "", cell: (row) => row.messages > 0 && may("browse", row.vhost, row.name) && html`<button onClick=${() => adjust({ queue: `${row.vhost}/${row.name}`, selector: "", text: "", skip: "" })}>Look and send back</button>` },
      ]} />`}
    ${one && one.messages !== null && html`<${Letters} key=${chosen} host=${one.vhost} name=${one.name} again=${read} />`}
  <//>`;
}

/** Messages of one queue of dead letters by origin and reason, a part of the queue at a time. */
function Letters({ host, name, again }) {
  const { selector = "", text = "", skip = "" } = place.value.parameters;
  const [form, setForm] = useState({ selector, text });
  const live = useLive(`${path("queues", host, name)}/messages`, { parameters: { limit: PART, deaths: "true", selector, text, skip }, every: 0 });
  const [operation, setOperation] = useState(null);
  const [message, setMessage] = useState(null);
  const manage = may("manage", host, name);
  const done = () => { live.again(); again(); };
  const filtered = Boolean(selector || text);
  const selection = { ...(selector ? { selector } : { everything: true }), ...(text ? { text } : {}) };
  const set = (field) => (value) => setForm({ ...form, [field]: value });
  const from = Number(skip);
  return html`<section class="card"><h2>Dead letters in <${Name} text=${name} /></h2>
    <form class="filters" role="search" onSubmit=${(event) => { event.preventDefault(); adjust({ ...form, skip: "" }); }}>
      <${Input} label="Selector" value=${form.selector} onInput=${set("selector")} placeholder="region = 'eu'" />
      <${Input} label="Text in header or body" type="search" value=${form.text} onInput=${set("text")} /><button>Filter</button></form>
    <${Shown} live=${live}>${(found) => html`
      ${manage && html`<p class="actions"><button class="primary" onClick=${() => setOperation({ kind: "retry", selection })}>Send all ${filtered ? "that pass the filter " : ""}back to where they died</button>
        <button onClick=${() => setOperation({ kind: "move", selection })}>Move …</button>
        <button class="danger" onClick=${() => setOperation({ kind: "delete", selection })}>Delete …</button></p>
        <p class="quiet">Each shows first what it would do, takes a rate, can be stopped and undone.</p>`}
      <${Table} caption="By origin and reason" rows=${grouped(found.items)} rowKey=${(row) => row.key} empty=${filtered ? "No message passes the filter." : "The queue is empty."} columns=${[
        { key: "queue", label: "Died in" },
        { key: "reason", label: "Reason", cell: (row) => reason(row.reason) },
        { key: "count", label: "Messages", number: true, cell: (row) => exact(row.ids.length) },
        { key: "last", label: "Latest", cell: (row) => html`<${Time} at=${row.last} />` },
        { key: "look", label: "Look", cell: (row) => row.ids.slice(0, 4).map((id) => html`<button key=${id} class="link" onClick=${() => setMessage(id)}>${id}</button>${" "}`) },
        { key: "do", label: "", cell: (row) => manage && html`<button onClick=${() => setOperation({ kind: "retry", selection: { ids: row.ids } })}>Send back</button>` },
      ]} />
      ${(from > 0 || found.items.length === PART) && html`<p class="pager"><button disabled=${!from} onClick=${() => adjust({ skip: Math.max(0, from - PART) || "" })}>Earlier</button>
        <span>Messages ${exact(from + 1)} to ${exact(from + found.items.length)}; “Send all” covers every part</span>
        <button disabled=${found.items.length < PART} onClick=${() => adjust({ skip: from + PART })}>Next</button></p>`}`}<//>
    ${operation && html`<${OperationDialog} vhost=${host} queue=${name} operation=${operation.kind} selection=${operation.selection} onClose=${() => setOperation(null)} onDone=${done} />`}
    ${message && html`<${Message} host=${host} name=${name} id=${message} onClose=${() => setMessage(null)} />`}
  </section>`;
}

/** Messages by where they died first, and why. */
function grouped(items) {
  const groups = new Map();
  for (const item of items) {
    const first = item.deaths.at(-1) ?? { queue: "(sent here directly)", reason: "none", at: item.accepted_at };
    const key = `${first.queue}\0${first.reason}`;
    const group = groups.get(key) ?? { key, queue: first.queue, reason: first.reason, ids: [], last: 0 };
    group.ids.push(item.id);
    group.last = Math.max(group.last, first.at);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.ids.length - a.ids.length);
}
