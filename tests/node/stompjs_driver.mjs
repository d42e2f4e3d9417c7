// @stomp/stompjs as a client that does what it is told: tests/clients/every_client.py is the other end.

import { readFileSync } from "node:fs";
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";
import { CommandError, Waiting, serve } from "./lines.mjs";

const waiting = new Waiting();
const state = { opens: 0, refused: "", lost: "", receipts: 0 };
let client;

await serve({
  /** Times are milliseconds; 0 heart-beats: none, 0 reconnect: never. */
  async connect({ url, passcode = "guest", authority, heartbeat = 0, reconnect = 0, seconds = 20 }) {
    const options = authority ? { ca: readFileSync(authority) } : {};
    client = new Client({
      webSocketFactory: () => new WebSocket(url, ["v12.stomp"], options),
      connectHeaders: { login: "guest", passcode, host: "/" },
      reconnectDelay: reconnect,
      heartbeatIncoming: heartbeat,
      heartbeatOutgoing: heartbeat,
      onConnect: () => waiting.wake((state.opens += 1)),
      onStompError: (frame) => waiting.wake((state.refused = frame.headers.message)),
      onWebSocketError: (error) => waiting.wake((state.refused ||= reconnect ? "" : error.message)),
      onHeartbeatLost: () => waiting.wake((state.lost = "no heart-beat came")),
    });
    client.activate();
    await waiting.until(() => state.opens > 0 || state.refused, seconds, `CONNECTED of ${url}`);
    if (state.refused) throw new CommandError(state.refused, "refused");
  },
  async publish({ queue, body, seconds = 20 }) {
    const receipt = `receipt-${(state.receipts += 1)}`;
    let came = false;
    client.watchForReceipt(receipt, () => waiting.wake((came = true)));
    client.publish({ destination: `/queue/${queue}`, body, headers: { receipt, persistent: "true" } });
    await waiting.until(() => came, seconds, receipt);
  },
  async receive({ queue, settle = true, seconds = 20 }) {
    const received = [];
    const subscription = client.subscribe(
      `/queue/${queue}`,
      (message) => waiting.wake(received.push(message)),
      { ack: "client-individual", "prefetch-count": "1" },
    );
    await waiting.until(() => received.length > 0, seconds, `a message of ${queue}`);
    if (settle) {
      received[0].ack();
      subscription.unsubscribe();
    }
    return received[0].body;
  },
  wait_opens: ({ count, seconds = 20 }) => waiting.until(() => state.opens >= count, seconds, "reconnect"),
  async wait_lost({ seconds = 20 }) {
    await waiting.until(() => state.lost, seconds, "loss of heart-beats");
    return state.lost;
  },
  close: () => client.deactivate({ force: true }),
});
