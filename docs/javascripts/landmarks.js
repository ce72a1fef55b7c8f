// Labels by which screen readers distinguish the navigation parts of a page.
const labelLandmarks = () => {
  const seen = new Map();
  document.querySelectorAll("nav").forEach((nav) => {
    const label = nav.getAttribute("aria-label") ?? (nav.classList.contains("md-code__nav") ? "Code block" : null);
    if (label === null) return;
    seen.set(label, (seen.get(label) ?? 0) + 1);
    nav.setAttribute("aria-label", seen.get(label) > 1 ? `${label} ${seen.get(label)}` : label);
  });
};
addEventListener("load", () => setTimeout(labelLandmarks, 0));
