// A sequence of snapshots: the overview of its steps, and for each target its story with the page of one step below it.
(() => {
  const MOST_CLASSES = 8;  // lines of a chart that can be distinguished
  const LINES = ["var(--deep)", "#e69f00", "#7b5ea7", "#2f9e8f", "#b0413e", "#8c8c3c", "#56b4e9", "#8a6d5a"];
  const DASHES = [null, "7 4", "2 3", "8 3 2 3"];
  const KINDS = index.kinds;
  const snapshots = index.snapshots, numSteps = snapshots.length - 1;
  const unit = index.unit, answer = index.flip.split(" ").at(-1), Unit = unit[0].toUpperCase() + unit.slice(1), apart = index.values ? "Distance" : "KL";
  // For label outputs, each story is about one label; values decide nothing and are shown as they are.
  const namesOf = (story) => story.names ?? index.classes;
  const shownAt = (story, i) => story.shown[i] ?? "absent";
  const named = (story, k) => (k === null ? "absent" : namesOf(story)[k]);
  const className = (k) => named(here, k);
  const stories = new Map();
  let here = null, step = 0, view = 0;

  const open = (i) => {
    if (!stories.has(i)) {
      const story = JSON.parse($("story-" + i).textContent);
      story.views = viewsOf(namesOf(index.targets[i]), story.pairs, index.values);
      stories.set(i, { ...index.targets[i], ...story });
    }
    return stories.get(i);
  };
  // Classes in the order they were taken, one entry for each stay: "A → B → A"; of values the first and the last.
  const stays = (story) => (index.values ? [shownAt(story, 0), shownAt(story, numSteps)]
    : story.classes.filter((k, i) => i === 0 || k !== story.classes[i - 1]).map((k) => named(story, k)));

  // ---- overview -------------------------------------------------------------------------------------------------
  let storiesTable = null;
  const column = (key, label, number, show, extra = {}) => ({
    key, label, number, value: (r) => r[key], show: show ?? ((r) => (number ? count(r[key]) : r[key])), ...extra,
  });
  const drawOverview = () => {
    const steps = index.steps, total = (key) => sum(steps.map((s) => s[key]));
    $("facts").replaceChildren(
      fact("snapshots", count(snapshots.length), short(`${snapshots[0]} to ${snapshots.at(-1)}`, 60)),
      fact("edges added", count(total("edges_added")), "over all steps"), fact("edges removed", count(total("edges_removed")), "over all steps"),
      ...(index.values ? [] : [fact(`changes of ${answer}`, count(total("flipped")), `over all ${unit}s and steps`)]), fact("stories on this page", count(index.targets.length)),
    );
    const used = (key) => steps.some((s) => s[key] > 0);
    const most = Math.max(...steps.map((s) => s.flipped), 1);
    makeTable("sequence", [
      column("place", "Step", false, (r) => `${r.before} → ${r.after}`),
      column("edges_added", "Edges added", true), column("edges_removed", "Removed", true),
      ...(used("edges_reweighted") ? [column("edges_reweighted", "Reweighted", true)] : []),
      ...(used("edge_features_changed") ? [column("edge_features_changed", "Edge features", true)] : []),
      ...(used("nodes_added") || used("nodes_removed") ? [column("nodes_added", "Nodes added", true), column("nodes_removed", "Gone", true)] : []),
      ...(used("features_changed") ? [column("features_changed", "Other features", true)] : []),
      column("reached", "Predictions reached", true), ...(index.flip ? [column("flipped", index.flip[0].toUpperCase() + index.flip.slice(1), true),
      column("bar", "", false, (r) => el("div", { style: `height:9px;border-radius:3px;background:var(--mark);width:${(80 * r.flipped / most).toFixed(1)}px` }), { value: (r) => r.flipped })] : []),
      column("num_paths", "Altered paths", true),
    ], { rows: steps.map((s, place) => ({ ...s, place })), sort: { key: "place", down: false } });
    storiesTable = makeTable("stories", [
      column("name", Unit, false, (r) => el("button", { type: "button", class: "link", onclick: () => go(r.i) }, r.name)),
      column("course", `${index.values ? "Values" : "Predictions"}, snapshot by snapshot`, false, (r) => el("span", {}, ...r.classes.flatMap((k, i) => [
        ...(i ? [" → "] : []), el("span", { class: i && k !== r.classes[i - 1] ? "flip" : k === null ? "gone" : null }, shownAt(r, i)),
      ]))),
      ...(index.values ? [] : [column("flips", `Changes of ${answer}`, true)]), column("kl_total", `${apart} over all steps`, true, (r) => plain(r.kl_total, 4), { word: index.values ? null : "KL" }),
      column("turning", "Largest move", false, (r) => (r.turning < 0 ? "–" : `${snapshots[r.turning]} → ${snapshots[r.turning + 1]}`)),
    ], {
      rows: index.targets.map((t, i) => ({ ...t, i, course: t.classes.map((_, k) => shownAt(t, k)).join(" "), turning: t.turning ?? -1 })),
      sort: { key: index.values ? "kl_total" : "flips", down: true }, more: "more-stories", text: (r) => `${r.name} ${r.target}`,
      after: (matching, all) => {
        $("stories-note").textContent = all ? `${count(matching)} of ${count(all)} stories.${index.values ? "" : ` A new ${answer} is set in bold.`}` : "No prediction moved over these snapshots.";
      },
    });
  };

  // ---- charts of one story ----------------------------------------------------------------------------------------
  const drawTrajectory = () => {
    const { classes, probabilities } = here;
    const peak = (k) => Math.max(...probabilities.map((row) => (row ? Math.abs(row[k]) : 0)));
    const shown = [...namesOf(here).keys()].sort((i, j) => peak(j) - peak(i)).slice(0, MOST_CLASSES).sort((i, j) => i - j);
    const flips = classes.map((_, i) => i).filter((i) => i && classes[i] !== null && classes[i - 1] !== null && classes[i] !== classes[i - 1]);
    drawLines("trajectory", snapshots, shown.map((k, line) => ({
      name: className(k), values: probabilities.map((row) => row && row[k]), colour: LINES[line], dash: DASHES[line % 4], dots: true, large: (i) => !index.values && classes[i] === k,
    })), { ...(index.values ? {} : { low: 0, high: 1 }), shaded: flips.map((i) => [i - 1, i, `→ ${className(classes[i])}`]),
      about: "Prediction at each snapshot. " + snapshots.map((name, i) => (classes[i] === null ? `${name}: absent`
      : `${name}: ${className(classes[i])} ${plain(probabilities[i][classes[i]], 2)}`)).join("; ") });
    const gaps = snapshots.filter((_, i) => classes[i] === null);
    $("trajectory-note").textContent = [index.values ? "" : "Large dots: the class predicted. Shaded: it changed.", gaps.length ? `It is absent at ${gaps.join(", ")}.` : ""].join(" ").trim();
  };

  const sharesOf = (causes) => KINDS.map((kind) => (causes?.[kind] ? dot(causes[kind], here.views[view].weights) : 0));
  const drawStepCauses = () => {
    const shares = here.causes.map(sharesOf), net = shares.map(sum);
    const drawn = KINDS.map((_, k) => k).filter((k) => shares.some((row) => row[k] !== 0));
    const words = here.causes.map((causes, s) => `${snapshots[s]} to ${snapshots[s + 1]}: ${causes ? KINDS.map((kind, k) => `${kind} ${signed(shares[s][k])}`).join(", ") + `, net ${signed(net[s])}` : here.notes[s]}`);
    drawColumns("step-causes", snapshots.slice(1).map((name) => `to ${name}`), drawn.map((k) => KINDS[k]), shares.map((row, s) => here.causes[s] && drawn.map((k) => row[k])), {
      net, heads: net.map((v, s) => (here.causes[s] ? signed(v, 2) : here.kl[s] === null ? "absent" : "too large")), tips: words, pick: (s) => pick(s, true), current: step,
      about: `Change of ${here.views[view].measure} at each step. ${words.join("; ")}`,
    });
    fillLegend("causes-legend", [...drawn.map((k) => [KINDS[k], COLOURS[KINDS[k]]]), ["◆ net", "transparent"]], true);
  };

  // The sum over all steps, by cause: equal to the change from the first snapshot to the last where no step is missing.
  const drawSum = () => {
    const shares = here.causes.map(sharesOf), totals = KINDS.map((_, k) => sum(shares.map((row) => row[k])));
    const weights = here.views[view].weights;
    const whole = here.unbroken ? dot(here.change, weights) : sum(totals);
    $("story-sum").replaceChildren(...[...KINDS.map((kind, k) => [kind, totals[k]]), ["whole", whole]].map(([kind, value]) => {
      const shown = el("b", { id: "story-" + kind });
      setNumber(shown, value);
      return el("span", {}, kind === "whole" ? (here.unbroken ? "from first to last " : "the steps explained ") : kind + " ", shown);
    }));
    $("story-sum-note").textContent = here.unbroken
      ? `The contributions of all steps sum to the change from ${snapshots[0]} to ${snapshots.at(-1)}, for every ${index.values ? "value" : "class"}, to ${here.residual.toExponential(0)}.`
      : here.residual === null ? "No step could be explained." : `Steps are missing: over each unbroken part the contributions sum to the change of the ${index.values ? "values" : "logits"} to ${here.residual.toExponential(0)}.`;
  };

  const drawStoryCharts = () => { drawTrajectory(); drawStepCauses(); };

  // ---- steps ------------------------------------------------------------------------------------------------------
  const drawPicker = () => {
    $("picker").replaceChildren(...here.notes.map((note, s) => {
      const [old, now] = [here.classes[s], here.classes[s + 1]];
      const what = here.kl[s] === null ? "absent" : old === now ? `${apart} ${plain(here.kl[s])}` : `${short(className(old), 14)} → ${short(className(now), 14)}`;
      return el("button", { type: "button", id: "step-" + s, onclick: () => pick(s) },
        short(`${snapshots[s]} → ${snapshots[s + 1]}`, 44), el("small", { class: old !== now && here.kl[s] !== null ? "flip" : null }, what, s === here.turning ? " · largest move" : ""));
    }));
  };
  const pick = (s, scroll = false) => {
    step = s;
    $("picker").querySelectorAll("[aria-current]").forEach((node) => node.removeAttribute("aria-current"));
    $("step-" + s).setAttribute("aria-current", "step");
    // Only the row of steps scrolls: the window stays where the reader has it.
    const row = $("picker"), button = $("step-" + s);
    row.scrollLeft = button.offsetLeft - row.offsetLeft - (row.clientWidth - button.clientWidth) / 2;
    setHash(`#node=${here.target}&step=${s}`);
    const page = here.pages[s];
    for (const id of ["details", "headline", "sentence"]) $(id).hidden = page === null;
    $("step-note").hidden = page !== null;
    $("step-note").textContent = here.notes[s];
    if (page !== null) showPage(page, here.views, view);
    drawStepCauses();
    if (scroll) $("headline").scrollIntoView({ block: "center" });
  };
  $("picker").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    pick(Math.min(Math.max(step + by, 0), numSteps - 1));
    $("step-" + step).focus();
  });

  start({
    overview: drawOverview,
    open: (i) => {
      here = open(i);
      const asked = new RegExp(`^#node=${here.target}&step=(\\d+)$`).exec(location.hash);
      view = 0;
      $("story-charts").className = snapshots.length <= 8 ? "two" : "";
      const classes = stays(here);
      const path = classes.length > 6 ? [...classes.slice(0, 4), "…", classes.at(-1)] : classes;
      $("story-title").textContent = `${here.name === String(here.target) || unit !== "node" ? `${Unit} ` : ""}${here.name}: ${path.join(" → ")}`;
      $("story-words").replaceChildren(...here.words.map((text) => el("p", {}, text)));
      fillViews(here.views);
      drawPicker();
      drawSum();
      pick(Math.min(asked ? Number(asked[1]) : here.turning ?? 0, numSteps - 1));
      drawStoryCharts();
    },
    view: (chosen) => {
      view = chosen;
      drawSum();
      pick(step);
      drawStoryCharts();
    },
    sideNote: (story) => (stays(story).length > 1 ? stays(story).join(" → ") : ""),
    filter: (query) => storiesTable.filter(query),
  });
})();
