/** Leases of Spark queries: what the broker knows of each pipeline that runs. */
import { html, useRef } from "../html.js";
import { call, may, path, useLive, writer } from "../api.js";
import { Badge, Figure, Name, Page, Shown, Sure, Table } from "../parts.js";
import { attempt, link, vhost } from "../state.js";
import { bytes, duration, exact } from "../format.js";

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

export function Leases() {
  const live = useLive("leases", { parameters: { vhost: vhost.value, page_size: 200 }, every: 2000 });
  const rates = useLeaseRates(live.data);
  return html`<${Page} title="Spark leases">
    <p>A lease holds messages for a Spark query until its batch is done. Its release returns them to their places.</p>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Leases" rows=${data.items} rowKey=${keyOf}
      empty=${'No Spark query reads a queue. Begin with spark.readStream.format("annulet").option("queue", "orders").load().'}
      columns=${[
        { key: "name", label: "Lease" },
        { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue])}><${Name} text=${row.queue} /></a>` },
        { key: "claimed", label: "Query", cell: (row) => html`<${Badge} tone=${row.claimed ? "good" : "warn"}>${row.claimed ? "runs" : "none runs"}<//>` },
        { key: "rate", label: "Rate", number: true, name: "rate_acknowledged", cell: (row) => html`<${Figure} name="rate_acknowledged" as="rate" value=${rates[keyOf(row)]} />` },
        { key: "acknowledged", label: "Done", number: true, name: "messages_acknowledged" },
        { key: "held", label: "Holds", number: true, name: "unacknowledged", cell: (row) => html`<${Figure} name="unacknowledged" value=${row.held} /> <small>${bytes(row.held_bytes)}</small>` },
        { key: "pending", label: "Waiting", number: true, name: "pending_count" },
        { key: "lag_milliseconds", label: "Lag", number: true, name: "lag", cell: (row) => html`<${Figure} name="lag" text=${duration(row.lag_milliseconds)} />` },
        { key: "idle_milliseconds", label: "Last batch", number: true, cell: (row) => `${duration(row.idle_milliseconds)} ago` },
        { key: "age_milliseconds", label: "Open for", number: true, cell: (row) => duration(row.age_milliseconds) },
        { key: "gap", label: "Lost", number: true, name: "gap" },
        { key: "do", label: "", cell: (row) => writer() && may("read", row.vhost, row.queue) && html`<${Sure} label="Release" question=${`The ${exact(row.held)} messages of the lease return to their places. The query opens a new lease with its next batch and reads them again.`}
          onSure=${() => attempt(() => call("DELETE", path("leases", row.vhost, row.name)), "Released.").then(live.again)} />` },
      ]} />`}<//><//>`;
}
