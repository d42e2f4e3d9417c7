/** Connections, sessions and consumers. */
import { html, useEffect, useState } from "../html.js";
import { administrator, call, get, path, session, useLive, writer } from "../api.js";
import { Badge, Dialog, Facts, Field, Figure, Input, Name, Page, Pager, Shown, Table, Tick, Time, visible } from "../parts.js";
import { adjust, attempt, go, hosts, link, notify, place, vhost } from "../state.js";
import { bytes, count, exact } from "../format.js";
import { useRates } from "../rates.js";

/** Whether the user may end something of a user. */
const mayEnd = (user) => administrator() || (writer() && session.value.user === user);

/** A button with a dialog that asks for the reason that the client is told. */
function End({ label, title, effect, run }) {
  const [asked, setAsked] = useState(false);
  const [reason, setReason] = useState("");
  const end = async (event) => {
    event.preventDefault();
    if (await attempt(() => run(reason), `${label}: done.`)) setAsked(false);
  };
  return html`<button class="danger" onClick=${() => setAsked(true)}>${label}</button>
    ${asked && html`<${Dialog} title=${title} onClose=${() => setAsked(false)}><form onSubmit=${end}>
      <p>${effect}</p>
      <${Input} label="Reason that the client is told" value=${reason} onInput=${setReason} maxlength="200" autofocus />
      <div class="actions"><button type="button" onClick=${() => setAsked(false)}>Cancel</button><button class="danger">${label}</button></div>
    </form><//>`}`;
}

export const CutConsumer = ({ row, onDone }) => mayEnd(row.user) && html`<${End} label="End" title=${`End the consumer ${row.tag}`}
  effect="Its unsettled deliveries stay with its session; it gets no further ones."
  run=${(reason) => call("DELETE", path("consumers", row.connection, row.session, row.tag), { parameters: { reason } }).then(onDone)} />`;

const CloseConnection = ({ row, onDone }) => mayEnd(row.user) && html`<${End} label="Close" title=${`Close the connection ${row.name}`}
  effect="Its unsettled deliveries return to their queues."
  run=${(reason) => call("DELETE", path("connections", row.name), { parameters: { reason } }).then(onDone)} />`;

const client = (row) => [row.client_properties?.product, row.client_properties?.version].filter((one) => typeof one === "string").join(" ");

function useFilter() {
  const { parameters } = place.value;
  return [parameters.name ?? "", html`<div class="filters" role="search"><${Field} label="Name has"><input type="search" value=${parameters.name ?? ""} onInput=${(event) => adjust({ name: event.target.value })} /><//></div>`];
}

/** Sort of a list in the URL. */
export function useSort() {
  const { sort, reverse } = place.value.parameters;
  const onSort = (key) => adjust({ sort: key, reverse: sort === key && reverse !== "true" ? "true" : "" });
  return { sorted: { key: sort, reverse: reverse === "true" }, onSort, asked: { sort: sort ?? "", sort_reverse: reverse === "true" ? "true" : "" } };
}

export function Connections() {
  const [name, filter] = useFilter();
  const [page, setPage] = useState(1);
  const { sorted, onSort, asked } = useSort();
  const live = useLive("connections", { parameters: { vhost: vhost.value, name, page, page_size: 50, ...asked }, every: 2000 });
  return html`<${Page} title="Connections">${filter}<${Shown} live=${live}>${(data) => html`
    <${Table} caption="Connections" rows=${data.items} rowKey=${(row) => row.name} ...${{ sorted, onSort }}
      empty=${name ? "No connection has this in its name." : "No client is connected that you may see. Clients connect to the listeners on the overview."}
      columns=${[
        { key: "name", label: "Connection", cell: (row) => html`<a href=${link(["connections", row.name])}><${Name} text=${row.name} /></a>` },
        { key: "user", label: "User" },
        hosts.value.length > 1 && !vhost.value && { key: "vhost", label: "Virtual host" },
        { key: "protocol", label: "Protocol and client", cell: (row) => html`${row.protocol} <small><${Name} text=${row.client_name || client(row)} /></small>` },
        { key: "state", label: "State", cell: (row) => html`<${Badge} tone=${row.state === "running" ? "good" : "warn"}>${row.state}<//>` },
        { key: "sessions", label: "Sessions", number: true },
        { key: "consumers", label: "Consumers", number: true },
        { key: "unacknowledged", label: "Not settled", number: true },
        { key: "bytes_received", label: "Received", number: true, cell: (row) => html`<${Figure} name="bytes_received" as="bytes" value=${row.bytes_received} />` },
        { key: "bytes_sent", label: "Sent", number: true, cell: (row) => html`<${Figure} name="bytes_sent" as="bytes" value=${row.bytes_sent} />` },
        { key: "connected_at", label: "Since", cell: (row) => html`<${Time} at=${row.connected_at} />` },
        { key: "do", label: "", sort: false, cell: (row) => html`<${CloseConnection} row=${row} onDone=${live.again} />` },
      ].filter(Boolean)} /><${Pager} page=${page} data=${data} onPage=${setPage} />`}<//><//>`;
}

export function Connection({ names: [name] }) {
  const live = useLive(path("connections", name), { every: 1500 });
  const sessions = useLive("sessions", { parameters: { connection: name, page_size: 100 }, every: 1500 });
  return html`<${Page} title=${name} trail=${html`<a href="#/connections">Connections</a>`}
      actions=${live.data && html`<${CloseConnection} row=${live.data} onDone=${() => go(["connections"])} />`}>
    <${Shown} live=${live}>${(data) => html`<${ConnectionFacts} data=${data} />`}<//>
    <h2>Sessions</h2>
    <${Shown} live=${sessions}>${(data) => html`<${Table} caption="Sessions" rows=${data.items} rowKey=${(row) => row.number} columns=${[
      { key: "number", label: "Number", cell: (row) => html`<a href=${link(["sessions", name, String(row.number)])}>Session ${row.number}</a>` },
      { key: "consumers", label: "Consumers", number: true },
      { key: "prefetch", label: "Prefetch", number: true },
      { key: "unacknowledged", label: "Not settled", number: true },
      { key: "confirms", label: "Confirms", cell: (row) => (row.confirms ? "yes" : "no") },
      { key: "transactional", label: "Transactional", cell: (row) => (row.transactional ? "yes" : "no") },
      { key: "held_back", label: "Held back", cell: (row) => (row.held_back ? html`<${Badge} tone="warn">publishers wait<//>` : "no") },
    ]} empty="The connection has no session." />`}<//>
    ${administrator() && html`<${TraceOf} name=${name} />`}
  <//>`;
}

function ConnectionFacts({ data }) {
  const rates = useRates({ received: data.bytes_received, sent: data.bytes_sent }, Date.now());
  return html`<section class="card"><${Facts} items=${[
    ["User", html`<${Name} text=${data.user} />`], ["Virtual host", html`<${Name} text=${data.vhost} />`], ["Protocol", data.protocol],
    ["State", data.state], ["Login by", data.mechanism], ["TLS", data.tls ? `${data.tls_version} ${data.tls_cipher}` : "no"],
    ["Client", html`<${Name} text=${client(data)} />`], ["Heartbeat", data.heartbeat_seconds ? `${data.heartbeat_seconds} s` : "none"],
    ["Connected", html`<${Time} at=${data.connected_at} />`],
    ["Received", html`${bytes(data.bytes_received)} · ${rates ? `${bytes(rates.received)}/s` : "–"}`, "bytes_received"],
    ["Sent", html`${bytes(data.bytes_sent)} · ${rates ? `${bytes(rates.sent)}/s` : "–"}`, "bytes_sent"],
    ["Waits to be sent", bytes(data.unsent_bytes), "unsent_bytes"],
  ]} /></section>`;
}

const TRACE_LINES_MAX = 500; // lines on the page; older ones leave it

/** The frames of a connection, live. */
function TraceOf({ name }) {
  const [lines, setLines] = useState([]);
  const [bodies, setBodies] = useState(false);
  const [running, setRunning] = useState(false);
  const where = path("traces", name);
  const last = lines.at(-1)?.number ?? 0;
  useEffect(() => {
    if (!running) return undefined;
    const timer = setTimeout(() => get(where, { after: last }).then(
      (found) => {
        setLines([...lines, ...found.lines].slice(-TRACE_LINES_MAX));
        if (!found.running) setRunning(false);
      },
      (problem) => { setRunning(false); notify(problem.message, { kind: "problem" }); },
    ), 1000);
    return () => clearTimeout(timer);
  }, [running, lines]);
  const begin = () => attempt(() => call("PUT", where, { body: { seconds: 300, bodies } }), "The trace runs for five minutes.").then((done) => { setLines([]); setRunning(done); });
  const end = () => attempt(() => call("DELETE", where), "The trace has ended.").then(() => setRunning(false));
  return html`<section class="card"><h2>Protocol trace</h2>
    <div class="actions">${running ? html`<button onClick=${end}>End the trace</button>` : html`<button onClick=${begin}>Trace the frames</button>
      <${Tick} label="with bodies" checked=${bodies} onChange=${setBodies} />`}</div>
    ${(running || lines.length > 0) && html`<pre tabindex="0" aria-label="Frames">${lines.map((one) => visible(one.text)).join("\n") || "Waiting for frames …"}</pre>`}
  </section>`;
}

export function Session({ names: [connection, number] }) {
  const live = useLive(path("sessions", connection, number), { every: 1500 });
  const consumers = useLive("consumers", { parameters: { page_size: 200, vhost: live.data?.vhost }, every: 1500 });
  const mine = (consumers.data?.items ?? []).filter((one) => one.connection === connection && String(one.session) === number);
  return html`<${Page} title=${`Session ${number}`} trail=${html`<a href="#/connections">Connections</a> / <a href=${link(["connections", connection])}><${Name} text=${connection} /></a>`}>
    <${Shown} live=${live}>${(data) => html`
      <section class="card"><${Facts} items=${[
        ["User", html`<${Name} text=${data.user} />`], ["Prefetch", count(data.prefetch), "prefetch"], ["Not settled", count(data.unacknowledged), "unacknowledged"],
        ["Confirms", data.confirms ? "yes" : "no"], ["Transactional", data.transactional ? "yes" : "no"],
      ]} /></section>
      <h2>Holds</h2>
      <${Table} caption="Unsettled deliveries" rows=${data.held} rowKey=${(row) => row.delivery_tag} empty="It holds no unsettled delivery." columns=${[
        { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", data.vhost, row.queue])}><${Name} text=${row.queue} /></a>` },
        { key: "message", label: "Message", number: true, name: "id", cell: (row) => html`<a href=${link(["queues", data.vhost, row.queue], { tab: "messages", message: row.message })}>${exact(row.message)}</a>` },
        { key: "delivery_count", label: "Deliveries before", number: true },
        { key: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
        { key: "since", label: "Since", cell: (row) => (row.since ? html`<${Time} at=${row.since} />` : html`<span class="quiet" title="Known while a consumer timeout applies.">not recorded</span>`) },
      ]} />`}<//>
    <h2>Consumers</h2>
    <${Table} caption="Consumers" rows=${mine} rowKey=${(row) => row.tag} empty="It has no consumer." columns=${CONSUMER_COLUMNS(consumers.again)} />
  <//>`;
}

const CONSUMER_COLUMNS = (again) => [
  { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue], { tab: "consumers" })}><${Name} text=${row.queue} /></a>` },
  { key: "tag", label: "Consumer" },
  { key: "user", label: "User" },
  { key: "connection", label: "Session", cell: (row) => html`<a href=${link(["sessions", row.connection, String(row.session)])}><${Name} text=${row.connection} /> #${row.session}</a>` },
  { key: "unacknowledged", label: "Not settled", number: true },
  { key: "credit", label: "Credit", number: true, cell: (row) => html`<${Figure} name="credit" text=${row.credit < 0 ? "no limit" : count(row.credit)} />` },
  { key: "selector", label: "Selector" },
  { key: "attached_at", label: "Since", cell: (row) => html`<${Time} at=${row.attached_at} />` },
  { key: "do", label: "", sort: false, cell: (row) => html`<${CutConsumer} row=${row} onDone=${again} />` },
];

export function Consumers() {
  const [name, filter] = useFilter();
  const [page, setPage] = useState(1);
  const { sorted, onSort, asked } = useSort();
  const live = useLive("consumers", { parameters: { vhost: vhost.value, name, page, page_size: 50, ...asked }, every: 2000 });
  return html`<${Page} title="Consumers">${filter}<${Shown} live=${live}>${(data) => html`
    <${Table} caption="Consumers" rows=${data.items} rowKey=${(row) => `${row.connection} ${row.session} ${row.tag}`} ...${{ sorted, onSort }}
      empty=${name ? "No queue with consumers has this in its name." : "No consumer is attached that you may see."} columns=${CONSUMER_COLUMNS(live.again)} />
    <${Pager} page=${page} data=${data} onPage=${setPage} />`}<//><//>`;
}
