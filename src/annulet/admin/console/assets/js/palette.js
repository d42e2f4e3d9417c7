/** The command palette and the shortcuts. */
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { get, writer } from "./api.js";
import { go, theme, vhost, zone } from "./state.js";
import { shownPages } from "./app.js";
import { Dialog, visible } from "./parts.js";

const FOUND_MAX = 20;
const WAIT_MS = 150; // after the last key, before queues are searched

/** Keys after g lead to pages. */
export const KEYS = { o: "overview", q: "queues", d: "dead-letters", p: "publish", r: "routing", c: "connections", l: "losses", a: "audit", s: "leases" };

export function useShortcuts(open) {
  useEffect(() => {
    let prefix = 0;
    const pressed = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("pages");
        return;
      }
      const target = event.target;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("input, textarea, select, dialog")) return;
      if (event.key === "?") open("keys");
      else if (event.key === "/") {
        const search = document.querySelector("main input[type=search]");
        if (search) {
          event.preventDefault();
          search.focus();
        }
      } else if (event.key === "g") prefix = Date.now();
      else if (Date.now() - prefix < 1500 && KEYS[event.key]) {
        prefix = 0;
        go([KEYS[event.key]]);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function commands() {
  return [
    ...shownPages().map(([name, page]) => ({ label: page.label, run: () => go([name]) })),
    writer() && { label: "Make a queue", run: () => go(["queues"], { new: "1" }) },
    { label: "Theme: light", run: () => { theme.value = "light"; } },
    { label: "Theme: dark", run: () => { theme.value = "dark"; } },
    { label: "Times in UTC", run: () => { zone.value = "utc"; } },
    { label: "Times in the local zone", run: () => { zone.value = "local"; } },
  ].filter(Boolean);
}

export function Palette({ mode, onClose }) {
  if (mode === "keys") return html`<${Keys} onClose=${onClose} />`;
  return html`<${Commands} onClose=${onClose} />`;
}

const Keys = ({ onClose }) => html`<${Dialog} title="Shortcuts" onClose=${onClose}>
  <dl class="facts">
    <div><dt><kbd>Ctrl K</kbd></dt><dd>go to a page or queue</dd></div>
    <div><dt><kbd>/</kbd></dt><dd>to the filter of the page</dd></div>
    <div><dt><kbd>?</kbd></dt><dd>this list</dd></div>
    ${Object.entries(KEYS).map(([key, name]) => html`<div key=${key}><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${name.replace("-", " ")}</dd></div>`)}
  </dl>
<//>`;

function Commands({ onClose }) {
  const [text, setText] = useState("");
  const [queues, setQueues] = useState([]);
  const [at, setAt] = useState(0);
  const list = useRef(null);
  useEffect(() => {
    if (!text) {
      setQueues([]);
      return undefined;
    }
    let ended = false;
    const timer = setTimeout(() => {
      get("queues", { name: text, columns: "name,vhost", page_size: FOUND_MAX, vhost: vhost.value }).then(
        (found) => !ended && setQueues(found.items),
        () => !ended && setQueues([]), // the pages are still offered
      );
    }, WAIT_MS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [text]);
  const all = useMemo(() => {
    const wanted = text.toLowerCase();
    return [
      ...commands().filter((one) => one.label.toLowerCase().includes(wanted)),
      ...queues.map((one) => ({ label: `Queue ${visible(one.name)} (${visible(one.vhost)})`, run: () => go(["queues", one.vhost, one.name]) })),
    ];
  }, [text, queues]);
  const chosen = Math.min(at, all.length - 1);
  const run = (one) => {
    onClose();
    setTimeout(one.run);
  };
  const key = (event) => {
    if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, all.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else if (event.key === "Enter" && all[chosen]) run(all[chosen]);
    else return;
    event.preventDefault();
  };
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  return html`<${Dialog} title="Go to" onClose=${onClose}><div class="palette">
    <input type="text" role="combobox" aria-label="Page, command or queue" aria-expanded="true" aria-controls="found"
      aria-activedescendant=${all.length ? `found-${chosen}` : undefined} autofocus value=${text}
      onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${key} placeholder="Page, command or part of a queue's name" />
    <ul id="found" role="listbox" aria-label="Found" ref=${list}>
      ${all.map((one, number) => html`<li key=${one.label} id=${`found-${number}`} role="option" aria-selected=${number === chosen}
        onClick=${() => run(one)}>${one.label}</li>`)}
    </ul>
    ${!all.length && html`<p class="quiet" role="status">Nothing has this name.</p>`}
  </div><//>`;
}
