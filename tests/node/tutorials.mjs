// What a newcomer does first, with amqplib: tests/clients/test_tutorials.py. Arguments: URL of the broker, prefix of names.

import amqp from "amqplib";

const [url, name] = process.argv.slice(2);
const connection = await amqp.connect(url);
const channel = await connection.createChannel();

/** Consume until so many messages have come; returns their bodies. */
async function collect(queue, count, given = channel) {
  const seen = [];
  await new Promise((resolve) => {
    given.consume(
      queue,
      (message) => {
        if (message === null) return; // the queue was deleted
        seen.push(message.content.toString());
        if (seen.length === count) resolve();
      },
      { noAck: true },
    );
  });
  return seen;
}

// one message through one queue
const { queue } = await channel.assertQueue(`${name}-hello`);
channel.sendToQueue(queue, Buffer.from("hello"));
console.log((await collect(queue, 1)).join());
await channel.deleteQueue(queue);

// workers that share a queue; the first one dies with what it holds
const tasks = (await channel.assertQueue(`${name}-tasks`, { durable: true })).queue;
for (let number = 0; number < 4; number++) {
  channel.sendToQueue(tasks, Buffer.from(`${number}`), { persistent: true });
}
const dying = await amqp.connect(url);
const first = await dying.createChannel();
await first.prefetch(1);
await new Promise((resolve) => first.consume(tasks, resolve));
const second = await connection.createChannel();
await second.prefetch(1);
const finished = [];
const all = new Promise((resolve) => {
  second.consume(tasks, (message) => {
    finished.push(message.content.toString());
    second.ack(message);
    if (finished.length === 4) resolve();
  });
});
await dying.close();
await all;
console.log(`done ${finished.sort().join(" ")} by two workers`);
await second.close(); // behind its acknowledgements
await channel.deleteQueue(tasks);

// a copy for each subscriber
const fanout = (await channel.assertExchange(`${name}-fanout`, "fanout")).exchange;
const subscribers = [];
for (let number = 0; number < 2; number++) {
  const own = (await channel.assertQueue("", { exclusive: true })).queue;
  await channel.bindQueue(own, fanout, "");
  subscribers.push(collect(own, 1));
}
channel.publish(fanout, "", Buffer.from("news"));
console.log((await Promise.all(subscribers)).flat().join(" "));
await channel.deleteExchange(fanout);

// routing by key and by pattern
const keys = ["info", "warning", "error", "quick.orange.fox", "quick.brown.fox", "lazy", "lazy.brown.dog.male"];
for (const [kind, wanted, count] of [
  ["direct", ["warning", "error"], 2],
  ["topic", ["*.orange.*", "lazy.#"], 3],
]) {
  const exchange = (await channel.assertExchange(`${name}-${kind}`, kind)).exchange;
  const own = (await channel.assertQueue("", { exclusive: true })).queue;
  for (const key of wanted) await channel.bindQueue(own, exchange, key);
  for (const key of keys) channel.publish(exchange, key, Buffer.from(key));
  channel.sendToQueue(own, Buffer.from("end"));
  const seen = await collect(own, count + 1);
  console.log(`${kind}: ${seen.filter((key) => key !== "end").sort().join(" ")}`);
  await channel.deleteExchange(exchange);
}

// calls with an answer
const requests = (await channel.assertQueue(`${name}-requests`)).queue;
await channel.consume(requests, (message) => {
  if (message === null) return; // as above
  const { replyTo, correlationId } = message.properties;
  channel.sendToQueue(replyTo, Buffer.from(`${Number(message.content.toString()) * 2}`), { correlationId });
  channel.ack(message);
});
const replyTo = (await channel.assertQueue("", { exclusive: true })).queue;
const answers = [];
await new Promise((resolve) => {
  channel.consume(
    replyTo,
    (message) => {
      answers.push(`${message.properties.correlationId}: ${message.content}`);
      if (answers.length === 2) resolve();
    },
    { noAck: true },
  );
  for (const number of [20, 21]) {
    channel.sendToQueue(requests, Buffer.from(`${number}`), { replyTo, correlationId: `call ${number}` });
  }
});
console.log(answers.sort().join(", "));
await channel.deleteQueue(requests);
await connection.close();
