/** Policies, address settings and definitions. */
import { html, useState } from "../html.js";
import { administrator, call, get, path, useLive } from "../api.js";
import { Badge, Dialog, Failure, Field, Input, Name, Page, Shown, Sure, Table, Tick, visible } from "../parts.js";
import { attempt, chosenHost, notify } from "../state.js";
import { topicMatches } from "../routes.js";

const json = (value) => html`<code><${Name} text=${JSON.stringify(value)} /></code>`;

export function Policies() {
  const host = chosenHost();
  const policies = useLive(path("policies", host), { every: 4000 });
  const settings = useLive(path("address-settings", host), { every: 4000 });
  const [edited, setEdited] = useState(null);
  const own = administrator();
  return html`<${Page} title="Policies">
    <p>Of the virtual host <${Name} text=${host} />. A policy sets arguments of the queues whose names match; the first one that matches wins.</p>
    <h2>Policies</h2>
    ${own && html`<p class="actions"><button class="primary" onClick=${() => setEdited({ kind: "policies", name: "", pattern: "", priority: 0, definition: {} })}>Make a policy</button></p>`}
    <${Shown} live=${policies}>${(data) => html`<${Table} caption="Policies" rows=${data.items} rowKey=${(row) => row.name} empty="No policy: queues have the settings of their declarations." columns=${[
      { key: "name", label: "Policy" }, { key: "pattern", label: "Queues", cell: (row) => html`<code><${Name} text=${row.pattern} /></code>` },
      { key: "priority", label: "Priority", number: true, name: "none" }, { key: "definition", label: "Sets", cell: (row) => json(row.definition) },
      { key: "do", label: "", cell: (row) => own && html`<span class="actions"><button onClick=${() => setEdited({ kind: "policies", ...row })}>Change</button>
        <${Sure} label="Delete" question="Its queues get the settings of the next policy or of their declarations." onSure=${() => attempt(() => call("DELETE", path("policies", host, row.name)), "Deleted.").then(policies.again)} /></span>` },
    ]} />`}<//>
    <h2>Address settings</h2>
    ${own && html`<p class="actions"><button onClick=${() => setEdited({ kind: "address-settings", name: "", definition: {} })}>Make address settings</button></p>`}
    <${Shown} live=${settings}>${(data) => html`<${Table} caption="Address settings" rows=${data.items} rowKey=${(row) => row.pattern ?? row.match} empty="No address settings: addresses have no limits." columns=${[
      { key: "pattern", label: "Addresses", cell: (row) => html`<code><${Name} text=${row.pattern ?? row.match} /></code>` }, { key: "settings", label: "Set", cell: (row) => json(row.settings) },
      { key: "do", label: "", cell: (row) => own && html`<span class="actions"><button onClick=${() => setEdited({ kind: "address-settings", name: row.pattern ?? row.match, definition: row.settings })}>Change</button>
        <${Sure} label="Take back" question="The addresses get the settings of the next pattern." onSure=${() => attempt(() => call("DELETE", path("address-settings", host, row.pattern ?? row.match)), "Taken back.").then(settings.again)} /></span>` },
    ]} />`}<//>
    ${edited && html`<${Edit} ...${{ host, edited }} onClose=${() => setEdited(null)} onDone=${() => { setEdited(null); policies.again(); settings.again(); }} />`}
  <//>`;
}

function Edit({ host, edited, onClose, onDone }) {
  const policy = edited.kind === "policies";
  const [name, setName] = useState(edited.name);
  const [pattern, setPattern] = useState(edited.pattern);
  const [priority, setPriority] = useState(String(edited.priority ?? 0));
  const [definition, setDefinition] = useState(JSON.stringify(edited.definition, null, 2));
  const [affected, setAffected] = useState(null);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    try {
      const read = JSON.parse(definition);
      if (affected === null) {
        setAffected(await (policy ? matching(host, pattern) : matchingAddresses(host, name)));
        return;
      }
      await call("PUT", path(edited.kind, host, name), { body: policy ? { pattern, priority: Number(priority), definition: read } : read });
      notify("Saved.");
      onDone();
    } catch (failed) {
      setProblem({ status: failed.status || 400, title: "Not saved", message: failed.message });
    }
  };
  const change = (set) => (value) => { set(value); setAffected(null); };
  return html`<${Dialog} title=${policy ? "Policy" : "Address settings"} onClose=${onClose} wide><form onSubmit=${submit}><${Failure} problem=${problem} /><div class="form">
    <${Input} label=${policy ? "Name" : "Pattern of addresses"} value=${name} onInput=${change(setName)} required disabled=${Boolean(edited.name)} />
    ${policy && html`<${Input} label="Queues" hint="a regular expression" value=${pattern} onInput=${change(setPattern)} required /><${Input} label="Priority" type="number" value=${priority} onInput=${setPriority} />`}
    <div class="whole"><${Field} label="Sets" hint='as JSON, such as {"message-ttl": 60000}'><textarea value=${definition} onInput=${(event) => change(setDefinition)(event.target.value)}></textarea><//></div></div>
    ${affected && html`<div class="warning" role="status">${affected.text}</div>`}
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary">${affected !== null ? "Save" : policy ? "Show which queues it matches" : "Show which addresses it matches"}</button></div></form><//>`;
}

async function matching(host, pattern) {
  const expression = new RegExp(pattern, "u");
  return matched("queues", await get("queues", { vhost: host, columns: "name", page_size: 500 }), (name) => expression.test(name));
}

const matchingAddresses = async (host, pattern) =>
  matched("addresses", await get("addresses", { vhost: host, columns: "name", page_size: 500 }), (name) => topicMatches(pattern, name));

function matched(what, found, fits) {
  const names = found.items.map((one) => one.name).filter(fits);
  const looked = found.items.length < found.total_count ? ` of the first ${found.items.length}` : "";
  return { text: names.length ? `Matches ${names.length} ${what}${looked}: ${names.slice(0, 8).map(visible).join(", ")}${names.length > 8 ? " …" : ""}` : `Matches no ${what === "queues" ? "queue" : "address"}${looked} now; later ones may.` };
}

export function Definitions() {
  const [text, setText] = useState("");
  const [prune, setPrune] = useState(false);
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const change = (set) => (value) => { set(value); setPlan(null); };
  const send = async (planning) => {
    setProblem(null);
    try {
      const answer = await call("POST", "definitions", { text, parameters: { plan: planning ? "true" : "", prune: prune ? "true" : "" } });
      setPlan(planning ? answer : null);
      if (!planning) notify(`Applied: ${answer.steps.length} steps.`);
    } catch (failed) {
      setPlan(null);
      setProblem(failed);
    }
  };
  const download = () => attempt(async () => {
    const all = await get("definitions", { format: "annulet" });
    const url = URL.createObjectURL(new Blob([JSON.stringify(all, null, 2)], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href: url, download: "annulet-definitions.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });
  const fill = () => attempt(async () => change(setText)(JSON.stringify(await get("definitions", { format: "annulet" }), null, 2)));
  const file = async (event) => change(setText)(await event.target.files[0].text());
  return html`<${Page} title="Definitions" actions=${html`<button onClick=${download}>Download all</button>`}>
    <p>One document describes virtual hosts, users, permissions, exchanges, queues and policies. It is applied whole or not at all, after a plan.</p>
    <section class="card"><${Field} label="Document"><textarea class="tall" value=${text} onInput=${(event) => change(setText)(event.target.value)}></textarea><//>
      <p class="actions"><input type="file" aria-label="Read a file" accept=".json,application/json" onChange=${file} /><button onClick=${fill}>Fill in the present ones</button>
        <${Tick} label="Delete what the document does not name" checked=${prune} onChange=${change(setPrune)} /></p>
      <div class="actions"><button class="primary" disabled=${!text.trim()} onClick=${() => send(true)}>Plan</button>
        ${plan && !plan.conflicts.length && plan.steps.length > 0 && html`<${Sure} label=${`Apply ${plan.steps.length} steps`} tone=${plan.destroys ? "danger" : "primary"} question=${plan.destroys ? "The plan destroys messages or definitions. This cannot be undone." : "Nothing is destroyed."} onSure=${() => send(false)} />`}</div></section>
    <${Failure} problem=${problem} />
    ${plan && html`<h2>Plan</h2>
      ${plan.conflicts.map((one) => html`<div class="failure" key=${one.kind + one.name}>${one.kind} <${Name} text=${one.name} />: <${Name} text=${one.reason} /></div>`)}
      ${plan.not_taken.map((one) => html`<div class="warning" key=${one.kind + one.name}>${one.kind} <${Name} text=${one.name} /> is not taken: <${Name} text=${one.reason} /></div>`)}
      <${Table} caption="Steps of the plan" rows=${plan.steps} rowKey=${(row) => `${row.action} ${row.kind} ${row.vhost} ${row.name}`} empty="Nothing to do: the broker is as the document says." columns=${[
        { key: "action", label: "Does", cell: (row) => html`<${Badge} tone=${row.destroys ? "bad" : "good"}>${row.action}<//>` }, { key: "kind", label: "Kind" },
        { key: "vhost", label: "Virtual host" }, { key: "name", label: "Name" }, { key: "changes", label: "Changes", cell: (row) => json(row.changes) },
      ]} />`}
  <//>`;
}
