// rhea, the AMQP 1.0 client of Node.js, as a client that does what it is told. tests/clients/amqp10.py is the other end.

import { readFileSync } from "node:fs";
import rhea from "rhea";
import { CommandError, Waiting, serve } from "./lines.mjs";
import { fromLine, messageFromLine, messageToLine, toLine } from "./rhea_values.mjs";
import { scramMechanism } from "./scram.mjs";

const { types } = rhea;
const waiting = new Waiting();
const connections = {};
const links = {};

function refusal(what, error) {
  if (!error) return new CommandError(`${what} by the peer without an error`);
  return new CommandError(`${what}: ${error.description ?? error.message ?? error}`, error.condition ?? "");
}

function record(connection) {
  return Object.values(connections).find((one) => one.connection === connection);
}

function linkRecord(context) {
  const link = context.receiver ?? context.sender;
  return Object.values(links).find((one) => one.link === link);
}

const container = rhea.create_container();
const note = (name, then) =>
  container.on(name, (context) => {
    then(context);
    waiting.wake();
  });

note("connection_open", ({ connection }) => (record(connection).opens += 1));
note("connection_error", ({ connection, error }) => (record(connection).closed = refusal("connection closed", error)));
note("connection_close", ({ connection, error }) => (record(connection).closed ??= refusal("connection closed", error)));
note("disconnected", ({ connection, error, reconnecting }) => {
  if (!reconnecting) record(connection).closed ??= refusal("disconnected", error);
});
note("session_error", ({ connection, session }) => (record(connection).closed = refusal("session ended", session.error)));
note("session_close", () => undefined);
for (const role of ["receiver", "sender"]) {
  note(`${role}_open`, (context) => (linkRecord(context).opened = true));
  note(`${role}_error`, (context) => (linkRecord(context).closed = refusal("link closed", context[role].error)));
  note(`${role}_close`, (context) => (linkRecord(context).closed ??= refusal("link closed", context[role].error)));
}
note("sendable", () => undefined);
note("sender_flow", () => undefined);
note("receiver_drained", () => undefined);
note("message", (context) => {
  const known = linkRecord(context);
  known.taken += 1;
  known.waiting.push([context.delivery, context.message]);
});
for (const outcome of ["accepted", "rejected", "released", "modified"]) {
  note(outcome, ({ delivery }) => (delivery.outcome = [outcome, delivery.remote_state?.error]));
}
note("settled", ({ delivery }) => (delivery.done = true));
container.on("error", (error) => console.error("error", error));

function alive(known) {
  const error = known.owner.closed ?? known.closed;
  if (error) throw error;
}

const gone = (known) => Boolean(known.owner.closed ?? known.closed);

function plain(value) {
  if (value === null || value === undefined) return null;
  return typeof value === "object" && "value" in value ? plain(value.value) : value;
}

function facts(link) {
  const terminus = (link.is_receiver() ? link.source : link.target) ?? {};
  return {
    address: plain(terminus.address) ?? null, dynamic: Boolean(plain(terminus.dynamic)),
    durability: plain(terminus.durable) ?? 0, distribution_mode: plain(terminus.distribution_mode) ?? "",
    expiry_policy: plain(terminus.expiry_policy) ?? "session-end", timeout: plain(terminus.timeout) ?? 0,
    capabilities: [plain(terminus.capabilities) ?? []].flat().map(String),
    filter: Object.keys(plain(terminus.filter) ?? {}).sort(),
    snd_settle_mode: plain(link.snd_settle_mode) ?? 2, rcv_settle_mode: plain(link.rcv_settle_mode) ?? 0,
    max_message_size: Number(plain(link.max_message_size) ?? 0), properties: Object.keys(plain(link.properties) ?? {}).sort(),
  }; // prettier-ignore
}

const symbols = (entries) => Object.fromEntries(Object.entries(entries).map(([name, one]) => [name, fromLine(one)]));

function terminusOf(address, given) {
  const terminus = { address: address ?? undefined };
  if (given.durability !== undefined) terminus.durable = given.durability;
  for (const name of ["expiry_policy", "timeout", "distribution_mode", "capabilities"]) {
    if (given[name] !== undefined) terminus[name] = given[name];
  }
  if (given.dynamic) terminus.dynamic = true;
  if (given.node_properties) terminus.dynamic_node_properties = symbols(given.node_properties);
  if (given.selector !== undefined) terminus.filter = rhea.filter.selector(given.selector);
  if (given.no_local) {
    terminus.filter = { ...terminus.filter, "no-local": types.wrap_described([], 0x468c00000003) };
  }
  return terminus;
}

function settings(given) {
  const options = {};
  for (const name of ["snd_settle_mode", "rcv_settle_mode", "max_message_size"]) {
    if (given[name] !== undefined) options[name] = given[name];
  }
  if (given.properties) options.properties = symbols(given.properties);
  return options;
}

async function attach(given, link) {
  const owner = connections[given.connection];
  const known = { link, owner, opened: false, closed: undefined, taken: 0, waiting: [], deliveries: {}, tags: 0 };
  links[given.name] = known;
  const refused = () => (link.is_receiver() ? link.source : link.target) == null; // a detach with the reason follows
  await waiting.until(() => gone(known) || (known.opened && !refused()), given.seconds ?? 20, `attach of ${given.name}`);
  alive(known);
  return facts(link);
}

function taken(known) {
  const [delivery, message] = known.waiting.shift();
  const tag = String(known.tags++);
  known.deliveries[tag] = delivery;
  return { ...messageToLine(message), tag, settled: Boolean(delivery.remote_settled) };
}

const SETTLE = {
  accepted: (delivery) => delivery.accept(),
  released: (delivery) => delivery.release(),
  rejected: (delivery, { condition }) =>
    delivery.reject(
      condition && { condition: condition[0], description: condition[1], info: symbols(condition[2]) },
    ),
  modified: (delivery, { failed = false, undeliverable = false, annotations }) =>
    delivery.modified({
      delivery_failed: failed,
      undeliverable_here: undeliverable,
      message_annotations: annotations && symbols(annotations),
    }),
};

const commands = {
  async connect({ name, url, container_id, seconds = 20, ...given }) {
    const { hostname, port, username, password, protocol } = new URL(url);
    const options = {
      host: hostname, port: Number(port), username: given.user ?? username, password: given.password ?? password,
      container_id: container_id || name, max_frame_size: given.max_frame_size, reconnect: given.reconnect ?? false,
      idle_time_out: given.heartbeat && given.heartbeat * 1000, hostname: given.virtual_host,
    }; // prettier-ignore
    if (given.reconnect) Object.assign(options, { initial_reconnect_delay: 50, max_reconnect_delay: 200 });
    if (protocol === "amqps:") {
      const { authority, certificate, key } = given.tls ?? {};
      Object.assign(options, { transport: "tls", servername: "localhost", ca: authority && readFileSync(authority) });
      if (certificate) {
        const pair = { cert: readFileSync(certificate), key: readFileSync(key), enable_sasl_external: true };
        Object.assign(options, pair, { username: undefined, password: undefined });
      }
    }
    if (given.scram) options.sasl_mechanisms = scramMechanism(given.scram, options.username, options.password);
    const known = { opens: 0, closed: undefined };
    connections[name] = known;
    known.connection = container.connect(options);
    await waiting.until(() => known.opens > 0 || known.closed, seconds, `open of ${url}`);
    const open = known.connection.remote.open ?? {};
    const failing = "amqp:connection-establishment-failed" in (open.properties ?? {});
    if (failing) await waiting.until(() => known.closed, 5, "close");
    if (known.closed && !given.reconnect) throw known.closed;
    return {
      container: open.container_id, hostname: open.hostname ?? null, max_frame_size: open.max_frame_size,
      offered: [open.offered_capabilities ?? []].flat().map(String), idle_time_out: (open.idle_time_out ?? 0) / 1000,
      properties: Object.keys(open.properties ?? {}).sort(), user: options.username,
      tls: protocol === "amqps:" ? known.connection.socket.getProtocol() : "",
    }; // prettier-ignore
  },
  wait_opens({ name, count, seconds = 20 }) {
    return waiting.until(() => connections[name].opens >= count, seconds, "reconnect");
  },
  async wait_closed({ name, seconds = 20 }) {
    const known = connections[name] ?? links[name];
    await waiting.until(() => known.closed, seconds, "close");
    return { condition: known.closed.condition, text: known.closed.message };
  },
  async close({ name, seconds = 20 }) {
    const known = connections[name];
    if (known.closed) return;
    known.connection.close();
    await waiting.until(() => known.closed, seconds, "close");
  },
  sender(given) {
    const target = terminusOf(given.address, given);
    const options = { name: given.link_name ?? given.name, target, autosettle: false, ...settings(given) };
    return attach(given, connections[given.connection].connection.open_sender(options));
  },
  receiver(given) {
    const options = { name: given.link_name ?? given.name, source: terminusOf(given.address, given), ...settings(given) };
    Object.assign(options, { credit_window: 0, autoaccept: false, autosettle: false });
    return attach(given, connections[given.connection].connection.open_receiver(options));
  },
  async detach({ name, closed = true, seconds = 20 }) {
    const known = links[name];
    if (closed) known.link.close();
    else known.link.detach();
    await waiting.until(() => known.closed, seconds, `detach of ${name}`);
  },
  async send({ link, messages, settled = false, wait = true, seconds = 20 }) {
    const known = links[link];
    const deliveries = [];
    for (const line of messages) {
      await waiting.until(() => known.link.sendable() || gone(known), seconds, `credit on ${link}`);
      alive(known);
      const delivery = known.link.send(messageFromLine(line));
      if (settled) delivery.settled = true;
      deliveries.push(delivery);
    }
    if (settled || !wait) return [];
    const answered = () => deliveries.every((one) => one.outcome || one.done);
    await waiting.until(() => answered() || gone(known), seconds, "outcomes");
    if (!answered()) alive(known);
    return deliveries.map((delivery) => {
      const [outcome, error] = delivery.outcome ?? ["none", undefined];
      if (!delivery.settled) delivery.update(true);
      const { condition = "", description = "" } = error ?? {};
      return { outcome, settled: Boolean(delivery.done), condition: String(condition), text: String(description) };
    });
  },
  credit: ({ link }) => links[link].link.credit,
  async wait_credit({ link, credit = 1, seconds = 20 }) {
    await waiting.until(() => links[link].link.credit >= credit, seconds, `credit on ${link}`);
    return links[link].link.credit;
  },
  grant({ link, credit }) {
    links[link].link.add_credit(credit);
  },
  async drain({ link, credit, seconds = 20 }) {
    const known = links[link];
    const before = known.taken;
    known.link.add_credit(credit);
    known.link.drain_credit();
    await waiting.until(() => known.link.credit === 0 || gone(known), seconds, `drain of ${link}`);
    alive(known);
    known.link.drain = false;
    return known.taken - before;
  },
  async receive({ link, count = 1, grant = true, seconds = 20 }) {
    const known = links[link];
    const missing = count - known.waiting.length - known.link.credit;
    if (grant && missing > 0) known.link.add_credit(missing);
    await waiting.until(() => known.waiting.length >= count || gone(known), seconds, `${count} messages on ${link}`);
    if (known.waiting.length < count) alive(known);
    return Array.from({ length: count }, () => taken(known));
  },
  async pending({ link, quiet = 0 }) {
    const known = links[link];
    for (let seen = -1; quiet && seen !== known.taken; ) {
      seen = known.taken;
      await new Promise((resolve) => setTimeout(resolve, quiet * 1000));
    }
    return known.waiting.slice().map(() => taken(known));
  },
  settle({ link, tags, outcome, ...details }) {
    for (const tag of tags) SETTLE[outcome](links[link].deliveries[tag], details);
  },
};

await serve(commands);
