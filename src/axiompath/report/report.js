// The page of one change of one target, and the list of targets beside it. What is particular to a kind of report
// (overview.js, story.js, scan.js) comes after it and calls start().
const index = JSON.parse($("index").textContent);
const pages = new Map();
const state = { target: -1, page: -1, choice: 0, view: 0, sort: { key: "rank", down: false }, query: "", open: new Set() };

const load = (i) => {
  if (!pages.has(i)) pages.set(i, prepare(JSON.parse($("page-" + i).textContent)));
  return pages.get(i);
};
// A class without a name is called by its number, which needs a word before it.
const called = (name) => (/^\d+$/.test(name) ? `class ${name}` : name);
// What may be shown of a target: the classes of these pairs [old, new] against each other, and every class by itself.
const viewsOf = (classes, pairs, values = false) => {
  const unit = (k) => classes.map((_, i) => (i === k ? 1 : 0));
  const first = pairs.flatMap(([old, now]) => [now, old]);
  const order = [...new Set([...first, ...classes.keys()])];
  const column = (label, weights) => (values ? { label, measure: label, weights } : { label: `logit of ${label}`, measure: `the logit of ${label}`, weights });
  return [...pairs.filter(([old, now]) => old !== now).map(([old, now]) => column(`${called(classes[now])} against ${called(classes[old])}`, unit(now).map((v, i) => v - unit(old)[i]))),
    ...order.map((k) => column(values ? classes[k] : `class ${classes[k]}`, unit(k)))];
};
// A path of the shallower of two models has ABSENT before it; one of a bias is shown from that bias on.
const ABSENT = -3, FIRST_EDGE = -1000;  // edges that a path begins at are numbered from there down
const isPlace = (node) => node >= 0 || node <= FIRST_EDGE;
const startOf = (nodes) => {
  const first = nodes.findIndex((node) => node >= 0);
  return first > 0 && nodes[first - 1] !== ABSENT ? first - 1 : first;
};
// Of values a distance is left, of all else a KL in nats.
const termsOf = ({ values }) => (values
  ? { left: "distance left", nats: "" } : { left: "KL left", nats: " nats" });
const prepare = (page) => {
  page.terms = termsOf(page);
  page.views = viewsOf(page.classes, [[page.class_before, page.class_after]], page.values);
  if (page.slopes) {  // a class that stayed leads with its probability: its logit may go the other way
    const k = page.class_after, label = `probability of ${called(page.classes[k])}`;
    page.views.splice(page.class_before === k ? 0 : 1, 0, { label, measure: `the ${label}`, weights: page.slopes, before: page.prob_before[k], after: page.prob_after[k] });
  }
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
  const before = view.before ?? dot(page.logits_before, view.weights), after = view.after ?? dot(page.logits_after, view.weights);
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

// ---- one target ---------------------------------------------------------------------------------------------
const hasGroups = (page, choice) => choice.chosen.some((row) => page.paths[row].members);
const drawNumbers = ({ page, choice }) => {
  const item = (what, value, note, key, exact, term = what) => el("div", { class: "fact" }, el("dt", {}, WORDS[term] ? word(term, what) : what),
    el("dd", { id: "number-" + key, "data-value": exact }, value, ...(note ? [el("span", { class: "note" }, note)] : [])));
  $("numbers").replaceChildren(
    item("explained", percent(choice.explained), page.values ? "of the way" : "of the change of the distribution", "explained", choice.explained),
    item(page.terms.left, plain(choice.kl_residual, 4), `of ${plain(page.kl_whole, 4)}${page.terms.nats}`, "residual", choice.kl_residual, page.values ? "" : "KL"),
    item("bound", plain(choice.kl_bound, 4), "no choice of this size leaves less", "bound", choice.kl_bound),
    item("fidelity −", plain(choice.fidelity_minus), "paths undone in after; 0 is best", "minus", choice.fidelity_minus),
    item("fidelity +", plain(choice.fidelity_plus), "paths added to before; 0 is best", "plus", choice.fidelity_plus),
    item("paths", `${count(choice.chosen.length)} / ${count(page.num_paths)}`, hasGroups(page, choice) ? "units, groups among them, of all altered paths" : "chosen of all altered", "paths", choice.chosen.length, "path"),
  );
};

const drawCauses = ({ page, view }) => {
  const rows = Object.entries(page.causes).map(([kind, shares]) => ({ kind, share: dot(shares, view.weights) }));
  makeTable("causes", [
    { key: "kind", label: "Cause", value: (r) => r.kind, show: (r) => kindLabel(r.kind) },
    { key: "what", label: "Meaning", value: (r) => r.kind, show: (r) => MEANING[r.kind].replace(/^.*?: /, "") },
    { key: "share", label: `Share of ${view.measure}`, word: "share", number: true, value: (r) => r.share, show: (r) => signed(r.share) },
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
    { key: "share", label: view.label[0].toUpperCase() + view.label.slice(1), number: true, value: (r) => r.share, show: (r) => signed(r.share, 4) },
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

const showSentence = ({ page, choice }) => {
  $("headline").textContent = page.headline;
  $("sentence").textContent = choice.of_models ? [choice.of_models, choice.replayed, choice.others].filter(Boolean).join(" ") : page.num_paths === 0 ? "Nothing that reaches it changed." : choice.chosen.length === 0
    ? `None of its ${count(page.num_paths)} altered paths is chosen${slider ? ": move the slider" : ""}.`
    : `${choice.verdict} ${percent(choice.explained)} of the change. ${[choice.replayed, choice.others].filter(Boolean).join(" ")}`;
  $("sentence").classList.toggle("warned", choice.disagrees);
  const goal = page.objective === "sufficiency" ? "added to before they should give after" : "taken from after they should leave before";
  $("method-note").textContent = `Paths chosen by the method ${page.method} for ${page.objective} (${goal}). Contributions of all altered paths${page.causes.model ? " and the model's share" : ""} sum to `
    + `the change of every ${page.values ? "value" : "logit"} to ${plain(page.completeness, 12) === "0.000000000000" ? "rounding" : page.completeness.toExponential(0)}. Solver: ${choice.status}`;
};

const slider = $("budget");  // a story has one budget, and no slider
const refresh = () => {
  const now = current();
  if (slider) {
    const single = now.page.choices.length < 2;  // one budget was asked for: nothing to slide, no curve to draw
    slider.closest(".control").hidden = $("frontier").hidden = $("frontier-legend").hidden = single;
    $("frontier-title").textContent = single ? "How good this choice is" : "What a larger budget buys";
    slider.max = now.page.choices.length - 1;
    slider.value = state.choice;
    slider.setAttribute("aria-valuetext", `${now.choice.budget} paths, ${percent(now.choice.explained)} explained`);
    $("budget-value").textContent = count(now.choice.chosen.length);
  }
  setNumber($("sum-chosen"), now.total);
  setNumber($("sum-rest"), now.rest);
  $("model-part").hidden = !now.page.causes.model;
  setNumber($("sum-model"), now.model);
  setNumber($("sum-whole"), now.whole);
  showSentence(now);
  drawNumbers(now);
  drawLegend(now);
  drawFlow(now);
  drawNeighbourhood(now);
  drawCauses(now);
  drawPaths(now);
  if ($("probabilities")) drawProbabilities(now);
  if (slider) drawFrontier(now);
  drawWaterfall(now);
};

setTheme();
drawPatterns();

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
  drawStrip(page);
  refresh();
};
const fillViews = (views) => $("view").replaceChildren(...views.map((view, k) => el("option", { value: k }, view.label)));

let kind = null;  // of report: { overview, open, sideNote, filter, view }
const setHash = (hash) => { if (location.hash !== hash) history.replaceState(null, "", hash); };
const go = (i) => {
  if (i >= 0 && !isWhole()) { whenWhole(() => go(i)); return; }
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
  if (kind.find) return kind.find(location.hash);
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
