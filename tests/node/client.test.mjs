// amqplib, the Node.js client, against the broker of ANNULET_TEST_URL. Run by tests/clients/test_amqplib.py.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import amqp from "amqplib";

const ours = process.env.ANNULET_TEST_OURS === "yes"; // else another broker, which does not have all of this

let connection;
before(async () => {
  connection = await amqp.connect(process.env.ANNULET_TEST_URL);
});
after(async () => {
  await connection.close();
});

/** Resolves with the first `count` messages of a queue. */
function take(channel, queue, count, options = {}) {
  return new Promise((resolve, reject) => {
    const received = [];
    channel
      .consume(
        queue,
        (message) => {
          received.push(message);
          if (received.length === count) resolve(received);
        },
        options,
      )
      .catch(reject);
  });
}

/** Resolves with the first event of that name. */
const once = (emitter, name) => new Promise((resolve) => emitter.once(name, resolve));

test("publish and consume with acknowledgements and prefetch", async () => {
  const channel = await connection.createChannel();
  await channel.prefetch(5);
  const { queue } = await channel.assertQueue("", { exclusive: true });
  for (let number = 0; number < 20; number++) channel.sendToQueue(queue, Buffer.from(String(number)));
  const received = [];
  await new Promise((resolve) =>
    channel.consume(queue, (message) => {
      received.push(Number(message.content));
      channel.ack(message);
      if (received.length === 20) resolve();
    }),
  );
  assert.deepEqual(received, [...Array(20).keys()]);
  await channel.close();
});

test("prefetch holds the rest back until an acknowledgement", async () => {
  const channel = await connection.createChannel();
  await channel.prefetch(2);
  const { queue } = await channel.assertQueue("", { exclusive: true });
  for (let number = 0; number < 6; number++) channel.sendToQueue(queue, Buffer.from(String(number)));
  const held = await take(channel, queue, 2);
  assert.equal((await channel.checkQueue(queue)).messageCount, 4);
  channel.nack(held[0], true, true);
  assert.deepEqual(held.map((message) => message.content.toString()), ["0", "1"]);
  await channel.close();
});

test("a confirm channel confirms persistent messages", async () => {
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue(`amqplib-${randomBytes(6).toString("hex")}`, { durable: true });
  let confirmed = 0;
  for (let number = 0; number < 200; number++) {
    channel.sendToQueue(queue, Buffer.from(String(number)), { persistent: true }, (error) => {
      assert.equal(error, null);
      confirmed++;
    });
  }
  await channel.waitForConfirms();
  assert.equal(confirmed, 200);
  assert.equal((await channel.deleteQueue(queue)).messageCount, 200);
  await channel.close();
});

test("a mandatory message without a queue is returned before its confirm", async () => {
  const channel = await connection.createConfirmChannel();
  const events = [];
  channel.on("return", (message) => events.push(["return", message.fields.replyCode, message.content.toString()]));
  await new Promise((resolve) =>
    channel.publish("amq.direct", "nobody", Buffer.from("lost"), { mandatory: true }, () => {
      events.push(["confirm"]);
      resolve();
    }),
  );
  assert.deepEqual(events, [["return", 312, "lost"], ["confirm"]]);
  await channel.close();
});

test("get, and an empty get", async () => {
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  channel.sendToQueue(queue, Buffer.alloc(0));
  const message = await channel.get(queue, { noAck: true });
  assert.equal(message.content.length, 0);
  assert.equal(message.fields.messageCount, 0);
  assert.equal(await channel.get(queue), false);
  await channel.close();
});

test("properties and headers come back", async () => {
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const headers = {
    text: "été",
    whole: 42,
    large: 2 ** 40,
    share: 0.25,
    yes: true,
    nothing: null,
    list: [1, "two", { three: 3 }],
    table: { deep: { deeper: "x" } },
    octets: Buffer.from([0, 255]),
    time: { "!": "timestamp", value: 1700000000 },
  };
  const options = {
    contentType: "application/json", contentEncoding: "utf-8", headers, priority: 3, correlationId: "c",
    replyTo: "r", expiration: "60000", messageId: "m", timestamp: 1700000000, type: "t", userId: "guest", appId: "a",
  };
  channel.sendToQueue(queue, Buffer.from("{}"), options);
  const { properties } = await channel.get(queue, { noAck: true });
  for (const [name, value] of Object.entries(options)) assert.deepEqual(properties[name], value, name);
  await channel.close();
});

test("a large body", async () => {
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const body = randomBytes(1_500_000);
  channel.sendToQueue(queue, body);
  const [message] = await take(channel, queue, 1, { noAck: true });
  assert.ok(message.content.equals(body));
  await channel.close();
});

test("exchanges, bindings and exchange bindings", async () => {
  const channel = await connection.createChannel();
  const name = `amqplib-${randomBytes(6).toString("hex")}`;
  await channel.assertExchange(`${name}-a`, "topic", { durable: false, autoDelete: true });
  await channel.assertExchange(`${name}-b`, "headers", { durable: false, autoDelete: true });
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindExchange(`${name}-b`, `${name}-a`, "orders.*");
  await channel.bindQueue(queue, `${name}-b`, "", { "x-match": "any", colour: "blue" });
  channel.publish(`${name}-a`, "orders.new", Buffer.from("blue"), { headers: { colour: "blue" } });
  channel.publish(`${name}-a`, "orders.new", Buffer.from("red"), { headers: { colour: "red" } });
  channel.publish(`${name}-a`, "other", Buffer.from("other"), { headers: { colour: "blue" } });
  const message = await channel.get(queue, { noAck: true });
  assert.equal(message.content.toString(), "blue");
  assert.equal(await channel.get(queue), false);
  await channel.unbindQueue(queue, `${name}-b`, "", { "x-match": "any", colour: "blue" });
  await channel.close();
});

test("deleting a queue tells its consumer", async () => {
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const cancelled = new Promise((resolve) => channel.consume(queue, (message) => message === null && resolve(true)));
  await channel.checkQueue(queue);
  await channel.deleteQueue(queue);
  assert.equal(await cancelled, true);
  await channel.close();
});

test("a publisher into a full queue that blocks is held back until it is read", { skip: !ours }, async () => {
  const sending = await amqp.connect(process.env.ANNULET_TEST_URL);
  const blocked = once(sending, "blocked");
  const unblocked = once(sending, "unblocked");
  const [sender, reader] = [await sending.createChannel(), await connection.createChannel()];
  const options = { arguments: { "x-max-length": 5, "x-overflow": "block" } };
  const { queue } = await reader.assertQueue("", { exclusive: true, ...options });
  for (let number = 0; number < 6; number++) sender.sendToQueue(queue, Buffer.from(String(number)));
  assert.match(await blocked, /full$/);
  for (let number = 6; number < 9; number++) sender.sendToQueue(queue, Buffer.from(String(number)));
  const received = await take(reader, queue, 9, { noAck: true });
  assert.deepEqual(received.map((message) => Number(message.content)), [...Array(9).keys()]);
  await unblocked;
  await sending.close();
  await reader.close();
});

test("a channel error is an event of the channel only", async () => {
  const channel = await connection.createChannel();
  const error = once(channel, "error");
  await assert.rejects(channel.checkQueue("amqplib-missing"), /404/);
  assert.equal((await error).code, 404);
  const next = await connection.createChannel();
  await next.assertQueue("", { exclusive: true });
  await next.close();
});

test("a duplicate connection error ends that connection only", async () => {
  const other = await amqp.connect(process.env.ANNULET_TEST_URL);
  const error = once(other, "error");
  const channel = await other.createChannel();
  channel.on("error", () => undefined);
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.consume(queue, () => undefined, { consumerTag: "twice" });
  await assert.rejects(channel.consume(queue, () => undefined, { consumerTag: "twice" }));
  assert.equal((await error).code, 530);
});
