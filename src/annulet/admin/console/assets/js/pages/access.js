/** Users with their permissions, tokens, virtual hosts. */
import { html, useState } from "../html.js";
import { administrator, call, path, session, useLive } from "../api.js";
import { Badge, Choice, Dialog, Input, Name, Page, Pager, Shown, Sure, Table, Tick, Time, visible } from "../parts.js";
import { attempt, chosenHost, hosts } from "../state.js";
import { count } from "../format.js";

const TAGS = ["administrator", "monitoring", "management"];

export function Users() {
  const [page, setPage] = useState(1);
  const live = useLive("users", { parameters: { page, page_size: 50 }, every: 4000 });
  const permissions = useLive("permissions", { parameters: { page_size: 500 }, every: 4000 });
  const [edited, setEdited] = useState(null);
  const [granted, setGranted] = useState(null);
  return html`<${Page} title="Users and permissions" actions=${html`<button class="primary" onClick=${() => setEdited({ name: "", tags: [] })}>Make a user</button>`}>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Users" rows=${data.items} rowKey=${(row) => row.name} columns=${[
      { key: "name", label: "User" },
      { key: "tags", label: "Tags", cell: (row) => row.tags.map((tag) => html`<${Badge} key=${tag}><${Name} text=${tag} /><//> `) },
      { key: "source", label: "From" },
      { key: "connections", label: "Connections", number: true },
      { key: "has_password", label: "Password", cell: (row) => (row.has_password ? row.hashing_algorithm : html`<${Badge} tone="warn">none<//>`) },
      { key: "do", label: "", cell: (row) => row.source === "run time" && html`<span class="actions"><button onClick=${() => setEdited(row)}>Change</button>
        ${row.name !== session.value.user && html`<${Sure} label="Delete" question=${`The user ${visible(row.name)} is gone, and its ${count(row.connections)} connections end. This cannot be undone.`} onSure=${() => attempt(() => call("DELETE", path("users", row.name)), "Deleted.").then(live.again)} />`}</span>` },
    ]} /><${Pager} page=${page} data=${data} onPage=${setPage} />`}<//>
    <h2>Permissions</h2>
    <p class="actions"><span class="quiet">Regular expressions for names; “browse” is implied by “read”, “manage” by “configure”.</span>
      <button onClick=${() => setGranted({ user: "", vhost: chosenHost(), configure: "^$", write: "^$", read: ".*", browse: "", manage: "" })}>Give permissions</button></p>
    <${Shown} live=${permissions}>${(data) => html`<${Table} caption="Permissions" rows=${data.items} rowKey=${(row) => `${row.user}\0${row.vhost}`} empty="Nobody has permissions; only administrators get in over HTTP." columns=${[
      { key: "user", label: "User" }, { key: "vhost", label: "Virtual host" },
      ...KINDS.map((kind) => ({ key: kind, label: kind, cell: (row) => html`<code><${Name} text=${row[kind] || "–"} /></code>` })),
      { key: "do", label: "", cell: (row) => html`<span class="actions"><button onClick=${() => setGranted({ browse: "", manage: "", ...row })}>Change</button>
        <${Sure} label="Take away" question="Connections of the user in this virtual host end." onSure=${() => attempt(() => call("DELETE", path("permissions", row.vhost, row.user)), "Taken away.").then(permissions.again)} /></span>` },
    ]} />`}<//>
    ${edited && html`<${EditUser} user=${edited} onClose=${() => setEdited(null)} onDone=${() => { setEdited(null); live.again(); }} />`}
    ${granted && html`<${Grant} row=${granted} onClose=${() => setGranted(null)} onDone=${() => { setGranted(null); permissions.again(); }} />`}
  <//>`;
}

const KINDS = ["configure", "write", "read", "browse", "manage"];

function EditUser({ user, onClose, onDone }) {
  const [name, setName] = useState(user.name);
  const [password, setPassword] = useState("");
  const [tags, setTags] = useState(user.tags);
  const submit = async (event) => {
    event.preventDefault();
    if (await attempt(() => call("PUT", path("users", name), { body: { tags, ...(password ? { password } : {}) } }), `Saved the user ${visible(name)}.`)) onDone();
  };
  return html`<${Dialog} title=${user.name ? `Change ${user.name}` : "Make a user"} onClose=${onClose}><form onSubmit=${submit}><div class="form">
    <${Input} label="Name" value=${name} onInput=${setName} required disabled=${Boolean(user.name)} />
    <${Input} label="Password" type="password" autocomplete="new-password" hint=${user.name ? "empty: it keeps its own" : ""} value=${password} onInput=${setPassword} required=${!user.name} /></div>
    <p class="actions">${TAGS.map((tag) => html`<${Tick} key=${tag} label=${tag} checked=${tags.includes(tag)} onChange=${(on) => setTags(on ? [...tags, tag] : tags.filter((one) => one !== tag))} />`)}</p>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Save</button></div></form><//>`;
}

function Grant({ row, onClose, onDone }) {
  const [fields, setFields] = useState(row);
  const set = (key) => (value) => setFields({ ...fields, [key]: value });
  const submit = async (event) => {
    event.preventDefault();
    const body = Object.fromEntries(KINDS.filter((kind) => fields[kind] || !["browse", "manage"].includes(kind)).map((kind) => [kind, fields[kind]]));
    if (await attempt(() => call("PUT", path("permissions", fields.vhost, fields.user), { body }), "Permissions given.")) onDone();
  };
  return html`<${Dialog} title="Permissions" onClose=${onClose}><form onSubmit=${submit}><div class="form">
    <${Input} label="User" value=${fields.user} onInput=${set("user")} required disabled=${Boolean(row.user)} />
    <${Choice} label="Virtual host" value=${fields.vhost} options=${hosts.value.map((one) => [one, one])} onChange=${set("vhost")} />
    ${KINDS.map((kind) => html`<${Input} key=${kind} label=${kind} value=${fields[kind] ?? ""} onInput=${set(kind)} />`)}</div>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Give them</button></div></form><//>`;
}

const DAY = 86400;

export function Tokens() {
  const live = useLive("tokens", { parameters: { page_size: 200 }, every: 5000 });
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState(null);
  return html`<${Page} title="Tokens" actions=${html`<button class="primary" onClick=${() => setMaking(true)}>Make a token</button>`}>
    <p>A token is a second password for automation, with a part of the rights of its user and an end.</p>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Tokens" rows=${data.items} rowKey=${(row) => `${row.user}\0${row.name}`} empty="No token that you may manage." columns=${[
      { key: "name", label: "Token" }, { key: "user", label: "User" },
      { key: "operations", label: "May", cell: (row) => (row.operations ?? []).join(", ") },
      { key: "virtual_hosts", label: "In", cell: (row) => html`<${Name} text=${(row.virtual_hosts ?? []).join(", ") || "all virtual hosts"} />` },
      { key: "expires_at", label: "Until", cell: (row) => (row.expires_at ? html`<${Time} at=${row.expires_at} />` : "no end") },
      { key: "do", label: "", cell: (row) => html`<${Sure} label="Revoke" question="Connections that logged in with it end." onSure=${() => attempt(() => call("DELETE", path("tokens", row.user, row.name)), "Revoked.").then(live.again)} />` },
    ]} />`}<//>
    ${making && html`<${NewToken} onClose=${() => setMaking(false)} onDone=${(one) => { setMaking(false); setMade(one); live.again(); }} />`}
    ${made && html`<${Dialog} title="The new token" onClose=${() => setMade(null)}><p>Copy it now: it is shown only once.</p><pre tabindex="0" aria-label="Token">${made.token}</pre>
      <div class="actions"><button class="primary" onClick=${() => setMade(null)}>Close</button></div><//>`}
  <//>`;
}

function NewToken({ onClose, onDone }) {
  const [name, setName] = useState("");
  const [operations, setOperations] = useState(["read"]);
  const [days, setDays] = useState("30");
  const [tags, setTags] = useState([]);
  const submit = async (event) => {
    event.preventDefault();
    let made = null;
    const body = { operations, tags, ...(days ? { seconds: Number(days) * DAY } : {}) };
    if (await attempt(async () => { made = await call("PUT", path("tokens", session.value.user, name), { body }); })) onDone(made);
  };
  const tick = (list, set) => (one) => html`<${Tick} key=${one} label=${one} checked=${list.includes(one)} onChange=${(on) => set(on ? [...list, one] : list.filter((each) => each !== one))} />`;
  return html`<${Dialog} title="Make a token" onClose=${onClose}><form onSubmit=${submit}><div class="form">
    <${Input} label="Name" value=${name} onInput=${setName} required autofocus /><${Input} label="Days" type="number" min="1" hint="empty: no end" value=${days} onInput=${setDays} /></div>
    <h3>It may</h3><p class="actions">${KINDS.map(tick(operations, setOperations))}</p>
    <h3>With the tags</h3><p class="actions">${session.value.tags.map(tick(tags, setTags))}</p>
    <div class="actions"><button type="button" onClick=${onClose}>Cancel</button><button class="primary" disabled=${!operations.length}>Make it</button></div></form><//>`;
}

export function Hosts() {
  const live = useLive("virtual-hosts", { parameters: { page_size: 200 }, every: 4000 });
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const make = async (event) => {
    event.preventDefault();
    if (await attempt(() => call("PUT", path("virtual-hosts", name), { body: { description } }), `Made the virtual host ${visible(name)}.`)) {
      hosts.value = [...new Set([...hosts.value, name])].sort();
      setName("");
      live.again();
    }
  };
  return html`<${Page} title="Virtual hosts">
    ${administrator() && html`<form class="filters" onSubmit=${make}><${Input} label="Name" value=${name} onInput=${setName} required /><${Input} label="Description" value=${description} onInput=${setDescription} /><button class="primary">Make a virtual host</button></form>`}
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Virtual hosts" rows=${data.items} rowKey=${(row) => row.name} columns=${[
      { key: "name", label: "Virtual host" }, { key: "description", label: "Description" },
      { key: "queues", label: "Queues", number: true }, { key: "connections", label: "Connections", number: true },
      { key: "limits", label: "Limits", cell: (row) => html`<${Name} text=${Object.entries(row.limits).map(([key, one]) => `${key}: ${one}`).join(", ") || "none"} />` },
      { key: "do", label: "", cell: (row) => administrator() && row.name !== "/" && html`<${Sure} label="Delete" question=${`Its ${count(row.queues)} queues with all messages are gone and its ${count(row.connections)} connections end. This cannot be undone.`}
        onSure=${() => attempt(() => call("DELETE", path("virtual-hosts", row.name)), "Deleted.").then(() => { hosts.value = hosts.value.filter((one) => one !== row.name); live.again(); })} />` },
    ]} />`}<//><//>`;
}
