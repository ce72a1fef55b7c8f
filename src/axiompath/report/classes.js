// From which class to which: flips as bands between two columns, as wide as they are many.
const CLASS_TONES = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#edc948", "#76b7b2", "#9c755f", "#ff9da7"];
const drawClassFlow = (id, flows, classes, pick) => {
  const width = isNarrow() ? 330 : 560, box = 14, gap = 8, top = 24, left = isNarrow() ? 104 : 150, labels = [...new Set(flows.flatMap(([a, b]) => [a, b]))].sort((a, b) => a - b);
  const tone = (label) => CLASS_TONES[labels.indexOf(label) % CLASS_TONES.length];
  const total = sum(flows.map((flow) => flow[2])), height = Math.max(180, Math.min(460, 60 + 44 * labels.length));
  const place = (side) => {
    const used = labels.filter((label) => flows.some((flow) => flow[side] === label));
    const scale = (height - top - 10 - gap * (used.length - 1)) / total;
    let y = top;
    return new Map(used.map((label) => {
      const size = sum(flows.filter((flow) => flow[side] === label).map((flow) => flow[2]));
      const at = { y, height: size * scale, next: y, size, scale };
      y += at.height + gap;
      return [label, at];
    }));
  };
  const [from, to] = [place(0), place(1)];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Flips from class to class: ${flows.slice(0, 10).map(([a, b, n]) => `${classes[a]} to ${classes[b]} ${count(n)}`).join("; ")}` });
  ["before", "after"].forEach((text, side) => {
    const node = draw("text", { x: side ? width - left + 6 : left - 6, y: 14, "text-anchor": side ? "start" : "end", class: "column" });
    node.textContent = text;
    svg.append(node);
  });
  for (const [a, b, n] of flows) {
    const [u, v] = [from.get(a), to.get(b)], [x0, x1] = [left + box, width - left - box], middle = (x0 + x1) / 2;
    const [h0, h1] = [Math.max(n * u.scale, 1), Math.max(n * v.scale, 1)];
    const d = `M${x0} ${u.next}C${middle} ${u.next} ${middle} ${v.next} ${x1} ${v.next}v${h1}C${middle} ${v.next + h1} ${middle} ${u.next + h0} ${x0} ${u.next + h0}Z`;
    u.next += n * u.scale;
    v.next += n * v.scale;
    const text = `${classes[a]} → ${classes[b]}: ${count(n)}`;
    const band = withTip(draw("path", { d, fill: tone(b), class: "band" }), `${text}; click to show them in the table`, () => pick(a, b));
    svg.append(band);
  }
  [[from, left, "end", -6], [to, width - left - box, "start", box + 6]].forEach(([side, x, anchor, off]) => side.forEach((at, label) => {
    svg.append(draw("rect", { x, y: at.y, width: box, height: Math.max(at.height, 1), fill: tone(label), rx: 2 }));
    if (at.height < 9 && side.size > 12) return;
    const text = draw("text", { x: x + off, y: at.y + at.height / 2 + 4, "text-anchor": anchor });
    text.textContent = `${short(classes[label], isNarrow() ? 9 : 15)}: ${count(at.size)}`;
    svg.append(text);
  }));
  $(id).replaceChildren(svg);
};
