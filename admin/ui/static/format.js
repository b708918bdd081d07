// Numbers, times and texts as people read them.

const whole = new Intl.NumberFormat("en-US");

export const count = (n) => (n === undefined || n === null || n < 0 ? "–" : whole.format(n));

export function rate(n) {
  if (!n) return "0";
  return n >= 100 ? whole.format(Math.round(n)) : n >= 10 ? n.toFixed(0) : n.toFixed(1);
}

export function bytes(n) {
  if (n === undefined || n === null) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  let v = Math.abs(n);
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${n < 0 ? "−" : ""}${v >= 100 || i === 0 ? Math.round(v) : v.toFixed(1)} ${units[i]}`;
}

// span is a time in seconds, in its two largest units at most.
export function span(seconds) {
  if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "–";
  const t = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(t / 86400), "d"], [Math.floor(t / 3600) % 24, "h"], [Math.floor(t / 60) % 60, "min"], [t % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

// brief is a time in seconds, in one unit.
export function brief(seconds) {
  const t = Math.max(0, seconds);
  const [n, unit] = t < 120 ? [t, "s"] : t < 7200 ? [t / 60, "min"] : t < 172800 ? [t / 3600, "h"] : [t / 86400, "d"];
  return `${n < 10 && unit !== "s" ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${unit}`;
}

const seconds = (at, now) => (now - new Date(at).getTime()) / 1000;

// age is how long ago it was, wait how long it will be.
export const age = (at, now = Date.now()) => (at ? span(seconds(at, now)) : "–");
export const wait = (at, now = Date.now()) => (at ? (seconds(at, now) >= 0 ? "now" : "in " + span(-seconds(at, now))) : "–");

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const clock = (at) => clockFormat.format(new Date(at));
export function moment(at) {
  const then = new Date(at);
  return (Math.abs(Date.now() - then) > 12 * 3600e3 ? dayFormat : clockFormat).format(then);
}

export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// name is what a reader calls a nexthop: [host]:port and {a,b;c} as they are.
export const sender = (address) => (address === "" ? "<> (report)" : address);
