// Tables that sort by every column, filter, and are shown in portions; and the boxes of single facts.
const CHUNK = 100;
const tellHead = (column, button) => {
  if (!column.label) return el("span", { class: "hidden" }, "as a bar");
  if (column.word) { button.dataset.word = column.word; describe(button); }
  return button;
};
const makeTable = (id, columns, options) => {
  const table = $(id), head = table.tHead, body = table.tBodies[0];
  let { rows, sort } = options, query = "", shown = CHUNK;
  const more = options.more ? $(options.more) : null;
  const refresh = () => {
    const column = columns.find((c) => c.key === sort.key);
    const matching = rows.filter((row) => !query || options.text(row).toLowerCase().includes(query));
    matching.sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      return sort.down ? -order : order;
    });
    const visible = more ? matching.slice(0, shown) : matching;
    body.replaceChildren(...visible.map((row) => {
      const line = el("tr", {}, ...columns.map((c) => el("td", { class: c.number ? "number" : null }, c.show(row))));
      if (options.line) options.line(line, row);
      return line;
    }));
    if (more) more.hidden = matching.length <= shown;
    for (const th of head.rows[0].cells) {
      th.setAttribute("aria-sort", th.dataset.key !== sort.key ? "none" : sort.down ? "descending" : "ascending");
    }
    if (options.after) options.after(matching.length, rows.length);
  };
  head.replaceChildren(el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : null,
    "data-key": c.key }, tellHead(c, el("button", { type: "button", onclick: () => {
    sort = { key: c.key, down: sort.key === c.key ? !sort.down : Boolean(c.number) };
    if (options.sorted) options.sorted(sort);
    refresh();
  } }, c.label))))));
  if (more) more.onclick = () => { shown += CHUNK; refresh(); };
  refresh();
  return { filter: (text) => { query = text.trim().toLowerCase(); shown = CHUNK; refresh(); } };
};
const kindLabel = (kind, text = kind) => el("span", { class: "kind" },
  el("i", { style: `background:${COLOURS[kind] ?? COLOURS.unchanged}` }), text);

const fact = (what, value, note) => el("div", { class: "fact" }, el("div", { class: "what" }, WORDS[what] ? word(what) : what),
  el("div", { class: "value" }, value), ...(note ? [el("span", { class: "note" }, note)] : []));
