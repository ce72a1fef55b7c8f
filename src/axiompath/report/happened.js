// What happened: a waterfall of the changes of the graph.
const drawHappened = (page) => {
  const happened = page.happened, card = $("happened");
  if (!card) return;  // a story has none
  card.hidden = !happened;
  if (!happened) return;
  $("undo").textContent = happened.undo ?? "";
  $("undo").hidden = $("undo-title").hidden = !happened.undo;
  $("blame-note").textContent = happened.note;
  $("differs").textContent = happened.differs ?? "";
  const steps = happened.blame ? [...happened.blame] : [];
  if (happened.rest) steps.push({ name: `${count(happened.rest.count)} more`, share: happened.rest.share, error: 0, carried: [], rest: true });
  let level = happened.before;
  const ends = [happened.before, happened.after];
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
  const shown = (v) => plain(v, apart(happened.before, happened.after, 3));
  $("blame").tBodies[0].replaceChildren(...(happened.blame ? [
    line("before", 0, happened.before, shown(happened.before), COLOURS.unchanged, []),
    ...steps.map((step) => line(step.name, step.from, step.to,
      signed(step.share) + (step.error ? ` ± ${plain(step.error, 3)}` : ""),
      step.rest ? COLOURS.rest : step.share >= 0 ? COLOURS.gained : COLOURS.lost, carriers(step))),
    line("after", 0, happened.after, shown(happened.after), COLOURS.unchanged, []),
  ] : []));
  $("blame").hidden = !happened.blame;
};
