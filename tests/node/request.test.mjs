// Requests and answers over direct reply-to, as NestJS's and rabbitmq-client's own classes make them. Run by
// tests/clients/test_node_requests.py against the broker of ANNULET_TEST_URL.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import "reflect-metadata";
import { ClientRMQ, ServerRMQ } from "@nestjs/microservices";
import { Connection } from "rabbitmq-client";
import { firstValueFrom } from "rxjs";

const url = process.env.ANNULET_TEST_URL;
const name = (label) => `${label}-${randomBytes(6).toString("hex")}`;

test("NestJS: ClientRMQ sends a request to ServerRMQ and gets its answer", async () => {
  const options = { urls: [url], queue: name("nest"), queueOptions: { durable: false, autoDelete: true } };
  const server = new ServerRMQ(options);
  server.addHandler("sum", async (numbers) => numbers.reduce((left, right) => left + right, 0));
  await new Promise((resolve, reject) => server.listen((error) => (error ? reject(error) : resolve())));
  const client = new ClientRMQ(options);
  await client.connect();
  assert.equal(await firstValueFrom(client.send("sum", [1, 2, 39])), 42);
  const answers = await Promise.all([...Array(50).keys()].map((one) => firstValueFrom(client.send("sum", [one, 1]))));
  assert.deepEqual(answers, [...Array(50).keys()].map((one) => one + 1));
  await client.close();
  await server.close();
});

test("rabbitmq-client: its RPC client over direct reply-to", async () => {
  const connection = new Connection(url);
  const queue = name("rpc");
  const server = connection.createConsumer({ queue, queueOptions: { autoDelete: true } }, async (request, reply) => {
    await reply(Number(request.body) * 2);
  });
  await new Promise((resolve) => server.once("ready", resolve));
  const client = connection.createRPCClient({ confirm: true });
  const answer = await client.send(queue, 21);
  assert.equal(answer.body, 42);
  await client.close();
  await server.close();
  await connection.close();
});
