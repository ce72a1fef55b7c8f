// A table of very many rows: columns are typed arrays, sorting is by numbers, and only the rows in sight exist.
const ROW = 31, MOST_PRINTED = 200, MOST_PIXELS = 8e6, INDEX_SIZE = 2 ** 21;
const ARRAYS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };
// Of a column, first the first byte of every number, then the second of every one: so it packs best.
const readColumn = async (key) => {
  const block = $("column-" + key);
  if (!block) return null;
  const { type, data } = JSON.parse(block.textContent), held = await inflate(data);
  if (type === "text") return new TextDecoder().decode(held).split("\n");
  const Kind = ARRAYS[type], wide = Kind.BYTES_PER_ELEMENT;
  if (wide === 1) return new Kind(held);
  const planes = new Uint8Array(held), bytes = new Uint8Array(held.byteLength), size = bytes.length / wide;
  for (let place = 0; place < wide; place++) for (let i = 0, from = place * size; i < size; i++) bytes[i * wide + place] = planes[from + i];
  return new Kind(bytes.buffer);
};
// Numbers that sort as these values do, and fit into 32 bits.
const sortKeys = (values) => {
  if (values instanceof Float32Array) {
    const bits = new Uint32Array(values.slice().buffer);
    for (let i = 0; i < bits.length; i++) bits[i] = bits[i] & 0x80000000 ? ~bits[i] : bits[i] | 0x80000000;
    return bits;
  }
  if (Array.isArray(values) || values instanceof Float64Array) {
    const order = Uint32Array.from(values.keys()).sort((a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : a - b));
    const ranks = new Uint32Array(values.length);
    order.forEach((row, rank) => { ranks[row] = rank; });
    return ranks;
  }
  return values;
};
const sortRows = (keys) => {
  const packed = new Float64Array(keys.length), order = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; i++) packed[i] = keys[i] * INDEX_SIZE + i;
  packed.sort();
  for (let i = 0; i < order.length; i++) order[i] = packed[i] % INDEX_SIZE;
  return order;
};
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
      if (!orders.has(sort.key)) orders.set(sort.key, sortRows(sortKeys(columns.find((c) => c.key === sort.key).keys())));
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
