/** The parts that pages are made of. Foreign text goes through Name, which isolates its direction. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { definition } from "./definitions.js";
import * as format from "./format.js";
import { link } from "./state.js";

/** Text that a client chose: names, values, reasons. */
export const Name = ({ text }) => html`<bdi>${visible(text)}</bdi>`;

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name with its invisible characters written out, so that two names that look alike do not. */
export function visible(text) {
  return String(text ?? "").replace(INVISIBLE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A number with its definition. */
export function Figure({ name, value, as = "count", text }) {
  const shown = text ?? format[as](value);
  const more = typeof value === "number" && as === "count" ? `${format.exact(value)}. ` : "";
  return html`<span class="figure" title=${more + definition(name)}>${shown}</span>`;
}

export function Time({ at, ago }) {
  if (!at) return html`<span class="quiet">–</span>`;
  const age = Date.now() - at;
  const relative = age >= 0 ? `${format.duration(age)} ago` : `in ${format.duration(-age)}`;
  const title = `${format.local(at)} · ${format.utc(at)} · ${relative}`;
  return html`<time datetime=${new Date(at).toISOString()} title=${title}>${ago ? relative : format.time(at)}</time>`;
}

/** Definition list of facts: [[label, content, name of the definition]]. */
export const Facts = ({ items }) => html`
  <dl class="facts">
    ${items.filter(Boolean).map(([label, content, name]) => html`
      <div key=${label}><dt title=${name ? definition(name) : ""}>${label}</dt><dd>${content}</dd></div>`)}
  </dl>`;

export const Tile = ({ label, name, children, tone }) => html`
  <div class=${`tile ${tone || ""}`}>
    <div class="label" title=${definition(name)}>${label}</div>
    <div class="value">${children}</div>
  </div>`;

export const Badge = ({ tone = "plain", title, children }) =>
  html`<span class=${`badge ${tone}`} title=${title || ""}>${children}</span>`;

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

export function Failure({ problem, again }) {
  if (!problem || !problem.status) return null; // the banner tells of a broker that does not answer
  return html`<div class="failure" role="alert">
    <strong>${problem.title || "Error"}.</strong> ${visible(problem.message)} ${advice(problem.status)}
    ${again && html` <button onClick=${again}>Try again</button>`}
  </div>`;
}

function advice(status) {
  if (status === 403) return "Ask an administrator for the permission.";
  if (status === 404) return "It may have been deleted since; go back to the list.";
  if (status === 412) return "Somebody changed it since you read it; look at it again.";
  if (status === 429 || status === 503) return "The broker cannot do it now; the page tries again.";
  return "";
}

/** Shows an answer of useLive: loading, the error, or the children with its data. */
export function Shown({ live, children }) {
  return html`
    <${Failure} problem=${live.problem} again=${live.again} />
    ${live.data === null
      ? !live.problem && html`<p class="quiet loading" role="status">Loading …</p>`
      : children(live.data)}`;
}

export const Page = ({ title, children, actions, trail }) => {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${typeof title === "string" ? visible(title) : "Annulet"} · Annulet`;
  }, [title]);
  return html`
    <header class="page-head">
      ${trail && html`<nav aria-label="Path" class="trail">${trail}</nav>`}
      <h1 ref=${heading} tabindex="-1">${typeof title === "string" ? html`<${Name} text=${title} />` : title}</h1>
      <div class="actions">${actions}</div>
    </header>
    ${children}`;
};

/**
 * A table. columns: [{key, label, name, number, cell(row), sort}]. sorted: {key, reverse}; onSort(key) makes the heads
 * buttons.
 */
export function Table({ caption, columns, rows, rowKey, sorted, onSort, empty, select }) {
  if (!rows.length) return html`<${Empty}>${empty ?? "Nothing here."}<//>`;
  return html`<${Scroll} label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>
        ${select && html`<th class="tick"><span class="hidden">Choose</span></th>`}
        ${columns.map((column) => html`<${Head} key=${column.key} ...${{ column, sorted, onSort }} />`)}
      </tr></thead>
      <tbody>${rows.map((row) => html`
        <tr key=${rowKey(row)}>
          ${select && html`<td class="tick">${select(row)}</td>`}
          ${columns.map((column) => html`<${Cell} key=${column.key} ...${{ column, row }} />`)}
        </tr>`)}
      </tbody>
    </table>
  <//>`;
}

export const Cell = ({ column, row }) =>
  html`<td class=${column.number ? "number" : column.wide ? "wide" : ""}>
    ${column.cell ? column.cell(row) : column.number
      ? html`<${Figure} name=${column.name || column.key} value=${row[column.key]} />`
      : html`<${Name} text=${row[column.key]} />`}
  </td>`;

export function Head({ column, sorted, onSort }) {
  const title = definition(column.name || column.key);
  const here = sorted?.key === column.key;
  const order = here ? (sorted.reverse ? "descending" : "ascending") : undefined;
  return html`<th scope="col" class=${column.number ? "number" : ""} aria-sort=${order} title=${title}>
    ${onSort && column.sort !== false && column.label
      ? html`<button class="head" onClick=${() => onSort(column.key)}>
          ${column.label}<span aria-hidden="true">${here ? (sorted.reverse ? " ↓" : " ↑") : ""}</span>
        </button>`
      : column.label || html`<span class="hidden">Actions</span>`}
  </th>`;
}

/** A region that scrolls sideways on narrow screens; the keyboard reaches it. */
export const Scroll = ({ label, children }) =>
  html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>${children}</div>`;

/** A dialog of the browser: it keeps the focus, and Escape closes it. */
export function Dialog({ title, onClose, children, wide }) {
  const own = useRef(null);
  useLayoutEffect(() => {
    const dialog = own.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${own} class=${wide ? "wide" : ""} aria-label=${visible(title)} onCancel=${cancel}>
    <header><h2>${visible(title)}</h2><button class="plain" aria-label="Close" onClick=${onClose}>✕</button></header>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}

/** A labelled field of a form. */
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

export function Choice({ label, value, options, onChange, hint }) {
  return html`<${Field} label=${label} hint=${hint}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${visible(text)}</option>`)}
    </select>
  <//>`;
}

export function Input({ label, value, onInput, hint, type = "text", ...rest }) {
  return html`<${Field} label=${label} hint=${hint}>
    <input type=${type} value=${value} onInput=${(event) => onInput(event.target.value)} ...${rest} />
  <//>`;
}

export const Tick = ({ label, checked, onChange }) => html`
  <label class="tick-field">
    <input type="checkbox" checked=${checked} onChange=${(event) => onChange(event.target.checked)} /> ${label}
  </label>`;

const TEXT_SHOWN = 4000;

/** A long text, cut with a button for the rest. */
export function Long({ text, label = "text" }) {
  const [shown, setShown] = useState(TEXT_SHOWN);
  const cut = text.length > shown;
  return html`
    <pre tabindex="0" aria-label=${label}><bdi>${visibleText(cut ? text.slice(0, shown) : text)}</bdi></pre>
    ${cut && html`<button onClick=${() => setShown(shown * 8)}>
      Show more (${format.count(text.length - shown)} characters follow)
    </button>`}`;
}

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** As `visible`, with line breaks and tabs as they are. */
export const visibleText = (text) =>
  String(text).replace(CONTROLS, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Tabs whose choice is in the URL. tabs: [[key, label]]. */
export function Tabs({ names, tabs, chosen }) {
  const own = useRef(null);
  useEffect(() => own.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [chosen]);
  return html`<nav class="tabs" aria-label="Parts of the page" ref=${own}>
    ${tabs.filter(Boolean).map(([key, label]) => html`
      <a key=${key} href=${link(names, { tab: key })} aria-current=${key === chosen ? "page" : undefined}>${label}</a>`)}
  </nav>`;
}

/** A page of a list with buttons for the next and the former one. */
export function Pager({ page, data, onPage }) {
  if (!data || data.page_count <= 1) return null;
  return html`<nav class="pager" aria-label="Pages of the list">
    <button disabled=${page <= 1} onClick=${() => onPage(page - 1)}>Earlier page</button>
    <span>Page ${page} of ${format.count(data.page_count)} · ${format.exact(data.filtered_count)} in all</span>
    <button disabled=${page >= data.page_count} onClick=${() => onPage(page + 1)}>Next page</button>
  </nav>`;
}

/** A button that asks once more: for what cannot be undone. */
export function Sure({ label, question, onSure, tone = "danger", disabled }) {
  const [asked, setAsked] = useState(false);
  if (asked) {
    return html`<${Dialog} title=${label} onClose=${() => setAsked(false)}>
      <p>${visible(question)}</p>
      <div class="actions">
        <button onClick=${() => setAsked(false)}>Cancel</button>
        <button class=${tone} onClick=${() => { setAsked(false); onSure(); }}>${label}</button>
      </div>
    <//>`;
  }
  return html`<button class=${tone} disabled=${disabled} onClick=${() => setAsked(true)}>${label}</button>`;
}

/** A line of the last values, for rows of lists. */
export function Spark({ values, label }) {
  if (values.length < 2) return html`<svg class="spark" viewBox="0 0 80 20" role="img" aria-label=${`${label}: too few readings`}></svg>`;
  const least = Math.min(...values);
  const most = Math.max(...values);
  const step = 80 / (values.length - 1);
  const height = (one) => (most === least ? 10 : 18 - ((one - least) / (most - least)) * 16);
  const points = values.map((one, at) => `${(at * step).toFixed(1)},${height(one).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 80 20" role="img" aria-label=${`${label}: from ${format.count(least)} to ${format.count(most)}`}>
    <polyline points=${points} fill="none" stroke="currentColor" stroke-width="1.5" /></svg>`;
}
