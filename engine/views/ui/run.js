"use strict";
// The page of a run: its plan, and its state as the server sends it.
(() => {
  const byId = (id) => document.getElementById(id);
  const table = byId("vertices");
  const data = JSON.parse(byId("plan").textContent);
  const view = data.length ? new window.PenstockView(byId("picture0"), data[0], byId("panel")) : null;

  const show = (run) => {
    const state = byId("state");
    state.textContent = run.state;
    state.className = `state ${run.state}`;
    byId("seconds").textContent = run.seconds;
    byId("failure").textContent = run.failure;
    byId("failure").hidden = !run.failure;
    byId("cancel").hidden = run.is_final;
    for (const one of run.vertices) {
      const row = table.querySelector(`tr[data-key="${one.key}"]`);
      if (row) {
        for (const cell of row.querySelectorAll("[data-of]")) {
          const text = one[cell.dataset.of];
          if (cell.textContent !== text) cell.textContent = text;
          if (cell.dataset.of === "state") cell.className = `state ${text}`;
        }
      }
      paint(one.key, one.state, one.note);
    }
  };
  const latest = new Map();
  const paint = (key, state, note) => {
    latest.set(key, [state, note]);
    const node = view && view.node(key);
    if (!node) return;
    node.setAttribute("class", `${node.getAttribute("class").replace(/ is-[A-Z]+/g, "")} is-${state}`);
    const line = node.querySelector(".note");
    if (line && note) line.textContent = note;
  };

  if (view) {
    const open = view.open.bind(view);
    view.open = (key) => {
      open(key);
      latest.forEach(([state, note], one) => paint(one, state, note));
    };
    view.start();
    byId("larger").addEventListener("click", () => view.zoom(1.3));
    byId("smaller").addEventListener("click", () => view.zoom(1 / 1.3));
    byId("whole").addEventListener("click", () => view.fit());
    byId("close").addEventListener("click", () => view.choose(null));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, a, input, aside")) return;
      if (event.key === "+" || event.key === "=") view.zoom(1.3);
      else if (event.key === "-") view.zoom(1 / 1.3);
      else if (event.key === "0") view.fit();
      else if (event.key === "Escape") view.choose(null);
      else if (document.activeElement !== view.svg || !view.key(event)) return;
      event.preventDefault();
    });
  }
  for (const row of table.querySelectorAll("tbody tr")) {
    const text = (of) => row.querySelector(`[data-of="${of}"]`).textContent;
    paint(row.dataset.key, text("state"), "");
    row.addEventListener("click", () => { if (view) view.go(row.dataset.key); });
  }
  if (!("final" in table.dataset)) {
    const events = new EventSource(`/runs/${table.dataset.run}/events`);
    const live = byId("live");
    events.onopen = () => { live.textContent = "live"; };
    events.onmessage = (event) => show(JSON.parse(event.data));
    events.onerror = () => { live.textContent = "not connected"; };
    events.addEventListener("over", () => { events.close(); live.textContent = ""; });
  }
})();
