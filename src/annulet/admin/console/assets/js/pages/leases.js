/** Spark: leases of queries and of archives, which the broker knows, and results of what-if, which it does not. */
import { html, useRef } from "../html.js";
import { call, may, path, useLive, writer } from "../api.js";
import { Badge, Figure, Name, Page, Shown, Sure, Table, Tabs } from "../parts.js";
import { attempt, link, place, vhost } from "../state.js";
import { bytes, duration, exact } from "../format.js";
import { WhatIf } from "./what_if.js";

const keyOf = (row) => `${row.vhost}\0${row.name}`;

/** Acknowledged messages a second of each lease, between the last two answers. */
function useLeaseRates(data) {
  const kept = useRef({ data: null, at: 0, rates: {} });
  const last = kept.current;
  if (data && data !== last.data) {
    const at = Date.now();
    const before = new Map((last.data?.items ?? []).map((row) => [keyOf(row), row]));
    const rates = Object.fromEntries(data.items.map((row) => {
      const former = before.get(keyOf(row));
      const same = former?.created_at === row.created_at && at > last.at;
      return [keyOf(row), same ? Math.max(0, ((row.acknowledged - former.acknowledged) * 1000) / (at - last.at)) : undefined];
    }));
    kept.current = { data, at, rates };
  }
  return kept.current.rates;
}

const COLUMNS = (rates, again) => [
  { key: "name", label: "Lease" },
  { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue])}><${Name} text=${row.queue} /></a>` },
  { key: "claimed", label: "Query", cell: (row) => html`<${Badge} tone=${row.claimed ? "good" : "warn"}>${row.claimed ? "runs" : "none runs"}<//>` },
  { key: "user", label: "Owner" },
  { key: "rate", label: "Rate", number: true, name: "rate_acknowledged", cell: (row) => html`<${Figure} name="rate_acknowledged" as="rate" value=${rates[keyOf(row)]} />` },
  { key: "acknowledged", label: "Done", number: true, name: "messages_acknowledged" },
  { key: "held", label: "Holds", number: true, name: "unacknowledged", cell: (row) => html`<${Figure} name="unacknowledged" value=${row.held} /> <small>${bytes(row.held_bytes)}</small>` },
  { key: "pending", label: "Waiting", number: true, name: "pending_count" },
  { key: "lag_milliseconds", label: "Lag", number: true, name: "lag", cell: (row) => html`<${Figure} name="lag" text=${duration(row.lag_milliseconds)} />` },
  { key: "idle_milliseconds", label: "Last batch", number: true, cell: (row) => `${duration(row.idle_milliseconds)} ago` },
  { key: "age_milliseconds", label: "Open for", number: true, cell: (row) => duration(row.age_milliseconds) },
  { key: "gap", label: "Lost", number: true, name: "gap" },
  { key: "do", label: "", cell: (row) => writer() && may("read", row.vhost, row.queue) && html`<${Sure} label="Release" question=${`The ${exact(row.held)} messages of the lease return to their places. The query opens a new lease with its next batch and reads them again.`}
    onSure=${() => attempt(() => call("DELETE", path("leases", row.vhost, row.name)), "Released.").then(again)} />` },
];

const ARCHIVE = "archive."; // how "annulet pipeline archive" names the lease of a queue

export function Leases() {
  const live = useLive("leases", { parameters: { vhost: vhost.value, page_size: 200 }, every: 2000 });
  const rates = useLeaseRates(live.data);
  const tab = place.value.parameters.tab ?? "pipelines";
  const shown = (archive) => (live.data?.items ?? []).filter((row) => row.name.startsWith(ARCHIVE) === archive);
  return html`<${Page} title="Spark leases">
    <${Tabs} names=${["leases"]} chosen=${tab} tabs=${[["pipelines", "Pipelines"], ["archives", "Archives"], ["what-if", "What if"]]} />
    ${tab === "what-if" ? html`<${WhatIf} />` : tab === "archives" ? html`
      <p>An archive has the messages of queues as Parquet files. The broker sees who reads the queues; the folders are where Spark runs, and <code>annulet pipeline report FOLDER</code> lists what is in one.</p>
      <${Shown} live=${live}>${() => html`<${Table} caption="Queues that are archived" rows=${shown(true)} rowKey=${keyOf} columns=${COLUMNS(rates, live.again)}
        empty="No queue is archived now. Begin with: annulet pipeline archive FOLDER --queue orders" />`}<//>` : html`
      <p>A lease holds messages for a Spark query until its batch is done. Its release returns them to their places.</p>
      <${Shown} live=${live}>${() => html`<${Table} caption="Leases" rows=${shown(false)} rowKey=${keyOf} columns=${COLUMNS(rates, live.again)}
        empty=${'No Spark query reads a queue. Begin with spark.readStream.format("annulet").option("queue", "orders").load().'} />`}<//>`}<//>`;
}
