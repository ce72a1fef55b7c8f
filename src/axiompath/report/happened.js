// What happened: a waterfall of the changes of the graph.
const drawHappened = (page) => {
  const happened = page.happened, card = $("happened");
  if (!card) return;  // a story has none
  card.hidden = !happened;
  if (!happened) return;
  $("undo").textContent = happened.undo ?? "";
  $("undo").hidden = $("undo-title").hidden = !happened.undo;
  const single = happened.to_undo ?? [], left = happened.to_undo_more ?? 0;
  $("to-undo").hidden = !single.length;
  $("to-undo").replaceChildren(el("summary", {}, `These changes one by one (${count(single.length + left)})`),
    el("ul", { class: "parts" }, ...single.map((words) => el("li", {}, words)), ...(left ? [el("li", {}, `and ${count(left)} more`)] : [])));
  $("blame-note").textContent = happened.note;
  $("differs").textContent = happened.differs ?? "";
  const steps = happened.blame ? [...happened.blame] : [];
  if (happened.rest) steps.push({ name: `${count(happened.rest.count)} more`, share: happened.rest.share, error: 0, carried: [], rest: true });
  const carriers = (step) => {
    const labels = step.carried.map((row) => page.paths[row].label);
    if (!labels.length) return [];
    const more = labels.length > 2 ? `, and ${count(labels.length - 2)} more` : "";
    return [el("small", {}, `carried by ${labels.slice(0, 2).join(", ")}${more}`)];
  };
  $("blame").hidden = !happened.blame;
  if (happened.blame) drawSteps("blame", happened.before, happened.after, steps.map((step) => ({ label: step.name, share: step.share, error: step.error,
    colour: step.rest ? COLOURS.rest : step.share >= 0 ? COLOURS.gained : COLOURS.lost, below: carriers(step) })));
};
