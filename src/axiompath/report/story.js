// A sequence of snapshots: the overview of its steps, and for each target its story with the page of one step below it.
(() => {
  const MOST_CLASSES = 8;  // lines of a chart that can be distinguished
  const LINES = () => [ink("deep"), "#e69f00", "#7b5ea7", "#2f9e8f", "#b0413e", "#8c8c3c", "#56b4e9", "#8a6d5a"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "star", "hexagon"];
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
  const stepWidth = () => $("trajectory").clientWidth / snapshots.length;  // in pixels, about
  const timeAxis = () => ({
    tickangle: stepWidth() < 75 ? -40 : 0,
    tickvals: snapshots.map((_, i) => i), ticktext: snapshots.map((name) => forPlotly(short(name, 18))), range: [-0.35, numSteps + 0.35],
    automargin: true, zeroline: false, fixedrange: true,
  });
  const wide = () => $("story-charts").className === "two" && innerWidth > 900;  // the two charts are side by side
  const markStep = { type: "rect", yref: "paper", y0: 0, y1: 1, layer: "below", line: { width: 0 } };

  const drawTrajectory = () => {
    const { classes, probabilities } = here;
    const peak = (k) => Math.max(...probabilities.map((row) => (row ? Math.abs(row[k]) : 0)));
    const shown = [...namesOf(here).keys()].sort((i, j) => peak(j) - peak(i)).slice(0, MOST_CLASSES).sort((i, j) => i - j);
    const flips = classes.map((k, i) => i).filter((i) => i && classes[i] !== null && classes[i - 1] !== null && classes[i] !== classes[i - 1]);
    const width = stepWidth();
    Plotly.react("trajectory", shown.map((k, line) => ({
      x: snapshots.map((_, i) => i), y: probabilities.map((row) => row && row[k]), name: forPlotly(short(className(k), 22)), mode: "lines+markers",
      line: { color: LINES()[line], width: 2, dash: DASHES[line % 4] }, connectgaps: false, cliponaxis: false,
      marker: { color: LINES()[line], symbol: SYMBOLS[line], size: classes.map((c) => (c === k ? 12 : 5)), line: { color: ink("paper"), width: classes.map((c) => (c === k ? 1.5 : 0)) } },
      customdata: snapshots.map((name, i) => [forPlotly(name), forPlotly(className(k)), classes[i] === k && !index.values ? ", predicted" : ""]),
      hovertemplate: "%{customdata[1]} at %{customdata[0]}: %{y:.4f}%{customdata[2]}<extra></extra>",
    })), layout({
      height: wide() ? 440 : 330, margin: { l: 56, r: 14, t: 8, b: 40 }, xaxis: timeAxis(),
      yaxis: index.values ? { title: { text: "value" }, zeroline: false, fixedrange: true } : { range: [-0.03, flips.length && width > 80 ? 1.25 : 1.1], title: { text: "probability" }, tickvals: [0, 0.25, 0.5, 0.75, 1], zeroline: false, fixedrange: true },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
      shapes: [
        ...flips.map((i) => ({ ...markStep, x0: i - 0.98, x1: i - 0.02, fillcolor: "rgba(240,162,2,.16)" })),
        ...classes.flatMap((k, i) => (k === null ? [{ ...markStep, x0: i - 0.3, x1: i + 0.3, fillcolor: "rgba(107,114,128,.14)" }] : [])),
      ],
      annotations: [
        ...flips.map((i) => ({ x: i - 0.5, y: 1.24, yanchor: "top", showarrow: false, font: { size: 11.5 },
          text: width > 80 ? forPlotly(short(className(classes[i - 1]), width / 9)) + "<br>→ " + forPlotly(short(className(classes[i]), width / 9)) : "⇄" })),
        ...classes.flatMap((k, i) => (k === null ? [{ x: i, y: 0.5, yref: "paper", showarrow: false, text: "absent", textangle: -90, font: { size: 12 } }] : [])),
      ],
    }), config);
    $("trajectory").setAttribute("aria-label", "Prediction at each snapshot. " + snapshots.map((name, i) => (classes[i] === null ? `${name}: absent`
      : `${name}: ${className(classes[i])} ${plain(probabilities[i][classes[i]], 2)}`)).join("; "));
    $("trajectory-note").textContent = index.values ? "" : "Large marks: the class predicted. Shaded: it changed.";
  };

  const sharesOf = (causes) => KINDS.map((kind) => (causes?.[kind] ? dot(causes[kind], here.views[view].weights) : 0));
  const drawStepCauses = () => {
    const shares = here.causes.map(sharesOf), net = shares.map(sum);
    const middle = here.causes.map((_, s) => s + 0.5);
    const spans = middle.map((_, s) => forPlotly(`${snapshots[s]} → ${snapshots[s + 1]}`));
    const ends = shares.flatMap((row) => [sum(row.filter((v) => v > 0)), sum(row.filter((v) => v < 0))]);
    const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const pad = 0.16 * (high - low || 1);
    const drawn = KINDS.flatMap((kind, k) => (shares.some((row) => row[k] !== 0) ? [k] : []));
    Plotly.react("step-causes", [...drawn.map((k) => ({
      type: "bar", x: middle, y: shares.map((row) => row[k]), width: 0.5, customdata: spans,
      marker: { color: ink(KINDS[k]), pattern: hatched(shares.map((row) => row[k] < 0), ink(KINDS[k])) },
      hovertemplate: `%{customdata}<br>${KINDS[k]}, %{y:+.4f}<extra></extra>`,
    })), {
      x: middle, y: net.map((v, s) => (here.causes[s] ? v : null)), mode: "markers", cliponaxis: false,
      marker: { symbol: "diamond", size: 11, color: ink("ink"), line: { color: ink("paper"), width: 1.5 } },
      customdata: spans, hovertemplate: "%{customdata}<br>net, %{y:+.4f}<extra></extra>",
    }], layout({
      barmode: "relative", height: 300, margin: { l: 56, r: 14, t: 8, b: 40 }, xaxis: timeAxis(), showlegend: false,
      yaxis: { range: [low - pad, high + pad], title: { text: index.values ? "change of the value" : "change of the logit" }, zeroline: true, fixedrange: true },
      shapes: [{ ...markStep, x0: step, x1: step + 1, fillcolor: faint("accent", 0.12) }],
      // The net in figures, clear of the bars and of its mark.
      annotations: net.map((v, s) => ({
        x: s + 0.5, y: ends[2 * s + (v < 0 ? 1 : 0)], yshift: v < 0 ? -14 : 14, showarrow: false, font: { size: 12 },
        text: here.causes[s] ? `<b>${signed(v, 2)}</b>` : here.kl[s] === null ? "absent" : "too large",
      })),
    }), config);
    fillLegend("causes-legend", Object.fromEntries(drawn.map((k) => [KINDS[k], KINDS[k]])), el("span", {}, "◆ net"));
    const chart = $("step-causes");
    if (!chart.dataset.ready) {
      chart.dataset.ready = "1";
      chart.on("plotly_click", (event) => pick(Math.floor(event.points[0].x), true));
    }
    chart.setAttribute("aria-label", `Change of ${here.views[view].measure} at each step. ` + here.causes.map((causes, s) => `${snapshots[s]} to ${snapshots[s + 1]}: ${causes
      ? KINDS.map((kind, k) => `${kind} ${signed(shares[s][k])}`).join(", ") + `, net ${signed(net[s])}` : here.notes[s]}`).join("; "));
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

  const drawStoryCharts = () => withPlotly(() => { drawTrajectory(); drawStepCauses(); });

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
    if (window.Plotly) drawStepCauses();
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
    retheme: drawStoryCharts,
    sideNote: (story) => (stays(story).length > 1 ? stays(story).join(" → ") : ""),
    filter: (query) => storiesTable.filter(query),
  });
})();
