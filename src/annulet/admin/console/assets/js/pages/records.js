/** Audit, losses, log level and traces, settings of the broker. */
import { html, useEffect, useState } from "../html.js";
import { administrator, call, get, overseer, path, useLive } from "../api.js";
import { Badge, Choice, Dialog, Facts, Field, Input, Name, Page, Shown, Table, Time } from "../parts.js";
import { adjust, attempt, link, place, vhost } from "../state.js";
import { reason } from "../definitions.js";
import { useStream } from "../stream.js";
import { Listed, LOSS_COLUMNS } from "./queue_state.js";

const filters = (fields) => {
  const { parameters } = place.value;
  return html`<div class="filters" role="search">${fields.map(([key, label]) => html`<${Field} key=${key} label=${label}><input type="search" value=${parameters[key] ?? ""} onChange=${(event) => adjust({ [key]: event.target.value.trim() })} /><//>`)}</div>`;
};

export function Audit() {
  const { user, operation, target } = place.value.parameters;
  return html`<${Page} title="Audit"><p>What operators did, the newest first.</p>
    ${filters([["user", "User"], ["operation", "Operation"], ["target", "Target"]])}
    <${Listed} key=${`${user} ${operation} ${target} ${vhost.value}`} where="audit" parameters=${{ user, operation, target, vhost: vhost.value }} caption="Audit trail" rowKey=${(row) => `${row.at} ${row.operation} ${row.target} ${row.user} ${row.arguments}`}
      empty="No action passes the filter." columns=${[
        { key: "at", label: "Time", cell: (row) => html`<${Time} at=${row.at} />` }, { key: "user", label: "User" }, { key: "operation", label: "Operation" },
        { key: "target", label: "Target" }, { key: "vhost", label: "Virtual host" }, { key: "count", label: "Messages", number: true, name: "none" },
        { key: "outcome", label: "Outcome", cell: (row) => html`<${Badge} tone=${row.outcome === "done" || row.outcome === "finished" ? "good" : "warn"}><${Name} text=${row.outcome} /><//>` },
        { key: "arguments", label: "Particulars", wide: true, cell: (row) => html`<code><${Name} text=${row.arguments.length > 200 ? `${row.arguments.slice(0, 200)} …` : row.arguments} /></code>` },
      ]} /><//>`;
}

export function Losses() {
  const { queue, reason: why, key, publisher } = place.value.parameters;
  const asked = { vhost: vhost.value, queue, reason: why, key, publisher };
  return html`<${Page} title="Losses"><p>Messages that left their queue without being acknowledged: which, when, by which rule, and whose they were.</p>
    ${filters([["queue", "Queue"], ["reason", "Reason"], ["key", "Key"], ["publisher", "Publisher"]])}
    <h2>By queue and reason</h2>
    <${Listed} key=${`counts ${JSON.stringify(asked)}`} where="losses/counts" parameters=${asked} caption="Losses by queue and reason" rowKey=${(row) => `${row.vhost}\0${row.queue}\0${row.reason}`} empty="No message was lost." columns=${[
      { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue])}><${Name} text=${row.queue} /></a>` }, { key: "vhost", label: "Virtual host" },
      { key: "reason", label: "Reason", cell: (row) => html`<button class="link" onClick=${() => adjust({ reason: row.reason })}>${reason(row.reason)}</button>` }, { key: "count", label: "Messages", number: true, name: "losses" }]} />
    <h2>One by one</h2>
    <${Listed} key=${JSON.stringify(asked)} where="losses" parameters=${asked} caption="Losses" rowKey=${(row) => `${row.vhost} ${row.queue} ${row.at} ${row.sequence} ${row.reason}`} empty="No message was lost."
      columns=${[{ key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue], { tab: "losses" })}><${Name} text=${row.queue} /></a>` }, ...LOSS_COLUMNS]} /><//>`;
}

export function Log() {
  const live = useLive("log", { every: 4000 });
  const [seconds, setSeconds] = useState("600");
  const set = (level) => attempt(() => call("PUT", "log", { body: { level, seconds: Number(seconds) } }), `The log has the level ${level}.`).then(live.again);
  return html`<${Page} title="Log and traces">
    <${Shown} live=${live}>${(data) => html`<section class="card"><h2>Level of the log</h2><${Facts} items=${[["Now", data.level], ["Configured", data.configured], ["Until", data.until ? html`<${Time} at=${data.until} />` : "no end"]]} />
      ${administrator() && html`<div class="filters"><${Choice} label="Level" value=${data.level} options=${["debug", "info", "warning", "error"].map((one) => [one, one])} onChange=${set} />
        <${Input} label="For seconds" hint="0 for no end" type="number" min="0" value=${seconds} onInput=${setSeconds} /></div>`}
      <p class="quiet">All of the log is on the standard error of the broker.</p></section>`}<//>
    ${overseer() && html`<${Lines} />`}
    ${administrator() && html`<h2>Protocol traces</h2><${Listed} where="traces" caption="Traces" rowKey=${(row) => row.connection} empty="No trace. Begin one on the page of a connection."
      columns=${(all) => [
        { key: "connection", label: "Connection", cell: (row) => html`<a href=${link(["connections", row.connection])}><${Name} text=${row.connection} /></a>` }, { key: "started_by", label: "By" },
        { key: "running", label: "State", cell: (row) => html`<${Badge} tone=${row.running ? "good" : "plain"}>${row.running ? "runs" : "ended"}<//>` }, { key: "frames", label: "Frames", number: true, name: "none" },
        { key: "until", label: "Until", cell: (row) => html`<${Time} at=${row.until} />` },
        { key: "do", label: "", cell: (row) => html`<button onClick=${() => attempt(() => call("DELETE", path("traces", row.connection)), "Dropped.").then(all.again)}>Drop</button>` },
      ]} />`}<//>`;
}

const LINES_SHOWN = 500;
const LEVELS = ["debug", "info", "warning", "error"];
const TONES = { warning: "warn", error: "bad", critical: "bad" };

/** The newest lines of the log: those in the memory of the broker, and each later one as it comes. */
function useLog() {
  const now = useStream("log");
  const [lines, setLines] = useState([]);
  const last = lines.at(-1)?.number ?? 0;
  const add = (items) => setLines((known) => [...known, ...items.filter((one) => one.number > (known.at(-1)?.number ?? 0))].slice(-LINES_SHOWN));
  const missing = now === null || (now.lines.length > 0 && now.lines[0].number > last + 1);
  useEffect(() => {
    if (!missing) {
      add(now.lines);
      return undefined;
    }
    const read = () => document.hidden || get("log/lines", { after: last, limit: LINES_SHOWN }).then((found) => add(found.items), () => undefined); // the next one may be answered
    read();
    const timer = setInterval(read, 2000);
    return () => clearInterval(timer);
  }, [now, missing]);
  return lines;
}

function Lines() {
  const lines = useLog();
  const { level = "debug", text = "" } = place.value.parameters;
  const [stopped, setStopped] = useState(null);
  const wanted = text.toLowerCase();
  const shown = (stopped ?? lines).filter((one) => LEVELS.indexOf(one.level) >= LEVELS.indexOf(level) && `${one.event} ${one.values} ${one.id}`.toLowerCase().includes(wanted)).reverse();
  return html`<h2>Lines</h2><div class="filters" role="search"><${Choice} label="From level" value=${level} options=${LEVELS.map((one) => [one, one])} onChange=${(one) => adjust({ level: one })} />
      <${Field} label="Text"><input type="search" value=${text} onInput=${(event) => adjust({ text: event.target.value })} /><//>
      <button onClick=${() => setStopped(stopped ? null : lines)}>${stopped ? "Go on" : "Hold still"}</button></div>
    <${Table} caption="Lines of the log" rows=${shown} rowKey=${(row) => row.number} empty=${lines.length ? "No line passes the filter." : "No line yet. The broker has its last 1,000 lines in memory."} columns=${[
      { key: "at", label: "Time", cell: (row) => html`<${Time} at=${row.at} />` }, { key: "level", label: "Level", cell: (row) => html`<${Badge} tone=${TONES[row.level]}>${row.level}<//>` },
      { key: "event", label: "Event" }, { key: "values", label: "Values", wide: true, cell: (row) => html`<code><${Name} text=${row.values} /></code>` }, { key: "id", label: "Id" },
    ]} />`;
}

export function Settings() {
  const live = useLive("settings", { every: 5000 });
  const [edited, setEdited] = useState(null);
  const { name = "" } = place.value.parameters;
  return html`<${Page} title="Broker settings">
    <div class="filters" role="search"><${Field} label="Name has"><input type="search" value=${name} onInput=${(event) => adjust({ name: event.target.value })} /><//></div>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Settings of the broker" rows=${data.items.filter((one) => one.name.includes(name))} rowKey=${(row) => row.name} empty="No setting has this in its name." columns=${[
      { key: "name", label: "Setting", cell: (row) => html`<code>${row.name}</code>` }, { key: "value", label: "Value", cell: (row) => html`<${Name} text=${JSON.stringify(row.value)} /> ${row.unit}` },
      { key: "default", label: "Default", cell: (row) => html`<${Name} text=${JSON.stringify(row.default)} />` }, { key: "origin", label: "Comes from" },
      { key: "do", label: "", cell: (row) => row.changeable && html`<button onClick=${() => setEdited(row)}>Change</button>` },
    ]} />`}<//>
    ${edited && html`<${Change} row=${edited} onClose=${() => setEdited(null)} onDone=${() => { setEdited(null); live.again(); }} />`}<//>`;
}

const SETTING_EFFECTS = {
  undo_seconds: "also for messages that are kept already: older ones cannot be brought back any more.",
  undo_bytes: "also for messages that are kept already: the oldest ones beyond it go when the next operation needs room.",
};

function Change({ row, onClose, onDone }) {
  const [text, setText] = useState(JSON.stringify(row.value));
  const [looked, setLooked] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    if (looked !== text) setLooked(text);
    else if (await attempt(() => call("PUT", path("settings", row.name), { body: { value: JSON.parse(text) } }), `Changed ${row.name}, now and for later starts.`)) onDone();
  };
  const back = () => attempt(() => call("DELETE", path("settings", row.name)), "The configuration holds again.").then(onDone);
  return html`<${Dialog} title=${`Change ${row.name}`} onClose=${onClose}><form onSubmit=${submit}><${Input} label="Value" hint=${`as JSON${row.unit ? `, in ${row.unit}` : ""}`} value=${text} onInput=${setText} autofocus />
    ${looked === text && html`<div class="warning" role="status">It is ${JSON.stringify(row.value)} now and would be <${Name} text=${text} />, ${SETTING_EFFECTS[row.name] ?? "from now on."}</div>`}
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button type="button" onClick=${back}>Let the configuration hold</button><button class="primary">${looked === text ? "Change it" : "Show what it would do"}</button></div></form><//>`;
}
