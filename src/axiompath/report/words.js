// The page explains its own words: where the pointer or the focus is on one, and in a list at its end.
const WORDS = {
  KL: "Kullback-Leibler divergence, in nats: how far a predicted distribution moved. 0 is not at all; 0.1 is noticeable; above 1 hardly anything is left of the old prediction.",
  explained: "The share of the change that the chosen paths account for, by their sums: 100 % is all of it. What the network itself computes with them stands beside it.",
  bound: "A proved limit: no other choice of as many paths leaves less than this. The nearer to what is left, the less a better choice could gain.",
  "fidelity −": "The network is run on `after` with the chosen paths undone. 0: it predicts as on `before` again, so these paths were what it took. 1: undoing them did nothing.",
  "fidelity +": "The network is run on `before` with the chosen paths added. 0: it predicts as on `after`, so these paths are enough. 1: they did nothing.",
  path: "A way that messages take through the network: from a leaf, edge by edge and layer by layer, to what is predicted. It is altered where anything on it changed.",
  logit: "What the network computes for a class before it becomes a probability. Only differences between logits count.",
  share: "What a path or change adds to what is shown; all shares together are exactly the whole change.",
  blame: "The Shapley value of a change: what it does to the prediction, averaged over all orders in which the changes could have happened.",
  "probability moved": "By how much the probability of what is predicted now went up or down, without its sign; summed over predictions.",
  carried: "The shares that a change has of predictions, counted for the way that each went, as a part of all probability moved. Changes that held predictions back count against it.",
  renormalised: "Kept edges whose coefficient changed, because the degree or weight at one of their ends did.",
  flipped: "Another class is predicted than before.",
};
const describe = (node) => { node.setAttribute("aria-description", WORDS[node.dataset.word]); return node; };
const word = (term, text = term) => describe(el("button", { type: "button", class: "word", "data-word": term }, text));
const tellWord = (event) => {
  const node = event.target.closest?.("[data-word]");
  if (!node) return;
  const box = node.getBoundingClientRect();
  showTip(WORDS[node.dataset.word], box.left, box.bottom - 12);
};
addEventListener("mouseover", tellWord);
addEventListener("focusin", tellWord);
addEventListener("mouseout", (event) => { if (event.target.closest?.("[data-word]")) hideTip(); });
addEventListener("focusout", (event) => { if (event.target.closest?.("[data-word]")) hideTip(); });
document.querySelectorAll("[data-word]").forEach(describe);
$("glossary").replaceChildren(...Object.entries(WORDS).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
addEventListener("beforeprint", () => { $("words").open = true; });
