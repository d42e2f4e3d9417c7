/** What a queue is, as a sentence; each part with the settings that it comes from. */
import { bytes, count, duration } from "./format.js";
import { visible } from "./parts.js";

const named = (text) => `“${visible(text)}”`;

/** Parts [text, names of settings] of the sentence about the settings of a queue. */
export function partsOf(settings, { durable, auto_delete: autoDelete }) {
  return [...order(settings), ...retention(settings), ...dispatch(settings), ...times(settings), ...deaths(settings)]
    .concat(durable ? [] : [["ends with the broker", []]])
    .concat(autoDelete ? [["is deleted after its last consumer", []]] : []);
}

function order(s) {
  const levels = Math.max(s.priorities, s.max_priority + 1);
  if (s.sort_key) return [[`sorts by ${named(s.sort_key)}`, ["sort_key"]]];
  if (levels > 1) {
    const how = { strict: "", weighted: ", by shares", ageing: ", rising with age" }[s.priority_discipline];
    return [[`has priorities of ${levels} levels${how}`, ["priorities", "max_priority", "priority_discipline"]]];
  }
  return [["delivers first in, first out", []]];
}

function retention(s) {
  const found = [];
  if (s.last_value_key) {
    found.push([`keeps the last ${s.keep_per_key === 1 ? "message" : count(s.keep_per_key)} per ${named(s.last_value_key)}`, ["last_value_key", "keep_per_key"]]);
  }
  if (s.ring_size >= 0) found.push([`keeps the last ${count(s.ring_size)} messages`, ["ring_size"]]);
  const limits = [s.max_length >= 0 && `${count(s.max_length)} messages`, s.max_bytes >= 0 && bytes(s.max_bytes)].filter(Boolean).join(" or ");
  if (limits) {
    const what = { ring: `drops the ${s.evict.replaceAll("-", " ")}`, reject: "refuses publishers", block: "holds publishers back", page: "moves the rest to disk", none: "counts only" }[s.overflow] ?? s.overflow;
    found.push([`beyond ${limits} ${what}`, ["max_length", "max_bytes", "overflow", "evict"]]);
  }
  return found;
}

function dispatch(s) {
  return [
    (s.exclusive_consumer || s.single_active_consumer) && ["serves one consumer at a time", ["exclusive_consumer", "single_active_consumer"]],
    s.group_mode && s.group_mode !== "off" && [`keeps groups${s.group_key ? ` by ${named(s.group_key)}` : ""} together (${s.group_mode})`, ["group_mode", "group_key"]],
    s.fair_key && [`gives each ${named(s.fair_key)} its turn`, ["fair_key"]],
    s.non_destructive && ["gives every consumer every message", ["non_destructive"]],
    s.selector && [`takes only messages with ${visible(s.selector)}`, ["selector"]],
    s.in_flight_max >= 0 && [`has at most ${count(s.in_flight_max)} in delivery`, ["in_flight_max"]],
    s.max_consumers >= 0 && [`admits at most ${count(s.max_consumers)} consumers`, ["max_consumers"]],
  ].filter(Boolean);
}

function times(s) {
  return [
    s.message_ttl >= 0 && [`lets messages expire after ${duration(s.message_ttl)}`, ["message_ttl"]],
    s.expires >= 0 && [`is deleted when unused for ${duration(s.expires)}`, ["expires"]],
    s.redelivery_delay > 0 && [`redelivers after ${duration(s.redelivery_delay)}`, ["redelivery_delay"]],
  ].filter(Boolean);
}

function deaths(s) {
  const target = s.dead_letter_address || s.dead_letter_exchange || (s.dead_letter_routing_key ? "the default exchange" : "");
  const key = s.dead_letter_routing_key ? ` with key ${named(s.dead_letter_routing_key)}` : "";
  return [
    s.max_delivery_attempts >= 0 && [`gives up after ${count(s.max_delivery_attempts)} deliveries`, ["max_delivery_attempts"]],
    target && [`sends dead letters to ${visible(target)}${key}`, ["dead_letter_address", "dead_letter_exchange", "dead_letter_routing_key"]],
    s.expiry_address && [`sends expired messages to ${named(s.expiry_address)}`, ["expiry_address"]],
    s.dropped_address && [`sends dropped messages to ${named(s.dropped_address)}`, ["dropped_address"]],
  ].filter(Boolean);
}

/** "a, b and c", with a capital letter and a full stop. */
export function sentence(parts) {
  const texts = parts.map(([text]) => text);
  const all = texts.length > 1 ? `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}` : texts[0];
  return `${all[0].toUpperCase()}${all.slice(1)}.`;
}
