// The page explains its own words: where the pointer or the focus is on one, and in a list at its end.
const WORDS = {
  KL: "Kullback-Leibler divergence, in nats: how far a predicted distribution moved. 0: unchanged; 0.1: noticeable; above 1: hardly anything of the old prediction remains.",
  explained: "The share of the change that the chosen paths account for, by their sums: 100 % is all of it. What the network itself computes with them stands beside it.",
  bound: "A proved limit: no other choice of as many paths leaves less than this. The nearer to what is left, the less a better choice could gain.",
  "fidelity −": "The network is run on `after` with the chosen paths undone. 0: it predicts as on `before` again, so these paths account for the change. 1: undoing them did nothing.",
  "fidelity +": "The network is run on `before` with the chosen paths added. 0: it predicts as on `after`, so these paths are enough. 1: they did nothing.",
  path: "The way of a message through the network: from a leaf, edge by edge and layer by layer, to the prediction. It is altered if anything on it changed.",
  logit: "What the network computes for a class before it becomes a probability. Only differences between logits count.",
  share: "What a path or change adds to the number shown; all shares sum exactly to its change.",
  blame: "The Shapley value of a change: what it does to the prediction, averaged over all orders in which the changes could have happened.",
  "probability moved": "By how much the probability of the present prediction went up or down, without sign; summed over predictions.",
  carried: "The shares of a change, in the direction in which each prediction moved, as a part of the total change in probability. Shares that held a prediction back count negatively.",
  renormalised: "Unchanged edges with another coefficient, because a degree or weight at one of their ends changed.",
  flipped: "The predicted class changed.",
};
const describe = (node) => { node.setAttribute("aria-description", WORDS[node.dataset.word]); return node; };
const word = (term, text = term) => describe(el("button", { type: "button", class: "word", "data-word": term }, text));
const showWord = (event) => {
  const node = event.target.closest?.("[data-word]");
  if (!node) return;
  const box = node.getBoundingClientRect();
  showTip(WORDS[node.dataset.word], box.left, box.bottom - 12);
};
addEventListener("mouseover", showWord);
addEventListener("focusin", showWord);
addEventListener("mouseout", (event) => { if (event.target.closest?.("[data-word]")) hideTip(); });
addEventListener("focusout", (event) => { if (event.target.closest?.("[data-word]")) hideTip(); });
document.querySelectorAll("[data-word]").forEach(describe);
$("glossary").replaceChildren(...Object.entries(WORDS).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
addEventListener("beforeprint", () => { $("words").open = true; });
