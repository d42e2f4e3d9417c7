/** The way of a message through bindings, explained. The broker routes by its own rules; this follows the same ones. */
import { get } from "./api.js";

const STEPS_MAX = 500; // bindings that are looked at

/** Whether a topic pattern matches a routing key: * is one word, # any number of them. */
export function topicMatches(pattern, key) {
  const words = key === "" ? [] : key.split(".");
  const parts = pattern === "" ? [] : pattern.split(".");
  let reached = new Set([0]);
  for (const part of parts) {
    const next = new Set();
    for (const at of reached) {
      if (part === "#") for (let end = at; end <= words.length; end += 1) next.add(end);
      else if (at < words.length && (part === "*" || part === words[at])) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(words.length);
}

/** Whether a binding takes the message, and why. */
export function matches(type, binding, key, headers) {
  if (type === "fanout") return { fits: true, why: "a fanout exchange sends to every binding" };
  if (type === "topic") {
    const fits = topicMatches(binding.routing_key, key);
    return { fits, why: `the pattern ${fits ? "covers" : "does not cover"} the key` };
  }
  if (type === "headers") {
    const wanted = Object.entries(binding.arguments).filter(([name]) => !name.startsWith("x-"));
    const found = wanted.filter(([name, value]) => name in headers && (value === null || headers[name] === value));
    const any = String(binding.arguments["x-match"] ?? "all").startsWith("any");
    const fits = any ? found.length > 0 : found.length === wanted.length;
    return { fits, why: `${found.length} of ${wanted.length} headers match, ${any ? "any" : "all"} are needed` };
  }
  if (type === "direct") {
    const fits = binding.routing_key === key;
    return { fits, why: fits ? "the keys are equal" : "the keys differ" };
  }
  return { fits: binding.routing_key === key, why: `an exchange of type ${type}: only equal keys are followed here` };
}

export async function walk(host, exchange, key, headers) {
  const seen = new Set();
  const queues = new Set();
  const steps = [];
  const waiting = [exchange];
  while (waiting.length && steps.length < STEPS_MAX) {
    const source = waiting.shift();
    if (seen.has(source)) continue;
    seen.add(source);
    if (source === "") {
      const found = await get("queues", { vhost: host, name: key, columns: "name", page_size: 500 });
      const fits = found.items.some((one) => one.name === key);
      if (fits) queues.add(key);
      steps.push({ number: steps.length, source, key, type: "queue", destination: key, fits, why: fits ? "a queue has this name" : "no queue has this name" });
      continue;
    }
    const { type } = await get(`exchanges/${encodeURIComponent(host)}/${encodeURIComponent(source)}`);
    const { items } = await get("bindings", { vhost: host, source, page_size: 500 });
    for (const one of items) {
      const { fits, why } = matches(type, one, key, headers);
      steps.push({ number: steps.length, source, key: one.routing_key, type: one.destination_type, destination: one.destination, fits, why });
      if (fits && one.destination_type === "queue") queues.add(one.destination);
      if (fits && one.destination_type === "exchange") waiting.push(one.destination);
    }
  }
  return { queues: [...queues].sort(), steps };
}
