// The chosen paths of one change as ribbons, from the leaves to what is predicted.
// What lies so many steps before the end of a path; the last step to a graph or a link is no hop.
const stationName = (unit, away) => {
  const hops = unit === "node" ? away : away - 1;
  if (away === 0) return `the ${unit}`;
  return hops === 0 ? (unit === "link" ? "its ends" : "its nodes") : hops === 1 ? "1 hop away" : `${hops} hops away`;
};

// Columns are hops, leaves left, the target right. A node's box is as high as the ribbons through it; the order in
// a column follows the mean place of what it sends to, worked out from the target backwards.
const drawFlow = ({ page, view, chosen, total: ofChosen, rest }) => {
  const whole = ofChosen + rest;  // what all altered paths carry; another model's share flows along none
  const narrow = isNarrow(), width = narrow ? 600 : 1060, top = 34, boxWidth = 11, gap = 9;
  const others = page.num_paths - held(chosen);
  const drawn = chosen.flatMap((path) => (path.members && state.open.has(path.row) ? partsOf(path, view) : [path]));
  const hops = chosen.length ? chosen[0].nodes.length - 1 : Math.max(1, (page.paths[0]?.nodes.length ?? 3) - 1);
  const items = drawn.map((path) => ({
    key: path.row, size: Math.abs(path.share), share: path.share, kind: path.kind, label: path.label, path, bundle: path.nodes.includes(-2),
    from: startOf(path.nodes),
    at: (t) => (isPlace(path.nodes[t]) ? String(path.nodes[t]) : path.nodes[t] === -2 ? `bundle ${path.row}` : "bias"),
  }));
  if (others > 0) items.push({ key: "rest", size: Math.abs(rest), share: rest, kind: "rest", from: 0,
    label: `${count(others)} other paths`, at: (t) => (t === hops ? String(page.end) : "rest") });
  const total = sum(items.map((item) => item.size));
  const columns = [];
  for (let t = hops; t >= 0; t--) {
    const boxes = new Map();
    for (const item of items) {
      if (t < item.from) continue;
      const id = item.at(t);
      if (!boxes.has(id)) boxes.set(id, { id, size: 0, items: [], pull: 0 });
      const box = boxes.get(id);
      box.size += item.size;
      box.items.push(item);
      if (t < hops) box.pull += (columns[t + 1].get(item.at(t + 1)).order ?? 0) * item.size;
    }
    const sorted = [...boxes.values()].sort((a, b) => (a.id === "rest") - (b.id === "rest")
      || a.pull / (a.size || 1) - b.pull / (b.size || 1) || b.size - a.size);
    sorted.forEach((box, i) => { box.order = i; });
    columns[t] = new Map(sorted.map((box) => [box.id, box]));
  }
  const most = Math.max(...columns.map((column) => column.size), 1);
  const height = Math.max(250, Math.min(680, 130 + 24 * most));
  const room = height - top - 14 - gap * (most - 1);
  const scale = total > 0 ? Math.max(room, 40) / total : 0;
  const left = narrow ? 100 : 120, right = narrow ? 150 : 190, x = (t) => left + (width - left - right) * t / hops;
  columns.forEach((column, t) => {
    const used = sum([...column.values()].map((box) => box.size * scale)) + gap * (column.size - 1);
    let y = top + Math.max(0, (height - top - 14 - used) / 2);
    for (const box of column.values()) {
      box.y = y;
      box.height = box.size * scale;
      y += box.height + gap;
      // At the target, what pushes up lies above what pushes down.
      const sign = (item) => (t === hops ? Math.sign(-item.share) : 0);
      let place = y - box.height - gap;
      for (const item of [...box.items].sort((a, b) => sign(a) - sign(b) || orderBefore(columns, a, t) - orderBefore(columns, b, t))) {
        (item.inward ??= {})[t] = place;
        place += item.size * scale;
      }
      place = box.y;
      for (const item of [...box.items].sort((a, b) => orderAfter(columns, a, t, hops) - orderAfter(columns, b, t, hops)
        || sign(a) - sign(b))) {
        (item.outward ??= {})[t] = place;
        place += item.size * scale;
      }
    }
  });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label":
    `Flow picture: ${chosen.length} chosen paths and ${others} others change ${view.measure} by ${signed(whole)}. `
    + "Left and right arrow keys go from ribbon to ribbon." });
  for (let t = 0; t <= hops; t++) {
    const away = hops - t;
    const text = draw("text", { x: x(t) + boxWidth / 2, y: 16, "text-anchor": "middle", class: "column" });
    text.textContent = stationName(page.unit, away);
    svg.append(text);
  }
  const ribbons = [];
  for (const item of [...items].sort((a, b) => (a.kind !== "rest") - (b.kind !== "rest") || b.size - a.size)) {
    const thick = Math.max(item.size * scale, 0.8);
    let d = "";
    for (let t = item.from; t < hops; t++) {
      const [x0, x1, y0, y1] = [x(t) + boxWidth, x(t + 1), item.outward[t], item.inward[t + 1]];
      const middle = (x0 + x1) / 2;
      d += `M${x0} ${y0.toFixed(2)}C${middle} ${y0.toFixed(2)} ${middle} ${y1.toFixed(2)} ${x1} ${y1.toFixed(2)}`
        + `v${thick.toFixed(2)}C${middle} ${(y1 + thick).toFixed(2)} ${middle} ${(y0 + thick).toFixed(2)} ${x0} ${(y0 + thick).toFixed(2)}Z`;
    }
    const fill = fillOf(item.kind, item.share);
    const story = `${item.label}\n${item.kind === "rest" ? "all other paths, net" : item.kind}, ${signed(item.share, 4)} to ${view.measure}`;
    const opens = item.path?.members ? item.path.row : item.path?.within;
    const hint = opens === undefined ? "" : item.path.members ? "\nclick to open it into its largest paths" : "\nclick to close the group";
    const group = draw("g", { class: item.bundle ? "ribbon bundle" : "ribbon", "data-key": item.key, "data-share": item.share },
      draw("path", { d, fill, opacity: item.kind === "rest" ? 0.75 : 0.72 }));
    if (item.bundle) {
      // Strands along the band, as many as its height shows.
      const strands = Math.max(2, Math.min(7, Math.round(thick / 5)));
      for (let k = 1; k < strands; k++) {
        let line = "";
        for (let t = item.from; t < hops; t++) {
          const off = thick * k / strands, middle = (x(t) + boxWidth + x(t + 1)) / 2;
          const [y0, y1] = [(item.outward[t] + off).toFixed(2), (item.inward[t + 1] + off).toFixed(2)];
          line += `M${x(t) + boxWidth} ${y0}C${middle} ${y0} ${middle} ${y1} ${x(t + 1)} ${y1}`;
        }
        group.append(draw("path", { d: line, class: "strand" }));
      }
      group.append(draw("path", { d, class: "sheath", stroke: COLOURS[item.kind] }));
    }
    if (opens !== undefined) group.dataset.opens = opens;
    withTip(group, story + hint, opens === undefined ? null : () => {
      toggle(opens);
      document.querySelector(`#flow .ribbon[data-opens="${opens}"]`)?.focus();
    });
    const pick = (on) => () => { svg.classList.toggle("picked", on); group.classList.toggle("on", on); mark(item.key, on); };
    for (const [event, on] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) group.addEventListener(event, pick(on));
    ribbons.push(group);
    svg.append(group);
  }
  withArrows(ribbons);
  columns.forEach((column, t) => {
    for (const box of column.values()) {
      const isRest = box.id === "rest";
      const bundle = box.id.startsWith("bundle") ? box.items[0].path.size : 0;
      const name = bundle ? `${count(bundle)} ${box.items[0].path.members ? "paths" : "more"}` : isRest ? `${count(others)} others` : box.id === "bias" ? "bias" : page.nameOf(Number(box.id));
      const rect = draw("rect", { x: x(t), y: box.y, width: boxWidth, height: Math.max(box.height, 1.5), rx: 2, fill: isRest ? "var(--restbox)" : "var(--box)" });
      const story = `${name}\n${signed(sum(box.items.map((item) => item.share)), 4)} to ${view.measure} over ${box.items.some((item) => item.kind === "rest") ? "all" : box.items.length} path${box.items.length === 1 ? "" : "s"} here`;
      withTip(rect, story, null, false);
      if (bundle) {
        const { row, members, within } = box.items[0].path;
        rect.dataset.opens = members ? row : within;
        rect.addEventListener("click", () => { hideTip(); toggle(members ? row : within); });
      }
      svg.append(rect);
      const atLeft = t === 0, atEnd = t === hops;
      const text = draw("text", { x: atEnd ? x(t) + boxWidth + 8 : atLeft ? x(t) - 6 : x(t) + boxWidth + 4,
        y: box.y + box.height / 2 + 4, "text-anchor": atLeft ? "end" : "start", class: "halo" });
      text.textContent = short(name, atLeft ? 16 : atEnd ? 22 : 18);
      if (atEnd) text.setAttribute("font-weight", 650);
      if (!isRest || t === 0) svg.append(text);
    }
  });
  const end = [...columns[hops].values()][0];
  if (end) {
    const up = sum(items.filter((item) => item.share > 0).map((item) => item.share));
    const lines = [`${signed(whole)} ${page.causes.model ? "by the data" : "in all"}`, ...(items.some((item) => item.share < 0) ? [`${signed(up)} up, ${signed(whole - up)} down`] : [])];
    lines.forEach((line, i) => {
      const text = draw("text", { x: x(hops) + boxWidth + 8, y: end.y + end.height / 2 + 22 + 17 * i, class: "column" });
      text.textContent = line;
      svg.append(text);
    });
  }
  svg.style.minWidth = narrow ? `${width}px` : "";  // and is moved sideways
  $("flow").replaceChildren(svg);
};
const orderBefore = (columns, item, t) => (t > item.from ? columns[t - 1].get(item.at(t - 1)).order : -1);
const orderAfter = (columns, item, t, hops) => (t < hops ? columns[t + 1].get(item.at(t + 1)).order : 0);
const mark = (key, on) => document.querySelectorAll(`#paths tr[data-row="${key}"]`).forEach((line) => line.classList.toggle("on", on));
const markRibbon = (key, on) => {
  const svg = document.querySelector("#flow svg");
  svg?.classList.toggle("picked", on);
  svg?.querySelector(`.ribbon[data-key="${key}"]`)?.classList.toggle("on", on);
};

const drawLegend = ({ chosen }) => {
  const kinds = new Set([...chosen.map((path) => path.kind), "rest"]);
  fillLegend("legend", Object.entries(MEANING).filter(([kind]) => kinds.has(kind)).map(([kind, text]) => [text, COLOURS[kind]]), true);
};
const fillLegend = (id, entries, hatched = false) => $(id).replaceChildren(...[...entries, ...(hatched ? [["hatched: pushes down", "repeating-linear-gradient(45deg,#666 0 3px,#c4c4c4 3px 6px)"]] : [])]
  .map(([text, colour]) => el("span", {}, el("i", { style: `background:${colour}` }), text)));
