/** Exchanges, addresses, bindings and diverts; a tester of routes; a drawing of what one exchange leads to. */
import { html, useState } from "../html.js";
import { administrator, call, may, path, useLive, writer } from "../api.js";
import { Badge, Choice, Dialog, Failure, Field, Input, Name, Page, Pager, Shown, Sure, Table, Tabs, Tick, visible } from "../parts.js";
import { adjust, attempt, chosenHost, go, hosts, link, place, vhost } from "../state.js";
import { count } from "../format.js";
import { Listed } from "./queue_state.js";
import { useSort } from "./clients.js";

const TYPES = ["direct", "fanout", "topic", "headers"];
const shownName = (name) => name || "(default)";
const inPath = (name) => name || "amq.default";

export function Routing() {
  const tab = place.value.parameters.tab ?? "exchanges";
  return html`<${Page} title="Exchanges and routes">
    <${Tabs} names=${["routing"]} chosen=${tab} tabs=${[["exchanges", "Exchanges"], ["addresses", "Addresses"], ["bindings", "Bindings"], ["diverts", "Diverts"], ["test", "Where would it go?"]]} />
    ${tab === "addresses" ? html`<${Addresses} />` : tab === "bindings" ? html`<${Bindings} />` : tab === "diverts" ? html`<${Diverts} />` : tab === "test" ? html`<${Tester} />` : html`<${Exchanges} />`}
  <//>`;
}

function Exchanges() {
  const { name = "" } = place.value.parameters;
  const [page, setPage] = useState(1);
  const [making, setMaking] = useState(false);
  const { sorted, onSort, asked } = useSort();
  const live = useLive("exchanges", { parameters: { vhost: vhost.value, name, page, page_size: 50, ...asked }, every: 3000 });
  return html`<div class="filters" role="search"><${Field} label="Name has"><input type="search" value=${name} onInput=${(event) => adjust({ name: event.target.value })} /><//>
      ${writer() && html`<button class="primary" onClick=${() => setMaking(true)}>Make an exchange</button>`}</div>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Exchanges" rows=${data.items} rowKey=${(row) => `${row.vhost}\0${row.name}`} ...${{ sorted, onSort }}
      empty="No exchange has this in its name." columns=${[
        { key: "name", label: "Exchange", cell: (row) => html`<a href=${link(["routing", row.vhost, inPath(row.name)])}><${Name} text=${shownName(row.name)} /></a>` },
        { key: "vhost", label: "Virtual host" },
        { key: "type", label: "Type" },
        { key: "bindings", label: "Bindings", number: true },
        { key: "incoming_bindings", label: "Bound to", number: true, name: "bindings" },
        { key: "durable", label: "Durable", cell: (row) => (row.durable ? "yes" : "no") },
      ]} /><${Pager} page=${page} data=${data} onPage=${setPage} />`}<//>
    ${making && html`<${NewExchange} onClose=${() => setMaking(false)} onDone=${live.again} />`}`;
}

function NewExchange({ onClose, onDone }) {
  const [host, setHost] = useState(chosenHost());
  const [name, setName] = useState("");
  const [type, setType] = useState("topic");
  const [durable, setDurable] = useState(true);
  const submit = async (event) => {
    event.preventDefault();
    if (await attempt(() => call("PUT", path("exchanges", host, name), { body: { type, durable } }), `Made the exchange ${visible(name)}.`)) {
      onDone();
      onClose();
    }
  };
  return html`<${Dialog} title="Make an exchange" onClose=${onClose}><form onSubmit=${submit}><div class="form">
    <${Input} label="Name" value=${name} onInput=${setName} required autofocus />
    <${Choice} label="Virtual host" value=${host} options=${hosts.value.map((one) => [one, one])} onChange=${setHost} />
    <${Choice} label="Type" value=${type} options=${TYPES.map((one) => [one, one])} onChange=${setType} />
    <p><${Tick} label="Durable" checked=${durable} onChange=${setDurable} /></p></div>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary" disabled=${!may("configure", host, name)}>Make it</button></div></form><//>`;
}

export function Exchange({ names: [host, encoded] }) {
  const name = encoded === "amq.default" ? "" : encoded;
  const live = useLive(path("exchanges", host, encoded), { every: 3000 });
  const outgoing = useLive("bindings", { parameters: { vhost: host, source: name || undefined, page_size: 500 }, every: 3000 });
  const remove = name && !name.startsWith("amq.") && may("configure", host, name) && html`<${Sure} label="Delete the exchange" question=${`Its ${live.data?.bindings ?? 0} bindings are gone too; queues stay. This cannot be undone.`}
    onSure=${() => attempt(() => call("DELETE", path("exchanges", host, encoded)), "Deleted.").then((done) => done && go(["routing"]))} />`;
  return html`<${Page} title=${shownName(name)} trail=${html`<a href="#/routing">Exchanges</a> of the virtual host <${Name} text=${host} />`} actions=${remove}>
    <${Shown} live=${live}>${(data) => html`<p class="actions"><${Badge}>${data.type}<//><${Badge}>${data.durable ? "durable" : "transient"}<//>
      ${data.internal && html`<${Badge}>internal: clients cannot publish to it<//>`}
      <a href=${link(["routing"], { tab: "test", exchange: encoded, host })}>Where would a message go?</a></p>`}<//>
    ${name && html`<${Shown} live=${outgoing}>${(data) => html`<${Map} host=${host} name=${name} bindings=${data.items} />`}<//>`}
    <h2>Bindings</h2>
    ${name ? html`<${Bind} host=${host} source=${name} onDone=${() => { outgoing.again(); live.again(); }} />` : html`<p>The default exchange has a binding to each queue by its name.</p>`}
    ${name && html`<${Shown} live=${outgoing}>${(data) => html`<${BindingTable} rows=${data.items} again=${outgoing.again} />`}<//>`}
  <//>`;
}

function Bind({ host, source, onDone }) {
  const [destination, setDestination] = useState("");
  const [kind, setKind] = useState("queue");
  const [key, setKey] = useState("");
  if (!may("read", host, source) || !writer()) return null;
  const submit = async (event) => {
    event.preventDefault();
    if (await attempt(() => call("POST", path("bindings", host, source, kind, destination), { body: { routing_key: key } }), "Bound.")) onDone();
  };
  return html`<form class="filters" onSubmit=${submit}>
    <${Choice} label="To a" value=${kind} options=${[["queue", "queue"], ["exchange", "exchange"]]} onChange=${setKind} />
    <${Input} label="Named" value=${destination} onInput=${setDestination} required /><${Input} label="With the key" value=${key} onInput=${setKey} />
    <button class="primary" disabled=${!may("write", host, destination)}>Bind</button></form>`;
}

const BindingTable = ({ rows, again }) => html`<${Table} caption="Bindings" rows=${rows} rowKey=${(row) => `${row.vhost}\0${row.source}\0${row.destination_type}\0${row.destination}\0${row.key}`}
  empty="No binding: a message to it reaches no queue." columns=${[
    { key: "source", label: "From", cell: (row) => html`<a href=${link(["routing", row.vhost, inPath(row.source)])}><${Name} text=${shownName(row.source)} /></a>` },
    { key: "routing_key", label: "Key" },
    { key: "destination", label: "To", cell: (row) => html`${row.destination_type} <a href=${link(row.destination_type === "queue" ? ["queues", row.vhost, row.destination] : ["routing", row.vhost, row.destination])}><${Name} text=${row.destination} /></a>` },
    { key: "arguments", label: "Arguments", cell: (row) => (Object.keys(row.arguments).length ? html`<code><${Name} text=${JSON.stringify(row.arguments)} /></code>` : "–") },
    { key: "do", label: "", cell: (row) => row.source && may("write", row.vhost, row.destination) && may("read", row.vhost, row.source) && html`<${Sure} label="Unbind" question="Later messages take another way or none. Make the binding again to undo this."
      onSure=${() => attempt(() => call("DELETE", path("bindings", row.vhost, row.source, row.destination_type, row.destination, row.key)), "Unbound.").then(again)} />` },
  ]} />`;

function Bindings() {
  const [page, setPage] = useState(1);
  const live = useLive("bindings", { parameters: { vhost: vhost.value, page, page_size: 100 }, every: 4000 });
  return html`<${Shown} live=${live}>${(data) => html`<${BindingTable} rows=${data.items} again=${live.again} /><${Pager} page=${page} data=${data} onPage=${setPage} />`}<//>`;
}

const Addresses = () => html`<${Listed} where="addresses" parameters=${{ vhost: vhost.value }} caption="Addresses" rowKey=${(row) => `${row.vhost}\0${row.name}`}
  empty="No address is in use. Clients of AMQP 1.0 and STOMP use addresses; limits of address settings apply to them." columns=${[
    { key: "name", label: "Address" }, { key: "vhost", label: "Virtual host" },
    { key: "messages", label: "Messages", number: true },
    { key: "routing_types", label: "Routing", cell: (row) => (row.routing_types ?? []).join(", ") || "–" },
    { key: "blocked", label: "State", cell: (row) => (row.blocked ? html`<${Badge} tone="bad">publishers wait<//>` : html`<${Badge} tone="good">open<//>`) },
    { key: "dropped", label: "Dropped", number: true, name: "messages_dropped" },
    { key: "refused", label: "Refused", number: true, name: "over_limit" },
  ]} />`;

function Diverts() {
  const host = chosenHost();
  const live = useLive(path("diverts", host), { every: 4000 });
  const [making, setMaking] = useState(false);
  return html`${administrator() && html`<p class="actions"><button class="primary" onClick=${() => setMaking(true)}>Make a divert</button></p>`}
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Diverts" rows=${data.items} rowKey=${(row) => row.name} empty="No divert: messages go only where exchanges lead. A divert copies or turns aside the messages of an address."
      columns=${[
        { key: "name", label: "Divert" }, { key: "address", label: "Of the address" },
        { key: "forwarding_addresses", label: "To", cell: (row) => html`<${Name} text=${(row.forwarding_addresses ?? []).join(", ")} />` },
        { key: "filter", label: "Only with", cell: (row) => html`<${Name} text=${row.filter || "–"} />` },
        { key: "exclusive", label: "Kind", cell: (row) => (row.exclusive ? "turns aside" : "copies") },
        { key: "do", label: "", cell: (row) => administrator() && html`<${Sure} label="Delete" question="Messages are not diverted any more." onSure=${() => attempt(() => call("DELETE", path("diverts", host, row.name)), "Deleted.").then(live.again)} />` },
      ]} />`}<//>
    ${making && html`<${NewDivert} host=${host} onClose=${() => setMaking(false)} onDone=${() => { setMaking(false); live.again(); }} />`}`;
}

function NewDivert({ host, onClose, onDone }) {
  const [fields, setFields] = useState({ name: "", address: "", to: "", filter: "" });
  const [exclusive, setExclusive] = useState(false);
  const set = (key) => (value) => setFields({ ...fields, [key]: value });
  const submit = async (event) => {
    event.preventDefault();
    const body = { address: fields.address, forwarding_addresses: fields.to.split(",").map((one) => one.trim()).filter(Boolean), exclusive, ...(fields.filter ? { filter: fields.filter } : {}) };
    if (await attempt(() => call("PUT", path("diverts", host, fields.name), { body }), "Made the divert.")) onDone();
  };
  return html`<${Dialog} title="Make a divert" onClose=${onClose}><form onSubmit=${submit}><div class="form">
    <${Input} label="Name" value=${fields.name} onInput=${set("name")} required autofocus /><${Input} label="Of the address" value=${fields.address} onInput=${set("address")} required />
    <${Input} label="To the addresses" hint="with commas between" value=${fields.to} onInput=${set("to")} required /><${Input} label="Only with" hint="a selector" value=${fields.filter} onInput=${set("filter")} /></div>
    <p><${Tick} label="Turn messages aside: they do not reach their own queues" checked=${exclusive} onChange=${setExclusive} /></p>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Make it</button></div></form><//>`;
}

const asJson = (text) => (text.trim() ? JSON.parse(text) : {});

/** Asks the broker where a message would go; nothing is sent. */
function Tester() {
  const { parameters } = place.value;
  const [host, setHost] = useState(parameters.host ?? chosenHost());
  const [exchange, setExchange] = useState(parameters.exchange ?? "amq.topic");
  const [key, setKey] = useState(parameters.key ?? "");
  const [headers, setHeaders] = useState("");
  const [properties, setProperties] = useState("");
  const [type, setType] = useState("");
  const [result, setResult] = useState(null);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    setResult(null);
    adjust({ host, exchange, key });
    try {
      const body = { routing_key: key, properties: { ...asJson(properties), ...(headers.trim() ? { headers: asJson(headers) } : {}) } };
      setResult(await call("POST", path("exchanges", host, exchange, "route"), { body, parameters: { routing_type: type } }));
    } catch (failed) {
      setProblem({ status: failed.status || 400, title: "Not tested", message: failed.message });
    }
  };
  const allowed = may("read", host, exchange);
  return html`<p>Follows bindings, filters, selectors, diverts and alternate exchanges for a message that is not sent.</p>
    <form class="filters" onSubmit=${submit}>
      <${Choice} label="Virtual host" value=${host} options=${hosts.value.map((one) => [one, one])} onChange=${setHost} />
      <${Input} label="Exchange or address" value=${exchange} onInput=${setExchange} hint="amq.default: to the queue or address of the key" required /><${Input} label="Routing key" value=${key} onInput=${setKey} />
      <${Input} label="Headers" hint='as JSON, such as {"region": "eu"}' value=${headers} onInput=${setHeaders} />
      <${Input} label="Properties" hint='as JSON, such as {"priority": 7}' value=${properties} onInput=${setProperties} />
      <${Choice} label="Queues of addresses" value=${type} options=${[["", "anycast and multicast"], ["anycast", "anycast only"], ["multicast", "multicast only"]]} onChange=${setType} />
      ${allowed ? html`<button class="primary">Test</button>` : html`<span class="quiet">This takes the permission to read from the exchange.</span>`}</form>
    <${Failure} problem=${problem} />
    ${result && html`<div class=${result.queues.length ? "well" : "warning"} role="status">${result.queues.length
        ? html`It would go to ${result.queues.map((one, number) => html`${number ? ", " : ""}<a key=${one} href=${link(["queues", host, one])}><${Name} text=${one} /></a>`)}.`
        : "It would reach no queue."}</div>
      ${Object.entries(result.refusals).map(([queue, why]) => html`<div class="failure" key=${queue}>It would be refused: <${Name} text=${why} /></div>`)}
      <${Table} caption="Edges on the way" rows=${result.edges.map((one, number) => ({ ...one, number }))} rowKey=${(row) => row.number} empty="The exchange has no binding." columns=${[
        { key: "source", label: "From", cell: (row) => html`<${Name} text=${shownName(row.source)} />${row.copy_of && html` <small>copy of the divert <${Name} text=${row.copy_of} /></small>`}` },
        { key: "key", label: "Key of the binding" },
        { key: "target", label: "To", cell: (row) => html`${row.kind} <${Name} text=${row.target} />` },
        { key: "fits", label: "", cell: (row) => html`<${Badge} tone=${row.fits ? "good" : "plain"}>${row.fits ? "gets it" : "does not"}<//>` },
        { key: "why", label: "Why" },
      ]} />
      ${result.left_out > 0 && html`<p class="quiet">${count(result.left_out)} further edges are not shown.</p>`}`}`;
}

const DRAWN = 40; // bindings in the drawing; the table has all
const GAP = 34;

/** A drawing of what one exchange leads to, to walk along. */
function Map({ host, name, bindings }) {
  const shown = bindings.slice(0, DRAWN);
  if (!shown.length) return null;
  const targets = [...new Set(shown.map((one) => `${one.destination_type} ${one.destination}`))];
  const height = Math.max(60, targets.length * GAP + 20);
  const middle = height / 2;
  const place = (one) => 26 + targets.indexOf(`${one.destination_type} ${one.destination}`) * GAP;
  const short = (text) => (text.length > 28 ? `${visible(text).slice(0, 27)}…` : visible(text));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Drawing of the bindings"><svg class="map" viewBox=${`0 0 760 ${height}`} role="group" aria-label=${`What ${visible(name)} leads to`}>
    ${shown.map((one, number) => html`<path key=${`line ${number}`} d=${`M 220 ${middle} C 380 ${middle}, 330 ${place(one)}, 500 ${place(one)}`} />`)}
    ${shown.map((one, number) => html`<text key=${`key ${number}`} x="410" y=${place(one) - 4} text-anchor="middle">${short(one.routing_key)}</text>`)}
    <g class="exchange"><rect x="10" y=${middle - 15} width="210" height="30" rx="6" /><text x="20" y=${middle + 4}>${short(name)}</text></g>
    ${targets.map((target, number) => {
      const [kind, ...rest] = target.split(" ");
      const called = rest.join(" ");
      return html`<a key=${target} href=${link(kind === "queue" ? ["queues", host, called] : ["routing", host, called])} aria-label=${`${kind} ${visible(called)}`}><g class=${kind}>
        <rect x="500" y=${26 + number * GAP - 14} width="250" height="28" rx=${kind === "queue" ? 14 : 6} /><text x="514" y=${26 + number * GAP + 4}>${short(called)}</text></g></a>`;
    })}
  </svg></div>${bindings.length > DRAWN && html`<p class="quiet">The drawing has the first ${DRAWN} of ${count(bindings.length)} bindings.</p>`}`;
}
