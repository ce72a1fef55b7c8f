// The target's neighbourhood in both graphs as one drawing, its spots where Python laid them.
const GATHERED = -1, STATES = ["kept", "added", "removed"];
const drawNeighbourhood = ({ page, view, chosen }) => {
  const around = page.around, card = $("around");
  if (!card) return;
  card.hidden = !around;
  if (!around) return;
  const many = around.ids.length, narrow = isNarrow();
  const width = narrow ? 460 : 1060, height = narrow ? (many > 60 ? 640 : 460) : many > 60 ? 720 : many > 15 ? 560 : 400, padX = narrow ? 40 : 90, padY = 34;
  const spotOf = new Map(around.ids.map((id, spot) => [id, spot]));
  const xs = around.places.map((p) => p[0]), ys = around.places.map((p) => p[1]);
  const scaled = (v, low, high, from, to) => (high - low < 1e-9 ? (from + to) / 2 : from + (to - from) * (v - low) / (high - low));
  const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const at = around.places.map(([x, y]) => [scaled(x, box[0], box[1], padX, width - padX), scaled(-y, -box[3], -box[2], padY, height - padY)]);
  const colourOf = new Map(around.colours.map(([label, , colour]) => [label, colour]));
  const nameOf = new Map(around.colours.map(([label, name]) => [label, name]));
  const changed = around.edges.filter((edge) => edge[2]);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Neighbourhood of ${page.name}: ${count(around.num_nodes)} nodes, `
    + `${sum(changed.map((edge) => (edge[2] === 1 ? edge[3] : 0)))} edges added, ${sum(changed.map((edge) => (edge[2] === 2 ? edge[3] : 0)))} removed or expired. Arrow keys go from node to node.` });
  if (around.directed) {
    svg.append(draw("defs", {}, ...STATES.map((state) => draw("marker", { id: "arrow-" + state, viewBox: "0 0 8 8", refX: 13, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" },
      draw("path", { d: "M0 0L8 4L0 8Z", class: "arrow " + state })))));
  }
  // Chosen paths below everything: flows as wide as their shares.
  const through = new Map(), most = Math.max(...chosen.map((path) => Math.abs(path.share)), 1e-12);
  for (const path of chosen) {
    const spots = path.nodes.filter((node) => spotOf.has(node)).map((node) => spotOf.get(node));
    for (const spot of new Set(spots)) through.set(spot, [...(through.get(spot) ?? []), path.share]);
    if (spots.length < 2) continue;
    let d = `M${at[spots[0]].map((v) => v.toFixed(1)).join(" ")}`;
    for (let i = 1; i < spots.length; i++) {
      const [a, b] = [at[spots[i - 1]], at[spots[i]]];
      d += `Q${((a[0] + b[0]) / 2 + 0.08 * (a[1] - b[1])).toFixed(1)} ${((a[1] + b[1]) / 2 + 0.08 * (b[0] - a[0])).toFixed(1)} ${b[0].toFixed(1)} ${b[1].toFixed(1)}`;
    }
    svg.append(withTip(draw("path", { d, class: "flow", stroke: COLOURS[path.kind], "stroke-width": (3 + 13 * Math.abs(path.share) / most).toFixed(1), "stroke-dasharray": path.share < 0 ? "9 6" : "none" }),
      `${path.label}\n${path.kind}, ${signed(path.share, 4)} to ${view.measure}`, null, false));
  }
  for (const [u, v, state, number] of [...around.edges].sort((a, b) => a[2] - b[2])) {
    const faint = !state && (around.ids[u] === GATHERED || around.ids[v] === GATHERED) ? " faint" : "";
    const line = draw("line", { x1: at[u][0], y1: at[u][1], x2: at[v][0], y2: at[v][1], class: "edge " + STATES[state] + faint, "stroke-width": (state ? 2.4 : 1) + Math.min(4, Math.log2(number)),
      ...(around.directed ? { "marker-end": `url(#arrow-${STATES[state]})` } : {}) });
    svg.append(withTip(line, `${around.names[u]} ${around.directed ? "→" : "–"} ${around.names[v]}\n${number > 1 ? `${count(number)} edges` : "edge"} ${STATES[state]}`, null, false));
  }
  const spots = [], labels = [];
  around.ids.forEach((id, spot) => {
    const [x, y] = at[spot], [before, after] = around.classes[spot], centre = around.hops[spot] === 0;
    const r = (centre ? 11 : around.ids.length > 120 ? 5 : 7) + 3 * Math.log10(around.sizes[spot]);
    const fill = (label) => colourOf.get(label) ?? "var(--unchanged)";
    const shares = through.get(spot) ?? [];
    const classes = colourOf.size === 0 ? "" : before === after ? `\n${nameOf.get(after) ?? "no prediction"}` : `\n${nameOf.get(before) ?? "not there"} → ${nameOf.get(after) ?? "not there"}`;
    const text = `${id === GATHERED ? `${count(around.sizes[spot])} nodes, ${around.hops[spot]} hops away` : around.names[spot]}${classes}`
      + (shares.length ? `\n${signed(sum(shares), 4)} to ${view.measure} over ${shares.length} chosen path${shares.length === 1 ? "" : "s"}` : "");
    const half = (label, sweep) => draw("path", { d: `M${x} ${y - r}A${r} ${r} 0 0 ${sweep} ${x} ${y + r}Z`, fill: fill(label) });
    const node = draw("g", { class: centre ? "spot centre" : "spot" },
      ...(before === after ? [draw("circle", { cx: x, cy: y, r, fill: fill(after) })] : [half(before, 0), half(after, 1)]), draw("circle", { cx: x, cy: y, r, class: "rim" }));
    withTip(node, text);
    spots.push(node);
    svg.append(node);
    const weight = 8 * centre + 4 * through.has(spot) + 2 * changed.some((edge) => edge[0] === spot || edge[1] === spot) + (id === GATHERED);
    if (weight) labels.push({ weight, x, y, r, text: short(around.names[spot], 22), centre });
  });
  withArrows(spots);
  // Names beside what matters, as many as do not run into each other.
  const taken = at.map(([x, y], spot) => [x - 5, y - 5, x + 5, y + 5, spot]);
  const free = (b) => taken.every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3]);
  for (const label of labels.sort((a, b) => b.weight - a.weight).slice(0, 40)) {
    const long = 7 * label.text.length;
    const tries = [[label.r + 4, 4], [-label.r - 4 - long, 4], [-long / 2, -label.r - 5], [-long / 2, label.r + 15]];
    const found = tries.map(([dx, dy]) => [label.x + dx, label.y + dy]).find(([x, y]) => x > 2 && x + long < width && y > 12 && y < height && free([x, y - 11, x + long, y + 3]));
    if (!found && !label.centre) continue;
    const [x, y] = found ?? [label.x + label.r + 4, label.y + 4];
    taken.push([x, y - 11, x + long, y + 3]);
    const text = draw("text", { x, y, class: "halo", ...(label.centre ? { "font-weight": 650 } : {}) });
    text.textContent = label.text;
    svg.append(text);
  }
  $("around-picture").replaceChildren(svg);
  const dash = (name, style) => el("span", {}, el("i", { style: `height:0;border-top:3px ${style}` }), name);
  $("around-legend").replaceChildren(...around.colours.map(([, name, colour]) => el("span", {}, el("i", { style: `background:${colour};width:12px;border-radius:50%` }), short(name, 30))),
    dash("edge added", "solid var(--gained)"), dash("edge removed or expired", "dashed var(--lost)"), el("span", {}, el("i", { style: "background:var(--gained);opacity:.4" }), "chosen path"));
  const gathered = around.ids.filter((id) => id === GATHERED).length;
  $("around-note").textContent = `${count(around.num_nodes)} nodes from which messages reach it, before and after in one drawing.`
    + (around.classes.some(([a, b]) => a !== b) ? " In two halves: the class before and the class after." : "") + (gathered ? " The larger spots are many nodes of one distance and one class." : "");
};
