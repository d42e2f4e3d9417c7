/** Publish and consume by hand. */
import { html, useState } from "../html.js";
import { call, get, may, path, useLive } from "../api.js";
import { Choice, Empty, Failure, Field, Input, Page, Tick, visible } from "../parts.js";
import { adjust, chosenHost, hosts, link, notify, place } from "../state.js";
import { exact } from "../format.js";
import { undoOperation } from "../operations.js";
import { Message } from "./queue_messages.js";

const TEXTS = ["message_id", "correlation_id", "reply_to", "type", "app_id", "content_encoding", "user_id", "expiration"];
const HINTS = { expiration: "time to live in milliseconds", user_id: "your own name, if any" };

const problemOf = (failed) => ({ status: failed.status || 400, title: "Not done", message: failed.message });

export function Publish() {
  const host = place.value.parameters.vhost ?? chosenHost();
  return html`<${Page} title="Publish and consume">
    <div class="filters"><${Choice} label="Virtual host" value=${host} options=${hosts.value.map((one) => [one, one])} onChange=${(one) => adjust({ vhost: one })} /></div>
    <div class="columns"><${PublishForm} key=${host} host=${host} /><${Consume} key=${`consume ${host}`} host=${host} /></div><//>`;
}

function PublishForm({ host }) {
  const [exchange, setExchange] = useState("amq.default");
  const [key, setKey] = useState(place.value.parameters.queue ?? "");
  const [body, setBody] = useState("");
  const [encoding, setEncoding] = useState("text");
  const [contentType, setContentType] = useState("text/plain");
  const [priority, setPriority] = useState("");
  const [persistent, setPersistent] = useState(true);
  const [headers, setHeaders] = useState("");
  const [texts, setTexts] = useState({});
  const [copies, setCopies] = useState("1");
  const [problem, setProblem] = useState(null);
  const exchanges = useLive("exchanges", { parameters: { vhost: host, columns: "name,type", page_size: 500 }, every: 0 });
  const allowed = may("write", host, exchange === "amq.default" ? "" : exchange);
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    try {
      const properties = { content_type: contentType, delivery_mode: persistent ? 2 : 1, ...Object.fromEntries(Object.entries(texts).filter(([, one]) => one)) };
      if (priority !== "") properties.priority = Number(priority);
      if (headers.trim()) properties.headers = JSON.parse(headers);
      let queues = 0;
      for (let number = 0; number < Math.min(1000, Math.max(1, Number(copies))); number += 1) {
        ({ queues } = await call("POST", `${path("exchanges", host, exchange)}/publish`, { body: { routing_key: key, body, body_encoding: encoding, properties } }));
      }
      notify(queues ? `Published; ${queues === 1 ? "one queue took" : `${exact(queues)} queues took`} it.` : "Published, and no queue took it: no binding matches.", { kind: queues ? "done" : "problem" });
    } catch (failed) {
      setProblem(problemOf(failed));
    }
  };
  if (!exchanges.problem && !allowed && !may("write", host, "")) return html`<section class="card"><h2>Publish</h2><${Empty}>You have no permission to write here. An administrator gives it.<//></section>`;
  return html`<section class="card"><h2>Publish</h2><form onSubmit=${submit}>
    <${Failure} problem=${problem} />
    <div class="form">
      <${Field} label="Exchange"><select value=${exchange} onChange=${(event) => setExchange(event.target.value)}>
        <option value="amq.default">the default: to the queue of the key</option>
        ${(exchanges.data?.items ?? []).filter((one) => one.name).map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === exchange}>${visible(one.name)} (${one.type})</option>`)}
      </select><//>
      <${Input} label=${exchange === "amq.default" ? "Queue" : "Routing key"} value=${key} onInput=${setKey} name="routing_key" />
      <div class="whole"><${Field} label="Body"><textarea name="body" value=${body} onInput=${(event) => setBody(event.target.value)}></textarea><//></div>
      <${Choice} label="Body is" value=${encoding} options=${[["text", "text"], ["base64", "base64 of octets"]]} onChange=${setEncoding} />
      <${Input} label="Content type" value=${contentType} onInput=${setContentType} />
      <${Input} label="Priority" type="number" min="0" max="255" value=${priority} onInput=${setPriority} />
      <${Input} label="Copies" type="number" min="1" max="1000" value=${copies} onInput=${setCopies} />
      <div class="whole"><${Field} label="Headers" hint='as JSON, such as {"region": "eu"}'><input name="headers" value=${headers} onInput=${(event) => setHeaders(event.target.value)} /><//></div>
    </div>
    <details><summary>Further properties</summary><div class="form">
      ${TEXTS.map((name) => html`<${Input} key=${name} label=${name.replace("_", " ")} hint=${HINTS[name]} value=${texts[name] ?? ""} onInput=${(value) => setTexts({ ...texts, [name]: value })} />`)}
    </div></details>
    <p><${Tick} label="Persistent: on disk before it is confirmed" checked=${persistent} onChange=${setPersistent} /></p>
    <div class="actions"><button class="primary" disabled=${!allowed}>Publish</button>${!allowed && html`<span class="quiet">You may not write to this exchange.</span>`}</div>
  </form></section>`;
}

/** The next message of a queue, looked at and then taken: an operation that can be undone. */
function Consume({ host }) {
  const [queue, setQueue] = useState(place.value.parameters.queue ?? "");
  const [next, setNext] = useState(null);
  const [problem, setProblem] = useState(null);
  const [shown, setShown] = useState(false);
  const look = async (event) => {
    event?.preventDefault();
    setProblem(null);
    try {
      const found = await get(`${path("queues", host, queue)}/messages`, { state: "pending", limit: 1 });
      setNext(found.items[0] ?? false);
      setShown(Boolean(found.items[0]));
    } catch (failed) {
      setNext(null);
      setProblem(problemOf(failed));
    }
  };
  const take = (operation, words) => async () => {
    try {
      const where = path("queues", host, queue, "operations");
      let state = await call("POST", where, { body: { operation, ids: [next.id] } });
      while (state.state === "running") {
        await new Promise((resolve) => setTimeout(resolve, 100));
        state = await get(`${where}/${state.id}`, { page_size: 1 });
      }
      const back = state.undo && { label: "Undo", run: () => undoOperation(host, queue, state.undo.undo, look) };
      notify(state.done ? `Message ${exact(next.id)} ${words}.` : `Message ${exact(next.id)} is not ready any more: a consumer has it.`, { kind: state.done ? "done" : "problem", action: state.done ? back : undefined });
      await look();
    } catch (failed) {
      notify(failed.message, { kind: "problem" });
    }
  };
  return html`<section class="card"><h2>Consume</h2>
    <p class="quiet">Shows the next message without touching it. Taking it is an operation of the broker: it is in the audit trail, and can be undone for a time.</p>
    <form class="filters" onSubmit=${look}><${Input} label="Queue" value=${queue} onInput=${(text) => { setQueue(text); setNext(null); }} required name="consume" />
      <button class="primary">Show the next message</button></form>
    <${Failure} problem=${problem} />
    ${next === false && html`<${Empty}>No message is ready. <a href=${link(["queues", host, queue], { tab: "messages" })}>Look at all of the queue</a>.<//>`}
    ${next && html`<p>Message ${exact(next.id)} is next. <button onClick=${() => setShown(true)}>Show it</button></p>`}
    ${next && shown && html`<${Message} key=${next.id} host=${host} name=${queue} id=${next.id} onClose=${() => setShown(false)} actions=${html`
      <button class="primary" onClick=${take("delete", "taken")}>Take it</button>
      <button onClick=${take("dead-letter", "sent to dead letters")}>Reject it to dead letters</button>
      <button onClick=${() => setShown(false)}>Leave it</button>`} />`}
  </section>`;
}
