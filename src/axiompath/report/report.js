"use strict";
// What every report has: tables, the list of targets, and the page of one change. What is particular to a kind of report
// (overview.js, story.js) comes after it and calls start().
const report = (() => {
  const COLOURS = {
    gained: "#0072b2", lost: "#d55e00", reweighted: "#009e73", statistics: "#7b5ea7", feature: "#cc79a7",
    "edge feature": "#56b4e9", model: "#e69f00", unchanged: "#6b7280", rest: "#d5dae0",
  };
  const MEANING = {
    gained: "gained: runs over a new connection", lost: "lost: ran over a connection that is gone",
    reweighted: "kept, reweighted: a coefficient along it changed", feature: "kept, feature: its leaf's features changed",
    statistics: "kept, statistics: the mean and deviation of the whole graph changed",
    "edge feature": "kept, edge feature: it begins at an edge whose features changed",
    model: "model: retrained, another model than before", unchanged: "unchanged", rest: "all other paths, net",
  };
  const SVG = "http://www.w3.org/2000/svg";
  const MAX_STEPS = 25;  // of the waterfall; further chosen paths share one step
  const CHUNK = 100;
  const $ = (id) => document.getElementById(id);
  const index = JSON.parse($("index").textContent);
  const pages = new Map();
  const state = { target: -1, page: -1, choice: 0, view: 0, sort: { key: "rank", down: false }, query: "", open: new Set() };

  // ---- small things -------------------------------------------------------------------------------------------
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
    if (v !== 0 && Math.abs(v) < 0.5 * 10 ** -digits) return minus(v.toExponential(1));
    return minus(v.toFixed(digits));
  };
  const signed = (v, digits = 3) => (v >= 0 ? "+" : "") + plain(v, digits);
  const count = (n) => n.toLocaleString("en-US");
  const percent = (v) => (v === null ? "–" : minus((100 * v).toFixed(v > 0.995 && v < 1 ? 1 : 0)) + " %");
  const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const forPlotly = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const dot = (a, b) => sum(a.map((value, i) => value * b[i]));
  const setNumber = (node, value) => { node.textContent = signed(value); node.dataset.value = value; };

  const load = (i) => {
    if (!pages.has(i)) pages.set(i, prepare(JSON.parse($("page-" + i).textContent)));
    return pages.get(i);
  };
  // What may be shown of a target: the classes of these pairs [old, new] against each other, and every class alone.
  const viewsOf = (classes, pairs, values = false) => {
    const unit = (k) => classes.map((_, i) => (i === k ? 1 : 0));
    const first = pairs.flatMap(([old, now]) => [now, old]);
    const order = [...new Set([...first, ...classes.keys()])];
    return [...pairs.filter(([old, now]) => old !== now).map(([old, now]) => ({
      label: `${classes[now]} against ${classes[old]}`, weights: unit(now).map((v, i) => v - unit(old)[i]),
    })), ...order.map((k) => ({ label: values ? classes[k] : `class ${classes[k]}`, weights: unit(k) }))];
  };
  // A path of the shallower of two models has ABSENT before it; one of a bias is shown from that bias on.
  const ABSENT = -3, FIRST_EDGE = -1000;  // edges that a path begins at are numbered from there down
  const isPlace = (node) => node >= 0 || node <= FIRST_EDGE;
  const startOf = (nodes) => {
    const first = nodes.findIndex((node) => node >= 0);
    return first > 0 && nodes[first - 1] !== ABSENT ? first - 1 : first;
  };
  // Values are told as they are, and left by a distance; all else by logits, and left by a KL in nats.
  const termsOf = ({ values }) => (values
    ? { of: "", left: "distance left", nats: "" } : { of: "the logit of ", left: "KL left", nats: " nats" });
  const prepare = (page) => {
    page.terms = termsOf(page);
    page.views = viewsOf(page.classes, [[page.class_before, page.class_after]], page.values);
    const name = (node) => (isPlace(node) ? page.names[node] ?? String(node) : "bias");
    page.nameOf = name;
    for (const path of page.paths.flatMap((p) => (p.members ? p.members : [p]))) {
      const start = startOf(path.nodes);
      path.label ??= path.nodes.slice(start).map(name).join(" → ");
    }
    return page;
  };
  const current = () => {
    const page = load(state.page), choice = page.choices[state.choice], view = page.views[state.view];
    const share = (path) => dot(path.shares, view.weights);
    const chosen = choice.chosen.map((row, rank) => ({
      ...page.paths[row], row, rank: rank + 1, weight: choice.weights[rank], share: share(page.paths[row]),
    }));
    const before = dot(page.logits_before, view.weights), after = dot(page.logits_after, view.weights);
    const total = sum(chosen.map((path) => path.share));
    const model = page.causes.model ? dot(page.causes.model, view.weights) : 0, whole = after - before;
    return { page, choice, view, chosen, before, after, whole, model, total, rest: whole - model - total };
  };

  // A group stands for many paths: drawn as one bundle until it is opened into its largest paths and the rest.
  const held = (chosen) => sum(chosen.map((path) => (path.kind === "unchanged" ? 0 : path.size ?? 1)));
  const partsOf = (path, view) => {
    const parts = path.members.map((member, i) => ({ ...member, row: `${path.row}.${i}`, share: dot(member.shares, view.weights), within: path.row }));
    const left = path.size - parts.length;
    if (left > 0) parts.push({ ...path, members: null, size: left, row: `${path.row}.rest`, within: path.row, label: `${count(left)} more ${left === 1 ? "path" : "paths"}: ${path.label}`,
      share: path.share - sum(parts.map((part) => part.share)) });
    return parts;
  };
  const toggle = (row) => { if (!state.open.delete(row)) state.open.add(row); refresh(); };

  // ---- tooltip ------------------------------------------------------------------------------------------------
  const tip = $("tip");
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + "px";
  };
  const hideTip = () => { tip.hidden = true; };

  // ---- tables: sortable by every column, filtered, shown in portions --------------------------------------------
  const makeTable = (id, columns, options) => {
    const table = $(id), head = table.tHead, body = table.tBodies[0];
    let { rows, sort } = options, query = "", shown = CHUNK;
    const more = options.more ? $(options.more) : null;
    const refresh = () => {
      const column = columns.find((c) => c.key === sort.key);
      const matching = rows.filter((row) => !query || options.text(row).toLowerCase().includes(query));
      matching.sort((a, b) => {
        const [x, y] = [column.value(a), column.value(b)];
        const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
        return sort.down ? -order : order;
      });
      const visible = more ? matching.slice(0, shown) : matching;
      body.replaceChildren(...visible.map((row) => {
        const line = el("tr", {}, ...columns.map((c) => el("td", { class: c.number ? "number" : null }, c.show(row))));
        if (options.line) options.line(line, row);
        return line;
      }));
      if (more) more.hidden = matching.length <= shown;
      for (const th of head.rows[0].cells) {
        th.setAttribute("aria-sort", th.dataset.key !== sort.key ? "none" : sort.down ? "descending" : "ascending");
      }
      if (options.after) options.after(matching.length, rows.length);
    };
    head.replaceChildren(el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : null,
      "data-key": c.key }, el("button", { type: "button", onclick: () => {
      sort = { key: c.key, down: sort.key === c.key ? !sort.down : Boolean(c.number) };
      if (options.sorted) options.sorted(sort);
      refresh();
    } }, c.label)))));
    if (more) more.onclick = () => { shown += CHUNK; refresh(); };
    refresh();
    return { filter: (text) => { query = text.trim().toLowerCase(); shown = CHUNK; refresh(); } };
  };
  const kindLabel = (kind) => el("span", { class: "kind" },
    el("i", { style: `background:${COLOURS[kind] ?? COLOURS.unchanged}` }), kind);

  const fact = (what, value, note) => el("div", { class: "fact" }, el("div", { class: "what" }, what),
    el("div", { class: "value" }, value), ...(note ? [el("span", { class: "note" }, note)] : []));

  // ---- list of targets ----------------------------------------------------------------------------------------
  const drawSide = (sideNote, filter) => {
    $("side").hidden = false;
    $("targets").replaceChildren(...index.targets.map((target, i) => el("li", {}, el("button", {
      type: "button", id: "open-" + i, onclick: () => go(i),
    }, short(target.name, 40), el("small", {}, short(sideNote(target), 34))))));
    $("find").addEventListener("input", () => {
      const query = $("find").value.trim().toLowerCase();
      let hits = 0;
      index.targets.forEach((target, i) => {
        const hit = `${target.name} ${target.target}`.toLowerCase().includes(query);
        $("open-" + i).parentElement.hidden = !hit;
        hits += hit;
      });
      $("found").textContent = query ? `${count(hits)} of ${count(index.targets.length)} explained` : "";
      filter(query);
    });
    $("find").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const first = index.targets.findIndex((_, i) => !$("open-" + i).parentElement.hidden);
      if (first >= 0) go(first);
    });
    $("to-overview").onclick = () => go(-1);
  };

  // What lies so many steps before the end of a path; the last step to a graph or a link is no hop.
  const stationName = (unit, away) => {
    const hops = unit === "node" ? away : away - 1;
    if (away === 0) return `the ${unit}`;
    return hops === 0 ? (unit === "link" ? "its ends" : "its nodes") : hops === 1 ? "1 hop away" : `${hops} hops away`;
  };

  // ---- flow picture -------------------------------------------------------------------------------------------
  // Columns are hops, leaves left, the target right. A node's box is as high as the ribbons through it; the order in
  // a column follows the mean place of what it sends to, worked out from the target backwards.
  const drawFlow = ({ page, view, chosen, total: ofChosen, rest }) => {
    const whole = ofChosen + rest;  // what all altered paths carry; another model's share flows along none
    const width = 1060, top = 34, boxWidth = 11, gap = 9;
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
    const left = 120, right = 190, x = (t) => left + (width - left - right) * t / hops;
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
      `Flow picture: ${chosen.length} chosen paths and ${others} others change ${page.terms.of}${view.label} by ${signed(whole)}. `
      + "Left and right arrow keys go from ribbon to ribbon." });
    const defs = draw("defs");
    for (const [kind, colour] of Object.entries(COLOURS)) {
      defs.append(draw("pattern", { id: "hatch-" + kind, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        draw("rect", { width: 6, height: 6, fill: colour, opacity: 0.35 }), draw("rect", { width: 3, height: 6, fill: colour })));
    }
    svg.append(defs);
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
      const fill = item.share < 0 ? `url(#hatch-${item.kind})` : COLOURS[item.kind];
      const story = `${item.label}\n${item.kind === "rest" ? "all other paths, net" : item.kind}, ${signed(item.share, 4)} to ${page.terms.of}${view.label}`;
      const opens = item.path?.members ? item.path.row : item.path?.within;
      const hint = opens === undefined ? "" : item.path.members ? "\nclick to open it into its largest paths" : "\nclick to close the group";
      const group = draw("g", { class: item.bundle ? "ribbon bundle" : "ribbon", tabindex: ribbons.length ? -1 : 0, role: opens === undefined ? "img" : "button", "aria-label": story + hint, "data-key": item.key, "data-share": item.share },
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
      if (opens !== undefined) {
        group.dataset.opens = opens;
        group.addEventListener("click", () => { hideTip(); toggle(opens); });
        group.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          toggle(opens);
          document.querySelector(`#flow .ribbon[data-opens="${opens}"]`)?.focus();
        });
      }
      const pick = (on) => { svg.classList.toggle("picked", on); group.classList.toggle("on", on); mark(item.key, on); };
      group.addEventListener("mousemove", (event) => { pick(true); showTip(story + hint, event.clientX, event.clientY); });
      group.addEventListener("mouseleave", () => { pick(false); hideTip(); });
      group.addEventListener("focus", () => {
        pick(true);
        const box = group.getBoundingClientRect();
        showTip(story, box.left + box.width / 2, box.top + Math.min(box.height / 2, 80));
      });
      group.addEventListener("blur", () => { pick(false); hideTip(); });
      group.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        ribbons[(ribbons.indexOf(group) + step + ribbons.length) % ribbons.length].focus();
      });
      ribbons.push(group);
      svg.append(group);
    }
    columns.forEach((column, t) => {
      for (const box of column.values()) {
        const isRest = box.id === "rest";
        const bundle = box.id.startsWith("bundle") ? box.items[0].path.size : 0;
        const name = bundle ? `${count(bundle)} ${box.items[0].path.members ? "paths" : "more"}` : isRest ? `${count(others)} others` : box.id === "bias" ? "bias" : page.nameOf(Number(box.id));
        const rect = draw("rect", { x: x(t), y: box.y, width: boxWidth, height: Math.max(box.height, 1.5), rx: 2, fill: isRest ? "#b9c1ca" : "#2c3e50" });
        const story = `${name}\n${signed(sum(box.items.map((item) => item.share)), 4)} to ${page.terms.of}${view.label} over ${box.items.some((item) => item.kind === "rest") ? "all" : box.items.length} path${box.items.length === 1 ? "" : "s"} here`;
        rect.addEventListener("mousemove", (event) => showTip(story, event.clientX, event.clientY));
        rect.addEventListener("mouseleave", hideTip);
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
      const lines = [`${signed(whole)} ${page.causes.model ? "by the data" : "in all"}`, `${signed(up)} up, ${signed(whole - up)} down`];
      lines.forEach((line, i) => {
        const text = draw("text", { x: x(hops) + boxWidth + 8, y: end.y + end.height / 2 + 22 + 17 * i, class: "column" });
        text.textContent = line;
        svg.append(text);
      });
    }
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
    const kinds = [...new Set(chosen.map((path) => path.kind))];
    fillLegend("legend", Object.fromEntries(Object.entries(MEANING).filter(([kind]) => kinds.includes(kind) || kind === "rest")));
  };
  const fillLegend = (id, texts, ...more) => {
    const hatch = "repeating-linear-gradient(45deg,#666 0 3px,#c4c4c4 3px 6px)";
    $(id).replaceChildren(...Object.entries(texts).map(([kind, text]) => el("span", {}, el("i", { style: `background:${COLOURS[kind]}` }), text)),
      el("span", {}, el("i", { style: `background:${hatch}` }), "hatched: pushes down"), ...more);
  };

  // ---- charts -------------------------------------------------------------------------------------------------
  const font = { family: "system-ui, sans-serif", size: 12.5, color: "#1b2430" };
  const config = { displayModeBar: false, responsive: true };
  // Bars that push down. Plotly leaves the ground of a pattern empty unless told: white lines on it would be all of it.
  const hatched = (which, colours) => ({
    shape: which.map((down) => (down ? "/" : "")), size: 6, solidity: 0.35, fgcolor: "#fff", bgcolor: colours,
  });
  const layout = (extra) => ({
    font, margin: { l: 60, r: 16, t: 8, b: 44 }, height: 280, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    hoverlabel: { font: { family: font.family, size: 12.5 } }, ...extra,
  });

  const drawProbabilities = ({ page }) => {
    const order = page.classes.map((_, k) => k)
      .sort((i, j) => Math.max(page.prob_before[j], page.prob_after[j]) - Math.max(page.prob_before[i], page.prob_after[i]));
    const kept = order.slice(0, 10).sort((i, j) => i - j);
    const labels = kept.map((k) => forPlotly(short(page.classes[k], 22)));
    const bars = (name, values, colour) => ({
      type: "bar", name, x: kept.map((_, i) => i), y: kept.map((k) => values[k]), marker: { color: colour },
      text: kept.map((k) => values[k].toFixed(2)), textposition: "outside", cliponaxis: false,
      customdata: kept.map((k) => forPlotly(page.classes[k])), hovertemplate: `%{customdata}<br>${name}: %{y:.4f}<extra></extra>`,
    });
    Plotly.react("probabilities", [bars("before", page.prob_before, "#a9b8c9"), bars("after", page.prob_after, "#17456e")], layout({
      barmode: "group", bargap: 0.28, xaxis: { tickvals: kept.map((_, i) => i), ticktext: labels, automargin: true, title: { text: page.values ? "value" : order.length > kept.length ? "the ten likeliest classes" : "class" } },
      yaxis: page.values ? { title: { text: "value" }, gridcolor: "#edf0f3" }
        : { range: [0, 1.08], title: { text: "probability" }, gridcolor: "#edf0f3", tickvals: [0, 0.25, 0.5, 0.75, 1] },
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.14 }, margin: { l: 56, r: 12, t: 26, b: 44 },
    }), config);
    $("probabilities").setAttribute("aria-label", "Probabilities. " + kept.map((k) =>
      `${page.classes[k]}: ${plain(page.prob_before[k], 2)} before, ${plain(page.prob_after[k], 2)} after`).join("; "));
  };

  const drawFrontier = ({ page, choice }) => {
    const x = page.choices.map((c) => c.budget), residual = page.choices.map((c) => c.kl_residual), bound = page.choices.map((c) => c.kl_bound);
    Plotly.react("frontier", [
      { x, y: bound, mode: "lines", name: "no choice leaves less", line: { color: "#8a97a6", dash: "dot", width: 1.6 }, hovertemplate: "bound %{y:.4g}<extra></extra>" },
      { x, y: residual, mode: "lines+markers", name: page.terms.left, line: { color: "#17456e", width: 2 }, marker: { size: 6 }, fill: "tonexty", fillcolor: "rgba(23,69,110,.10)", hovertemplate: "%{x} paths leave %{y:.4g}<extra></extra>" },
      { x: [choice.budget], y: [choice.kl_residual], mode: "markers", marker: { size: 14, color: "#f0a202", line: { color: "#17456e", width: 2 } }, showlegend: false, hoverinfo: "skip" },
    ], layout({
      xaxis: { title: { text: "paths in the explanation" }, gridcolor: "#edf0f3", zeroline: false }, yaxis: { title: { text: page.terms.left + (page.values ? "" : ", nats") }, rangemode: "tozero", gridcolor: "#edf0f3", zeroline: false },
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.14 }, margin: { l: 62, r: 14, t: 26, b: 44 },
    }), config);
    const chart = $("frontier");
    if (!chart.dataset.ready) {
      chart.dataset.ready = "1";
      chart.on("plotly_click", (event) => {
        const wanted = load(state.page).choices.findIndex((c) => c.budget === event.points[0].x);
        if (wanted >= 0) { state.choice = wanted; refresh(); }
      });
    }
    chart.setAttribute("aria-label", page.terms.left + " by budget: " + page.choices.map((c) => `${c.budget} paths ${plain(c.kl_residual, 4)}`).join("; "));
    $("certificate").textContent = `Certificate: these ${count(choice.chosen.length)} ${hasGroups(page, choice) ? "units" : "paths"} leave ${plain(choice.kl_residual, 4)}${page.terms.nats}, and no choice `
      + `of as many ${hasGroups(page, choice) ? "of the units as they were opened " : ""}leaves less than ${plain(choice.kl_bound, 4)}; at most ${plain(Math.max(choice.gap, 0), 4)} could be gained by choosing better.`;
  };

  const drawWaterfall = ({ page, view, chosen, before, after, model, rest }) => {
    const others = page.num_paths - held(chosen);
    const ordered = [...chosen].sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
    const steps = ordered.slice(0, MAX_STEPS).map((path) => ({ label: path.label, kind: path.kind, share: path.share }));
    if (ordered.length > MAX_STEPS) steps.push({ label: `${ordered.length - MAX_STEPS} more chosen paths`, kind: "unchanged", share: sum(ordered.slice(MAX_STEPS).map((path) => path.share)) });
    if (others > 0) steps.push({ label: `${count(others)} other paths`, kind: "rest", share: rest });
    if (page.causes.model) steps.unshift({ label: "the retrained model", kind: "model", share: model });
    let level = before;
    const bases = steps.map((step) => { const base = level; level += step.share; return base; });
    const names = ["before", ...steps.map((step) => forPlotly(short(step.label, 46))), "after"];
    const links = { x: [], y: [] };
    [before, ...steps.map((step, i) => bases[i] + step.share)].forEach((value, i) => { links.x.push(value, value, null); links.y.push(i, i + 1, null); });
    const levels = [before, after, ...bases, ...bases.map((base, i) => base + steps[i].share)];
    const [low, high] = [Math.min(...levels), Math.max(...levels)];
    const pad = 0.09 * (high - low || 1);
    Plotly.react("waterfall", [
      { ...links, mode: "lines", line: { color: "#9aa6b2", width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
      { type: "bar", orientation: "h", y: steps.map((_, i) => i + 1), x: steps.map((step) => step.share), base: bases, width: 0.66,
        marker: { color: steps.map((step) => COLOURS[step.kind]), pattern: hatched(steps.map((step) => step.share < 0), steps.map((step) => COLOURS[step.kind])) },
        text: steps.map((step) => signed(step.share)), textposition: "outside", cliponaxis: false, showlegend: false,
        customdata: steps.map((step) => [forPlotly(step.label), step.kind === "rest" ? "net" : step.kind]), hovertemplate: "%{customdata[0]}<br>%{customdata[1]}, %{x:+.4f}<extra></extra>" },
      { x: [before, after], y: [0, steps.length + 1], mode: "markers+text", marker: { symbol: "diamond", size: 13, color: ["#a9b8c9", "#17456e"] }, cliponaxis: false,
        text: [plain(before), plain(after)], textposition: "middle right", showlegend: false, hovertemplate: "%{x:.4f}<extra></extra>" },
    ], layout({
      height: 96 + 26 * names.length, margin: { l: 60, r: 70, t: 6, b: 44 },
      xaxis: { range: [low - pad, high + pad], title: { text: `${page.terms.of.replace("the ", "")}${forPlotly(short(view.label, 60))}` }, gridcolor: "#edf0f3", zeroline: true, zerolinecolor: "#b6c0cb" },
      yaxis: { tickvals: names.map((_, i) => i), ticktext: names, range: [names.length - 0.4, -0.6], automargin: true, zeroline: false, gridcolor: "#f5f7f9", fixedrange: true },
    }), config);
    $("waterfall").setAttribute("aria-label", `Waterfall of ${page.terms.of}${view.label}: from ${plain(before)} before to ${plain(after)} after. `
      + steps.map((step) => `${step.label} ${signed(step.share)}`).join("; "));
  };

  // ---- one target ---------------------------------------------------------------------------------------------
  const hasGroups = (page, choice) => choice.chosen.some((row) => page.paths[row].members);
  const drawNumbers = ({ page, choice }) => {
    const item = (what, value, note, key, exact) => el("div", { class: "fact" }, el("dt", {}, what),
      el("dd", { id: "number-" + key, "data-value": exact }, value, ...(note ? [el("span", { class: "note" }, note)] : [])));
    $("numbers").replaceChildren(
      item("explained", percent(choice.explained), page.values ? "of the way" : "of the change of the distribution", "explained", choice.explained),
      item(page.terms.left, plain(choice.kl_residual, 4), `of ${plain(page.kl_whole, 4)}${page.terms.nats}`, "residual", choice.kl_residual),
      item("bound", plain(choice.kl_bound, 4), "no choice of this size leaves less", "bound", choice.kl_bound),
      item("fidelity −", plain(choice.fidelity_minus), "paths undone in after; 0 is best", "minus", choice.fidelity_minus),
      item("fidelity +", plain(choice.fidelity_plus), "paths added to before; 0 is best", "plus", choice.fidelity_plus),
      item("paths", `${count(choice.chosen.length)} / ${count(page.num_paths)}`, hasGroups(page, choice) ? "units, groups among them, of all altered paths" : "chosen of all altered", "paths", choice.chosen.length),
    );
  };

  const drawCauses = ({ page, view }) => {
    const rows = Object.entries(page.causes).map(([kind, shares]) => ({ kind, share: dot(shares, view.weights) }));
    makeTable("causes", [
      { key: "kind", label: "Cause", value: (r) => r.kind, show: (r) => kindLabel(r.kind) },
      { key: "what", label: "Meaning", value: (r) => r.kind, show: (r) => MEANING[r.kind].replace(/^.*?: /, "") },
      { key: "share", label: `Share of ${page.terms.of}${view.label}`, number: true, value: (r) => r.share, show: (r) => signed(r.share) },
    ], { rows, sort: { key: "share", down: true } });
  };

  const showUnit = (path, view) => {
    if (!path.members) return path.label;
    const open = state.open.has(path.row);
    const button = el("button", { type: "button", class: "link", "aria-expanded": String(open), onclick: () => {
      toggle(path.row);
      document.querySelector(`#paths tr[data-row="${path.row}"] .link`)?.focus();
    } }, path.label);
    if (!open) return button;
    const parts = partsOf(path, view).map((part) => el("li", {}, `${part.members === null ? `${count(part.size)} more` : part.label}: ${signed(part.share, 4)}`));
    return el("div", {}, button, el("ul", { class: "members" }, ...parts));
  };
  let pathsTable = null;
  const drawPaths = ({ page, chosen, view }) => {
    pathsTable = makeTable("paths", [
      { key: "rank", label: "#", value: (r) => r.rank, show: (r) => String(r.rank) },
      { key: "path", label: "Path, leaf to root", value: (r) => r.label, show: (r) => showUnit(r, view) },
      { key: "kind", label: "Kind", value: (r) => r.kind, show: (r) => kindLabel(r.kind) },
      { key: "share", label: page.values ? view.label : `Logit of ${view.label}`, number: true, value: (r) => r.share, show: (r) => signed(r.share, 4) },
      { key: "weight", label: "Weight", number: true, value: (r) => r.weight, show: (r) => plain(r.weight, 2) },
    ], {
      rows: chosen, sort: state.sort, text: (r) => `${r.label} ${r.kind}`, sorted: (sort) => { state.sort = sort; },
      line: (line, row) => {
        line.dataset.row = row.row;
        line.addEventListener("mouseenter", () => markRibbon(row.row, true));
        line.addEventListener("mouseleave", () => markRibbon(row.row, false));
      },
    });
    pathsTable.filter($("search-paths").value);
  };

  // ---- what happened: a waterfall of changes --------------------------------------------------------------------
  const drawHappened = (page) => {
    const told = page.happened, card = $("happened");
    if (!card) return;  // a story has none
    card.hidden = !told;
    if (!told) return;
    $("undo").textContent = told.undo ?? "";
    $("undo").hidden = !told.undo;
    $("blame-note").textContent = told.note;
    const steps = told.blame ? [...told.blame] : [];
    if (told.rest) steps.push({ name: `${count(told.rest.count)} more`, share: told.rest.share, error: 0, carried: [], rest: true });
    let level = told.before;
    const ends = [told.before, told.after];
    for (const step of steps) { step.from = level; level += step.share; step.to = level; ends.push(level); }
    const low = Math.min(0, ...ends), high = Math.max(...ends, low + 1e-12);
    const line = (name, from, to, value, colour, below) => {
      const left = 100 * (Math.min(from, to) - low) / (high - low), width = 100 * Math.abs(to - from) / (high - low);
      const bar = el("i", { style: `left:${left}%;width:max(2px,${width}%);background:${colour}` });
      return el("tr", {}, el("th", { scope: "row" }, name, ...below), el("td", { class: "track" }, el("div", {}, bar)),
        el("td", { class: "number" }, value));
    };
    const carriers = (step) => {
      const labels = step.carried.map((row) => page.paths[row].label);
      if (!labels.length) return [];
      const more = labels.length > 2 ? `, and ${count(labels.length - 2)} more` : "";
      return [el("small", {}, `carried by ${labels.slice(0, 2).join(", ")}${more}`)];
    };
    const shown = (v) => plain(v, 3);
    $("blame").tBodies[0].replaceChildren(...(told.blame ? [
      line("before", 0, told.before, shown(told.before), COLOURS.unchanged, []),
      ...steps.map((step) => line(step.name, step.from, step.to,
        signed(step.share) + (step.error ? ` ± ${plain(step.error, 3)}` : ""),
        step.rest ? COLOURS.rest : step.share >= 0 ? COLOURS.gained : COLOURS.lost, carriers(step))),
      line("after", 0, told.after, shown(told.after), COLOURS.unchanged, []),
    ] : []));
    $("blame").hidden = !told.blame;
  };

  const tell = ({ page, choice }) => {
    $("headline").textContent = page.headline;
    $("sentence").textContent = choice.of_models ? `${choice.of_models} ${choice.replayed}` : page.num_paths === 0 ? "Nothing that reaches it changed." : choice.chosen.length === 0
      ? `None of its ${count(page.num_paths)} altered paths is chosen${slider ? ": move the slider" : ""}.`
      : `${choice.told} explain ${percent(choice.explained)} of the change. ${choice.replayed}`;
    $("sentence").classList.toggle("warned", choice.disagrees);
    const goal = page.objective === "sufficiency" ? "added to before they should give after" : "taken from after they should leave before";
    $("method-note").textContent = `Paths chosen by the method ${page.method} for ${page.objective} (${goal}). Contributions of all altered paths${page.causes.model ? " and the model's share" : ""} sum to `
      + `the change of every ${page.values ? "value" : "logit"} to ${plain(page.completeness, 12) === "0.000000000000" ? "rounding" : page.completeness.toExponential(0)}. Solver: ${choice.status}`;
  };

  const slider = $("budget");  // a story has one budget, and no slider
  const refresh = () => {
    const now = current();
    if (slider) {
      slider.max = now.page.choices.length - 1;
      slider.value = state.choice;
      slider.disabled = now.page.choices.length < 2;
      slider.setAttribute("aria-valuetext", `${now.choice.budget} paths, ${percent(now.choice.explained)} explained`);
      $("budget-value").textContent = count(now.choice.chosen.length);
    }
    setNumber($("sum-chosen"), now.total);
    setNumber($("sum-rest"), now.rest);
    $("model-part").hidden = !now.page.causes.model;
    setNumber($("sum-model"), now.model);
    setNumber($("sum-whole"), now.whole);
    tell(now);
    drawNumbers(now);
    drawLegend(now);
    drawFlow(now);
    drawCauses(now);
    drawPaths(now);
    clearTimeout(charting);
    charting = withPlotly(drawCharts);
  };
  // Plotly is four megabytes of script: it is run when the first charts are wanted, after the rest has been painted.
  let charting = 0;
  const withPlotly = (drawing) => {
    if (window.Plotly) return drawing() ?? 0;
    return setTimeout(() => {
      if (!window.Plotly) {
        const script = document.createElement("script");
        script.textContent = $("plotly").textContent;
        document.head.append(script);
      }
      drawing();
    }, 30);
  };
  const drawCharts = () => {
    const now = current();
    if ($("probabilities")) drawProbabilities(now);
    if ($("frontier")) drawFrontier(now);
    drawWaterfall(now);
  };

  // Opens with the smallest budget that explains nine tenths, else with about ten paths.
  const firstChoice = (page) => {
    const good = page.choices.findIndex((c) => c.chosen.length > 0 && c.explained >= 0.9);
    const ten = page.choices.findLastIndex((c) => c.budget <= 10);
    return good >= 0 ? good : Math.max(ten, 0);
  };

  // One change of one target: the page of that number, seen through one of these views.
  const showPage = (number, views = null, view = 0) => {
    const page = load(number);
    if (views) page.views = views;
    state.page = number;
    state.open.clear();
    state.choice = firstChoice(page);
    state.view = view;
    $("search-paths").value = "";
    drawHappened(page);
    refresh();
  };
  const fillViews = (views) => $("view").replaceChildren(...views.map((view, k) => el("option", { value: k }, view.label)));

  let kind = null;  // of report: { overview, open, sideNote, filter, view }
  const setHash = (hash) => { if (location.hash !== hash) history.replaceState(null, "", hash); };
  const go = (i) => {
    hideTip();
    document.querySelectorAll("nav [aria-current]").forEach((node) => node.removeAttribute("aria-current"));
    const button = i < 0 ? $("to-overview") : $("open-" + i);
    if (button) { button.setAttribute("aria-current", "page"); button.scrollIntoView({ block: "nearest" }); }
    $("overview").hidden = i >= 0;
    $("target").hidden = i < 0;
    state.target = i;
    scrollTo(0, 0);
    if (i < 0) { setHash("#all"); return; }
    $("previous").disabled = i === 0;
    $("next").disabled = i === index.targets.length - 1;
    kind.open(i);
  };

  const fromHash = () => {
    const wanted = /^#node=(-?\d+(?:-\d+)?)(&|$)/.exec(location.hash);
    const i = wanted ? index.targets.findIndex((target) => String(target.target) === wanted[1]) : -1;
    return i >= 0 ? i : kind.overview ? -1 : 0;
  };
  slider?.addEventListener("input", () => { state.choice = Number(slider.value); refresh(); });
  $("view").addEventListener("change", () => {
    state.view = Number($("view").value);
    if (kind.view) kind.view(state.view);
    else refresh();
  });
  $("search-paths").addEventListener("input", () => pathsTable.filter($("search-paths").value));
  $("previous").onclick = () => go(state.target - 1);
  $("next").onclick = () => go(state.target + 1);
  document.querySelector(".steps").hidden = index.targets.length < 2;
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("hashchange", () => go(fromHash()));
  const start = (particular) => {
    kind = particular;
    if (kind.overview) { kind.overview(); drawSide(kind.sideNote, kind.filter); }
    if (kind.overview || index.targets.length) go(fromHash());
  };
  return {
    $, COLOURS, config, count, dot, el, fact, fillLegend, fillViews, forPlotly, go, hatched, index, layout, makeTable, plain, setHash, setNumber,
    short, showPage, signed, start, sum, viewsOf, withPlotly, load,
  };
})();
