// Small plots in SVG. Each has a sentence for those who cannot see it.
import { h, s } from "./dom.js";
import { clock } from "./format.js";

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const steps = (points) => points.map(([x, y], i) => (i ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`)).join("");

// sparkline draws a window over the last minutes, as steps.
export function sparkline(values, label) {
  const [w, top, bottom] = [96, 3, 21];
  const list = values?.length ? values : [0];
  const most = Math.max(1, ...list);
  const step = w / Math.max(1, list.length - 1);
  const points = list.map((v, i) => [i * step, bottom - (v / most) * (bottom - top)]);
  if (points.length === 1) points.push([w, points[0][1]]);
  return s("svg", { class: "spark", viewBox: `0 0 ${w} 24`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    s("path", { class: "area", d: `${steps(points)}V24H0Z` }), s("path", { class: "line", d: steps(points) }));
}

// room is the width of a plot in pixels, so that its text has the size of other text.
function room(half) {
  const wide = Math.min(innerWidth, 1248);
  if (innerWidth < 640) return innerWidth - 62;
  return innerWidth < 960 ? innerWidth - 90 : half ? (wide - 148) / 2 : wide - 90;
}

function nice(most) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 2, 5, 10].map((f) => f * unit).find((v) => v >= most);
}

// line draws columns over time. series: [{name, values, kind, stepped, filled}]; marks: [{at, y, kind, text}].
export function line({ at, series, marks = [], label, unit = "", show: format = (v) => String(v), height = 200, half = false }) {
  const [w, left, right, top, bottom] = [Math.round(room(half)), 64, 6, 10, height - 24];
  const begin = at[0] ?? 0;
  const end = Math.max(at.at(-1) ?? 1, begin + 1);
  const most = nice(Math.max(1, ...series.flatMap((one) => one.values), ...marks.map((m) => m.y)));
  const x = (t) => left + ((t - begin) / (end - begin)) * (w - left - right);
  const y = (v) => bottom - (v / most) * (bottom - top);
  const grid = [0, 0.5, 1].map((f) => f * most);
  const times = (w < 420 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((f) => begin + f * (end - begin));
  const readout = h("output", { class: "readout" });
  const tell = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const t = begin + ((event.clientX - box.left) / box.width * w - left) / (w - left - right) * (end - begin);
    let i = at.findIndex((one) => one >= t);
    if (i < 0) i = at.length - 1;
    const out = event.currentTarget.parentNode.querySelector("output");
    if (out && i >= 0) out.textContent = `${clock(at[i] * 1000)}  ${series.map((one) => `${one.name} ${format(one.values[i])}${unit}`).join(" · ")}`;
  };
  const body = series.flatMap((one) => {
    const points = at.map((t, i) => [x(t), y(Math.max(0, one.values[i]))]);
    if (!points.length) return [];
    const d = one.stepped ? steps(points) : path(points);
    return [one.filled && s("path", { class: `area ${one.kind}`, d: `${d}L${points.at(-1)[0].toFixed(1)} ${bottom}L${points[0][0].toFixed(1)} ${bottom}Z` }),
      s("path", { class: `line ${one.kind}`, d })];
  });
  return h("figure", { class: "plot" },
    h("figcaption", null, series.map((one) => h("span", { class: `key ${one.kind}` }, one.name, " ", h("b", null, one.values.length ? format(one.values.at(-1)) + unit : "–"))), readout),
    s("svg", { viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": label, onpointermove: tell, onpointerleave: (e) => { e.currentTarget.parentNode.querySelector("output").textContent = ""; } },
      grid.map((v) => [s("line", { class: "grid", x1: left, x2: w - right, y1: y(v), y2: y(v) }), s("text", { class: "tick", x: left - 8, y: y(v) + 4, "text-anchor": "end" }, format(v))]),
      times.map((t, i) => s("text", { class: "tick", x: x(t), y: height - 6, "text-anchor": i === 0 ? "start" : i === times.length - 1 ? "end" : "middle" }, clock(t * 1000))),
      body,
      marks.filter((m) => m.at >= begin).map((m) => s("g", { class: `mark ${m.kind}` },
        s("line", { x1: x(m.at), x2: x(m.at), y1: y(m.y), y2: bottom }), s("circle", { cx: x(m.at), cy: y(m.y), r: 4 }), s("title", null, m.text)))));
}

// bars draws a histogram: [{label, value, title}].
export function bars(list, label) {
  const most = Math.max(1, ...list.map((b) => b.value));
  const [w, hgt, base] = [Math.round(room(true)), 150, 124];
  const step = w / list.length;
  return h("figure", { class: "plot" }, s("svg", { viewBox: `0 0 ${w} ${hgt}`, role: "img", "aria-label": label },
    s("line", { class: "grid", x1: 0, x2: w, y1: base, y2: base }),
    list.map((b, i) => {
      const tall = (b.value / most) * (base - 24);
      const x = i * step + step * 0.14;
      return s("g", { class: "bar" }, s("rect", { x, y: base - tall, width: step * 0.72, height: Math.max(tall, b.value ? 2 : 0), rx: 3 }),
        b.value ? s("text", { class: "value", x: x + step * 0.36, y: base - tall - 6, "text-anchor": "middle" }, b.value) : null,
        s("text", { class: "tick", x: x + step * 0.36, y: hgt - 8, "text-anchor": "middle" }, b.label), s("title", null, b.title));
    })));
}

// meter draws a share of something as a bar.
export function meter(value, of, label, kind = "") {
  const share = of > 0 ? Math.min(1, Math.max(0, value / of)) : 0;
  return s("svg", { class: "meter " + kind, viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { class: "rest", width: 100, height: 6, rx: 3 }), s("rect", { class: "part", width: share * 100, height: 6, rx: 3 }));
}
