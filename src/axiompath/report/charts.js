// Charts: bars in tables, lines and columns as pictures. Their colours are those of the style sheet, light or dark.
const MAX_STEPS = 25, MAX_BARS = 10;  // steps of a waterfall; further chosen paths share one. Classes that are shown.
const barRow = (name, bars, value, below = []) => el("tr", {}, el("th", { scope: "row" }, name, ...below), el("td", { class: "track" }, ...bars), el("td", { class: "number" }, value));
const barOf = (from, to, colour, down = false) => el("div", {}, el("i", { class: down ? "down" : null, style: `left:${100 * Math.min(from, to)}%;width:max(2px,${100 * Math.abs(to - from)}%);background-color:${colour}` }));

// From `before` to `after`, a row per step: its bar begins where that of the step above ends.
const drawSteps = (id, before, after, steps) => {
  const levels = [before, after];
  let level = before;
  for (const step of steps) { step.from = level; level += step.share; levels.push(level); }
  const digits = apart(before, after, 3), reach = Math.max(...levels) - Math.min(...levels);
  const near = Math.min(...levels.map(Math.abs)) <= 3 * reach;  // else bars from 0 would leave the steps no room
  const [low, high] = [Math.min(...levels, ...(near ? [0] : [])), Math.max(...levels, ...(near ? [0] : []))];
  const at = (value) => (value - low) / (high - low || 1);
  const end = (name, value) => barRow(name, [barOf(at(near ? 0 : value), at(value), "var(--unchanged)")], plain(value, digits));
  $(id).tBodies[0].replaceChildren(end("before", before), ...steps.map((step) => barRow(step.label, [barOf(at(step.from), at(step.from + step.share), step.colour, step.share < 0)],
    signed(step.share) + (step.error ? ` ± ${plain(step.error)}` : ""), step.below)), end("after", after));
};
const drawWaterfall = ({ page, chosen, before, after, model, rest }) => {
  const others = page.num_paths - held(chosen), step = (label, kind, share) => ({ label, share, colour: COLOURS[kind] });
  const ordered = [...chosen].sort((a, b) => Math.abs(b.share) - Math.abs(a.share)), more = ordered.slice(MAX_STEPS);
  drawSteps("waterfall", before, after, [
    ...(page.causes.model ? [step("the retrained model", "model", model)] : []),
    ...ordered.slice(0, MAX_STEPS).map((path) => step(path.label, path.kind, path.share)),
    ...(more.length ? [step(`${more.length} more chosen paths`, "unchanged", sum(more.map((path) => path.share)))] : []),
    ...(others > 0 ? [step(`${count(others)} other paths`, "rest", rest)] : []),
  ]);
};
const drawProbabilities = ({ page }) => {
  const { prob_before: old, prob_after: now } = page, most = (k) => Math.max(Math.abs(old[k]), Math.abs(now[k]));
  const kept = [...page.classes.keys()].sort((i, j) => most(j) - most(i)).slice(0, MAX_BARS).sort((i, j) => i - j);
  const scale = page.values ? Math.max(...kept.map(most)) || 1 : 1;
  $("probabilities").tBodies[0].replaceChildren(...kept.map((k) => {
    const digits = apart(old[k], now[k], 2);
    return barRow(page.classes[k], [barOf(0, Math.abs(old[k]) / scale, "var(--pale)", old[k] < 0), barOf(0, Math.abs(now[k]) / scale, "var(--deep)", now[k] < 0)], `${plain(old[k], digits)} → ${plain(now[k], digits)}`);
  }));
};
const drawFrontier = ({ page, choice }) => {
  const units = hasGroups(page, choice), { choices, terms } = page;
  $("certificate").textContent = `Certificate: these ${count(choice.chosen.length)} ${units ? "units" : "paths"} leave ${plain(choice.kl_residual, 4)}${terms.nats}, and no choice `
    + `of as many ${units ? "of the units as they were opened " : ""}leaves less than ${plain(choice.kl_bound, 4)}; at most ${plain(Math.max(choice.gap, 0), 4)} could be gained by choosing better.`;
  drawLines("frontier", choices.map((c) => String(c.budget)), [
    { name: "no choice leaves less", values: choices.map((c) => c.kl_bound), colour: "var(--soft)", dash: "3 4" },
    { name: terms.left + (page.values ? "" : ", nats"), values: choices.map((c) => c.kl_residual), colour: "var(--deep)", large: (i) => i === state.choice, dots: true },
  ], { low: 0, pick: (i) => { state.choice = i; refresh(); }, about: `${terms.left} by number of paths` });
};

// A picture of `labels` from left to right; texts below it, as many as have room. `draw` adds what stands above each.
const openChart = (id, labels, about, { low, high, inset }) => {
  const width = isNarrow() ? 360 : $(id).closest(".two") ? 520 : 1060, height = 250, left = 60, right = 16, top = 16, foot = 30;
  const room = (width - left - right) / Math.max(labels.length - (inset ? 0 : 1), 1), x = (i) => left + room * (i + (inset ? 0.5 : 0));
  const y = (value) => top + (height - top - foot) * (high - value) / (high - low || 1);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": about });
  const write = (text, at, more = {}) => { const node = draw("text", { x: at[0], y: at[1], "text-anchor": "middle", ...more }); node.textContent = text; svg.append(node); };
  const step = (high - low) / 4 || 1;
  for (let k = 0; k <= 4; k++) {
    const value = low + k * step;
    svg.append(draw("line", { x1: left - 6, x2: width - right + 6, y1: y(value), y2: y(value), class: Math.abs(value) < 1e-9 * step ? "zero" : "gridline" }));
    write(minus(String(Number(value.toPrecision(2)))), [left - 10, y(value) + 4], { class: "column", "text-anchor": "end" });
  }
  const every = Math.ceil(Math.min(110, 14 + 7.5 * Math.max(...labels.map((text) => Math.min(text.length, 18)))) / room);
  labels.forEach((text, i) => { if (i % every === 0) write(short(text, 18), [x(i), height - 8], { class: "column", "text-anchor": inset || (i && i + 1 < labels.length) ? "middle" : i ? "end" : "start" }); });
  $(id).replaceChildren(svg);
  return { svg, x, y, room, write };
};
// Each of `series` { name, values, colour, dash, dots, large: (i) => whether its dot is large } as a line; null is a gap.
const drawLines = (id, labels, series, { low, high, pick = null, about, shaded = [] }) => {
  const known = series.flatMap((one) => one.values).filter((v) => v !== null), least = Math.min(...known), most = Math.max(...known);
  const { svg, x, y, room, write } = openChart(id, labels, about, { low: low ?? least, high: high ?? (most > (low ?? least) ? most : (low ?? least) + 1) });
  for (const [from, to, text] of shaded) {
    svg.append(draw("rect", { x: x(from), width: Math.max(x(to) - x(from), 8), y: 0, height: y(low ?? least), class: "shade" }));
    if (room > 70) write(short(text, Math.floor(room / 7)), [(x(from) + x(to)) / 2, 12]);
  }
  for (const one of series) {
    let line = "";
    one.values.forEach((v, i) => { if (v !== null) line += `${i && one.values[i - 1] !== null ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`; });
    svg.append(draw("path", { d: line, fill: "none", stroke: one.colour, "stroke-width": 2, "stroke-dasharray": one.dash ?? "none" }));
    if (one.dots) one.values.forEach((v, i) => {
      if (v === null) return;
      const dot = draw("circle", { cx: x(i), cy: y(v), r: one.large?.(i) ? 7 : 3.5, fill: one.colour, class: "dot" });
      svg.append(withTip(dot, `${labels[i]}: ${one.name} ${plain(v, 4)}`, pick && (() => pick(i))));
    });
  }
  withArrows([...svg.querySelectorAll(".dot")]);
  fillLegend(`${id}-legend`, series.map((one) => [one.name, one.colour]));
};
// Columns of stacked parts, by kind; what is negative hangs below 0 and is hatched. `heads` stand above the columns.
const drawColumns = (id, labels, kinds, parts, { heads, tips, pick, about, net = null, current = -1 }) => {
  const ends = (sign) => parts.map((row) => sum((row ?? []).filter((v) => v * sign > 0)));
  const [up, down] = [ends(1), ends(-1)], span = Math.max(...up, 0) - Math.min(...down, 0) || 1;
  const { svg, x, y, room, write } = openChart(id, labels, about, { low: Math.min(...down, 0) * 1.12, high: Math.max(...up, 0) + 0.12 * span, inset: true });
  parts.forEach((row, i) => {
    const group = draw("g", { class: "step" }), wide = Math.min(0.66 * room, 90), levels = { 1: 0, [-1]: 0 };
    group.append(draw("rect", { x: x(i) - room / 2, width: room, y: 0, height: 220, class: i === current ? "shade" : "reach" }));
    (row ?? []).forEach((v, k) => {
      const from = levels[v < 0 ? -1 : 1], to = from + v;
      levels[v < 0 ? -1 : 1] = to;
      if (v) group.append(draw("rect", { x: x(i) - wide / 2, width: wide, y: y(Math.max(from, to)), height: Math.max(y(Math.min(from, to)) - y(Math.max(from, to)), 0.5), fill: fillOf(kinds[k], v) }));
    });
    if (net?.[i] != null && row) group.append(draw("path", { d: `M${x(i)} ${y(net[i]) - 6}l6 6l-6 6l-6 -6Z`, class: "net" }));
    svg.append(withTip(group, tips[i], () => pick(i)));
    if (room > 34 && heads[i]) write(heads[i], [x(i), y(up[i]) - 6], { "font-weight": 650 });
  });
  withArrows([...svg.querySelectorAll(".step")]);
};
