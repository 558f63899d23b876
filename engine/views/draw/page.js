"use strict";
// A page of drawn layers, one at a time, with tools and keys.
(() => {
  const byId = (id) => document.getElementById(id);
  const { PenstockView: View } = window;
  const data = JSON.parse(byId("plan").textContent);
  const panel = byId("panel");
  const views = data.map((layer, number) => new View(byId(`picture${number}`), layer, panel));
  let current = views[0];
  const started = new Set();
  const counted = byId("counted");

  const choose = (number) => {
    views.forEach((view, place) => { view.svg.toggleAttribute("hidden", place !== number); });
    document.querySelectorAll("#layers button").forEach((one, place) => one.setAttribute("aria-pressed", place === number));
    document.querySelectorAll(".legend-of").forEach((one, place) => { one.hidden = place !== number; });
    current = views[number];
    current.describe();
    if (!started.has(number)) current.start();
    started.add(number);
    search();
  };
  const search = () => {
    const found = current.search(byId("search").value);
    counted.textContent = found === null ? "" : `${found.toLocaleString("en")} found`;
  };

  document.querySelectorAll("#layers button").forEach((one, place) => one.addEventListener("click", () => choose(place)));
  byId("search").addEventListener("input", search);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); current.nextFound(); }
    if (event.key === "Escape") { event.target.value = ""; search(); current.svg.focus(); }
  });
  byId("larger").addEventListener("click", () => current.zoom(1.3));
  byId("smaller").addEventListener("click", () => current.zoom(1 / 1.3));
  byId("whole").addEventListener("click", () => current.fit());
  byId("close").addEventListener("click", () => { current.choose(null); current.svg.focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") byId("search").focus();
    else if (event.key === "+" || event.key === "=") current.zoom(1.3);
    else if (event.key === "-") current.zoom(1 / 1.3);
    else if (event.key === "0") current.fit();
    else if (event.key === "n") current.nextFound();
    else if (event.key === "Escape") current.choose(null);
    else if (event.target.closest("button, aside") || !current.key(event)) return;
    event.preventDefault();
  });
  choose(0);
})();
