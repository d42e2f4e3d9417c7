// @stomp/stompjs over WebSocket, against the broker of ANNULET_TEST_WS. Run by tests/clients/test_stompjs.py.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { afterEach, test } from "node:test";
import { Client, ReconnectionTimeMode } from "@stomp/stompjs";
import { WebSocket } from "ws";

const url = process.env.ANNULET_TEST_WS;
const clients = [];
const name = (label) => `${label}-${randomBytes(6).toString("hex")}`;

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.deactivate()));
});

/** Resolves with a connected client. */
function connect(settings = {}) {
  return new Promise((resolve, reject) => {
    const client = new Client({
      webSocketFactory: () => new WebSocket(settings.url ?? url, ["v12.stomp", "v11.stomp"]),
      connectHeaders: { login: "guest", passcode: "guest", host: "/" },
      reconnectDelay: 0,
      heartbeatIncoming: 0,
      heartbeatOutgoing: 0,
      onConnect: () => resolve(client),
      onStompError: (frame) => reject(new Error(frame.headers.message)),
      ...settings.client,
    });
    clients.push(client);
    client.activate();
  });
}

/** Resolves with the first `count` messages of a destination. */
function take(client, destination, count, headers = {}, settle = (message) => message.ack()) {
  return new Promise((resolve) => {
    const received = [];
    client.subscribe(
      destination,
      (message) => {
        received.push(message);
        settle(message);
        if (received.length === count) resolve(received);
      },
      { ack: "client-individual", ...headers },
    );
  });
}

const receipted = (client, send) =>
  new Promise((resolve) => {
    const receipt = name("receipt");
    client.watchForReceipt(receipt, resolve);
    send(receipt);
  });

test("a subprotocol of the best version is chosen", async () => {
  const client = await connect();
  assert.equal(client.webSocket.protocol, "v12.stomp");
  assert.equal(client.connectedVersion, "1.2");
});

test("messages with any text and headers arrive as they were sent", async () => {
  const client = await connect();
  const destination = `/queue/${name("texts")}`;
  const body = "hällo\n:\\ \u0001 €";
  const taken = take(client, destination, 1);
  client.publish({ destination, body, headers: { odd: "c\nd\\e\r:", "content-type": "text/plain" } });
  const [message] = await taken;
  assert.equal(message.body, body);
  assert.equal(message.headers.odd, "c\nd\\e\r:");
  assert.equal(message.headers.destination, destination);
});

test("binary bodies with NULs, over text and binary frames", async () => {
  for (const forceBinaryWSFrames of [false, true]) {
    const client = await connect({ client: { forceBinaryWSFrames } });
    const destination = `/queue/${name("octets")}`;
    const binaryBody = Uint8Array.from([0, 255, 10, 13, 0, 128]);
    const taken = take(client, destination, 1);
    client.publish({ destination, binaryBody });
    const [message] = await taken;
    assert.deepEqual(Array.from(message.binaryBody), Array.from(binaryBody));
  }
});

test("a large message is split over several WebSocket messages", async () => {
  const client = await connect({ client: { splitLargeFrames: true } });
  const destination = `/queue/${name("large")}`;
  const body = "x".repeat(1_000_000);
  const taken = take(client, destination, 1);
  client.publish({ destination, body });
  assert.equal((await taken)[0].body.length, body.length);
});

test("receipts, transactions and nack", async () => {
  const client = await connect();
  const destination = `/queue/${name("work")}`;
  const transaction = client.begin();
  client.publish({ destination, body: "one", headers: { transaction: transaction.id, persistent: "true" } });
  transaction.commit();
  await receipted(client, (receipt) => client.publish({ destination, body: "two", headers: { receipt } }));
  const aborted = client.begin();
  client.publish({ destination, body: "never", headers: { transaction: aborted.id } });
  aborted.abort();
  let refused = false;
  const taken = await take(client, destination, 3, { "prefetch-count": "1" }, (message) => {
    if (refused) message.ack();
    else message.nack();
    refused = true;
  });
  assert.deepEqual(taken.map((message) => message.body), ["one", "one", "two"]);
  assert.equal(taken[1].headers.redelivered, "true");
});

test("a topic reaches every subscriber and a selector chooses", async () => {
  const [first, second] = [await connect(), await connect()];
  const destination = `/topic/${name("news")}`;
  const all = take(first, destination, 2);
  const red = take(second, destination, 1, { selector: "colour = 'red'" });
  await receipted(second, (receipt) => second.publish({ destination: `/queue/${name("sync")}`, headers: { receipt } }));
  await receipted(first, (receipt) => first.publish({ destination: `/queue/${name("sync")}`, headers: { receipt } }));
  first.publish({ destination, body: "1", headers: { colour: "blue" } });
  first.publish({ destination, body: "2", headers: { colour: "red" } });
  assert.deepEqual((await all).map((message) => message.body), ["1", "2"]);
  assert.deepEqual((await red).map((message) => message.body), ["2"]);
});

test("a request is answered over a temporary queue", async () => {
  const [asking, serving] = [await connect(), await connect()];
  const destination = `/queue/${name("questions")}`;
  serving.subscribe(destination, (question) =>
    serving.publish({ destination: question.headers["reply-to"], body: `${question.body}!` }),
  );
  const answer = new Promise((resolve) => (asking.onUnhandledMessage = resolve));
  asking.publish({ destination, body: "who", headers: { "reply-to": "/temp-queue/answers" } });
  const message = await answer;
  assert.equal(message.body, "who!");
  assert.equal(message.headers.subscription, "/temp-queue/answers");
});

test("heart-beats keep a quiet connection", async () => {
  const client = await connect({ client: { heartbeatIncoming: 500, heartbeatOutgoing: 500 } });
  let lost = false;
  client.onHeartbeatLost = () => (lost = true);
  await new Promise((resolve) => setTimeout(resolve, 2500));
  assert.equal(lost, false);
  assert.equal(client.connected, true);
});

test("a wrong password is told in an ERROR frame", async () => {
  await assert.rejects(
    connect({ client: { connectHeaders: { login: "guest", passcode: "wrong", host: "/" } } }),
    /login refused/,
  );
});

test("a client reconnects after its socket was cut", async () => {
  let connects = 0;
  const settings = { reconnectDelay: 50, reconnectTimeMode: ReconnectionTimeMode?.LINEAR };
  const client = await connect({ client: settings });
  const again = new Promise((resolve) => (client.onConnect = () => resolve((connects += 1))));
  client.webSocket.terminate();
  assert.equal(await again, 1);
});

test("a page of another site is refused, and an unknown subprotocol too", async () => {
  const refused = (socket) => new Promise((resolve) => socket.on("error", (error) => resolve(error.message)));
  assert.match(await refused(new WebSocket(url, ["v12.stomp"], { origin: "http://evil.example" })), /403/);
  assert.match(await refused(new WebSocket(url, ["mqtt"])), /403/);
  const own = new WebSocket(url, ["v10.stomp"], { origin: "http://localhost:3000" });
  await new Promise((resolve) => own.on("open", resolve));
  assert.equal(own.protocol, "v10.stomp");
  own.close();
});
