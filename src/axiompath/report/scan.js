// Everything that moved in a scan, or step by step in a sequence: what did it, what explanations share, and all of them.
(() => {
  const { steps, values } = index, several = steps.length > 1, what = values ? "value" : "probability";
  const CAUSES = index.causes;
  const CAUSE_NAMES = { gained: "edges gained", lost: "edges lost", reweighted: "renormalised", feature: "features", "edge feature": "features of edges", statistics: "statistics", model: "the model" };
  const offsets = steps.map((_, s) => sum(steps.slice(0, s).map((step) => step.rows)));
  const inFile = new Map(index.targets.map((target, i) => [`${target.step}.${target.row}`, i]));
  const classes = Object.assign({}, ...steps.map((step) => step.classes));
  const stepOf = (i) => offsets.findLastIndex((offset) => offset <= i);
  let chosen = several ? -1 : 0, grid = null, filter = { text: "", from: "", to: "", cause: "", flips: false };

  const amount = (v) => (v >= 100 ? count(Math.round(v)) : v.toPrecision(3));

  // ---- a row's own page ------------------------------------------------------------------------------------------
  const canOpen = (step, row) => index.served || inFile.has(`${step}.${row}`);
  const openRow = async (step, row) => {
    const key = `${step}.${row}`;
    if (!inFile.has(key)) {
      const answer = await fetch(`page/${step}/${row}`);
      if (!answer.ok) { $("grid-note").textContent = await answer.text(); return; }
      const page = await answer.json(), i = index.targets.length;
      index.targets.push({ target: page.target, name: page.name, step, row, note: page.note });
      pages.set(i, prepare(page));
      inFile.set(key, i);
    }
    go(inFile.get(key));
  };
  const link = (name, step, row) => (canOpen(step, row) ? el("button", { type: "button", class: "link", onclick: () => openRow(step, row) }, name) : document.createTextNode(name));

  // ---- overview --------------------------------------------------------------------------------------------------
  const merged = () => {
    const total = sum(steps.map((s) => s.total)) || 1;
    const flows = new Map(), causes = {}, kinds = new Map();
    for (const step of steps) {
      for (const [a, b, n] of step.flows) flows.set(`${a} ${b}`, [a, b, (flows.get(`${a} ${b}`)?.[2] ?? 0) + n]);
      for (const [cause, part] of Object.entries(step.causes)) causes[cause] = (causes[cause] ?? 0) + part * step.total / total;
      for (const [kind, tone, part] of step.kinds) kinds.set(kind, [kind, tone, (kinds.get(kind)?.[2] ?? 0) + part * step.total / total]);
    }
    const statements = steps.flatMap((step, s) => step.statements.map((one) => ({ ...one, s, carried: one.carried * step.total / total, text: `${step.name}: ${one.text}`,
      members: one.members.map(([text, part]) => [text, part * step.total / total]) }))).sort((a, b) => b.carried - a.carried).slice(0, 10);
    const largest = steps.map((step, s) => ({ step, s })).filter(({ step }) => step.lead.length).sort((a, b) => b.step.flipped - a.step.flipped || b.step.total - a.step.total)[0];
    const counted = (key) => sum(steps.map((s) => s[key]));
    const unusual = index.unusual.map((s) => steps[s].name);
    return { name: "all steps", moved: counted("moved"), flipped: counted("flipped"), explained: counted("explained"), total, causes, flows: [...flows.values()].sort((a, b) => b[2] - a[2]), statements,
      kinds: [...kinds.values()].sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])), spread: [], s: largest?.s, lead: largest ? [`In the step with the largest change, ${largest.step.name}: ${largest.step.lead[0]}`, ...largest.step.lead.slice(1)] : [],
      coverage: `The ten largest causes of all steps account for ${percent(sum(statements.map((one) => one.carried)))} of the ${what} moved. Choose a step to see all of its causes.`,
      words: [`Over ${count(steps.length)} steps ${count(counted("moved"))} predictions moved${index.flip ? `, ${count(counted("flipped"))} of them ${index.flip}` : ""}. Total change in ${what}: ${amount(total)}.`,
        unusual.length ? `More than usual moved at ${unusual.join(", ")}.` : steps.length > 3 ? "No step moved much more than the others." : ""] };
  };
  const drawTime = () => {
    const kinds = CAUSES.filter((cause) => steps.some((s) => s.causes[cause] > 0));
    drawColumns("time", steps.map((s) => s.name), kinds, steps.map((s) => {
      const parts = kinds.map((cause) => Math.max(s.causes[cause] ?? 0, 0)), whole = sum(parts) || 1;
      return parts.map((part) => s.total * part / whole);
    }), {
      heads: steps.map((_, s) => (index.unusual.includes(s) ? "unusual" : "")), about: `What moved at each step: ${steps.map((s) => `${s.name} ${amount(s.total)}`).join("; ")}`,
      tips: steps.map((step, s) => `${step.name}\n${amount(step.total)} of ${what} moved, ${count(step.flipped)} flips${index.unusual.includes(s) ? "\nmore than usual" : ""}`),
      pick: (s) => { chosen = s; $("step").value = s; drawStep(); },
    });
    fillLegend("time-legend", kinds.map((cause) => [CAUSE_NAMES[cause], COLOURS[cause]]));
    $("time-note").textContent = `Height: the ${what} moved; colors: by cause. Click a step to see only that step.`;
    $("step").replaceChildren(el("option", { value: -1 }, "all steps"), ...steps.map((step, s) => el("option", { value: s }, step.name)));
    $("step").onchange = () => { chosen = Number($("step").value); drawStep(); };
  };
  const drawStep = () => {
    const now = chosen < 0 ? merged() : steps[chosen];
    $("lead").replaceChildren(...drawLead(now.lead, (name, row) => link(name, now.s ?? Math.max(chosen, 0), row)),
      ...now.words.filter(Boolean).map((text) => el("p", { class: "quiet" }, text)));
    $("facts").replaceChildren(fact("predictions moved", count(now.moved)), ...(values ? [] : [fact("flipped", count(now.flipped))]), fact("explained here", count(now.explained)),
      fact(values ? "moved in all" : "probability moved", amount(now.total), "summed over predictions"));
    const flips = sum(now.flows.map(([, , n]) => n));
    $("flips-card").hidden = flips < 2;
    if (flips > 1) drawClassFlow("class-flow", now.flows.slice(0, 40), classes, (a, b) => { $("grid-from").value = a; $("grid-to").value = b; filter.from = String(a); filter.to = String(b); grid?.refresh(); $("grid-title").scrollIntoView(); });
    drawStatements(now, (name, row, s) => link(name, s ?? Math.max(chosen, 0), row));
    grid?.refresh();
  };

  const fillFilters = () => {
    const options = (id, list) => $(id).replaceChildren(el("option", { value: "" }, "any"), ...list.map(([value, text]) => el("option", { value }, short(text, 40))));
    const listed = Object.entries(classes);
    options("grid-from", listed);
    options("grid-to", listed);
    options("grid-cause", CAUSES.map((name, k) => [k, CAUSE_NAMES[name]]).filter(([k]) => Object.hasOwn(steps[0].causes, CAUSES[k])));
    for (const id of ["from-filter", "to-filter", "flip-filter"]) $(id).hidden = values || index.labels;
    for (const key of ["from", "to", "cause"]) $("grid-" + key).onchange = (event) => { filter[key] = event.target.value; grid?.refresh(); };
    $("grid-flips").onchange = (event) => { filter.flips = event.target.checked; grid?.refresh(); };
    $("grid-find").oninput = (event) => { filter.text = event.target.value.trim().toLowerCase(); grid?.refresh(); };
  };

  // ---- all of them -----------------------------------------------------------------------------------------------
  const drawGrid = async () => {
    const column = await readColumns();
    const { name, partner, target, before, after } = column, at = (key, i) => column[key][i];
    const nameOf = (i) => (name ? name[i] : partner ? `${target[i]} – ${partner[i]}` : String(target[i]));
    let lower = null;
    const asked = () => {
      const rules = [], equal = (key, wanted) => { const all = column[key]; rules.push((i) => all[i] === wanted); };
      if (chosen >= 0 && several) { const first = offsets[chosen], end = first + steps[chosen].rows; rules.push((i) => i >= first && i < end); }
      if (filter.flips) rules.push((i) => before[i] !== after[i]);
      if (filter.from !== "") equal("before", Number(filter.from));
      if (filter.to !== "") equal("after", Number(filter.to));
      if (filter.cause !== "") equal("cause", Number(filter.cause));
      if (filter.text) {
        if (name) lower ??= name.map((text) => text.toLowerCase());
        rules.push((i) => (lower ? lower[i] : nameOf(i)).includes(filter.text));
      }
      return rules.length ? (i) => rules.every((rule) => rule(i)) : null;
    };
    const one = (key, label, number, show, extra = {}) => ({ key, label, number, keys: () => column[key], show, ...extra });
    const classAt = (key) => (i) => classes[at(key, i)] ?? String(at(key, i));
    grid = makeGrid("grid", [
      one(name ? "name" : "target", index.unit[0].toUpperCase() + index.unit.slice(1), false, (i) => link(nameOf(i), stepOf(i), i - offsets[stepOf(i)])),
      ...(several ? [{ key: "step", label: "Step", number: false, keys: () => Array.from({ length: index.rows }, (_, i) => stepOf(i)), show: (i) => steps[stepOf(i)].name }] : []),
      ...(values || index.labels ? [one("after", values ? "Value" : "Label", false, classAt("after"))]
        : [one("before", "Before", false, classAt("before")), one("after", "After", false, (i) => el("span", { class: before[i] !== after[i] ? "flip" : null }, classAt("after")(i)))]),
      one("moved", "Moved by", true, (i) => signed(at("moved", i), 3), { word: values ? null : "probability moved" }),
      one("explained", "Explained", true, (i) => percent(at("explained", i)), { word: "explained" }),
      one("cause", "Mostly by", false, (i) => kindLabel(CAUSES[at("cause", i)], CAUSE_NAMES[CAUSES[at("cause", i)]])),
      one("paths", "Altered paths", true, (i) => count(Math.round(at("paths", i))), { word: "path" }),
      one("kl", values ? "Distance" : "KL", true, (i) => plain(at("kl", i), 4), { word: values ? null : "KL" }),
    ], {
      size: index.rows, filter: asked,
      counted: (number, printed = number) => {
        const beyond = !index.served && index.targets.length < index.rows ? ` ${count(index.targets.length)} have their page in this file; axiompath serve shows all of them.` : "";
        $("grid-note").textContent = `${count(number)} of ${count(index.rows)}.${printed < number ? ` The first ${count(printed)} are printed.` : ""}${beyond}`;
      },
    });
  };

  start({
    overview: () => {
      $("time-card").hidden = !several;
      if (several) drawTime();
      drawStep();
      fillFilters();
      $("grid-note").textContent = `Reading ${count(index.rows)} rows …`;
      whenWhole(() => setTimeout(drawGrid, 0));  // after the first paint
    },
    open: (i) => {
      const { target, step } = index.targets[i];
      setHash(`#node=${target}${several ? `&step=${step}` : ""}`);
      fillViews(load(i).views);
      showPage(i);
    },
    find: (hash) => {
      const [, key, , step] = /^#node=(-?\d+(-\d+)?)(?:&step=(\d+))?$/.exec(hash) ?? [];
      return key === undefined ? -1 : index.targets.findIndex((target) => String(target.target) === key && (step === undefined || target.step === Number(step)));
    },
    sideNote: ({ note, step }) => (several ? `${steps[step].name}${note ? " · " + note : ""}` : note),
    filter: () => {},
  });
})();
