/** Leases of Spark queries. */
import { html } from "../html.js";
import { call, may, path, useLive, writer } from "../api.js";
import { Name, Page, Shown, Sure, Table, visible } from "../parts.js";
import { attempt, link, vhost } from "../state.js";
import { bytes, duration, exact } from "../format.js";

const KNOWN = new Set(["vhost", "name", "queue", "owner", "held", "held_bytes", "age_milliseconds", "idle_milliseconds"]);

export function Leases() {
  const live = useLive("leases", { parameters: { vhost: vhost.value, page_size: 200 }, every: 2000 });
  return html`<${Page} title="Spark leases">
    <p>A lease holds messages for a Spark query until its batch is done. Its release returns them to their places.</p>
    <${Shown} live=${live}>${(data) => html`<${Table} caption="Leases" rows=${data.items} rowKey=${(row) => `${row.vhost}\0${row.name}`}
      empty=${'No Spark query reads a queue. Begin with spark.readStream.format("annulet").option("queue", "orders").load().'}
      columns=${[
        { key: "name", label: "Lease" },
        { key: "queue", label: "Queue", cell: (row) => html`<a href=${link(["queues", row.vhost, row.queue])}><${Name} text=${row.queue} /></a>` },
        { key: "owner", label: "Owner" },
        { key: "held", label: "Holds", number: true, name: "unacknowledged" },
        { key: "held_bytes", label: "Bytes", number: true, cell: (row) => bytes(row.held_bytes) },
        { key: "age_milliseconds", label: "Open for", number: true, cell: (row) => duration(row.age_milliseconds) },
        { key: "idle_milliseconds", label: "Last batch", number: true, cell: (row) => (row.idle_milliseconds >= 0 ? `${duration(row.idle_milliseconds)} ago` : "–") },
        { key: "more", label: "Further", cell: (row) => html`<small>${Object.entries(row).filter(([key]) => !KNOWN.has(key)).map(([key, value]) => `${key.replaceAll("_", " ")}: ${visible(JSON.stringify(value))}`).join(" · ")}</small>` },
        { key: "do", label: "", cell: (row) => writer() && may("read", row.vhost, row.queue) && html`<${Sure} label="Release" question=${`The ${exact(row.held)} messages of the lease return to their places. The query opens a new lease with its next batch and reads them again.`}
          onSure=${() => attempt(() => call("DELETE", path("leases", row.vhost, row.name)), "Released.").then(live.again)} />` },
      ]} />`}<//><//>`;
}
