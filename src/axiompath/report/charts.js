// Charts by Plotly: the prediction, what a larger budget buys, and the way from before to after.
const MAX_STEPS = 25;  // of the waterfall; further chosen paths share one step
const font = { family: "system-ui, sans-serif", size: 12.5 };  // its colour is the style sheet's
const config = { displayModeBar: false, responsive: true };
// Bars that push down. Plotly leaves the ground of a pattern empty by default: white lines on it would be all of it.
const hatched = (which, colours) => ({
  shape: which.map((down) => (down ? "/" : "")), size: 6, solidity: 0.35, fgcolor: ink("paper"), bgcolor: colours,
});
// Plotly draws in pixels of the screen: on paper a chart is as wide as a sheet, or its right edge would be cut off.
const SHEET = 640;
const resizeCharts = (change) => document.querySelectorAll(".js-plotly-plot").forEach((chart) => { if (chart.clientWidth) Plotly.relayout(chart, change(chart)); });
addEventListener("beforeprint", () => resizeCharts((chart) => ({ width: Math.min(chart.clientWidth, SHEET) })));
addEventListener("afterprint", () => resizeCharts(() => ({ width: null, autosize: true })));
const layout = (extra) => ({
  font, margin: { l: 60, r: 16, t: 8, b: 44 }, height: 280, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  hoverlabel: { font: { family: font.family, size: 12.5 } }, ...extra,
});

const drawProbabilities = ({ page }) => {
  const order = page.classes.map((_, k) => k)
    .sort((i, j) => Math.max(page.prob_before[j], page.prob_after[j]) - Math.max(page.prob_before[i], page.prob_after[i]));
  const kept = order.slice(0, 10).sort((i, j) => i - j);
  const labels = kept.map((k) => forPlotly(short(page.classes[k], 22)));
  const ends = [page.class_before, page.class_after];
  const digits = (k) => (ends.includes(k) ? apart(page.prob_before[k], page.prob_after[k], 2) : 2);
  const bars = (name, values, colour) => ({
    type: "bar", name, x: kept.map((_, i) => i), y: kept.map((k) => values[k]), marker: { color: colour },
    text: kept.map((k) => (page.values || Math.abs(values[k]) >= 0.005 || kept.length < 5 ? values[k].toFixed(digits(k)) : "")), textposition: "outside", textangle: 0, cliponaxis: false,
    customdata: kept.map((k) => forPlotly(page.classes[k])), hovertemplate: `%{customdata}<br>${name}: %{y:.4f}<extra></extra>`,
  });
  Plotly.react("probabilities", [bars("before", page.prob_before, ink("pale")), bars("after", page.prob_after, ink("deep"))], layout({
    barmode: "group", bargap: 0.28, xaxis: { tickvals: kept.map((_, i) => i), ticktext: labels, automargin: true, title: { text: page.values ? "value" : order.length > kept.length ? "the ten likeliest classes" : "class" } },
    yaxis: page.values ? { title: { text: "value" } }
      : { range: [0, 1.08], title: { text: "probability" }, tickvals: [0, 0.25, 0.5, 0.75, 1] },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1.14 }, margin: { l: 56, r: 12, t: 26, b: 44 },
  }), config);
  $("probabilities").setAttribute("aria-label", "Probabilities. " + kept.map((k) =>
    `${page.classes[k]}: ${plain(page.prob_before[k], digits(k))} before, ${plain(page.prob_after[k], digits(k))} after`).join("; "));
};

const drawFrontier = ({ page, choice }) => {
  $("certificate").textContent = `Certificate: these ${count(choice.chosen.length)} ${hasGroups(page, choice) ? "units" : "paths"} leave ${plain(choice.kl_residual, 4)}${page.terms.nats}, and no choice `
    + `of as many ${hasGroups(page, choice) ? "of the units as they were opened " : ""}leaves less than ${plain(choice.kl_bound, 4)}; at most ${plain(Math.max(choice.gap, 0), 4)} could be gained by choosing better.`;
  if (page.choices.length < 2) return;
  const x = page.choices.map((c) => c.budget), residual = page.choices.map((c) => c.kl_residual), bound = page.choices.map((c) => c.kl_bound);
  Plotly.react("frontier", [
    { x, y: bound, mode: "lines", name: "no choice leaves less", line: { color: ink("soft"), dash: "dot", width: 1.6 }, hovertemplate: "bound %{y:.4g}<extra></extra>" },
    { x, y: residual, mode: "lines+markers", name: page.terms.left, line: { color: ink("deep"), width: 2 }, marker: { size: 6 }, fill: "tonexty", fillcolor: faint("deep", 0.12), hovertemplate: "%{x} paths leave %{y:.4g}<extra></extra>" },
    { x: [choice.budget], y: [choice.kl_residual], mode: "markers", marker: { size: 14, color: ink("mark"), line: { color: ink("deep"), width: 2 } }, showlegend: false, hoverinfo: "skip" },
  ], layout({
    xaxis: { title: { text: "paths in the explanation" }, zeroline: false }, yaxis: { title: { text: page.terms.left + (page.values ? "" : ", nats") }, rangemode: "tozero", zeroline: false },
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
};

const drawWaterfall = ({ page, view, chosen, before, after, model, rest }) => {
  const digits = apart(before, after, 3);
  const others = page.num_paths - held(chosen);
  const ordered = [...chosen].sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  const steps = ordered.slice(0, MAX_STEPS).map((path) => ({ label: path.label, kind: path.kind, share: path.share }));
  if (ordered.length > MAX_STEPS) steps.push({ label: `${ordered.length - MAX_STEPS} more chosen paths`, kind: "unchanged", share: sum(ordered.slice(MAX_STEPS).map((path) => path.share)) });
  if (others > 0) steps.push({ label: `${count(others)} other paths`, kind: "rest", share: rest });
  if (page.causes.model) steps.unshift({ label: "the retrained model", kind: "model", share: model });
  let level = before;
  const bases = steps.map((step) => { const base = level; level += step.share; return base; });
  const names = ["before", ...steps.map((step) => forPlotly(short(step.label, isNarrow() ? 14 : 46))), "after"];
  const links = { x: [], y: [] };
  [before, ...steps.map((step, i) => bases[i] + step.share)].forEach((value, i) => { links.x.push(value, value, null); links.y.push(i, i + 1, null); });
  const levels = [before, after, ...bases, ...bases.map((base, i) => base + steps[i].share)];
  const [low, high] = [Math.min(...levels), Math.max(...levels)];
  const pad = (isNarrow() ? 0.6 : 0.15) * (high - low || 1);  // room for the numbers beside the bars
  Plotly.react("waterfall", [
    { ...links, mode: "lines", line: { color: ink("soft"), width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
    { type: "bar", orientation: "h", y: steps.map((_, i) => i + 1), x: steps.map((step) => step.share), base: bases, width: 0.66,
      marker: { color: steps.map((step) => ink(step.kind)), pattern: hatched(steps.map((step) => step.share < 0), steps.map((step) => ink(step.kind))) },
      text: steps.map((step) => signed(step.share)), textposition: "outside", cliponaxis: false, showlegend: false,
      customdata: steps.map((step) => [forPlotly(step.label), step.kind === "rest" ? "net" : step.kind]), hovertemplate: "%{customdata[0]}<br>%{customdata[1]}, %{x:+.4f}<extra></extra>" },
    { x: [before, after], y: [0, steps.length + 1], mode: "markers+text", marker: { symbol: "diamond", size: 13, color: [ink("pale"), ink("deep")] }, cliponaxis: false,
      text: [plain(before, digits), plain(after, digits)], textposition: "middle right", showlegend: false, hovertemplate: "%{x:.4f}<extra></extra>" },
  ], layout({
    height: 96 + 26 * names.length, margin: { l: 60, r: isNarrow() ? 16 : 70, t: 6, b: 44 },
    xaxis: { range: [low - pad, high + pad], nticks: isNarrow() ? 4 : 10, tickangle: 0, title: { text: forPlotly(short(view.label, isNarrow() ? 26 : 60)) }, zeroline: true },
    yaxis: { tickvals: names.map((_, i) => i), ticktext: names, range: [names.length - 0.4, -0.6], automargin: true, zeroline: false, fixedrange: true },
  }), config);
  $("waterfall").setAttribute("aria-label", `Waterfall of ${view.measure}: from ${plain(before, digits)} before to ${plain(after, digits)} after. `
    + steps.map((step) => `${step.label} ${signed(step.share)}`).join("; "));
};
