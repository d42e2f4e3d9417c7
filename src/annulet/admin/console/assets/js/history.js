/** The history that the broker keeps, with what this page has read since. */
import { useEffect, useState } from "./html.js";
import { get } from "./api.js";
import { reason } from "./definitions.js";

const EVERY_MS = 60000; // the readings of the page go on from the past
const LINES_MAX = 4; // reasons in one chart: as many as there are colours

/** of: {vhost, queue}, or nothing for the broker. The functions put the past before columns of readings. */
export function useHistory(of, window) {
  const [past, setPast] = useState(null);
  const key = JSON.stringify(of);
  useEffect(() => {
    let ended = false;
    const read = () => document.hidden || get("history", { ...of, window }).then(
      (found) => !ended && setPast(found),
      () => !ended && setPast(null), // the charts have the readings of this page
    );
    setPast(null);
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [key, window]);
  const known = past?.times.length ? past : null;
  const joined = (columnsOf) => (readings) => {
    if (!known) return readings;
    const times = known.times.map((at) => at / 1000);
    const first = readings[0].findIndex((at) => at > times.at(-1));
    const later = first < 0 ? readings.map(() => []) : readings.map((column) => column.slice(first));
    return [times, ...columnsOf(known)].map((column, number) => [...column, ...later[number]]);
  };
  const out = ({ acknowledged, lost }) => acknowledged.map((one, at) => (one === null ? null : one + (lost[at] ?? 0)));
  const nothing = (found) => found.times.map(() => null);
  return {
    known: known !== null,
    rates: joined((found) => [found.published, out(found), found.acknowledged]),
    depth: joined((found) => [found.messages, nothing(found)]),
    age: joined((found) => [found.oldest_age]),
    reasons: known && reasonsOf(known),
  };
}

/** Rates of the most frequent reasons why messages left unacknowledged: {columns, series}, or null. */
function reasonsOf({ times, reasons, lost }) {
  const sum = (column) => column.reduce((total, one) => total + (one ?? 0), 0);
  const each = Object.entries(reasons).filter(([name, column]) => name !== "acknowledged" && sum(column) > 0);
  const found = each.sort((a, b) => sum(b[1]) - sum(a[1])).slice(0, LINES_MAX);
  const seconds = times.map((at) => at / 1000);
  if (found.length) return { columns: [seconds, ...found.map(([, column]) => column)], series: found.map(([name]) => reason(name)) };
  return sum(lost) > 0 ? { columns: [seconds, lost], series: ["all reasons"] } : null;
}
