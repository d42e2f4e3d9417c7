// Chromium that does what it is told: tests/clients/console/browser.py. Elements are found as people find them, by their
// role and name or by their label.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { CommandError, serve } from "./lines.mjs";

const MOST_MS = 15000; // a wait for one element
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
let page;
let complaints = [];
let dialogs = 0;

/** The element that a command names. */
function found({ role, name, label, text, selector, exact = true, nth = 0, within }) {
  const base = within ? page.locator(within) : page;
  const all = role ? base.getByRole(role, name === undefined ? {} : { name, exact }) : label ? base.getByLabel(label, { exact }) : text ? base.getByText(text, { exact }) : base.locator(selector);
  return all.nth(nth);
}

/** A failure of the browser as the answer of a command, without the log of its attempts. */
const told = (work) => async (given) => {
  try {
    return await work(given);
  } catch (error) {
    throw new CommandError(String(error.message).split("\n").slice(0, 6).join(" "), error.name === "TimeoutError" ? "timeout" : "");
  }
};

const commands = {
  async launch({ executable }) {
    browser = await chromium.launch({ executablePath: executable, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  },
  async open({ url, width = 1280, height = 850, theme = "light" }) {
    await page?.context().close();
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, baseURL: url, acceptDownloads: true });
    context.setDefaultTimeout(MOST_MS);
    page = await context.newPage();
    complaints = [];
    dialogs = 0;
    page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
    page.on("console", (message) => {
      // a refusal or a lost connection is the page's to tell, not the console's
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
    });
    page.on("dialog", (dialog) => {
      dialogs += 1;
      void dialog.dismiss();
    });
    await page.goto("/");
  },
  async go({ hash }) {
    await page.evaluate((where) => { location.hash = where; }, hash);
  },
  click: async (given) => void (await found(given).click()),
  fill: async ({ value, ...given }) => void (await found(given).fill(value)),
  choose: async ({ value, ...given }) => void (await found(given).selectOption(value)),
  check: async (given) => void (await found(given).check()),
  upload: async ({ name, content, ...given }) => void (await found({ exact: true, ...given }).setInputFiles({ name, mimeType: "application/json", buffer: Buffer.from(content) })),
  async download(given) {
    const [begun] = await Promise.all([page.waitForEvent("download"), found(given).click()]);
    return readFileSync(await begun.path(), "utf8");
  },
  press: async ({ key }) => void (await page.keyboard.press(key)),
  type: async ({ text }) => void (await page.keyboard.type(text)),
  wait: async ({ state = "visible", ...given }) => void (await found(given).waitFor({ state })),
  read: async (given) => await found(given).innerText(),
  count: async ({ role, name, selector, exact = true }) => await (role ? page.getByRole(role, name === undefined ? {} : { name, exact }) : page.locator(selector)).count(),
  buttons: async () => await page.locator("main button, main a[href], main select").evaluateAll((all) => all.map((one) => one.textContent.trim() || one.getAttribute("aria-label") || "")),
  evaluate: async ({ script }) => await page.evaluate(script),
  async until({ script }) {
    // not waitForFunction, which evaluates the text in the page, where the content security policy refuses that
    const end = Date.now() + MOST_MS;
    while (!(await page.evaluate(script))) {
      if (Date.now() > end) throw new CommandError(`not within ${MOST_MS} ms: ${script}`, "timeout");
      await page.waitForTimeout(50);
    }
  },
  scroll: async ({ selector, top }) => void (await page.locator(selector).evaluate((one, at) => { one.scrollTop = at; }, top)),
  async axe() {
    if (!(await page.evaluate("Boolean(globalThis.axe)"))) await page.evaluate(`${AXE};0`);
    return await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(" | ")}`));
  },
  overflow: async () => await page.evaluate(() => {
    const wider = document.documentElement.scrollWidth - innerWidth;
    if (wider <= 0) return [];
    const out = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.parentElement.closest(".scroll, .tabs, pre"));
    return [`${wider} px wider`, ...out.map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`).slice(-3)];
  }),
  screenshot: async ({ path }) => void (await page.screenshot({ path })),
  complaints: async () => ({ complaints, dialogs }),
};

await serve(Object.fromEntries(Object.entries(commands).map(([name, work]) => [name, told(work)])));
