/** Parts of one queue: consumers, groups, keys, losses, operations, why-not. */
import { html, useState } from "../html.js";
import { call, get, may, path, useLive, writer } from "../api.js";
import { Badge, Dialog, Empty, Figure, Input, Name, Pager, Shown, Sure, Table, Time, visible } from "../parts.js";
import { attempt, link } from "../state.js";
import { bytes, count, exact } from "../format.js";
import { reason } from "../definitions.js";
import { OperationDialog, Progress, undoOperation, verb } from "../operations.js";
import { CutConsumer } from "./clients.js";

/** A list of one kind with pages. */
export function Listed({ where, parameters, every = 3000, ...table }) {
  const [page, setPage] = useState(1);
  const live = useLive(where, { parameters: { ...parameters, page, page_size: 50 }, every });
  return html`<${Shown} live=${live}>${(data) => html`
    <${Table} ...${table} rows=${data.items} columns=${typeof table.columns === "function" ? table.columns(live) : table.columns} />
    <${Pager} page=${page} data=${data} onPage=${setPage} />
    ${data.forgotten > 0 && html`<p class="quiet">${exact(data.forgotten)} older ones were forgotten.</p>`}`}<//>`;
}

export const ConsumersOf = ({ host, name }) => html`
  <${Listed} where="consumers" parameters=${{ vhost: host, queue: name }} every=${1500} caption="Consumers" rowKey=${(row) => `${row.connection} ${row.session} ${row.tag}`}
    empty="No consumer is attached that you may see. Messages wait in the queue until one comes."
    columns=${(live) => [
      { key: "tag", label: "Consumer", cell: (row) => html`<a href=${link(["queues", host, name], { tab: "why", consumer: row.tag })} title="Why it gets nothing"><${Name} text=${row.tag} /></a>` },
      { key: "user", label: "User" },
      { key: "connection", label: "Holds what since when", cell: (row) => html`<a href=${link(["sessions", row.connection, String(row.session)])}><${Name} text=${row.connection} /> #${row.session}</a>` },
      { key: "unacknowledged", label: "Not settled", number: true },
      { key: "credit", label: "Credit", number: true, cell: (row) => html`<${Figure} name="credit" text=${row.credit < 0 ? "no limit" : count(row.credit)} />` },
      { key: "priority", label: "Priority", number: true },
      { key: "selector", label: "Selector" },
      { key: "attached_at", label: "Since", cell: (row) => html`<${Time} at=${row.attached_at} />` },
      { key: "cut", label: "", cell: (row) => html`<${CutConsumer} row=${row} onDone=${live.again} />` },
    ]} />
  <h2>Spark leases</h2>
  <${Listed} where="leases" parameters=${{ vhost: host, queue: name }} caption="Leases of Spark" rowKey=${(row) => row.name}
    empty="No Spark query reads this queue." columns=${[
      { key: "name", label: "Lease", cell: (row) => html`<a href="#/leases"><${Name} text=${row.name} /></a>` },
      { key: "held", label: "Holds", number: true, name: "unacknowledged" },
    ]} />`;

export const Groups = ({ host, name, again }) => html`
  ${may("manage", host, name) && html`<p class="actions"><${Sure} label="End all assignments" tone="" question="Each group gets a new owner with its next message. Messages in delivery stay with their consumers."
    onSure=${() => attempt(() => call("POST", `${path("queues", host, name)}/reset-groups`, { body: {} }), (one) => "Assignments ended.").then(again)} /></p>`}
  <${Listed} where=${`${path("queues", host, name)}/groups`} caption="Message groups" rowKey=${(row) => row.group} empty="No group has messages or an owner."
    columns=${[
      { key: "group", label: "Group" },
      { key: "owner", label: "Owner" },
      { key: "owner_connection", label: "Connection" },
      { key: "former", label: "Waits for", cell: (row) => (row.waits ? html`<${Name} text=${row.former} />` : "–") },
      { key: "pending", label: "Ready", number: true, name: "pending_count" },
      { key: "unacknowledged", label: "Not settled", number: true },
    ]} />`;

/** The key of a queue is fixed when it is made, so its messages move to a new one with the other key. */
function Rekey({ host, name, data, again }) {
  const [form, setForm] = useState(null); // {key, to} while they are asked for
  const [moving, setMoving] = useState("");
  if (!may("manage", host, name) || !writer()) return null;
  const set = (field) => (value) => setForm({ ...form, [field]: value });
  const make = async (event) => {
    event.preventDefault();
    const body = { durable: data.durable, arguments: { ...data.arguments, "x-last-value-key": form.key } };
    if (await attempt(() => call("PUT", path("queues", host, form.to), { body, headers: { "If-None-Match": "*" } }), `Made the queue ${visible(form.to)}.`)) {
      setMoving(form.to);
      setForm(null);
    }
  };
  return html`<p class="actions"><button onClick=${() => setForm({ key: "", to: `${name}.by` })}>Key by another property …</button></p>
    ${form && html`<${Dialog} title=${`Key ${name} by another property`} onClose=${() => setForm(null)}><form onSubmit=${make}>
      <p>The key of a queue is fixed when it is made. A new queue with the same settings and the other key is made, and the messages move there, after a preview. Bindings and consumers of <${Name} text=${name} /> stay as they are.</p>
      <div class="form"><${Input} label="Key" hint="a property of the messages" value=${form.key} onInput=${set("key")} required autofocus />
        <${Input} label="New queue" value=${form.to} onInput=${set("to")} required /></div>
      <div class="actions"><button type="button" onClick=${() => setForm(null)}>Cancel</button><button class="primary" disabled=${!may("configure", host, form.to)}>Make it and preview the move</button></div></form><//>`}
    ${moving && html`<${OperationDialog} vhost=${host} queue=${name} operation="move" destination=${moving} onClose=${() => setMoving("")} onDone=${again} />`}`;
}

export const Keys = ({ host, name, data, again }) => html`
  <${Rekey} ...${{ host, name, data, again }} />
  <${Listed} where=${`${path("queues", host, name)}/keys`} caption="Keys" rowKey=${(row) => `${row.type} ${row.key}`} empty="The queue keeps no key yet."
    columns=${[
      { key: "key", label: "Key", cell: (row) => html`<a href=${link(["queues", host, name], { tab: "messages", key: row.key })}><${Name} text=${row.key} /></a>` },
      { key: "type", label: "Type" },
      { key: "messages", label: "Messages", number: true },
      { key: "latest", label: "Latest", number: true, cell: (row) => html`<a href=${link(["queues", host, name], { tab: "messages", message: row.latest })}>${exact(row.latest)}</a>` },
    ]} />`;

export const FairKeys = ({ host, name }) => html`
  <${Listed} where=${`${path("queues", host, name)}/fair-keys`} caption="Fair keys" rowKey=${(row) => `${row.type} ${row.key}`} empty="No key has messages."
    columns=${[
      { key: "key", label: "Key", cell: (row) => (row.key === null ? html`<span class="quiet">without the property</span>` : html`<${Name} text=${row.key} />`) },
      { key: "pending", label: "Ready", number: true, name: "pending_count" },
      { key: "unacknowledged", label: "Not settled", number: true },
      { key: "turn", label: "Turn", number: true },
    ]} />`;

export function WhyNot({ host, name, data }) {
  const live = useLive(`${path("queues", host, name)}/why-not`, { every: 3000 });
  return html`<p>For each consumer: the first message that it could get, and what stands in the way.</p>
    <${Shown} live=${live}>${(found) => found.items.length
      ? found.items.map((one) => html`<section class="card" key=${one.consumer + one.session}>
          <h2><${Name} text=${one.consumer} /> ${one.deliverable ? html`<${Badge} tone="good">gets messages<//>` : html`<${Badge} tone="warn">gets nothing now<//>`}</h2>
          <p class="quiet"><${Name} text=${one.session} /></p>
          <ul>${one.findings.map((finding, number) => html`<li key=${number}><strong>${finding.obstacle}</strong>: <${Name} text=${finding.text} />
            ${finding.message > 0 && html` <a href=${link(["queues", host, name], { tab: "messages", message: finding.message })}>message ${exact(finding.message)}</a>`}
            ${finding.details?.length > 0 && html`<pre tabindex="0" aria-label="Values">${[].concat(finding.details).map(visible).join("\n")}</pre>`}</li>`)}</ul>
        </section>`)
      : html`<${Empty}>No consumer is attached, so the ${count(data.messages)} messages wait. Start a consumer, or look at the <a href=${link(["queues", host, name], { tab: "messages" })}>messages</a>.<//>`}<//>`;
}

export const LOSS_COLUMNS = [
  { key: "at", label: "Time", cell: (row) => html`<${Time} at=${row.at} />` },
  { key: "reason", label: "Reason", cell: (row) => reason(row.reason) },
  { key: "rule", label: "Rule" },
  { key: "sequence", label: "Message", number: true, name: "id" },
  { key: "size", label: "Size", number: true, cell: (row) => html`<${Figure} name="size" as="bytes" value=${row.size} />` },
  { key: "key", label: "Key" },
  { key: "publisher", label: "Publisher" },
  { key: "forwarded_to", label: "Went to" },
];

export const LossesOf = ({ host, name }) => html`
  <p>The ledger: messages that left without being acknowledged, the newest first.</p>
  <${Listed} where="losses" parameters=${{ vhost: host, queue: name }} caption="Losses" rowKey=${(row) => `${row.at} ${row.sequence} ${row.reason}`} columns=${LOSS_COLUMNS}
    empty="No message of this queue was lost." />`;

export function OperationsOf({ host, name, again }) {
  const [watched, setWatched] = useState(null);
  const manage = may("manage", host, name);
  return html`
    ${manage && html`<h2>To undo</h2>
      <${Listed} where=${`${path("queues", host, name)}/undo`} caption="Operations to undo" rowKey=${(row) => row.undo} empty="Nothing was taken away that could be brought back."
        columns=${(live) => [
          { key: "at", label: "Time", cell: (row) => html`<${Time} at=${row.at} />` },
          { key: "operation", label: "Did", cell: (row) => verb(row.operation) },
          { key: "user", label: "User" },
          { key: "kept", label: "Kept", number: true },
          { key: "until", label: "Until", cell: (row) => html`<${Time} at=${row.until} />` },
          { key: "do", label: "", cell: (row) => html`<button onClick=${() => undoOperation(host, name, row.undo, () => { live.again(); again(); })}>Undo</button>` },
        ]} />`}
    <h2>Operations</h2>
    <${Listed} where=${`${path("queues", host, name)}/operations`} every=${1500} caption="Operations" rowKey=${(row) => row.id} empty="No operation on the messages of this queue since the start."
      columns=${[
        { key: "id", label: "Number", number: true, cell: (row) => exact(row.id) },
        { key: "operation", label: "Did", cell: (row) => verb(row.operation) },
        { key: "selection", label: "Selection" },
        { key: "user", label: "User" },
        { key: "state", label: "State", cell: (row) => html`<${Badge} tone=${row.state === "finished" ? "good" : "warn"}>${row.state}<//>` },
        { key: "done", label: "Messages", number: true, cell: (row) => exact(row.done) },
        { key: "started_at", label: "Began", cell: (row) => html`<${Time} at=${row.started_at} />` },
        { key: "look", label: "", cell: (row) => manage && row.state === "running" && html`<button onClick=${() => setWatched(row)}>Watch</button>` },
      ]} />
    ${watched && html`<${Progress} vhost=${host} queue=${name} title=${`Operation ${watched.id}`} started=${watched} onClose=${() => setWatched(null)} onDone=${again} />`}`;
}
