/** The result of "annulet pipeline what-if" as a chart and a table. It stays in the browser: the broker gets nothing of it. */
import { html, useMemo, useState } from "../html.js";
import { Failure, Field, Name, Table } from "../parts.js";
import { count, duration, exact } from "../format.js";
import { Chart } from "../chart.js";

const DRAWN = 4; // settings in one chart: as many as there are colours

/** {rows, names}: a row for each setting, and the names that were varied. Raises an error that says what is wrong. */
function read(text) {
  const { settings, depth } = JSON.parse(text);
  if (!Array.isArray(settings) || !settings.length || depth?.length !== settings.length) throw new Error('It has no "settings" with a "depth" for each. Save one with annulet pipeline what-if … --json FILE.');
  const keys = Object.keys(settings[0]);
  const names = keys.slice(0, keys.indexOf("published"));
  const label = (row) => names.map((name) => `${name.replace(/^x-/, "")} ${row[name]}`).join(", ") || "as it is";
  return { names, rows: settings.map((row, number) => ({ ...row, number, label: label(row), points: depth[number] })) };
}

/** Columns of a chart: each time of any setting, and the depth of each at it, which holds until its next time. */
export function depths(rows) {
  const times = [...new Set(rows.flatMap((row) => row.points.map(([at]) => at)))].sort((a, b) => a - b);
  const each = rows.map(({ points }) => {
    let next = 0;
    return times.map((at) => {
      while (next < points.length && points[next][0] <= at) next += 1;
      return next ? points[next - 1][1] : null;
    });
  });
  return [times.map((at) => at / 1000), ...each];
}

export function WhatIf() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState([]);
  const [found, problem] = useMemo(() => {
    if (!text.trim()) return [null, null];
    try {
      return [read(text), null];
    } catch (failed) {
      return [null, { status: 400, title: "No result", message: failed.message }];
    }
  }, [text]);
  const change = (given) => {
    setText(given);
    setChosen([0, 1, 2, 3]);
  };
  const drawn = found?.rows.filter((row) => chosen.includes(row.number)) ?? [];
  const pick = (number, on) => setChosen(on ? [...chosen, number] : chosen.filter((one) => one !== number));
  const number = (key, label, format = exact) => ({ key, label, number: true, cell: (row) => (row[key] === null || row[key] === undefined ? "–" : format(row[key])) });
  return html`<p>What other settings would have done with recorded messages. Run it where the archive is, and show its result here:${" "}
      <code>annulet pipeline what-if FOLDER --address orders --vary ring-size=100,1000 --json found.json</code></p>
    <div class="card"><${Field} label="Result"><textarea value=${text} onInput=${(event) => change(event.target.value)}></textarea><//>
      <p><input type="file" aria-label="Read a result" accept=".json,application/json" onChange=${async (event) => change(await event.target.files[0].text())} /></p></div>
    <${Failure} problem=${problem} />
    ${drawn.length > 0 && html`<section class="card"><${Chart} title="Messages that would have waited" columns=${depths(drawn)} series=${drawn.map((row) => row.label)} format=${count} /></section>`}
    ${found && html`<${Table} caption="Settings" rows=${found.rows} rowKey=${(row) => row.number}
      select=${(row) => html`<input type="checkbox" aria-label=${`Draw ${row.label}`} checked=${chosen.includes(row.number)} disabled=${!chosen.includes(row.number) && drawn.length >= DRAWN} onChange=${(event) => pick(row.number, event.target.checked)} />`}
      columns=${[
        { key: "label", label: "Setting", cell: (row) => html`<${Name} text=${row.label} />` },
        number("published", "Published"), number("delivered", "Delivered"), number("loss %", "Lost", (one) => `${one} %`), number("depth", "Deepest"),
        number("dwell p50 ms", "Wait p50", duration), number("dwell p99 ms", "Wait p99", duration), number("dwell max ms", "Longest wait", duration), number("busy %", "Consumers busy", (one) => `${one} %`),
      ]} />`}`;
}
