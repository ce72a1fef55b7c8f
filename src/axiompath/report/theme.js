// Colours: those of the style sheet, light or dark, and the settings that pass them to a chart.
const COLOURS = Object.fromEntries(["gained", "lost", "reweighted", "statistics", "feature", "edge feature", "model", "time", "unchanged", "rest"]
  .map((kind) => [kind, `var(--${kind.replace(" ", "-")})`]));
const MEANING = {
  gained: "gained: runs over a new connection", lost: "lost: ran over a connection that is gone",
  reweighted: "kept, reweighted: a coefficient along it changed", feature: "kept, feature: its leaf's features changed",
  statistics: "kept, statistics: the mean and deviation of the whole graph changed",
  "edge feature": "kept, edge feature: it begins at an edge whose features changed",
  model: "model: retrained, another model than before", time: "time: what its passing did before the news came, with what was revised",
  unchanged: "unchanged", rest: "all other paths, net",
};
// What pushes down is hatched: patterns that every picture of the page uses.
const fillOf = (kind, share) => (share < 0 ? `url(#hatch-${kind.replace(" ", "-")})` : COLOURS[kind]);
const drawPatterns = () => document.body.append(draw("svg", { width: 0, height: 0, "aria-hidden": true, style: "position:absolute" }, draw("defs", {}, ...Object.entries(COLOURS).map(([kind, colour]) =>
  draw("pattern", { id: "hatch-" + kind.replace(" ", "-"), width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("rect", { width: 6, height: 6, fill: colour, opacity: 0.35 }), draw("rect", { width: 3, height: 6, fill: colour }))))));
const isDark = () => {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const setTheme = () => {
  const button = $("theme"), label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
  };
  button.onclick = () => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; label(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
};
