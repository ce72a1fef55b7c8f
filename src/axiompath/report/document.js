// A page that is whole without script: tables sort by a click on a head, and a search hides what does not match.
setTheme();
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const valueOf = (row, place) => { const cell = row.cells[place]; return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value); };
  heads.forEach((head, place) => {
    const button = el("button", { type: "button", onclick: () => {
      const down = head.getAttribute("aria-sort") === "descending" ? false : head.getAttribute("aria-sort") === "ascending" || head.classList.contains("number");
      const order = (a, b) => { const [x, y] = [valueOf(a, place), valueOf(b, place)]; return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true }); };
      const rows = [...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows);
    } }, head.textContent);
    head.replaceChildren(button);
  });
}
const findBox = $("find");
if (findBox) {
  findBox.closest(".search").hidden = false;
  const entries = [...document.querySelectorAll(".findable")].map((node) => [node, node.textContent.toLowerCase()]);
  findBox.addEventListener("input", () => {
    const query = findBox.value.trim().toLowerCase();
    let hits = 0;
    for (const [node, text] of entries) { const hit = text.includes(query); node.hidden = !hit; hits += hit; }
    document.querySelectorAll(".answers").forEach((card) => { card.hidden = query !== "" && !card.querySelector(".findable:not([hidden])"); });
    $("found").textContent = query ? `${count(hits)} of ${count(entries.length)} entries` : "";
  });
}
