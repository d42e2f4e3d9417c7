// rhea's values and messages in the form of the lines (lines.mjs), with the type that each has on the wire.

import rhea from "rhea";

const { types, message } = rhea;

const NUMBERS = {
  Ubyte: "ubyte", Ushort: "ushort", Uint: "uint", SmallUint: "uint", Uint0: "uint", Ulong: "ulong", SmallUlong: "ulong",
  Ulong0: "ulong", Byte: "byte", Short: "short", Int: "int", SmallInt: "int", Float: "float", Timestamp: "timestamp",
}; // prettier-ignore
const WRAP = {
  ubyte: types.wrap_ubyte, ushort: types.wrap_ushort, uint: types.wrap_uint, byte: types.wrap_byte, short: types.wrap_short,
  int: types.wrap_int, float: types.wrap_float, timestamp: types.wrap_timestamp,
}; // prettier-ignore

/** The 8 octets of a number that JavaScript may not have. */
function octets(number) {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64BE(BigInt.asUintN(64, BigInt(number)));
  return buffer;
}

const uuidText = (buffer) => buffer.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
const uuidOctets = (text) => Buffer.from(text.replaceAll("-", ""), "hex");

/** A typed value as rhea's reader gives it, in the form of the lines. */
export function toLine(typed) {
  if (typed === null || typed === undefined) return null;
  const name = typed.type.name;
  let value = typed.value;
  if (typed.descriptor) return { described: [toLine(typed.descriptor), toLine({ type: typed.type, value })] };
  if (name === "Null") return null;
  if (name in NUMBERS) {
    if (Buffer.isBuffer(value)) value = String(value.readBigUInt64BE());
    if (value instanceof Date) value = value.getTime();
    return { [NUMBERS[name]]: value };
  }
  if (name === "Double") return { double: value };
  if (["Long", "SmallLong"].includes(name)) {
    return Buffer.isBuffer(value) ? { long: String(value.readBigInt64BE()) } : value;
  }
  if (name.startsWith("Vbin")) return { binary: value.toString("base64") };
  if (name.startsWith("Sym")) return { symbol: String(value) };
  if (name.startsWith("List")) return (value ?? []).map(toLine);
  if (name.startsWith("Array")) return { array: value.map(toLine) };
  if (name.startsWith("Map")) return { map: pairs(value).map(([key, one]) => [toLine(key), toLine(one)]) };
  if (name === "CharUTF32") return { char: String.fromCodePoint(value) };
  if (name === "Uuid") return { uuid: uuidText(value) };
  if (["True", "False", "Boolean"].includes(name)) return Boolean(value);
  return value;
}

const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, index) => flat.slice(2 * index, 2 * index + 2));

/** A value of the lines as rhea writes it. */
export function fromLine(value) {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isInteger(value) ? types.wrap_long(value) : types.wrap_double(value);
  if (Array.isArray(value)) return value.map(fromLine);
  const [[kind, content]] = Object.entries(value);
  switch (kind) {
    case "binary":
      return types.wrap_binary(Buffer.from(content, "base64"));
    case "map":
      return new Map(content.map(([key, one]) => [fromLine(key), fromLine(one)]));
    case "ulong":
      return types.wrap_ulong(octets(content));
    case "long":
      return types.wrap_long(octets(content));
    case "uuid":
      return types.wrap_uuid(uuidOctets(content));
    case "symbol":
      return types.wrap_symbol(content);
    case "char":
      return types.wrap_char(content.codePointAt(0));
    case "double":
      return types.wrap_double(content);
    case "described":
      return types.described(fromLine(content[0]), types.wrap(fromLine(content[1])));
    default:
      return WRAP[kind](content);
  }
}

const PROPERTIES = [
  "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
  "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
]; // prettier-ignore
const HEADER = ["durable", "priority", "ttl", "first_acquirer", "delivery_count"];
const MAPS = { properties: "application_properties", annotations: "message_annotations", instructions: "delivery_annotations" };
const PLAIN = ["content_type", "content_encoding", "absolute_expiry_time", "creation_time", "group_sequence"];

/** The message to send for one of the lines. */
export function messageFromLine(line) {
  const made = {};
  for (const name of [...HEADER, ...PROPERTIES]) {
    if (name in line) made[name] = typeof line[name] === "number" ? line[name] : fromLine(line[name]);
  }
  for (const [name, section] of Object.entries(MAPS)) {
    if (!(name in line)) continue;
    made[section] = Object.fromEntries(Object.entries(line[name]).map(([key, one]) => [key, fromLine(one)]));
  }
  let body = fromLine(line.body ?? null);
  if (line.section === "data") body = body.value;
  if (line.section === "data") made.body = message.data_section(body);
  else if (line.section === "sequence") made.body = message.sequence_section(body);
  else made.body = body;
  return made;
}

const SECTIONS = { 0x70: "header", 0x71: "instructions", 0x72: "annotations", 0x73: "fields", 0x74: "properties" };
const BODIES = { 0x75: "data", 0x76: "sequence", 0x77: "value" };

// The reader forgets the types when it has made a message of them: what arrived is kept beside it.
const decode = message.decode;
message.decode = (buffer) => {
  const decoded = decode(buffer);
  decoded.arrived = buffer;
  return decoded;
};

/** A received message as a line: with the types that its sections have. */
export function messageToLine(received) {
  const line = {};
  const reader = new types.Reader(received.arrived);
  while (reader.remaining()) {
    const section = reader.read();
    const code = Number(section.descriptor.value);
    const kind = SECTIONS[code];
    if (code in BODIES) {
      line.section = BODIES[code];
      line.body = toLine({ type: section.type, value: section.value });
      if (code === 0x75) line.body = { binary: section.value.toString("base64") };
    } else if (kind === "header") fields(line, HEADER, section.value);
    else if (kind === "fields") fields(line, PROPERTIES, section.value);
    else if (kind !== undefined && section.value.length) {
      line[kind] = Object.fromEntries(pairs(section.value).map(([key, one]) => [String(key.value), toLine(one)]));
    }
  }
  return line;
}

function fields(line, names, values) {
  values.forEach((typed, index) => {
    const name = names[index];
    let value = toLine(typed);
    if (value === null || value === false) return;
    if (PLAIN.includes(name) || HEADER.includes(name)) value = typeof value === "object" ? Object.values(value)[0] : value;
    if (name === "priority" ? value === 4 : value === 0) return;
    line[name] = value;
  });
}
