// Of a window: three legs in a sentence, and the strip, dates across and things down, a cell's colour its share.
const drawStrip = (page) => {
  const told = page.window;
  if (!$("legs")) return;  // a story has none
  $("legs").hidden = $("window").hidden = !told;
  if (!told) return;
  $("legs").textContent = told.summary;
  const most = Math.max(...told.cells.flat().map(Math.abs), 1e-300);
  const colour = (share) => `color-mix(in srgb, ${share >= 0 ? COLOURS.gained : COLOURS.lost} ${(45 * Math.abs(share) / most).toFixed(0)}%, transparent)`;
  $("strip").tHead.replaceChildren(el("tr", {}, el("td"), ...told.dates.map((date) => el("th", { scope: "col", class: "number" }, date))));
  $("strip").tBodies[0].replaceChildren(...told.cells.map((row, i) => el("tr", {}, el("th", { scope: "row" }, told.labels[i]),
    ...row.map((share) => el("td", { class: "number", style: `background:${colour(share)}` }, share === 0 ? "" : signed(share))))));
};
