// What did it, in a few statements that open to their changes; by kind of change; and the sentences of the largest move.
const portion = (v) => (Math.abs(v) >= 0.0995 || v === 0 ? percent(v) : minus((100 * v).toFixed(1)) + " %");
const drawLead = ([headline, why, row], link) => (headline ? [el("p", { class: "happened" }, link(headline, row)), ...(why ? [el("p", {}, why)] : [])] : []);
const drawStatements = ({ coverage, statements, spread, kinds }, link) => {
  $("coverage").textContent = coverage;
  const largest = Math.max(...statements.map((one) => one.carried), 1e-9);
  $("statements").hidden = !statements.length;
  $("statements").replaceChildren(...statements.map((one) => {
    const moved = one.moved.map(([name, row, part]) => el("li", {}, link(name, row, one.s), ` ${plain(part, 3)}`));
    return el("li", {}, el("div", { class: "head" }, el("b", {}, one.text), el("span", { class: "number" }, one.amount || portion(one.carried))),
      el("div", { class: "track" }, barOf(0, Math.max(one.carried, 0) / largest, `var(--${one.tone})`)),
      el("p", { class: "quiet" }, one.predictions > 1 ? `It moved ${count(one.predictions)} predictions by a tenth of their move or more${moved.length ? ", most of all:" : "."}` : moved.length ? "It moved:" : ""),
      ...(moved.length ? [el("ul", { class: "names" }, ...moved)] : []),
      ...(one.members.length ? [el("details", {}, el("summary", {}, one.more ? `The ${count(one.members.length)} largest of its parts` : "Its parts"),
        el("ul", { class: "parts" }, ...one.members.map(([text, part, amount]) => el("li", {}, `${text}: ${amount || portion(part)}`)), ...(one.more ? [el("li", {}, `and ${count(one.more)} more`)] : [])))] : []));
  }));
  $("spread").hidden = !spread.length;
  $("spread").tBodies[0].replaceChildren(...spread.map(([part, number]) => el("tr", {}, el("th", { scope: "row" }, percent(part)), el("td", { class: "number" }, `${count(number)} changes`))));
  const shown = kinds.filter(([, , part]) => Math.abs(part) > 5e-4), most = Math.max(...shown.map(([, , part]) => Math.abs(part)), 1e-9);
  $("by-cause").tBodies[0].replaceChildren(...shown.map(([kind, tone, part, amount]) => barRow(kind, [barOf(0, Math.abs(part) / most, `var(--${tone})`, part < 0)], amount || portion(part))));
};
