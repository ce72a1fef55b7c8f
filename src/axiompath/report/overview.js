// A change between two snapshots: the overview of all predictions that moved, and a page a target.
(() => {
  const openers = new Map(index.targets.map((target, i) => [target.target, i]));
  let movedTable = null;
  const drawOverview = () => {
    const o = index.overview, d = o.changes, c = o.moved;
    const link = (name, place) => el("button", { type: "button", class: "link", onclick: () => go(place) }, name);
    $("lead").replaceChildren(...drawLead(o.lead, link));
    const facts = [
      fact("edges added", count(d.edges_added)), fact("edges removed", count(d.edges_removed)),
      ...(d.edges_reweighted ? [fact("edges reweighted", count(d.edges_reweighted))] : []),
      ...(d.edge_features_changed ? [fact("edge features changed", count(d.edge_features_changed))] : []),
      ...(d.nodes_added + d.nodes_removed ? [fact("nodes added / removed", `${count(d.nodes_added)} / ${count(d.nodes_removed)}`)] : []),
      ...(d.features_changed ? [fact("nodes with other features", count(d.features_changed))] : []),
      ...(o.retrained ? [fact("model", "retrained")] : []),
      fact("predictions reached", count(c.total), `of ${count(o.num_units)} ${o.unit}s`),
      ...(o.values ? [] : [fact(c.columns[0] === "Class before" ? "to another class" : "to another answer", count(c.flipped))]), fact("explained here", count(index.targets.length)),
    ];
    $("facts").replaceChildren(...facts);
    if (o.left_out.length) {
      $("left-out").hidden = false;
      $("left-out").textContent = "Left out: " + o.left_out.join(" ");
    }
    const rows = c.target.map((target, i) => ({
      target, name: c.name[i], before: c.before[i], after: c.after[i], flipped: c.flips[i], by: c.by[i], kl: c.kl[i], paths: c.num_paths[i],
    }));
    const most = Math.max(...rows.map((row) => Math.abs(row.by)), 1e-300);
    movedTable = makeTable("moved", [
      { key: "name", label: o.unit[0].toUpperCase() + o.unit.slice(1), value: (r) => r.name, show: (r) => openers.has(r.target)
        ? el("button", { type: "button", class: "link", onclick: () => go(openers.get(r.target)) }, r.name) : r.name },
      { key: "before", label: c.columns[0], value: (r) => r.before, show: (r) => r.before },
      { key: "after", label: c.columns[1], value: (r) => r.after,
        show: (r) => el("span", { class: r.flipped ? "flip" : null }, r.after) },
      { key: "by", label: "Moved by", word: o.values ? null : "probability moved", number: true, value: (r) => Math.abs(r.by), show: (r) => signed(r.by) },
      { key: "bar", label: "", value: (r) => Math.abs(r.by), show: (r) => el("div", { style:
        `height:9px;border-radius:3px;background:var(--bar);min-width:1px;width:${(120 * Math.abs(r.by) / most).toFixed(1)}px` }) },
      { key: "paths", label: "Altered paths", word: "path", number: true, value: (r) => r.paths, show: (r) => count(r.paths) },
      { key: "kl", label: o.values ? "Distance" : "KL", word: o.values ? null : "KL", number: true, value: (r) => r.kl, show: (r) => plain(r.kl, 4) },
    ], {
      rows, sort: { key: "kl", down: true }, more: "more-moved", text: (r) => `${r.name} ${r.target}`,
      after: (matching) => {
        const listed = c.total > rows.length ? ` The ${count(rows.length)} that moved the most are listed.` : "";
        $("moved-note").textContent = `${count(matching)} of ${count(c.total)} ${o.unit}s, ${o.values ? "by the change of the value. Distance: half the squared distance, in units of the values' scale." : "by the change of the probability of what is predicted now."} `
          + `Those with a link are explained in this file.` + listed;
      },
    });
    $("causes-card").hidden = !o.coverage;
    drawStatements(o, link);
  };

  const { overview } = index;
  start({
    overview: overview && drawOverview,
    open: (i) => {
      setHash("#node=" + index.targets[i].target);
      fillViews(load(i).views);
      showPage(i);
    },
    sideNote: ({ note }) => note,
    filter: (query) => movedTable.filter(query),
  });
})();
