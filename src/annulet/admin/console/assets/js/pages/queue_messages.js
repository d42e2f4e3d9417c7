/** Messages of a queue: browse, find, one whole message. Nothing here touches them but the operations. */
import { html, useEffect, useState } from "../html.js";
import { call, get, may, path, useLive } from "../api.js";
import { Badge, Choice, Dialog, Facts, Figure, Input, Long, Name, Shown, Table, Time, visible } from "../parts.js";
import { adjust, attempt, notify, place } from "../state.js";
import { bytes, count, exact } from "../format.js";
import { reason } from "../definitions.js";
import { OperationDialog, verb } from "../operations.js";

const SIZES = 25; // messages of one look
const ASKED_MS = 400;

export function Messages({ host, name, data }) {
  const { parameters } = place.value;
  const [form, setForm] = useState({ state: parameters.state ?? "", selector: parameters.selector ?? "", text: parameters.text ?? "", key: parameters.key ?? "", first_id: parameters.first_id ?? "" });
  const [ticked, setTicked] = useState(() => new Set());
  const [operation, setOperation] = useState("");
  const skip = Number(parameters.skip ?? 0);
  const asked = Object.fromEntries(["state", "selector", "text", "key", "first_id"].map((one) => [one, parameters[one]]));
  const live = useLive(`${path("queues", host, name)}/messages`, { parameters: { ...asked, skip: skip || "", limit: SIZES, body_bytes: 120 }, every: 0 });
  const look = (event) => {
    event?.preventDefault();
    adjust({ ...form, skip: "" });
    live.again();
  };
  const set = (field) => (value) => setForm({ ...form, [field]: value });
  const pick = (id, on) => {
    const next = new Set(ticked);
    if (on) next.add(id);
    else next.delete(id);
    setTicked(next);
  };
  const manage = may("manage", host, name);
  const columns = [
    { key: "id", label: "Id", number: true, cell: (row) => html`<button class="link" onClick=${() => adjust({ message: row.id })}>${exact(row.id)}</button>` },
    { key: "state", label: "State", cell: (row) => html`<${Badge} tone=${row.state === "pending" ? "plain" : "warn"}>${row.state}<//>` },
    { key: "body", label: "Body begins", wide: true, cell: (row) => html`<${Start} row=${row} />` },
    { key: "size", label: "Size", number: true, cell: (row) => html`<${Figure} name="size" as="bytes" value=${row.size} />` },
    { key: "priority", label: "Priority", number: true },
    { key: "routing_key", label: "Routing key" },
    { key: "accepted_at", label: "Accepted", cell: (row) => html`<${Time} at=${row.accepted_at} />` },
    { key: "expires_at", label: "Expires", cell: (row) => html`<${Time} at=${row.expires_at} />` },
    { key: "delivery_count", label: "Deliveries", number: true },
    { key: "publisher", label: "Publisher" },
  ];
  return html`
    <form class="filters" onSubmit=${look} role="search">
      <${Choice} label="State" value=${form.state} options=${[["", "all"], ["pending", "ready"], ["scheduled", "scheduled"], ["delivering", "in delivery"]]} onChange=${set("state")} />
      <${Input} label="Selector" value=${form.selector} onInput=${set("selector")} placeholder="region = 'eu'" />
      <${Input} label="Text in header or body" type="search" value=${form.text} onInput=${set("text")} />
      ${data.settings.last_value_key && html`<${Input} label="Key" value=${form.key} onInput=${set("key")} />`}
      <${Input} label="From id" type="number" min="1" value=${form.first_id} onInput=${set("first_id")} />
      <button class="primary">Look</button>
      <${Find} ...${{ host, name, form }} />
    </form>
    ${ticked.size > 0 && manage && html`<div class="card actions"><strong>${ticked.size} chosen</strong>
      ${["delete", "move", "copy", "retry", "dead-letter"].map((one) => html`<button key=${one} onClick=${() => setOperation(one)}>${verb(one)}</button>`)}
      <button onClick=${() => setTicked(new Set())}>Choose none</button></div>`}
    <${Shown} live=${live}>${(found) => html`
      <${Table} caption="Messages" columns=${columns} rows=${found.items} rowKey=${(row) => row.id}
        select=${manage && ((row) => html`<input type="checkbox" aria-label=${`Choose message ${row.id}`} checked=${ticked.has(row.id)} onChange=${(event) => pick(row.id, event.target.checked)} />`)}
        empty=${data.messages ? "No message of this part passes the filter." : html`The queue is empty. <a href="#/publish">Publish a message by hand</a>, or wait for a client.`} />
      ${found.unreadable > 0 && html`<p class="warning">${exact(found.unreadable)} messages cannot be read from the disk.</p>`}
      <p class="pager"><button disabled=${!skip} onClick=${() => adjust({ skip: Math.max(0, skip - SIZES) || "" })}>Earlier</button>
        <span>From position ${exact(skip + 1)} in the order of dispatch</span>
        <button disabled=${found.items.length < SIZES} onClick=${() => adjust({ skip: skip + SIZES })}>Next</button>
        <button onClick=${live.again}>Read again</button></p>`}<//>
    ${parameters.message && html`<${Message} key=${parameters.message} host=${host} name=${name} id=${parameters.message} onClose=${() => { adjust({ message: "" }); live.again(); }} />`}
    ${operation && html`<${OperationDialog} vhost=${host} queue=${name} operation=${operation} selection=${{ ids: [...ticked] }}
      onClose=${() => setOperation("")} onDone=${() => { setTicked(new Set()); live.again(); }} />`}`;
}

/** The first bytes of a body as text, or that it is none. */
function Start({ row }) {
  if (row.body === null) return html`<span class="quiet">${visible(row.body_unavailable ?? "not readable")}</span>`;
  const octets = octetsOf(row.body ?? "");
  if (!octets.length) return html`<span class="quiet">empty</span>`;
  const text = textOf(octets.slice(0, START), true);
  if (text === null || isBinary(text)) return html`<span class="quiet">binary: ${hexOf(octets.slice(0, 16))} …</span>`;
  return html`<code><${Name} text=${text} /></code>${row.size > START && " …"}`;
}

const START = 64; // octets of a body in the list

/** Whether more than an eighth of a text are control characters, so that its octets say more. */
const isBinary = (text) => (text.match(/[\u0000-\u0008\u000e-\u001f]/g)?.length ?? 0) * 8 > text.length;

export function octetsOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

/** Octets as UTF-8, or null when they are none. `cut`: the last character may be incomplete. */
export function textOf(octets, cut = false) {
  for (let less = 0; less <= (cut ? 3 : 0); less += 1) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets.slice(0, octets.length - less));
    } catch {
      /* the next shorter part may be whole */
    }
  }
  return null;
}

const hexOf = (octets) => Array.from(octets, (one) => one.toString(16).padStart(2, "0")).join(" ");

/** Lines of 16 octets with their place and their printable characters. */
function dump(octets) {
  const lines = [];
  for (let at = 0; at < octets.length; at += 16) {
    const part = octets.slice(at, at + 16);
    const print = Array.from(part, (one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hexOf(part).padEnd(47)}  ${print}`);
  }
  return lines.join("\n");
}

/** Search of the whole queue, with progress; the found ids lead to the messages. */
function Find({ host, name, form }) {
  const [state, setState] = useState(null);
  const base = path("queues", host, name);
  const begin = () => attempt(async () => {
    const given = Object.fromEntries(Object.entries(form).filter(([key, one]) => one && key !== "state"));
    const body = { ...given, ...(form.selector ? {} : { everything: true }), ...(form.first_id ? { first_id: Number(form.first_id) } : {}), limit: 500 };
    setState(await call("POST", `${base}/find`, { body }));
  });
  const running = state?.state === "running";
  useEffect(() => {
    if (!state || (!running && state.changed)) return undefined;
    const timer = setTimeout(() => {
      get(`${base}/operations/${state.id}`, { page_size: 100 }).then(setState, (problem) => notify(problem.message, { kind: "problem" }));
    }, ASKED_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const stop = () => attempt(() => call("DELETE", `${base}/find/${state.id}`));
  return html`<button type="button" onClick=${begin} title="Look at every message of the queue, on disk too">Find in all</button>
    ${state && html`<${Dialog} title="Found messages" onClose=${() => { if (running) stop(); setState(null); }}>
      <progress max=${Math.max(1, state.total)} value=${running ? state.seen : Math.max(1, state.total)} aria-label="Progress"></progress>
      <p role="status">${running ? "Searching" : state.state}: ${exact(state.done)} found among ${exact(state.seen)} of ${exact(state.total)}.</p>
      <div class="actions">${(state.changed ?? []).map(([id]) => html`<button key=${id} class="link" onClick=${() => { setState(null); adjust({ message: id }); }}>${id}</button>`)}</div>
      <div class="actions">${running && html`<button class="danger" onClick=${stop}>Stop</button>`}</div>
    <//>`}`;
}

const PART = 262144; // bytes of a body that are read at first

export function Message({ host, name, id, onClose, actions }) {
  const [length, setLength] = useState(PART);
  const live = useLive(path("queues", host, name, "messages", id), { parameters: { body: "base64", length }, every: 0 });
  const [operation, setOperation] = useState("");
  const manage = may("manage", host, name);
  return html`<${Dialog} title=${`Message ${id} of ${name}`} onClose=${onClose} wide>
    <${Shown} live=${live}>${(one) => html`
      <${Story} one=${one} queue=${name} />
      <${Body} one=${one} onMore=${() => setLength(Math.min(1048576, length * 4))} />
      <${Properties} title="Properties" values=${one.properties} />
      <${Properties} title="Headers" values=${one.headers} />
      <${Properties} title="Annotations" values=${one.annotations} />
      ${one.malformed && html`<p class="warning">Parts that cannot be decoded: <${Name} text=${one.malformed} /></p>`}`}<//>
    ${manage && live.data && html`<div class="actions">${actions ?? ["move", "copy", "dead-letter", "delete"].map((kind) => html`<button key=${kind} class=${kind === "delete" ? "danger" : ""} onClick=${() => setOperation(kind)}>${verb(kind)}</button>`)}</div>`}
    ${operation && html`<${OperationDialog} vhost=${host} queue=${name} operation=${operation} selection=${{ ids: [Number(id)] }} onClose=${() => setOperation("")} onDone=${live.again} />`}
  <//>`;
}

/** What happened to the message so far, in order. */
function Story({ one, queue }) {
  const steps = [
    ...[...(one.deaths ?? [])].reverse().map((death) => [death.at, html`died in <${Name} text=${death.queue} />: ${reason(death.reason)}${death.count > 1 ? `, ${death.count} times` : ""}`]),
    [one.accepted_at, html`accepted in <${Name} text=${queue} /> from <${Name} text=${one.publisher || "the broker"} /> over ${one.protocol}${one.exchange ? html`, exchange <${Name} text=${one.exchange} />` : ""}, key <${Name} text=${one.routing_key} />`],
    one.delivery_count > 0 && [0, `delivered ${one.delivery_count === 1 ? "once" : `${one.delivery_count} times`} and returned`],
    one.state === "delivering" && [0, html`now in delivery to <${Name} text=${one.consumer || "a lease"} />`],
    one.state === "scheduled" && [one.deliver_at, "falls due"],
    one.state === "pending" && [0, "waits for a consumer"],
    one.expires_at > 0 && [one.expires_at, "expires"],
  ].filter(Boolean);
  return html`<h3>Story</h3><ol>${steps.map(([at, text], number) => html`<li key=${number}>${at ? html`<${Time} at=${at} />: ` : ""}${text}</li>`)}</ol>
    <${Facts} items=${[
      ["Size", html`<${Figure} name="size" as="bytes" value=${one.size} />`, "size"],
      ["Priority", html`<${Figure} name="priority" value=${one.priority} />`, "priority"],
      ["On disk", one.durable ? "yes" : "no"],
      one.key && ["Key", html`<${Name} text=${one.key} />`],
      one.group && ["Group", html`<${Name} text=${one.group} />`],
    ]} />`;
}

function Body({ one, onMore }) {
  const [wanted, setWanted] = useState("");
  if (one.body === null || one.body === undefined) return html`<p class="warning">The body cannot be read: <${Name} text=${one.body_unavailable ?? "no reason given"} /></p>`;
  const octets = octetsOf(one.body);
  const text = textOf(octets, !one.body_complete);
  const json = text !== null && one.body_complete ? prettyOf(text) : null;
  const { kind, value } = one.body_value ?? {};
  const forms = [kind && ["value", `As a ${kind}`], json !== null && ["json", "JSON"], text !== null && ["text", "Text"], ["hex", "Hex"]].filter(Boolean);
  const form = forms.some(([key]) => key === wanted) ? wanted : forms[0][0];
  const shown = form === "json" ? json : form === "text" ? text : dump(octets.slice(0, 65536));
  return html`<h3>Body</h3>
    <div class="actions" role="group" aria-label="Form of the body">${forms.map(([key, label]) => html`<button key=${key} aria-pressed=${key === form} class=${key === form ? "primary" : ""} onClick=${() => setWanted(key)}>${label}</button>`)}
      <span class="quiet">${bytes(one.body_size)}${one.body_complete ? "" : `, of which ${bytes(octets.length)} are here`}</span></div>
    ${form === "value" ? html`<${Tree} value=${value} open />` : octets.length ? html`<${Long} key=${form} text=${shown} label="Body" />` : html`<p class="quiet">The body is empty.</p>`}
    ${!one.body_complete && octets.length < 1048576 && html`<button onClick=${onMore}>Read more of it</button>`}`;
}

const BRANCHES = 200; // parts of one map or list that are drawn

/** A value as a tree whose maps and lists open and close. */
function Tree({ name, value, open = false }) {
  const label = name === undefined ? "" : html`<strong><${Name} text=${name} /></strong>: `;
  if (value === null || typeof value !== "object") return html`${label}<code><${Name} text=${cut(JSON.stringify(value))} /></code>`;
  const parts = Object.entries(value);
  return html`<details class="tree" open=${open}><summary>${label}${Array.isArray(value) ? "list" : "map"} of ${exact(parts.length)}</summary>
    <ul>${parts.slice(0, BRANCHES).map(([key, part]) => html`<li key=${key}><${Tree} name=${key} value=${part} open=${open && parts.length < 20} /></li>`)}
      ${parts.length > BRANCHES && html`<li class="quiet">${exact(parts.length - BRANCHES)} more; the other forms of the body have them</li>`}</ul></details>`;
}

function prettyOf(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

export const Properties = ({ title, values }) => {
  const found = Object.entries(values ?? {});
  if (!found.length) return null;
  return html`<h3>${title}</h3><${Facts} items=${found.map(([key, one]) => [html`<${Name} text=${key} />`,
    html`<${Name} text=${cut(typeof one === "string" ? one : JSON.stringify(one))} />`])} />`;
};

const cut = (text) => (text.length > 2000 ? `${text.slice(0, 2000)} … (${text.length} characters)` : text);
