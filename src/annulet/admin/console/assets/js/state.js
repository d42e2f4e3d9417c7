/** What belongs to the page as a whole: the place in the URL, the theme, the zone of times, messages to the user. */
import { effect, signal } from "./html.js";
import { session } from "./api.js";

/** The place: names are the parts of the path, parameters the rest. A link to it restores the view. */
export const place = signal(read());

function read() {
  const [names, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    names: names ? names.split("/").map(decoded) : ["overview"],
    parameters: Object.fromEntries(new URLSearchParams(parameters || "")),
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

addEventListener("hashchange", () => {
  place.value = read();
});

/** The link to a place. */
export function link(names, parameters = {}) {
  const given = Object.entries(parameters).filter(([, one]) => one !== "" && one !== undefined && one !== null);
  const text = new URLSearchParams(given).toString();
  return "#/" + names.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export function go(names, parameters = {}) {
  location.hash = link(names, parameters);
}

/** Change parameters of the place without a new entry in the history of the browser. */
export function adjust(changes) {
  const { names, parameters } = place.value;
  const changed = { ...parameters, ...changes };
  history.replaceState(null, "", link(names, changed));
  place.value = read();
}

/** Values that the browser remembers, for each user apart. */
export function remembered(name, otherwise) {
  try {
    const text = localStorage.getItem(`annulet:${session.value?.user ?? ""}:${name}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise; // another program wrote there, or the browser keeps nothing
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`annulet:${session.value?.user ?? ""}:${name}`, JSON.stringify(value));
  } catch {
    /* the browser keeps nothing: the choice holds for this page */
  }
}

function stored(name, otherwise) {
  try {
    return localStorage.getItem(`annulet:${name}`) || otherwise;
  } catch {
    return otherwise;
  }
}

export const theme = signal(stored("theme", "system")); // system, light or dark
export const zone = signal(stored("zone", "local")); // local or utc
export const vhost = signal(stored("vhost", "")); // "" for all that the user sees

for (const [name, value] of Object.entries({ theme, zone, vhost })) {
  effect(() => {
    try {
      localStorage.setItem(`annulet:${name}`, value.value);
    } catch {
      /* the browser keeps nothing: the choice holds for this page */
    }
  });
}
effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

/** The virtual host of pages that show one: the chosen one, or the first. */
export const hosts = signal([]);
export const chosenHost = () => vhost.value || hosts.value[0] || "/";

export const notices = signal([]);
let number = 0;

/** Show what was done, or why not; `action` is a further button, such as undo. */
export function notify(text, { kind = "done", action } = {}) {
  number += 1;
  const one = { number, text, kind, action };
  notices.value = [...notices.value.slice(-3), one];
  if (kind === "done" && !action) setTimeout(() => dismiss(one.number), 6000);
}

export function dismiss(gone) {
  notices.value = notices.value.filter((one) => one.number !== gone);
}

/** Do something and say how it went. Returns whether it was done. */
export async function attempt(work, done) {
  try {
    const result = await work();
    if (done) notify(typeof done === "function" ? done(result) : done);
    return true;
  } catch (problem) {
    notify(problem.message, { kind: "problem" });
    return false;
  }
}
