/** The broker as a whole. */
import { html } from "../html.js";
import { overseer, useLive } from "../api.js";
import { Badge, Empty, Facts, Figure, Name, Page, Shown, Table, Tile, Time } from "../parts.js";
import { bytes, count, duration, rate } from "../format.js";
import { link, vhost } from "../state.js";
import { definition, reason } from "../definitions.js";
import { useRates, useReadings } from "../rates.js";
import { Chart } from "../chart.js";
import { useStream } from "../stream.js";
import { useHistory } from "../history.js";

export function Overview() {
  const now = useStream("overview");
  const queues = now?.queues ?? 0;
  const live = useLive("overview", { every: now ? 60000 : queues > CROWD ? 5000 : 1000, most: now ? SELDOM_MS : undefined });
  return html`<${Page} title="Overview"><${Shown} live=${live}>${(data) => html`<${Figures} data=${data} now=${now} />`}<//><//>`;
}

const SELDOM_MS = 600000; // the longest time between two readings of the sums, which take 0.2 s with 10,000 queues
const CROWD = 500; // queues from which the sums over them are read seldom, as the stream has the rates

const sum = (counts) => Object.values(counts).reduce((total, one) => total + one, 0);

function Figures({ data, now }) {
  const { publishes } = data;
  const readAt = Math.round(data.started_at + data.uptime);
  const read = useRates({ in: data.totals.messages_added, out: sum(data.totals.removed), acked: data.totals.removed.acknowledged ?? 0 }, readAt);
  const streamed = now !== null;
  const totals = streamed ? { ...data.totals, messages: now.messages, messages_unacknowledged: now.messages_unacknowledged } : data.totals;
  const memory = streamed ? now.memory : data.memory;
  const objects = streamed ? { ...data.object_totals, queues: now.queues, connections: now.connections } : data.object_totals;
  const rates = streamed ? { in: now.rates.publish, out: sum(now.removal_rates), acked: now.rates.ack } : read;
  const reasonRates = useRates(data.totals.removed, readAt);
  const leaving = streamed ? now.removal_rates : (reasonRates ?? {});
  const at = streamed ? now.at : readAt;
  const rateColumns = useReadings(["in", "out", "acked"], rates, at);
  const depthColumns = useReadings(["messages", "messages_unacknowledged"], totals, at);
  const past = useHistory({}, "hour");
  const share = memory.limit_bytes ? memory.resident_bytes / memory.limit_bytes : 0;
  return html`
    <${Alarms} alarms=${streamed ? now.alarms : data.alarms} warnings=${data.warnings} />
    <div class="tiles">
      <${Tile} label="Messages" name="messages"><${Figure} name="messages" value=${totals.messages} />
        <small><a href="#/queues?nonempty=true">queues with messages</a></small><//>
      <${Tile} label="In" name="rate_in"><${Figure} name="rate_in" as="rate" value=${rates?.in} /><//>
      <${Tile} label="Out" name="rate_out"><${Figure} name="rate_out" as="rate" value=${rates?.out} />
        <small>acknowledged <${Figure} name="rate_acknowledged" as="rate" value=${rates?.acked} /></small><//>
      <${Tile} label="Not settled" name="messages_unacknowledged"><${Figure} name="messages_unacknowledged" value=${totals.messages_unacknowledged} /><//>
      <${Tile} label="Queues" name="queues"><a href="#/queues"><${Figure} name="queues" value=${objects.queues} /></a><//>
      <${Tile} label="Connections" name="connections"><a href="#/connections"><${Figure} name="connections" value=${objects.connections} /></a>
        <small>${count(objects.channels)} sessions</small><//>
      <${Tile} label="Memory" name="memory" tone=${share > 0.8 ? "warn" : ""}><${Figure} name="memory" as="bytes" value=${memory.resident_bytes} />
        <small>of ${bytes(memory.limit_bytes)}</small><//>
      ${data.disk && html`<${Tile} label="Disk free" name="disk"><${Figure} name="disk" as="bytes" value=${data.disk.free_bytes} /><//>`}
    </div>
    <div class="columns">
      <section class="card"><${Chart} title="Messages a second" columns=${past.rates(rateColumns)} series=${["in", "out", "acknowledged"]} format=${rate} /></section>
      <section class="card"><${Chart} title="Messages in queues" columns=${past.depth(depthColumns)} series=${["all", "not settled"]} format=${count} /></section>
    </div>
    ${past.reasons && html`<section class="card"><${Chart} title="Left without being acknowledged, a second" ...${past.reasons} format=${rate} /></section>`}
    <div class="columns">
      <section class="card"><h2>Why messages left</h2>
        ${sum(totals.removed) ? html`<${Facts} items=${Object.entries(totals.removed).sort((a, b) => b[1] - a[1]).map(([name, one]) => [
            reason(name), html`<${Figure} name="losses" value=${one} />${leaving[name] > 0 && html` <strong class="figure" title=${definition("removal_rate")}>${rate(leaving[name])}</strong>`}`])} />
            <p><a href="#/losses">Lost messages one by one</a></p>`
          : html`<${Empty}>No message has left a queue since the start.<//>`}
        <${Facts} items=${[
          ["Unroutable", html`<${Figure} name="unroutable" value=${publishes.unroutable} />`, "unroutable"],
          ["Refused: disk", html`<${Figure} name="refused" value=${publishes.refused} />`, "refused"],
          ["Refused: full", html`<${Figure} name="over_limit" value=${publishes.over_limit} />`, "over_limit"],
        ]} />
      </section>
      <${Fullest} streamed=${streamed ? now.deepest : null} />
    </div>
    <div class="columns">
      <section class="card"><h2>Broker</h2><${Facts} items=${[
        ["Version", `${data.product} ${data.version} (${data.build})`],
        ["Python", data.python],
        ["Started", html`<${Time} at=${data.started_at} />`],
        ["Up for", html`<${Figure} name="uptime" text=${duration(data.uptime)} />`],
        ["Messages on disk", data.durable ? "yes" : "no, in memory only"],
        ...Object.entries(data.listeners).map(([name, one]) => [`Listener ${name}`, html`<${Name} text=${one} />`]),
      ]} /></section>
      <${Changes} />
    </div>`;
}

/** Alarms in words, with what to do. */
const ALARMS = {
  memory: "The broker uses as much memory as it may, and holds publishers back. Let consumers catch up, purge or limit the deepest queues, or raise the limit.",
  disk: "The disk with the message log has no room, and persistent messages are refused. Free room on it, or let consumers catch up.",
  spill: "The disk has no room for bodies that leave memory, and publishers are held back. Free room on it, or let consumers catch up.",
};

function Alarms({ alarms, warnings }) {
  if (!alarms.length && !warnings.length) return html`<div class="well">No alarms: the broker takes and delivers messages.</div>`;
  return html`
    ${alarms.map((one) => html`<div class="failure" role="alert"><strong>Alarm: ${one}.</strong> ${ALARMS[one] ?? "Publishers are held back."}</div>`)}
    ${warnings.map((one) => html`<div class="warning"><strong>Warning.</strong> <${Name} text=${one} /></div>`)}`;
}

/** The stream names the deepest queues of all virtual hosts; those of one are asked for. */
function Fullest({ streamed }) {
  const asked = useLive(streamed && !vhost.value ? null : "queues", {
    parameters: { columns: "vhost,name,messages,consumers", sort: "messages", sort_reverse: true, page_size: 6, vhost: vhost.value },
    every: 5000,
  });
  const live = streamed && !vhost.value ? { data: { items: streamed }, problem: null } : asked;
  return html`<section class="card"><h2>Deepest queues</h2>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Deepest queues" rows=${data.items} rowKey=${(row) => row.vhost + "\0" + row.name}
      columns=${[
        { key: "name", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.name])}><${Name} text=${row.name} /></a>` },
        { key: "messages", label: "Messages", number: true },
        { key: "consumers", label: "Consumers", number: true },
      ]}
      empty="There is no queue yet. Clients declare queues, or make one on the page of queues." />`}<//>
  </section>`;
}

const HOUR = 3600000;

/** What operators did, and warnings and errors of the log, in one list. */
function Changes() {
  const since = Math.floor((Date.now() - HOUR) / 60000) * 60000;
  const audit = useLive("audit", { parameters: { page_size: 8, since }, every: 30000 });
  const log = useLive(overseer() ? "log/lines" : null, { parameters: { level: "warning", since, limit: 8 }, every: 30000 });
  const events = [
    ...(audit.data?.items ?? []).map((row) => ({ at: row.at, tone: "plain", kind: row.operation, text: row.target, by: row.user })),
    ...(log.data?.items ?? []).map((line) => ({ at: line.at, tone: line.level === "warning" ? "warn" : "bad", kind: line.level, text: line.event, by: "the broker" })),
  ].sort((a, b) => b.at - a.at).slice(0, 10).map((one, number) => ({ ...one, number }));
  return html`<section class="card"><h2>The last hour</h2>
    <${Shown} live=${audit}>${() => html`<${Table} caption="Events of the last hour" rows=${events} rowKey=${(row) => row.number}
      columns=${[
        { key: "at", label: "Time", cell: (row) => html`<${Time} at=${row.at} />` },
        { key: "kind", label: "What", cell: (row) => html`<${Badge} tone=${row.tone}>${row.kind}<//> <${Name} text=${row.text} />` },
        { key: "by", label: "By" },
      ]}
      empty="Operators changed nothing in the last hour, and the log has no warning." />`}<//>
    <p><a href="#/audit">All changes</a>${overseer() && html` · <a href="#/log?level=warning">Warnings of the log</a>`}</p>
  </section>`;
}
