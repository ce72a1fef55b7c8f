// A table of very many rows: its columns travel deflated, and only the visible rows exist.
const ROW = 31, MOST_PRINTED = 200, MOST_PIXELS = 8e6;
const readColumns = async () => JSON.parse(new TextDecoder().decode(await inflate(JSON.parse($("columns").textContent))));
const sortRows = (values) => Uint32Array.from(values.keys()).sort((a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : 0));
// columns: { key, label, word, number, keys: () => values to sort by, show: (row) => text or node }; filter() gives what
// says whether a row is shown, or is null if all are.
const makeGrid = (id, columns, { size, filter, line, counted }) => {
  const box = $(id), table = box.querySelector("table"), head = table.tHead, body = table.tBodies[0];
  const orders = new Map();
  let sort = { key: null, down: false }, rows = new Uint32Array(0), first = -1;
  const paint = (again = false, printed = false) => {
    const room = box.clientHeight || 600, visible = printed ? MOST_PRINTED : Math.ceil(room / ROW) + 8, full = rows.length * ROW;
    const height = Math.min(full, MOST_PIXELS), reach = Math.max(height - room, 1);
    const wanted = full <= MOST_PIXELS ? Math.floor(box.scrollTop / ROW) - 4 : Math.round(Math.min(box.scrollTop / reach, 1) * (rows.length - visible));
    const start = Math.max(0, Math.min(wanted, rows.length - visible));
    if (start === first && !again) return;
    first = start;
    const shown = rows.subarray(start, start + visible);
    const above = full <= MOST_PIXELS ? start * ROW : Math.min(box.scrollTop, Math.max(0, height - shown.length * ROW));
    const spacer = (pixels) => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: columns.length, style: `height:${pixels}px` }));
    body.replaceChildren(spacer(above), ...[...shown].map((row, i) => {
      const tr = el("tr", { "aria-rowindex": start + i + 2 }, ...columns.map((c) => el("td", { class: c.number ? "number" : null }, c.show(row))));
      line?.(tr, row);
      return tr;
    }), spacer(Math.max(0, height - above - shown.length * ROW)));
  };
  const refresh = () => {
    let order = null;
    if (sort.key) {
      if (!orders.has(sort.key)) orders.set(sort.key, sortRows(columns.find((c) => c.key === sort.key).keys()));
      order = orders.get(sort.key);
    }
    const found = new Uint32Array(size), accept = filter();
    let number = 0;
    for (let i = 0; i < size; i++) {
      const row = order ? order[sort.down ? size - 1 - i : i] : i;
      if (!accept || accept(row)) found[number++] = row;
    }
    rows = found.subarray(0, number);
    table.setAttribute("aria-rowcount", number + 1);
    for (const th of head.rows[0].cells) th.setAttribute("aria-sort", th.dataset.key !== sort.key ? "none" : sort.down ? "descending" : "ascending");
    box.scrollTop = 0;
    paint(true);
    counted(number);
  };
  head.replaceChildren(el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : null, "data-key": c.key },
    tellHead(c, el("button", { type: "button", onclick: () => { sort = { key: c.key, down: sort.key === c.key ? !sort.down : Boolean(c.number) }; refresh(); } }, c.label))))));
  box.addEventListener("scroll", () => paint(), { passive: true });
  addEventListener("resize", () => paint(true));
  addEventListener("beforeprint", () => { box.scrollTop = 0; paint(true, true); counted(rows.length, Math.min(rows.length, MOST_PRINTED)); });
  addEventListener("afterprint", () => { paint(true); counted(rows.length); });
  refresh();
  return { refresh, paint };
};
