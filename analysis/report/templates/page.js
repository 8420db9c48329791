"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.appendChild(node);
    return node;
  };

  // ---- what lies far down is text until somebody comes near it, asks for it or prints
  const unmade = [];
  const near = (box, make) => {
    let made = false;
    const once = () => { if (!made) { made = true; make(); } };
    unmade.push(once);
    const eye = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) { eye.disconnect(); once(); } }, { rootMargin: "600px" });
    eye.observe(box);
  };
  const figure = (box) => near(box, () => { box.outerHTML = JSON.parse(box.nextElementSibling.textContent); });
  const given = new WeakMap();
  const rowsOf = (table) => {
    if (!given.has(table)) {
      const rest = document.querySelector(`.rest[data-of="${table.id}"]`);
      if (rest) {
        const box = document.createElement("template");
        box.innerHTML = JSON.parse(rest.querySelector("script").textContent);
        table.tBodies[0].append(box.content);
        rest.remove();
      }
      given.set(table, [...table.tBodies[0].rows]);
    }
    return given.get(table);
  };
  const more = (rest) => {
    const table = document.getElementById(rest.dataset.of);
    unmade.push(() => rowsOf(table));
    rest.querySelector("button").addEventListener("click", () => {
      const next = table.tBodies[0].rows.length;
      rowsOf(table)[next].cells[0].querySelector("a")?.focus(); // where the button was, so that a keyboard goes on from there
    });
  };
  const countOf = (table) => table.tBodies[0].rows.length + Number(document.querySelector(`.rest[data-of="${table.id}"]`)?.dataset.count || 0);

  // ---- tables: a click on a head sorts up, down, then back to the given order; empty cells stay last
  const value = (cell) => {
    const text = cell.dataset.sort;
    if (text === undefined || text === "") return null;
    const number = Number(text);
    return Number.isNaN(number) ? text : number;
  };
  const order = (a, b) => {
    if (a === null || b === null) return null;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", next);
        const sign = next === "descending" ? -1 : 1;
        const rows = rowsOf(table);
        const key = new Map(rows.map((row) => [row, value(row.cells[column])]));
        const sorted = next === "none" ? rows : [...rows].sort((a, b) => {
          const compared = order(key.get(a), key.get(b));
          return compared === null ? (key.get(a) === null) - (key.get(b) === null) : sign * compared;
        });
        body.append(...sorted);
      });
    });
  };
  const filterable = (tools) => {
    const table = document.getElementById(tools.dataset.filters);
    const words = tools.querySelector("input");
    const choice = tools.querySelector("select");
    const shown = tools.querySelector("output");
    const apply = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rowsOf(table)) {
        const text = row.textContent.toLowerCase();
        const keep = wanted.every((word) => text.includes(word)) && (!choice || !choice.value || row.dataset.status === choice.value);
        row.hidden = !keep;
        count += keep ? 1 : 0;
      }
      shown.textContent = `${count} of ${countOf(table)} shown`;
    };
    words.addEventListener("input", apply);
    if (choice) choice.addEventListener("change", apply);
    const all = countOf(table);
    shown.textContent = `${all} of ${all} shown`;
  };

  // ---- charts: lines with bands; a pointer or the arrow keys read the values of a step
  const LEFT = 62, RIGHT = 14, TOP = 12, BOTTOM = 40;
  const ticks = (low, high, n) => {
    const raw = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((s) => s * power >= raw) * power;
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(10)));
    return found;
  };
  const short = (x) => (x === null || x === undefined ? "-" : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(2) : String(Number(x.toPrecision(5))));
  // the same hue by day and by night: a dark one gets lighter on a dark ground, black turns white
  const hues = (color) => {
    const parts = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
    const light = (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
    const mix = Math.max(0, Math.min(0.9, (0.62 - light) * 1.45));
    return `--day: ${color}; --night: rgb(${parts.map((p) => Math.round(p + (255 - p) * mix)).join(" ")})`;
  };
  const chart = (box) => {
    const data = JSON.parse(box.querySelector("script").textContent);
    const metrics = Object.keys(data.metrics);
    let W = 860, H = 380; // pixels, so that text keeps its size on a phone
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: "0", role: "application", "aria-label": "Curves: left and right arrow keys read the values step by step" });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    const live = document.createElement("div");
    live.className = "soft small";
    live.setAttribute("aria-live", "polite");
    const select = box.querySelector("select");
    const key = box.querySelector(".key");
    const on = new Set(data.on);
    box.querySelector(".canvas").append(svg, tip);
    box.append(live);
    if (!metrics.length) { live.textContent = "no curve has been logged yet"; return; }
    let scale = null, steps = [], at = -1;

    const lines = () => Object.entries(data.metrics[select.value]).filter(([name]) => on.has(name));
    const limits = (drawn) => {
      const all = drawn.flatMap(([, points]) => points.flatMap((p) => [p[1], p[2], p[3]])).filter((v) => typeof v === "number");
      const sorted = [...all].sort((a, b) => a - b);
      let low = sorted[0] ?? 0, high = sorted[sorted.length - 1] ?? 1;
      const q1 = sorted[Math.floor(sorted.length / 4)], q3 = sorted[Math.floor(sorted.length * 3 / 4)];
      if (sorted.length > 8 && high - q3 > 6 * (q3 - q1) && q3 > q1) high = q3 + 4 * (q3 - q1);
      const pad = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
      return [low - pad, high + pad];
    };
    const keys = [];
    const draw = () => {
      for (const [name, label] of keys) label.hidden = !(name in data.metrics[select.value]);
      W = Math.max(300, Math.round(box.querySelector(".canvas").clientWidth) || 860);
      H = W < 600 ? 280 : 400;
      svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
      svg.replaceChildren();
      const drawn = lines();
      steps = [...new Set(drawn.flatMap(([, points]) => points.map((p) => p[0])))].sort((a, b) => a - b);
      if (!steps.length) { live.textContent = "nothing is switched on"; return; }
      const [low, high] = limits(drawn);
      const first = steps[0], last = steps[steps.length - 1];
      scale = { x: (s) => LEFT + (W - LEFT - RIGHT) * (last > first ? (s - first) / (last - first) : 0.5), y: (v) => TOP + (H - TOP - BOTTOM) * (1 - (v - low) / (high - low)) };
      for (const tick of ticks(low, high, 6)) {
        make("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: scale.y(tick), y2: scale.y(tick) }, svg);
        make("text", { x: LEFT - 6, y: scale.y(tick) + 4, "text-anchor": "end" }, svg).textContent = short(tick);
      }
      for (const tick of ticks(first, last, W / 110)) make("text", { x: scale.x(tick), y: H - BOTTOM + 18, "text-anchor": "middle" }, svg).textContent = short(tick);
      make("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, "text-anchor": "middle" }, svg).textContent = "optimiser steps";
      const clip = make("clipPath", { id: `clip-${box.id}` }, svg);
      make("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM }, clip);
      const plot = make("g", { "clip-path": `url(#clip-${box.id})` }, svg);
      for (const [name, points] of drawn) {
        const look = data.looks[name];
        const banded = points.filter((p) => typeof p[2] === "number");
        if (banded.length > 1) {
          const edge = [...banded.map((p) => `${scale.x(p[0])},${scale.y(p[3])}`), ...banded.reverse().map((p) => `${scale.x(p[0])},${scale.y(p[2])}`)];
          make("polygon", { points: edge.join(" "), class: "band" }, plot).style.cssText = hues(look.color);
        }
        const line = make("polyline", { points: points.map((p) => `${scale.x(p[0])},${scale.y(p[1])}`).join(" "), class: "line", fill: "none", "stroke-width": 2, "stroke-dasharray": look.dash }, plot);
        line.style.cssText = hues(look.color);
      }
      make("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, x1: -9, x2: -9 }, svg);
    };
    const read = (index) => {
      if (!steps.length) return;
      at = Math.max(0, Math.min(steps.length - 1, index));
      const step = steps[at], x = scale.x(step);
      const cursor = svg.querySelector(".cursor");
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      const rows = lines().map(([name, points]) => [name, points.find((p) => p[0] === step)]).filter(([, p]) => p).sort((a, b) => a[1][1] - b[1][1]);
      tip.replaceChildren();
      const head = document.createElement("b");
      head.textContent = `step ${step}`;
      tip.append(head);
      for (const [name, p] of rows) {
        const row = document.createElement("div");
        const range = typeof p[2] === "number" ? ` (${short(p[2])} to ${short(p[3])}, n=${p[4]})` : "";
        row.textContent = `${name === "value" ? "" : `${name}: `}${short(p[1])}${range}`;
        tip.append(row);
      }
      tip.hidden = false;
      const ratio = svg.getBoundingClientRect().width / W;
      const wide = tip.offsetWidth, room = svg.getBoundingClientRect().width;
      tip.style.left = `${Math.max(0, Math.min(x * ratio + 14, room - wide))}px`;
      tip.style.top = `${x * ratio + 14 + wide > room ? H * ratio : 16}px`;
      live.textContent = rows.length ? "" : `step ${step}: no value`;
      svg.setAttribute("aria-valuetext", tip.textContent);
    };
    svg.addEventListener("pointermove", (event) => {
      if (!steps.length) return;
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * W;
      let best = 0;
      steps.forEach((s, i) => { if (Math.abs(scale.x(s) - x) < Math.abs(scale.x(steps[best]) - x)) best = i; });
      read(best);
    });
    const leave = () => { tip.hidden = true; const c = svg.querySelector(".cursor"); if (c) { c.setAttribute("x1", -9); c.setAttribute("x2", -9); } };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      read(move);
    });
    for (const metric of metrics) select.add(new Option(data.label[metric] || metric, metric));
    select.addEventListener("change", () => { leave(); draw(); });
    const names = Object.keys(data.looks);
    if (key && names.length > 1) {
      for (const name of names) {
        const label = document.createElement("label");
        const check = document.createElement("input");
        check.type = "checkbox";
        check.checked = on.has(name);
        check.addEventListener("change", () => { if (check.checked) on.add(name); else on.delete(name); leave(); draw(); });
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.cssText = hues(data.looks[name].color);
        if (data.looks[name].dash) swatch.style.borderTopStyle = "dashed";
        label.append(check, swatch, name);
        key.append(label);
        keys.push([name, label]);
      }
    }
    draw();
    window.addEventListener("resize", () => { leave(); draw(); });
  };
  // ---- wide tables stop at whole columns beside the first, which stays; its edge shows only while something is under it
  const slide = (box) => {
    const first = box.querySelector("thead th");
    const fit = () => box.style.setProperty("--first", `${first ? first.offsetWidth : 0}px`);
    const edge = () => box.classList.toggle("slid", box.scrollLeft > 0);
    box.addEventListener("scroll", edge, { passive: true });
    new ResizeObserver(fit).observe(first || box);
  };
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".scroll").forEach(slide);
  document.querySelectorAll(".tools[data-filters]").forEach(filterable);
  document.querySelectorAll(".rest").forEach(more);
  document.querySelectorAll(".later").forEach(figure);
  document.querySelectorAll(".chart").forEach((box) => near(box, () => chart(box)));
  window.addEventListener("beforeprint", () => unmade.forEach((make) => make()));
})();
