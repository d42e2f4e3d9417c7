// Firefox that does what it is told, over WebDriver BiDi: the commands of browser_driver.mjs that a look at every page
// takes. Elements are found by a style selector, by their label, or by a role and the text.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { CommandError, serve } from "./lines.mjs";

const MOST_MS = 15000; // a wait for one element
const AGAIN_MS = 50; // between two looks for it

let firefox;
let socket;
let userContext;
let context;
let next = 0;
let complaints = [];
const asked = new Map();

/** Ask the browser, and return its result. */
function ask(method, params) {
  next += 1;
  socket.send(JSON.stringify({ id: next, method, params }));
  return new Promise((resolve, reject) => asked.set(next, { resolve, reject }));
}

function heard(data) {
  const { id, type, result, message, method, params } = JSON.parse(data);
  if (id === undefined) {
    // a refusal or a lost connection is the page's to tell, not the console's
    if (method === "log.entryAdded" && params.level === "error" && !/NetworkError|Failed to load/.test(params.text)) complaints.push(params.text);
    return;
  }
  const { resolve, reject } = asked.get(id);
  asked.delete(id);
  if (type === "error") reject(new CommandError(message));
  else resolve(result);
}

async function evaluate(expression) {
  const { type, result, exceptionDetails } = await ask("script.evaluate", { expression, target: { context }, awaitPromise: true });
  if (type === "exception") throw new CommandError(exceptionDetails.text);
  return result.value ?? null;
}

const ROLES = { heading: "h1, h2, h3", button: "button", link: "a[href]", textbox: "input" };

/** An expression for the element in the page that a command names. */
function found({ role, name, label, selector }) {
  if (selector) return `document.querySelector(${JSON.stringify(selector)})`;
  if (label) return `[...document.querySelectorAll("label")].find((one) => one.firstElementChild.textContent.trim() === ${JSON.stringify(label)})?.querySelector("input, select, textarea")`;
  return `[...document.querySelectorAll(${JSON.stringify(ROLES[role])})].find((one) => one.textContent.trim() === ${JSON.stringify(name)})`;
}

async function until(expression) {
  const end = Date.now() + MOST_MS;
  while (!(await evaluate(expression))) {
    if (Date.now() > end) throw new CommandError(`not within ${MOST_MS} ms: ${expression}`, "timeout");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

const visible = (element) => `(() => { const one = ${element}; return Boolean(one && one.getClientRects().length); })()`;

await serve({
  async launch({ executable }) {
    const profile = mkdtempSync(join(tmpdir(), "annulet-firefox-"));
    firefox = spawn(executable, ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"], { stdio: ["ignore", "ignore", "pipe"] });
    process.on("exit", () => {
      firefox.kill("SIGKILL");
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    });
    for await (const line of createInterface({ input: firefox.stderr })) {
      const address = /WebDriver BiDi listening on (\S+)/.exec(line)?.[1];
      if (!address) continue;
      firefox.stderr.resume();
      socket = new WebSocket(`${address}/session`);
      await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
      break;
    }
    if (!socket) throw new CommandError("Firefox ended before it listened");
    socket.on("message", heard);
    await ask("session.new", { capabilities: {} });
    await ask("session.subscribe", { events: ["log.entryAdded"] });
  },
  async open({ url, width = 1280, height = 850 }) {
    if (userContext) await ask("browser.removeUserContext", { userContext });
    ({ userContext } = await ask("browser.createUserContext", {})); // without the cookies of the one before
    ({ context } = await ask("browsingContext.create", { type: "tab", userContext }));
    await ask("browsingContext.setViewport", { context, viewport: { width, height } });
    complaints = [];
    await ask("browsingContext.navigate", { context, url, wait: "complete" });
  },
  go: async ({ hash }) => void (await evaluate(`location.hash = ${JSON.stringify(hash)}; 0`)),
  async fill({ value, ...given }) {
    await until(visible(found(given)));
    await evaluate(`(() => { const one = ${found(given)}; one.focus(); one.select(); })()`);
    const actions = [...value].flatMap((key) => [{ type: "keyDown", value: key }, { type: "keyUp", value: key }]);
    await ask("input.performActions", { context, actions: [{ type: "key", id: "keyboard", actions }] });
  },
  async click(given) {
    await until(visible(found(given)));
    const { result } = await ask("script.evaluate", { expression: `(() => { const one = ${found(given)}; one.scrollIntoView({ block: "center" }); return one; })()`, target: { context }, awaitPromise: false });
    const origin = { type: "element", element: { sharedId: result.sharedId } };
    const actions = [{ type: "pointerMove", x: 0, y: 0, origin }, { type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }];
    await ask("input.performActions", { context, actions: [{ type: "pointer", id: "mouse", actions }] });
  },
  wait: async ({ state = "visible", ...given }) => void (await until(state === "visible" ? visible(found(given)) : `!${found(given)}`)),
  until: async ({ script }) => void (await until(script)),
  evaluate: async ({ script }) => await evaluate(script),
  overflow: async () => ((await evaluate("document.documentElement.scrollWidth - innerWidth")) > 0 ? ["the page is wider than its window"] : []),
  complaints: async () => ({ complaints, dialogs: 0 }),
});
