// What strangers may write: into addresses, replies, and the names of sites, hosts, flows and tenants.
// Each text ends in END, so that a check can see what follows it.
export const END = "\u27e7";
export const OVERRIDE = "\u202e";

const RAN = "window.ran=true";
export const TEXTS = [
  `<img src=x onerror="${RAN}"><script>${RAN}</script>${END}`,
  `"'><svg onload=${RAN}><a href="javascript:${RAN}">x</a>${END}`,
  `javascript:${RAN}//${END}`,
  `${OVERRIDE}moc.elpmaxe@reilppus${OVERRIDE}\u2066${END}`,
  `a\u0000b\u0007c\u001b[31md\u009be\ufeff\u200bf${END}`,
  "W".repeat(4096) + END,
  `__proto__${END}`, "%zz%E0%A4%A" + END, "../../v1/flush?x#y" + END,
];

// What stays as it is, since the page would show an error instead of it, and no stranger decides it.
const OURS = new Set(["at", "arrived", "due", "since", "until", "oldest", "last_attempt", "made", "queue_id", "next", "scope", "area", "step", "state", "result", "cause"]);

// spoiled returns an answer of the API with a hostile text in place of each text.
export function spoiled(value, n = { at: 0 }, name = "") {
  if (typeof value === "string") return OURS.has(name) || /^\d{4}-\d\d-\d\dT/.test(value) ? value : TEXTS[n.at++ % TEXTS.length];
  if (Array.isArray(value)) return value.map((x) => spoiled(x, n, name));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, spoiled(v, n, k)]));
  return value;
}

// faults runs in the page: scripts that have run, elements that texts have become, and foreign text that turns what stands behind it.
export function faults({ end, override, width }) {
  const found = [];
  if (window.ran) found.push("a script has run");
  for (const node of document.querySelectorAll("main script, main iframe, main object, main [onerror], main [onload], main img")) found.push("an element: " + node.outerHTML.slice(0, 100));
  for (const a of document.querySelectorAll("a")) if (!["http:", "https:"].includes(a.protocol) || a.origin !== location.origin) found.push("a link to " + a.href.slice(0, 100));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    const at = node.data.lastIndexOf(end);
    if (at < 0) continue;
    const element = node.parentElement;
    if (element.closest("svg, option, .unseen")) continue;
    const behind = node.data.slice(at + 1).replace(/[\u2069\s]/g, "") || (node.nextSibling?.nodeType === 3 && node.nextSibling.data);
    if (behind && !node.data.slice(0, at + 2).endsWith(end + "\u2069")) found.push(`foreign text is not isolated from "${behind.slice(0, 40)}" in ${element.outerHTML.slice(0, 60)}`);
    if (node.data.includes(override) && !/isolate|plaintext/.test(getComputedStyle(element).unicodeBidi)) found.push(`no isolation: ${element.nodeName}.${element.className}`);
  }
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest(".scroll, nav, pre")).slice(-1)[0];
    found.push(`it is ${document.documentElement.scrollWidth} pixels wide: ${wide?.outerHTML.slice(0, 120)}`);
  }
  return found;
}
