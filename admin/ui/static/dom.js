// Elements, and a page that changes without losing focus, selection or scroll position.

const SVG = "http://www.w3.org/2000/svg";

function make(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      (node.handlers ??= {})[name] = value;
      node[name] = value;
    } else if (name === "style") {
      for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    } else if (name === "value" && "value" in node) {
      node.value = value;
      node.setAttribute("data-value", value);
    } else {
      node.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
    }
  }
  const content = children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);
  // A text beside others is isolated from them: what a stranger has written must not turn their direction.
  const apart = content.length > 1 && node.namespaceURI !== SVG && node.nodeName !== "PRE";
  node.append(...content.map((c) => (c instanceof Node ? c : apart && String(c).trim() ? isolated(String(c)) : String(c))));
  return node;
}

function isolated(text) {
  const node = document.createElement("bdi");
  node.append(text);
  return node;
}

// h makes an HTML element; null and false among the children are left out.
export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);

// s makes an SVG element.
export const s = (tag, props, ...children) => make(document.createElementNS(SVG, tag), props, children);

const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// morph makes the tree a equal to b, with as few changes as it can.
function morph(a, b) {
  if (a.nodeType !== 1) {
    if (a.data !== b.data) a.data = b.data;
    return;
  }
  if (a.nodeName === "DIALOG" && a.open) return; // a person is at it
  for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && name !== "open") a.removeAttribute(name);
  for (const { name, value } of b.attributes) {
    if (a.getAttribute(name) === value || (name === "open" && a.dataset.mine)) continue;
    if (name === "style") a.style.cssText = b.style.cssText; // the policy forbids it as an attribute
    else a.setAttribute(name, value);
  }
  for (const name of Object.keys(a.handlers ?? {})) if (!b.handlers?.[name]) a[name] = null;
  Object.assign(a, b.handlers ?? {});
  a.handlers = b.handlers;
  if ("value" in b && a !== document.activeElement && b.hasAttribute("data-value") && a.value !== b.value) a.value = b.value;
  children(a, b);
}

function children(a, b) {
  let at = a.firstChild;
  for (const want of [...b.childNodes]) {
    let have = at;
    if (have && !alike(have, want)) {
      const key = keyOf(want);
      have = key ? [...a.childNodes].find((n) => keyOf(n) === key && n.nodeName === want.nodeName) : null;
      if (have && !precedes(at, have)) have = null;
    }
    if (!have) {
      a.insertBefore(want, at);
      continue;
    }
    if (have !== at) a.insertBefore(have, at);
    else at = at.nextSibling;
    morph(have, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const precedes = (a, b) => Boolean(a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING);

// show replaces what a node contains.
export function show(node, ...content) {
  children(node, h("div", null, content));
}
