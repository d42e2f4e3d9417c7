/** Settings of one queue with their origins, and their change with what it would do. */
import { html, useState } from "../html.js";
import { call, ifUnchanged, may, path } from "../api.js";
import { Dialog, Failure, Field, Input, Name, Table, Tick } from "../parts.js";
import { notify } from "../state.js";
import { exact } from "../format.js";

const FIXED = new Set(["ring_trim_now", "last_value_fallback"]); // parts of other settings, without an argument of their own

export function SettingsOf({ host, name, data, again }) {
  const [all, setAll] = useState(false);
  const [changed, setChanged] = useState(null);
  const rows = Object.keys(data.settings).filter((key) => all || data.settings_from[key] !== "default").map((key) => ({ key, value: data.settings[key], from: data.settings_from[key] }));
  const change = may("configure", host, name);
  return html`<p class="actions"><${Tick} label="Show defaults too" checked=${all} onChange=${setAll} />
      ${change && html`<button onClick=${() => setChanged({ key: "ring_size", value: data.settings.ring_size })}>Change a setting</button>`}</p>
    <${Table} caption="Settings" rows=${rows} rowKey=${(row) => row.key} empty="Every setting has its default."
      columns=${[
        { key: "key", label: "Setting", cell: (row) => html`<code>${row.key.replaceAll("_", "-")}</code>` },
        { key: "value", label: "Value", cell: (row) => html`<${Name} text=${shown(row.value)} />` },
        { key: "from", label: "Comes from", cell: (row) => (row.from === "default" ? html`<span class="quiet">default</span>` : html`<${Name} text=${row.from} />`) },
        { key: "do", label: "", cell: (row) => change && !FIXED.has(row.key) && html`<button onClick=${() => setChanged(row)}>Change</button>` },
      ]} />
    ${changed && html`<${Change} ...${{ host, name, data }} row=${changed} onClose=${() => setChanged(null)} onDone=${() => { setChanged(null); again(); }} />`}`;
}

const shown = (value) => (Array.isArray(value) ? value.join(", ") || "none" : value === -1 ? "off" : value === "" ? "none" : String(value));

function Change({ host, name, data, row, onClose, onDone }) {
  const [key, setKey] = useState(row.key);
  const [text, setText] = useState(String(row.value));
  const [problem, setProblem] = useState(null);
  const [looked, setLooked] = useState("");
  const value = valueOf(text, data.settings[key]);
  const submit = async (event) => {
    event.preventDefault();
    if (looked !== key + text) {
      setLooked(key + text);
      return;
    }
    try {
      const answer = await call("PATCH", path("queues", host, name), { body: { settings: { [key.replaceAll("_", "-")]: value } }, headers: ifUnchanged(data.read ?? data) });
      notify(`Changed ${key.replaceAll("_", "-")}.${answer.durable_change ? "" : " The change ends with the broker."}`);
      onDone();
    } catch (failed) {
      setProblem(failed);
    }
  };
  const keys = Object.keys(data.settings).filter((one) => !FIXED.has(one));
  const kind = typeof data.settings[key];
  return html`<${Dialog} title=${`Change a setting of ${name}`} onClose=${onClose}><form onSubmit=${submit}>
    <${Failure} problem=${problem} />
    <div class="form">
      <${Field} label="Setting"><select value=${key} onChange=${(event) => { setKey(event.target.value); setText(String(data.settings[event.target.value])); setLooked(""); }}>
        ${keys.map((one) => html`<option key=${one} value=${one} selected=${one === key}>${one.replaceAll("_", "-")}</option>`)}</select><//>
      ${kind === "boolean"
        ? html`<${Field} label="Value"><select value=${text} onChange=${(event) => setText(event.target.value)}><option value="true" selected=${text === "true"}>true</option><option value="false" selected=${text !== "true"}>false</option></select><//>`
        : html`<${Input} label="Value" name="value" hint=${kind === "number" ? "-1 is off" : ""} value=${text} onInput=${setText} />`}
    </div>
    <p class="quiet">It is <${Name} text=${shown(data.settings[key])} /> now, from <${Name} text=${data.settings_from[key]} />.</p>
    ${looked === key + text && html`<div class="warning" role="status">${effectOf(key, value, data)}</div>`}
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button>
      <button class="primary">${looked === key + text ? "Change it" : "Show what it would do"}</button></div>
  </form><//>`;
}

function valueOf(text, former) {
  if (typeof former === "boolean") return text === "true";
  if (typeof former === "number") return Number(text);
  if (Array.isArray(former)) return text.split(",").map((one) => one.trim()).filter(Boolean);
  return text;
}

const messages = (number) => `${exact(number)} ${number === 1 ? "message" : "messages"}`;
const messagesAre = (number) => `${messages(number)} ${number === 1 ? "is" : "are"}`;

/** What a change would drop or keep, for the queue as it is now. */
function effectOf(key, value, data) {
  const over = (limit, present) => Math.max(0, present - limit);
  if (key === "ring_size" && value >= 0) {
    const excess = over(value, data.pending_count);
    return excess ? `The queue has ${messages(data.pending_count)} ready. ${messagesAre(excess)} beyond the ring: the next arrivals drop them, the first ones of the order of eviction first; “ring-trim” of “now” drops them at once.` : `Nothing is dropped: ${messages(data.pending_count)} fit into the ring.`;
  }
  if (key === "max_length" && value >= 0) {
    const excess = over(value, data.settings.limit_counts === "all" ? data.messages : data.pending_count);
    return excess ? `${messagesAre(excess)} beyond the limit; “${data.settings.overflow}” applies to them at once.` : "The present messages are within the limit.";
  }
  if (key === "max_bytes" && value >= 0) {
    const excess = over(value, data.pending_bytes);
    return excess ? `${exact(excess)} bytes are beyond the limit; “${data.settings.overflow}” applies to them at once.` : "The present messages are within the limit.";
  }
  if (key === "message_ttl") return `Applies to later arrivals; the ${messages(data.messages)} there keep their times.`;
  if (["min_ttl", "max_ttl", "selector", "consumer_timeout", "expires"].includes(key)) return "Applies at once, also to waiting messages: some may leave the queue.";
  return "Applies from now on; the broker refuses settings that cannot be changed.";
}
