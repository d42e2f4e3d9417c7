// amqplib, the AMQP 0-9-1 client of Node.js, as a client that does what it is told: tests/clients/matrix_clients.py and
// tests/clients/every_client.py.

import { readFileSync } from "node:fs";
import amqp from "amqplib";
import { CommandError, Waiting, serve } from "./lines.mjs";

const waiting = new Waiting();
let channel;
let lost; // why the connection ended without our doing

/** A value of the lines as amqplib writes it. */
function fromLine(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(fromLine);
  const [[kind, content]] = Object.entries(value);
  if (kind === "binary") return Buffer.from(content, "base64");
  if (kind === "map") return Object.fromEntries(content.map(([key, one]) => [key, fromLine(one)]));
  if (kind === "double") return { "!": "double", value: content };
  if (kind === "int") return { "!": "int", value: content };
  if (kind === "long") return { "!": "long", value: Number(content) };
  throw new CommandError(`amqplib has no ${kind}`);
}

/** A value as amqplib gives it, in the form of the lines. */
function toLine(value) {
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return { binary: value.toString("base64") };
  if (Array.isArray(value)) return value.map(toLine);
  if (typeof value === "object" && "!" in value) return toLine(value.value);
  if (typeof value === "object") return { map: Object.entries(value).map(([key, one]) => [key, toLine(one)]) };
  if (typeof value === "number" && !Number.isInteger(value)) return { double: value };
  return value;
}

await serve({
  async connect({ url, authority }) {
    lost = undefined;
    let connection;
    try {
      connection = await amqp.connect(url, authority ? { ca: readFileSync(authority) } : {});
    } catch (error) {
      throw new CommandError(String(error.message), "refused");
    }
    connection.on("error", (error) => (lost = String(error.message)));
    connection.on("close", () => waiting.wake((lost ??= "closed")));
    channel = await connection.createConfirmChannel();
    channel.on("error", () => undefined);
  },
  async publish({ queue, body, options, headers }) {
    const properties = { ...options, headers: Object.fromEntries(headers.map(([name, one]) => [name, fromLine(one)])) };
    try {
      channel.sendToQueue(queue, fromLine(body), properties);
      await channel.waitForConfirms();
    } catch (error) {
      throw new CommandError(String(error.message), "rejected");
    }
  },
  async receive({ queue, count, settle = "accept", seconds = 20 }) {
    const received = [];
    const { consumerTag } = await channel.consume(queue, (message) => {
      if (received.length < count) {
        received.push(message);
        if (settle === "accept") channel.ack(message);
        else if (settle !== "hold") channel.reject(message, settle === "fail");
      } else channel.nack(message, false, true);
      waiting.wake();
    });
    await waiting.until(() => received.length >= count, seconds, `${count} messages of ${queue}`);
    if (settle !== "hold") await channel.cancel(consumerTag);
    return received.map(({ content, properties, fields }) => {
      const { headers, ...rest } = properties;
      const options = Object.fromEntries(Object.entries(rest).filter(([, one]) => one !== undefined));
      const named = Object.entries(headers ?? {}).map(([name, one]) => [name, toLine(one)]);
      return { body: toLine(content), options, headers: named, redelivered: fields.redelivered };
    });
  },
  async wait_lost({ seconds = 20 }) {
    await waiting.until(() => lost !== undefined, seconds, "loss of the connection");
    return lost;
  },
});
