/** Numbers, sizes and times as text. */
import { zone } from "./state.js";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  return Math.abs(value) < 1e6 ? WHOLE.format(value) : SHORT.format(value);
}

export const exact = (value) => (typeof value === "number" ? WHOLE.format(value) : "–");

export function rate(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (value === 0) return "0/s";
  return `${Math.abs(value) < 10 ? value.toFixed(1) : count(value)}/s`;
}

export function bytes(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${unit && scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${units[unit]}`;
}

const STEPS = [
  [86400000, "d"],
  [3600000, "h"],
  [60000, "min"],
  [1000, "s"],
];

export function duration(milliseconds) {
  if (typeof milliseconds !== "number" || milliseconds < 0) return "–";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const at = STEPS.findIndex(([size]) => milliseconds >= size);
  const [size, unit] = STEPS[at];
  const whole = Math.floor(milliseconds / size);
  const next = STEPS[at + 1];
  const rest = next ? Math.floor((milliseconds % size) / next[0]) : 0;
  return rest ? `${whole}\u00a0${unit} ${rest}\u00a0${next[1]}` : `${whole}\u00a0${unit}`;
}

const pad = (number, digits = 2) => String(number).padStart(digits, "0");

function inZone(at, utc) {
  const one = new Date(at);
  const part = (name) => one[`get${utc ? "UTC" : ""}${name}`]();
  const day = `${part("FullYear")}-${pad(part("Month") + 1)}-${pad(part("Date"))}`;
  return `${day} ${pad(part("Hours"))}:${pad(part("Minutes"))}:${pad(part("Seconds"))}`;
}

export const utc = (at) => `${inZone(at, true)} UTC`;
export const local = (at) => `${inZone(at, false)} ${Intl.DateTimeFormat().resolvedOptions().timeZone || "local"}`;

/** A time in the chosen zone; today's without the day. */
export function time(at) {
  const wanted = zone.value === "utc";
  const text = inZone(at, wanted);
  const short = text.slice(0, 10) === inZone(Date.now(), wanted).slice(0, 10) ? text.slice(11) : text;
  return wanted ? `${short}Z` : short;
}
