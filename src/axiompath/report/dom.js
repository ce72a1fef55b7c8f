// Elements, numbers in words, and the tip that explains what the pointer or the focus is on.
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
};
const draw = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const minus = (text) => text.replace("-", "−");
const plain = (v, digits = 3) => {
  if (v === null || v === undefined) return "–";
  if (Math.abs(v) < 1e-13) return (0).toFixed(digits);  // rounding
  return minus(Math.abs(v) < 0.5 * 10 ** -digits ? v.toExponential(1) : v.toFixed(digits));
};
// As many digits as show that two numbers differ; what is below 1e-12 is rounding.
const apart = (a, b, digits) => {
  while (digits < 12 && Math.abs(a - b) > 1e-12 && a.toFixed(digits) === b.toFixed(digits)) digits += 1;
  return digits;
};
const signed = (v, digits = 3) => (v >= 0 ? "+" : "") + plain(v, digits);
const count = (n) => n.toLocaleString("en-US");
const percent = (v) => (v === null ? "–" : minus((100 * v).toFixed(v > 0.995 && v < 0.9995 ? 1 : 0)) + " %");
const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const dot = (a, b) => sum(a.map((value, i) => value * b[i]));
const setNumber = (node, value) => { node.textContent = signed(value); node.dataset.value = value; };

// The first screen is drawn before the browser has read the rest of the file; what needs the rest waits for it.
const isWhole = () => document.readyState !== "loading";
const whenWhole = (act) => { if (isWhole()) act(); else document.addEventListener("DOMContentLoaded", () => act(), { once: true }); };

// What is large travels deflated, as base64.
const inflate = (text) => {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
};

// Pictures are drawn narrower for a narrow screen, so that their words stay as large as others.
const isNarrow = () => document.documentElement.clientWidth < 700;

const tip = $("tip");
const showTip = (text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + "px";
};
const hideTip = () => { tip.hidden = true; };
// A part of a picture that explains itself to pointer, keyboard and screen reader; with `act` it is a button.
const withTip = (node, text, act = null, focusable = true) => {
  const box = () => node.getBoundingClientRect();
  node.addEventListener("mousemove", (event) => showTip(text, event.clientX, event.clientY));
  node.addEventListener("mouseleave", hideTip);
  if (!focusable) return node;
  for (const [key, value] of Object.entries({ tabindex: 0, role: act ? "button" : "img", "aria-label": text })) node.setAttribute(key, value);
  node.addEventListener("focus", () => { if (node.matches(":focus-visible")) showTip(text, box().left + box().width / 2, box().top + Math.min(box().height / 2, 80)); });
  node.addEventListener("blur", hideTip);
  if (act) {
    node.addEventListener("click", () => { hideTip(); act(); });
    node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } });
  }
  return node;
};
// One of these is reached by Tab; the arrow keys go from one to the next.
const withArrows = (nodes) => nodes.forEach((node, i) => {
  node.setAttribute("tabindex", i ? -1 : 0);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    nodes[(i + step + nodes.length) % nodes.length].focus();
  });
});
