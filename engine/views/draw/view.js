"use strict";
// A drawn plan: pan, zoom, search, details of vertices and edges, closed boxes that open.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  const way = (points) => {
    let [x, y] = points[0];
    let path = `M${x} ${y}`;
    for (const [a, b] of points.slice(1)) {
      const half = (a - x) / 2;
      path += b === y ? `H${a}` : `C${x + half} ${y} ${a - half} ${b} ${a} ${b}`;
      [x, y] = [a, b];
    }
    return path;
  };

  class View {
    constructor(svg, data, panel) {
      this.svg = svg;
      this.data = data;
      this.panel = panel;
      this.scene = svg.querySelector(".scene");
      this.marks = document.createElementNS(SVG, "g");
      this.marks.setAttribute("class", "marks");
      this.scene.append(this.marks);
      this.at = { x: 0, y: 0, scale: 1 };
      this.chosen = null;
      this.found = [];
      this.pointers = new Map();
      this.edgesOf = new Map();
      data.edges.forEach((edge, number) => {
        for (const end of [0, 1]) {
          if (!this.edgesOf.has(edge[end])) this.edgesOf.set(edge[end], []);
          this.edgesOf.get(edge[end]).push(number);
        }
      });
      this.listen();
    }

    // ---- pan and zoom
    apply() {
      const { x, y, scale } = this.at;
      this.scene.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
      this.svg.classList.toggle("far", scale < 0.3);
    }
    extent() {
      let right = 1, bottom = 1;
      for (const node of this.nodes()) {
        const box = this.box(node);
        right = Math.max(right, box.x + box.width);
        bottom = Math.max(bottom, box.y + box.height);
      }
      return { right, bottom };
    }
    fit() {
      const { right, bottom } = this.extent();
      const { clientWidth: width, clientHeight: height } = this.svg;
      const whole = Math.min(1.25, (width - 40) / right, (height - 40) / bottom);
      const scale = Math.max(whole, 0.02);
      this.at = { scale, x: Math.max(20, (width - right * scale) / 2), y: Math.max(20, (height - bottom * scale) / 2) };
      this.apply();
    }
    start() {
      // The whole plan if it is readable, else its sources.
      this.fit();
      if (this.at.scale >= 0.5) return;
      const boxes = this.nodes().map((node) => this.box(node));
      const left = Math.min(...boxes.map((box) => box.x));
      const first = boxes.filter((box) => box.x < left + 40).sort((a, b) => a.y - b.y);
      const middle = first[Math.floor(first.length / 2)];
      const scale = Math.max(0.6, Math.min(0.9, (this.svg.clientHeight - 40) / this.extent().bottom));
      this.at = { scale, x: 20 - left * scale, y: this.svg.clientHeight / 2 - (middle.y + middle.height / 2) * scale };
      this.apply();
    }
    zoom(factor, px = this.svg.clientWidth / 2, py = this.svg.clientHeight / 2) {
      const scale = Math.min(4, Math.max(0.02, this.at.scale * factor));
      const by = scale / this.at.scale;
      this.at = { scale, x: px - (px - this.at.x) * by, y: py - (py - this.at.y) * by };
      this.apply();
    }
    pan(dx, dy) {
      this.at.x += dx;
      this.at.y += dy;
      this.apply();
    }
    show(node) {
      const box = this.box(node);
      const { clientWidth: width, clientHeight: height } = this.svg;
      if (this.at.scale < 0.5) this.at.scale = 0.9;
      this.at.x = width / 2 - (box.x + Math.min(box.width, width) / 2) * this.at.scale;
      this.at.y = height / 2 - (box.y + Math.min(box.height, height) / 2) * this.at.scale;
      this.apply();
    }

    // ---- drawn elements
    nodes() { return [...this.scene.querySelectorAll(".node")]; }
    node(key) { return this.scene.querySelector(`.node[data-key="${key}"]`); }
    box(node) {
      const [x, y] = node.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
      const rect = node.querySelector(".box");
      return { x, y, width: Number(rect.getAttribute("width")), height: Number(rect.getAttribute("height")) };
    }
    drawnAs(key) {
      for (let one = key; one; one = this.data.nodes[one].inside) {
        const node = this.node(one);
        if (node) return node;
      }
      return null;
    }

    // ---- closed boxes
    open(key) {
      const node = this.node(key);
      const template = byId(`${this.svg.id}-${key}`);
      if (!node || !template || !node.classList.contains("closed")) return;
      const box = this.box(node);
      const [width, height] = this.data.inner[key];
      const pad = 12, title = 30;
      const wide = Math.max(width + 2 * pad, box.width), high = Math.max(height + title + pad, box.height);
      this.shift(box.x + box.width, box.y + box.height, wide - box.width, high - box.height, node);
      node.classList.replace("closed", "open");
      const rect = node.querySelector(".box");
      rect.setAttribute("width", wide);
      rect.setAttribute("height", high);
      node.querySelectorAll("text").forEach((one, place) => {
        one.toggleAttribute("hidden", place > 0);
        if (place === 0) one.setAttribute("y", "19");
      });
      const inner = template.content.querySelector("svg").cloneNode(true);
      this.scene.querySelector(".enclosing").append(node);
      for (const part of ["enclosing", "lines", "boxes"]) {
        const own = inner.querySelector(`.${part}`);
        const target = this.scene.querySelector(`.${part}`);
        for (const element of [...own.children]) {
          this.move(element, box.x + pad, box.y + title);
          target.append(element);
        }
      }
      this.mark();
    }
    move(element, dx, dy) {
      if (element.classList.contains("node")) {
        const [x, y] = element.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
        element.setAttribute("transform", `translate(${x + dx} ${y + dy})`);
      } else this.reroute(element, ([x, y]) => [x + dx, y + dy]);
    }
    // Elements right of or below a growing box move, so that nothing new overlaps.
    shift(right, bottom, dx, dy, grown) {
      const moved = ([x, y]) => [x >= right - 0.5 ? x + dx : x, y >= bottom - 0.5 ? y + dy : y];
      for (const node of this.nodes()) {
        if (node === grown) continue;
        const box = this.box(node);
        const [x, y] = moved([box.x, box.y]);
        node.setAttribute("transform", `translate(${x} ${y})`);
        if (node.classList.contains("open")) {
          const [farX, farY] = moved([box.x + box.width, box.y + box.height]);
          const rect = node.querySelector(".box");
          rect.setAttribute("width", farX - x);
          rect.setAttribute("height", farY - y);
        }
      }
      for (const line of this.scene.querySelectorAll(".line")) this.reroute(line, moved);
    }
    reroute(line, moved) {
      const points = line.dataset.points.split(" ").map((point) => moved(point.split(",").map(Number)));
      line.dataset.points = points.map((point) => point.join(",")).join(" ");
      const path = way(points);
      line.querySelector(".way").setAttribute("d", path);
      line.querySelector(".hit").setAttribute("d", path);
      const [x, y] = points[points.length - 1];
      line.querySelector(".head").setAttribute("d", `M${x} ${y}l-7 -3.5v7z`);
      const label = line.querySelector(".label");
      if (label) {
        const at = moved([Number(label.getAttribute("x")) + 9, Number(label.getAttribute("y")) + 4]);
        label.setAttribute("x", at[0] - 9);
        label.setAttribute("y", at[1] - 4);
      }
    }
    reveal(key) {
      const above = [];
      for (let one = this.data.nodes[key].inside; one; one = this.data.nodes[one].inside) above.unshift(one);
      above.forEach((one) => this.open(one));
    }

    // ---- selection
    choose(what) {
      this.chosen = what;
      if (what && what.node) this.reveal(what.node);
      this.mark();
      this.describe();
    }
    mark() {
      this.scene.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
      this.marks.replaceChildren();
      if (!this.chosen) return;
      if (this.chosen.node) {
        const own = this.node(this.chosen.node);
        if (own) own.classList.add("chosen");
        (this.edgesOf.get(this.chosen.node) || []).slice(0, 400).forEach((number) => this.markEdge(number));
      } else {
        for (const number of this.chosen.edges.slice(0, 400)) this.markEdge(number);
      }
    }
    markEdge(number) {
      const drawn = this.lineOf(number);
      if (drawn) {
        drawn.classList.add("chosen");
        return;
      }
      const [source, target] = this.data.edges[number].slice(0, 2).map((key) => this.drawnAs(key));
      if (!source || !target || source === target) return;
      const a = this.box(source), b = this.box(target);
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", way([[a.x + a.width, a.y + a.height / 2], [b.x, b.y + b.height / 2]]));
      this.marks.append(path);
    }
    lineOf(number) {
      if (!this.lines || this.lines.count !== this.scene.querySelectorAll(".line").length) {
        this.lines = { count: 0, of: new Map() };
        for (const line of this.scene.querySelectorAll(".line")) {
          this.lines.count += 1;
          const edges = line.dataset.edges.split(",");
          if (edges.length === 1) this.lines.of.set(Number(edges[0]), line);
        }
      }
      return this.lines.of.get(number);
    }
    describe() {
      const body = this.panel.querySelector(".known");
      body.replaceChildren();
      this.panel.hidden = !this.chosen;
      if (!this.chosen) return;
      if (this.chosen.node) this.describeNode(body, this.chosen.node);
      else this.describeEdges(body, this.chosen.edges);
      this.panel.scrollTop = 0;
    }
    describeNode(body, key) {
      const node = this.data.nodes[key];
      body.append(make("h2", node.name));
      body.append(this.facts(node.facts));
      if (node.lines && node.lines.length > 1) {
        body.append(make("h3", "Operators of its chain"));
        const list = make("ol");
        node.lines.slice(0, 300).forEach((line) => list.append(make("li", line)));
        body.append(list);
      }
      if (this.data.inner[key] && this.node(key) && this.node(key).classList.contains("closed")) {
        const button = make("button", "Open this box (Enter)");
        button.addEventListener("click", () => { this.open(key); this.describe(); });
        body.append(button);
      }
      const edges = this.edgesOf.get(key) || [];
      for (const [heading, end, other] of [["Reads from", 1, 0], ["Read by", 0, 1]]) {
        const own = edges.filter((number) => this.data.edges[number][end] === key);
        if (own.length) this.list(body, heading, own, (number) => this.data.nodes[this.data.edges[number][other]].name);
      }
    }
    describeEdges(body, numbers) {
      const name = (number, end) => this.data.nodes[this.data.edges[number][end]].name;
      if (numbers.length === 1) {
        const [source, target, label, facts] = this.data.edges[numbers[0]];
        body.append(make("h2", `${name(numbers[0], 0)} → ${name(numbers[0], 1)}`));
        body.append(this.facts(facts.length ? facts : [["edge", label]]));
        for (const [text, key] of [["Producer", source], ["Reader", target]]) {
          const button = make("button", text);
          button.addEventListener("click", () => this.go(key));
          body.append(button);
        }
      } else {
        body.append(make("h2", `${numbers.length.toLocaleString("en")} edges`));
        this.list(body, "Each of them", numbers, (number) => `${name(number, 0)} → ${name(number, 1)}`);
      }
    }
    facts(facts) {
      const list = make("dl");
      for (const [heading, value] of facts) list.append(make("dt", heading), make("dd", value));
      return list;
    }
    list(body, heading, numbers, text) {
      body.append(make("h3", `${heading} (${numbers.length.toLocaleString("en")})`));
      const list = make("ul", undefined, "edges");
      for (const number of numbers.slice(0, 200)) {
        const item = make("li");
        const button = make("button", text(number));
        const label = this.data.edges[number][2];
        if (label) button.append(make("small", label));
        button.addEventListener("click", () => this.choose({ edges: [number] }));
        item.append(button);
        list.append(item);
      }
      body.append(list);
      if (numbers.length > 200) body.append(make("p", `… and ${(numbers.length - 200).toLocaleString("en")} more`));
    }
    go(key) {
      this.choose({ node: key });
      const node = this.node(key);
      if (node) this.show(node);
    }
    towards(dx, dy) {
      // The nearest box in that direction; the first box if none is chosen.
      const from = this.chosen && this.chosen.node && this.node(this.chosen.node);
      const nodes = this.nodes();
      if (!from) {
        if (nodes.length) this.go(nodes.reduce((a, b) => (this.box(b).x < this.box(a).x ? b : a)).dataset.key);
        return;
      }
      const own = this.box(from);
      let best = null, least = Infinity;
      for (const node of nodes) {
        if (node === from || node.classList.contains("open")) continue;
        const box = this.box(node);
        const x = box.x - own.x, y = box.y + box.height / 2 - own.y - own.height / 2;
        const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
        if (along > 4 && along + across * 3 < least) [best, least] = [node, along + across * 3];
      }
      if (best) this.go(best.dataset.key);
    }
    search(text) {
      const wanted = text.trim().toLowerCase();
      this.scene.querySelectorAll(".found").forEach((one) => one.classList.remove("found"));
      this.found = [];
      if (wanted) {
        for (const [key, node] of Object.entries(this.data.nodes)) {
          const texts = [node.name, ...(node.lines || [])];
          if (texts.some((one) => one.toLowerCase().includes(wanted))) this.found.push(key);
        }
        for (const key of this.found) {
          const drawn = this.drawnAs(key);
          if (drawn) drawn.classList.add("found");
        }
      }
      this.next = 0;
      return wanted ? this.found.length : null;
    }
    nextFound() {
      if (!this.found.length) return;
      const key = this.found[this.next % this.found.length];
      this.next += 1;
      this.go(key);
    }

    // ---- pointers and keys
    listen() {
      const { svg } = this;
      svg.addEventListener("wheel", (event) => {
        event.preventDefault();
        const box = svg.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
      }, { passive: false });
      svg.addEventListener("pointerdown", (event) => {
        this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
        this.dragged = 0;
      });
      svg.addEventListener("pointermove", (event) => this.drag(event));
      for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
        svg.addEventListener(kind, (event) => this.pointers.delete(event.pointerId));
      }
      svg.addEventListener("click", (event) => {
        if (this.dragged > 6) return;
        const hit = event.target.closest(".node, .line");
        if (!hit) this.choose(null);
        else if (hit.classList.contains("node")) {
          const key = hit.dataset.key;
          const again = this.chosen && this.chosen.node === key;
          if (hit.classList.contains("closed") && again) this.open(key);
          this.choose({ node: key });
        } else this.choose({ edges: hit.dataset.edges.split(",").map(Number) });
      });
      svg.addEventListener("dblclick", (event) => {
        const hit = event.target.closest(".node.closed");
        if (hit) this.open(hit.dataset.key);
      });
    }
    drag(event) {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId);
      if (other) {
        const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
        const box = this.svg.getBoundingClientRect();
        const middle = [(now[0] + other[1][0]) / 2 - box.left, (now[1] + other[1][1]) / 2 - box.top];
        this.zoom(apart(now, other[1]) / Math.max(1, apart(before, other[1])), ...middle);
        this.dragged = 100;
      } else {
        this.dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
        if (this.dragged > 6) {
          this.svg.setPointerCapture(event.pointerId);
          this.pan(now[0] - before[0], now[1] - before[1]);
        }
      }
      this.pointers.set(event.pointerId, now);
    }
    key(event) {
      const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key in arrows) {
        const [dx, dy] = arrows[event.key];
        if (event.shiftKey) this.pan(-dx * 80, -dy * 80);
        else this.towards(dx, dy);
      } else if (event.key === "Enter" && this.chosen && this.chosen.node) {
        this.open(this.chosen.node);
        this.describe();
      } else if (event.key === "e" && this.chosen && this.chosen.node) {
        const edges = this.edgesOf.get(this.chosen.node);
        if (edges) this.choose({ edges: [edges[0]] });
      } else return false;
      return true;
    }
  }

  window.PenstockView = View;
})();
