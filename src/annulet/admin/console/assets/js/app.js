/** The shell: sign-in, navigation, virtual host, theme, banner, notices and the page of the place. */
import { html, render, useEffect, useRef, useState } from "./html.js";
import { findSession, get, online, session, signIn, signOut, administrator } from "./api.js";
import { dismiss, hosts, notices, notify, place, theme, vhost, zone, link } from "./state.js";
import { Empty, Input, Name, Page, visible } from "./parts.js";
import { Palette, useShortcuts } from "./palette.js";
import { Overview } from "./pages/overview.js";
import { Queues } from "./pages/queues.js";
import { Queue } from "./pages/queue.js";
import { Connections, Connection, Consumers, Session } from "./pages/clients.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { Publish } from "./pages/publish.js";
import { Routing, Exchange } from "./pages/routing.js";
import { Users, Tokens, Hosts } from "./pages/access.js";
import { Policies, Definitions } from "./pages/policies.js";
import { Audit, Losses, Log, Settings } from "./pages/records.js";
import { Leases } from "./pages/leases.js";

/** Every page: its component, its label, its group, and who sees it. */
export const PAGES = {
  overview: { component: Overview, label: "Overview", group: "" },
  queues: { component: Queues, label: "Queues", group: "Messages" },
  "dead-letters": { component: DeadLetters, label: "Dead letters", group: "Messages" },
  publish: { component: Publish, label: "Publish and consume", group: "Messages" },
  losses: { component: Losses, label: "Losses", group: "Messages" },
  routing: { component: Routing, label: "Exchanges and routes", group: "Messages" },
  connections: { component: Connections, label: "Connections", group: "Clients" },
  consumers: { component: Consumers, label: "Consumers", group: "Clients" },
  leases: { component: Leases, label: "Spark leases", group: "Clients" },
  policies: { component: Policies, label: "Policies", group: "Administration" },
  definitions: { component: Definitions, label: "Definitions", group: "Administration", shown: administrator },
  users: { component: Users, label: "Users and permissions", group: "Administration", shown: administrator },
  tokens: { component: Tokens, label: "Tokens", group: "Administration" },
  hosts: { component: Hosts, label: "Virtual hosts", group: "Administration" },
  audit: { component: Audit, label: "Audit", group: "Records" },
  log: { component: Log, label: "Log and traces", group: "Records" },
  settings: { component: Settings, label: "Broker settings", group: "Records", shown: administrator },
};

/** Pages of one thing, below a page of the list. */
const DETAILS = {
  queues: Queue,
  connections: Connection,
  sessions: Session,
  routing: Exchange,
};

export const shownPages = () => Object.entries(PAGES).filter(([, page]) => !page.shown || page.shown());

function SignIn() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(user, password);
    } catch (failed) {
      setProblem(failed.message);
      setBusy(false);
    }
  };
  return html`<main class="sign-in"><form onSubmit=${submit}>
    <img src="/console/icon.svg" alt="" /><h1>Annulet</h1>
    ${problem && html`<div class="failure" role="alert">${visible(problem)}</div>`}
    <${Input} label="User" value=${user} onInput=${setUser} autocomplete="username" required autofocus name="user" />
    <${Input} label="Password" type="password" value=${password} onInput=${setPassword} autocomplete="current-password" name="password" />
    <button class="primary" disabled=${busy}>Sign in</button>
    <small>A user of the broker with one of the tags administrator, monitoring and management.</small>
  </form></main>`;
}

function Side({ open, onChosen }) {
  const here = place.value.names[0];
  const groups = [...new Set(Object.values(PAGES).map((page) => page.group))];
  return html`<nav class=${`side ${open ? "open" : ""}`} aria-label="Pages" id="side">
    <a class="brand" href="#/overview"><img src="/console/icon.svg" alt="" />Annulet</a>
    ${groups.map((group) => html`<div key=${group}>
      ${group && html`<h2>${group}</h2>`}
      ${shownPages().filter(([, page]) => page.group === group).map(([name, page]) => html`
        <a key=${name} class="page" href=${link([name])} onClick=${onChosen}
          aria-current=${here === name ? "page" : undefined}>${page.label}</a>`)}
    </div>`)}
  </nav>`;
}

function Top({ onMenu, menuOpen, onPalette }) {
  return html`<header class="top">
    <button class="menu" aria-expanded=${menuOpen} aria-controls="side" onClick=${onMenu}>☰ Pages</button>
    <label><span class="hidden">Virtual host</span>
      <select value=${vhost.value} onChange=${(event) => { vhost.value = event.target.value; }}>
        <option value="">All virtual hosts</option>
        ${hosts.value.map((name) => html`<option key=${name} value=${name} selected=${name === vhost.value}>${visible(name)}</option>`)}
      </select>
    </label>
    <button onClick=${onPalette}>Go to … <kbd>Ctrl K</kbd></button>
    <span class="push"></span>
    <button title="The zone that times are shown in" onClick=${() => { zone.value = zone.value === "utc" ? "local" : "utc"; }}>
      ${zone.value === "utc" ? "Times: UTC" : "Times: local"}
    </button>
    <label><span class="hidden">Theme</span>
      <select value=${theme.value} onChange=${(event) => { theme.value = event.target.value; }}>
        ${[["system", "System theme"], ["light", "Light theme"], ["dark", "Dark theme"]].map(([key, text]) =>
          html`<option key=${key} value=${key} selected=${key === theme.value}>${text}</option>`)}
      </select>
    </label>
    <span class="wide-only"><${Name} text=${session.value.user} /> <small>${session.value.tags.join(", ")}</small></span>
    <button onClick=${() => signOut().catch((problem) => notify(problem.message, { kind: "problem" }))}>Sign out</button>
  </header>`;
}

const Notices = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.value.map((one) => html`<div key=${one.number} class=${`notice ${one.kind}`}>
    <span>${visible(one.text)}</span>
    ${one.action && html`<button onClick=${() => { dismiss(one.number); one.action.run(); }}>${one.action.label}</button>`}
    <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(one.number)}>✕</button>
  </div>`)}
</div>`;

function Content() {
  const [first, ...rest] = place.value.names;
  const Detail = rest.length ? DETAILS[first] : null;
  if (Detail) return html`<${Detail} key=${place.value.names.join("/")} names=${rest} />`;
  const page = PAGES[first];
  if (page && (!page.shown || page.shown())) return html`<${page.component} key=${first} />`;
  return html`<${Page} title="No such page"><${Empty}>This link leads to no page that you may see. Choose one from the list of pages.<//><//>`;
}

function Shell() {
  const [menu, setMenu] = useState(false);
  const [palette, setPalette] = useState("");
  const main = useRef(null);
  const where = place.value.names.join("/");
  useShortcuts(setPalette);
  useEffect(() => {
    get("virtual-hosts", { columns: "name", page_size: 500 }).then(
      (found) => {
        hosts.value = found.items.map((one) => one.name);
        if (vhost.value && !hosts.value.includes(vhost.value)) vhost.value = "";
      },
      (problem) => notify(problem.message, { kind: "problem" }),
    );
  }, []);
  const before = useRef(where);
  useEffect(() => {
    if (before.current === where) return;
    before.current = where;
    scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus({ preventScroll: true });
  }, [where]);
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); main.current.querySelector("h1")?.focus(); }}>Skip to the content</a>
    <div class="shell">
      <${Side} open=${menu} onChosen=${() => setMenu(false)} />
      <div>
        <${Top} menuOpen=${menu} onMenu=${() => setMenu(!menu)} onPalette=${() => setPalette("pages")} />
        ${!online.value && html`<div class="banner" role="alert">
          The broker does not answer. What you see is as it was; the page goes on by itself when it is back.</div>`}
        <main id="content" ref=${main}><${Content} /></main>
      </div>
    </div>
    ${palette && html`<${Palette} mode=${palette} onClose=${() => setPalette("")} />`}`;
}

function App() {
  if (session.value === undefined) return html`<p class="boot" role="status">${online.value ? "Loading …" : "The broker does not answer. The page tries again by itself."}</p>`;
  return html`${session.value ? html`<${Shell} key=${session.value.user} />` : html`<${SignIn} />`}<${Notices} />`;
}

const root = document.getElementById("app");
root.replaceChildren();
findSession();
render(html`<${App} />`, root);
