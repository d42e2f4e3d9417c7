/** One queue. */
import { html, useState } from "../html.js";
import { call, ifUnchanged, may, path, useLive } from "../api.js";
import { Badge, Dialog, Facts, Figure, Name, Page, Shown, Tabs, Tile, visible } from "../parts.js";
import { attempt, go, link, place } from "../state.js";
import { bytes, count, duration, rate } from "../format.js";
import { reason } from "../definitions.js";
import { partsOf, sentence } from "../composition.js";
import { useRates, useReadings } from "../rates.js";
import { useHistory } from "../history.js";
import { Chart } from "../chart.js";
import { useStream } from "../stream.js";
import { OperationDialog, OPERATIONS, verb } from "../operations.js";
import { stateOf } from "./queues.js";
import { Messages } from "./queue_messages.js";
import { ConsumersOf, FairKeys, Groups, Keys, LossesOf, OperationsOf, WhyNot } from "./queue_state.js";
import { SettingsOf } from "./queue_settings.js";

const TONE = { paused: "warn", blocked: "bad", running: "good" };

export function Queue({ names: [host, name] }) {
  const now = useStream(`queue:${encodeURIComponent(host)}/${encodeURIComponent(name)}`);
  const live = useLive(path("queues", host, name), { every: now ? 10000 : 1000 });
  const tab = place.value.parameters.tab ?? "overview";
  const [operation, setOperation] = useState("");
  const manage = may("manage", host, name);
  const data = withFigures(live.data, now);
  const tabs = data && [
    ["overview", "Overview"],
    may("browse", host, name) && ["messages", "Messages"],
    ["consumers", `Consumers (${count(data.consumers)})`],
    data.settings.group_mode && data.settings.group_mode !== "off" && may("browse", host, name) && ["groups", "Groups"],
    data.settings.last_value_key && may("browse", host, name) && ["keys", "Keys"],
    data.settings.fair_key && may("browse", host, name) && ["fair", "Fair keys"],
    may("read", host, name) && ["why", "Why not"],
    may("read", host, name) && ["losses", "Losses"],
    ["operations", "Operations"],
    ["settings", "Settings"],
  ];
  const set = (paused) => attempt(() => call("POST", `${path("queues", host, name)}/${paused ? "pause" : "resume"}`, { body: {} }), paused ? "Paused: consumers get nothing." : "Resumed.").then(live.again);
  const actions = data && html`
    ${manage && (data.paused ? html`<button onClick=${() => set(false)}>Resume</button>` : html`<button onClick=${() => set(true)}>Pause</button>`)}
    ${manage && html`<label><span class="hidden">Operation on messages</span><select value="" onChange=${(event) => { setOperation(event.target.value); event.target.value = ""; }}>
      <option value="">Operation on messages …</option>
      ${OPERATIONS.map((one) => html`<option key=${one} value=${one}>${verb(one)}</option>`)}</select></label>
      <button class="danger" onClick=${() => setOperation("purge")}>Purge</button>`}
    ${may("configure", host, name) && html`<${Delete} queue=${data} />`}`;
  return html`<${Page} title=${name} actions=${actions} trail=${html`<a href="#/queues">Queues</a> of the virtual host <${Name} text=${host} />`}>
    <${Shown} live=${live}>${() => html`
      <p class="actions"><${Badge} tone=${TONE[stateOf(data)]}>${stateOf(data)}<//>
        <${Badge}>${data.durable ? "durable" : "transient"}<//>
        ${data.exclusive && html`<${Badge} title="No user changes or reads it over HTTP.">belongs to a connection<//>`}
        ${data.leases.map((one) => html`<${Badge} key=${one} tone="good">Spark: <${Name} text=${one} /><//>`)}</p>
      <${Tabs} names=${["queues", host, name]} tabs=${tabs} chosen=${tab} />
      <${Tab} ...${{ tab, data, host, name, again: live.again }} />`}<//>
    ${operation && html`<${OperationDialog} key=${operation} vhost=${host} queue=${name} operation=${operation} onClose=${() => setOperation("")} onDone=${live.again} />`}
  <//>`;
}

/** The queue as it was read, with the figures of a later snapshot. */
function withFigures(data, now) {
  if (!data || !now) return data;
  const { messages, messages_ready, messages_unacknowledged, messages_scheduled, consumers, messages_added, messages_delivered, removed } = now;
  const figures = { messages, messages_ready, messages_unacknowledged, consumers, messages_added, messages_delivered, removed, scheduled_count: messages_scheduled };
  return { ...data, ...figures, messages_acknowledged: removed.acknowledged ?? 0, read: data, at: now.at };
}

function Tab({ tab, data, host, name, again }) {
  const both = { host, name, data, again };
  if (tab === "messages") return html`<${Messages} ...${both} />`;
  if (tab === "consumers") return html`<${ConsumersOf} ...${both} />`;
  if (tab === "groups") return html`<${Groups} ...${both} />`;
  if (tab === "keys") return html`<${Keys} ...${both} />`;
  if (tab === "fair") return html`<${FairKeys} ...${both} />`;
  if (tab === "why") return html`<${WhyNot} ...${both} />`;
  if (tab === "losses") return html`<${LossesOf} ...${both} />`;
  if (tab === "operations") return html`<${OperationsOf} ...${both} />`;
  if (tab === "settings") return html`<${SettingsOf} ...${both} />`;
  return html`<${Summary} ...${both} />`;
}

function Delete({ queue }) {
  const [asked, setAsked] = useState(false);
  const run = () => attempt(async () => {
    await call("DELETE", path("queues", queue.vhost, queue.name), { headers: ifUnchanged(queue.read ?? queue) });
    go(["queues"]);
  }, `Deleted the queue ${visible(queue.name)}.`).then(() => setAsked(false));
  return html`<button class="danger" onClick=${() => setAsked(true)}>Delete the queue</button>
    ${asked && html`<${Dialog} title=${`Delete ${queue.name}`} onClose=${() => setAsked(false)}>
      <div class="warning">${count(queue.messages)} messages would be gone and ${count(queue.consumers)} consumers would end. <code>annulet undo</code> brings the queue, its bindings and its messages back for a time, but none that is in delivery.</div>
      <div class="actions"><button onClick=${() => setAsked(false)}>Cancel</button><button class="danger" onClick=${run}>Delete it</button></div>
    <//>`}`;
}

function Composition({ data }) {
  const parts = partsOf(data.settings, data);
  const origins = parts.flatMap(([text, settings]) => settings.map((one) => [text, one, data.settings_from[one]])).filter(([, , from]) => from && from !== "default");
  return html`<section class="card"><h2>What it is</h2>
    <p class="sentence">${sentence(parts)}</p>
    ${origins.length > 0 && html`<ul class="origins">${origins.map(([, setting, from]) => html`<li key=${setting}>
      <code>${setting.replaceAll("_", "-")}</code> = <${Name} text=${data.settings[setting] === "" ? "(empty)" : String(data.settings[setting])} /> <span class="quiet">from <${Name} text=${from} /></span></li>`)}</ul>`}
    ${data.arguments_without_effect.length > 0 && html`<p class="warning">Arguments without effect: <${Name} text=${data.arguments_without_effect.map((one) => one.name ?? one).join(", ")} /></p>`}
  </section>`;
}

const out = (data) => Object.values(data.removed).reduce((sum, one) => sum + one, 0);

function Summary({ host, name, data }) {
  const at = useReadAt(data);
  const rates = useRates({ in: data.messages_added, out: out(data), acked: data.messages_acknowledged }, at);
  const leaving = useRates(data.removed, at);
  const rateColumns = useReadings(["in", "out", "acked"], rates, at);
  const depthColumns = useReadings(["messages", "messages_unacknowledged"], data, at);
  const ageColumns = useReadings(["lag_milliseconds"], data, at);
  const window = place.value.parameters.window === "day" ? "day" : "hour";
  const past = useHistory({ vhost: host, queue: name }, window);
  return html`
    <div class="tiles">
      <${Tile} label="Messages" name="messages"><${Figure} name="messages" value=${data.messages} /><small>${bytes(data.pending_bytes + data.delivering_bytes)}</small><//>
      <${Tile} label="Ready" name="messages_ready"><${Figure} name="messages_ready" value=${data.messages_ready} /><//>
      <${Tile} label="Not settled" name="messages_unacknowledged"><${Figure} name="messages_unacknowledged" value=${data.messages_unacknowledged} /><//>
      <${Tile} label="Scheduled" name="scheduled_count"><${Figure} name="scheduled_count" value=${data.scheduled_count} /><//>
      <${Tile} label="In" name="rate_in"><${Figure} name="rate_in" as="rate" value=${rates?.in} /><//>
      <${Tile} label="Acknowledged" name="rate_acknowledged"><${Figure} name="rate_acknowledged" as="rate" value=${rates?.acked} /><//>
      <${Tile} label="Oldest waits" name="lag"><${Figure} name="lag" text=${duration(data.lag_milliseconds)} /><//>
      <${Tile} label="Consumers" name="consumers"><${Figure} name="consumers" value=${data.consumers} /><//>
    </div>
    <${Composition} data=${data} />
    <p class="actions">Charts over the last <a href=${link(["queues", host, name], { window: "hour" })} aria-current=${window === "hour"}>hour</a> or
      <a href=${link(["queues", host, name], { window: "day" })} aria-current=${window === "day"}>day</a>
      ${!past.known && html`<span class="quiet">The broker has no history of this queue; the charts begin now.</span>`}</p>
    <div class="columns">
      <section class="card"><${Chart} title="Messages a second" columns=${past.rates(rateColumns)} series=${["in", "out", "acknowledged"]} format=${rate} /></section>
      <section class="card"><${Chart} title="Messages" columns=${past.depth(depthColumns)} series=${["all", "not settled"]} format=${count} /></section>
      <section class="card"><${Chart} title="Wait of the oldest message" columns=${past.age(ageColumns)} series=${["oldest"]} format=${duration} /></section>
      ${past.reasons && html`<section class="card"><${Chart} title="Left without being acknowledged, a second" ...${past.reasons} format=${rate} /></section>`}
    </div>
    <div class="columns">
      <section class="card"><h2>Since the start</h2><${Facts} items=${[
        ["Entered", html`<${Figure} name="messages_added" value=${data.messages_added} />`, "messages_added"],
        ["Delivered", html`<${Figure} name="messages_delivered" value=${data.messages_delivered} />`, "messages_delivered"],
        ["Returned", html`<${Figure} name="messages_returned" value=${data.messages_returned} />`, "messages_returned"],
        ["Browsed", html`<${Figure} name="messages_browsed" value=${data.messages_browsed} />`, "messages_browsed"],
        ["On disk only", html`<${Figure} name="messages_paged" value=${data.messages_paged} />`, "messages_paged"],
      ]} /></section>
      <section class="card"><h2>Why messages left</h2>${out(data)
        ? html`<${Facts} items=${Object.entries(data.removed).map(([why, number]) => [reason(why), html`<${Figure} name="losses" value=${number} />${leaving?.[why] > 0 && html` <strong class="figure" title="Messages a second that leave for this reason now.">${rate(leaving[why])}</strong>`}`])} />`
        : html`<p class="quiet">None has left yet.</p>`}</section>
    </div>`;
}

/** The time of a snapshot, or at which the data came. */
function useReadAt(data) {
  const [kept] = useState({ data: null, at: 0 });
  if (data.at) return data.at;
  if (kept.data !== data) {
    kept.data = data;
    kept.at = Date.now();
  }
  return kept.at;
}
