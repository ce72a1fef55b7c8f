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
// What a variable of the style sheet, such as "ink", comes to now.
const ink = (name) => {
  const probe = el("i", { style: `color:var(--${name})`, hidden: true });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
};
const faint = (name, part) => ink(name).replace(/^rgb\((.*)\)$/, `rgba($1, ${part})`);
const isDark = () => {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const setTheme = (redraw) => {
  const button = $("theme"), label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
  };
  button.onclick = () => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; label(); redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { label(); redraw(); });
  label();
};
