// What the reader does: pointing, clicking, keys, search; the details of the selected equation.

const $ = (selector) => document.querySelector(selector);
const tip = $(".tip"), search = $(".search input"), details = $(".details");

// -- What is said of things

const sizeText = (program, v) => amount(program.bytesOf(v), "B");

function variableTip(program, v) {
  const e = program.producer[v], readers = program.readers.get(v) || [];
  const from = e < 0 ? "an argument" : `made by ${program.primitives[program.eqns[e][PRIMITIVE]]}, ${program.indexOf(e)}`;
  return `${escape(program.typed(v))}\n<small>${sizeText(program, v)} · ${from} · read by ${plural(readers.length, "equation")}</small>`;
}

function equationTip(program, e) {
  const eqn = program.eqns[e], source = program.sources[eqn[SOURCE]];
  const types = (vars) => vars.map((v) => program.typeOf(v)).join(" ") || "nothing";
  const lines = [`<span class="pr">${escape(program.primitives[eqn[PRIMITIVE]])}</span>  ` +
    `<span class="ty">${escape(types(eqn[OPERANDS]))} → ${escape(types(eqn[RESULTS]))}</span>`];
  program.paramsText(eqn).forEach(([key, value]) => lines.push(`<span class="pa">  ${escape(key)}=</span>${escape(value)}`));
  if (source) lines.push(`<small>${escape(`${source[0]}:${source[1]} ${source[2]}`)}</small>  ${escape(source[3])}`);
  return lines.join("\n");
}

function showTip(html, event) {
  tip.innerHTML = html;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18 + box.height < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? event.clientY + 18 : Math.max(8, event.clientY - box.height - 10)}px`;
}
const hideTip = () => { tip.hidden = true; };

function showDetails(side, e) {
  if (e < 0) { details.innerHTML = summary(); return; }
  const program = programs[side], eqn = program.eqns[e], source = program.sources[eqn[SOURCE]];
  const link = (to) => `<a data-to="${to}">${program.indexOf(to)} ${escape(program.primitives[program.eqns[to][PRIMITIVE]])}</a>`;
  const value = (v, ends) => `<tr><td>${ends}</td><td>${v < 0 ? `<span class="li">${escape(program.textOf(v))}</span>` :
    `<span class="v" data-v="${v}">${escape(program.names[v])}</span>`}</td><td class="ty">${escape(program.typeOf(v))}</td>` +
    `<td>${v < 0 ? "" : sizeText(program, v)}</td><td>${whence(v, ends)}</td></tr>`;
  const whence = (v, ends) => {
    if (v < 0) return "";
    if (ends === "takes") return program.producer[v] < 0 ? "an argument" : `from ${link(program.producer[v])}`;
    const readers = program.readers.get(v) || [];
    return (readers.length ? `to ${readers.slice(0, 6).map(link).join(", ")}` : "") + (readers.length > 6 ? ` and ${readers.length - 6} more` : "");
  };
  const line = source ? `<div class="line"><small>${escape(`${source[0]}:${source[1]} in ${source[2]}`)}` +
    `${source[4] ? escape(`, cotangent of ${source[4]}`) : ""}</small>${escape(source[3]) || "…"}</div>` : "";
  const params = program.paramsText(eqn).map(([key, text]) => `<tr><td>${escape(key)}</td><td class="wrap">${escape(text)}</td></tr>`);
  const costs = [`${amount(eqn[FLOPS], "").trim()} operations`, `${amount(eqn[BYTES], "B")} read and written`,
    `${amount(eqn[ALIVE], "B")} alive`, ...(eqn[SENT] ? [`${amount(eqn[SENT], "B")} sent by each device`] : []), ...(program.isTimed ? [duration(eqn[SECONDS])] : [])].join(" · ");
  details.innerHTML = `<h2>${program.indexOf(e)} ${escape(program.primitives[eqn[PRIMITIVE]])}<small>${costs}</small></h2>${line}` +
    `<table>${eqn[OPERANDS].map((v) => value(v, "takes")).join("")}${eqn[RESULTS].map((v) => value(v, "gives")).join("")}</table>` +
    (params.length ? `<table style="margin-top:6px">${params.join("")}</table>` : "");
  details.dataset.side = side;
}

function summary() {
  if (!comparing) return `<span class="hint">Select an equation, or point at something. Press <kbd>?</kbd> for the keys.</span>`;
  const counts = [0, 0, 0, 0, 0];
  aligned.forEach((rows) => rows.forEach((row) => { counts[row[2]] += row[2] === MOVED ? 0.5 : 1; }));
  const parts = counts.map((n, status) => n ? plural(n, "equation") + ` ${STATUS[status] || "the same"}` : "").filter(Boolean);
  return `<span class="hint">${parts.join(" · ")}. Press <kbd>n</kbd> for the next change.</span>`;
}

// -- Selecting

function select(index, { side, scroll = true } = {}) {
  const row = state.rows[index];
  if (!row) return;
  state.selected = row.key;
  if (scroll) scrollToRow(index);
  drawRows();
  if (row.kind !== "eqn") { showDetails(0, -1); return; }
  const own = side !== undefined && row.eqns[side] >= 0 ? side : row.eqns[view.side] >= 0 ? view.side : row.eqns.findIndex((e) => e >= 0);
  const e = row.eqns[own];
  showDetails(own, e);
  enter(own, programs[own].jaxprOf[e]);
  view.box = boxOf(e);
  centre(view.box);
}

function goTo(side, e, options) {
  const before = open.size, key = reveal(side, e);
  if (open.size !== before) layoutRows();
  select(rowOf.get(key), { side, ...options });
}

function selectNothing() {
  state.selected = "";
  view.box = -1;
  follow(null);
  showDetails(0, -1);
  drawRows();
  drawGraph();
}

function fold(index, wanted) {
  const row = state.rows[index];
  if (!row || (row.kind === "eqn" && !heldBy(row.eqns).length)) return false;
  const isOpen = open.has(row.key);
  if (wanted === isOpen) return false;
  if (isOpen) open.delete(row.key); else open.add(row.key);
  layoutRows(row.key);
  return true;
}

function foldAll(opened) {
  if (opened) openAll(); else open.clear();
  layoutRows();
}

// -- Searching

function find(text) {
  const terms = text.toLowerCase().split(/\s+/).filter(Boolean);
  const look = (withSource) => {
    state.found = [];
    state.foundSet = programs.map((program, side) => {
      const found = new Set();
      if (!terms.length) return found;
      program.eqns.forEach((_, e) => {
        if (program.matches(e, terms, withSource)) { found.add(e); state.found.push([side, e]); }
      });
      return found;
    });
  };
  look(false);
  if (!state.found.length) look(true);
  const order = programs.map((program) => readingOrder(program));
  state.found.sort(([a, e], [b, f]) => a - b || order[a][e] - order[b][f]);
  state.now = -1;
  if (terms.length && state.found.length) goToFound(0);
  else { drawRows(); drawOverview(); }
  sayFound(terms.length > 0);
}

// The order in which equations are read: those of inner jaxprs right after the equation that holds them first.
function readingOrder(program) {
  if (program.order) return program.order;
  program.order = new Int32Array(program.eqns.length);
  const seen = new Set();
  let next = 0;
  const walk = (j) => {
    seen.add(j);
    const [, , , first, count] = program.jaxprs[j];
    for (let e = first; e < first + count; e += 1) {
      program.order[e] = next;
      next += 1;
      program.held[e].forEach(({ jaxpr }) => { if (!seen.has(jaxpr)) walk(jaxpr); });
    }
  };
  walk(0);
  return program.order;
}

function goToFound(step) {
  if (!state.found.length) return;
  state.now = state.now < 0 ? (step < 0 ? state.found.length - 1 : 0) : (state.now + step + state.found.length) % state.found.length;
  goTo(...state.found[state.now]);
  drawOverview();
  sayFound(true);
}

function sayFound(asked) {
  $(".search output").textContent = !asked ? "" : state.found.length ? `${state.now + 1} of ${state.found.length.toLocaleString("en")}` : "nothing";
}

function goToChange(step) {
  const count = state.rows.length, changed = (row) => row && row.kind === "eqn" && row.status !== SAME;
  let index = rowOf.has(state.selected) ? rowOf.get(state.selected) : -1;
  while (changed(state.rows[index]) && changed(state.rows[index + step])) index += step; // past this run of changes
  for (let i = 1; i <= count; i += 1) {
    const at = (index + step * i + 2 * count) % count;
    if (changed(state.rows[at])) { select(at); return; }
  }
}

// -- The pointer

function point(lit) {
  light(lit);
  view.lit = lit && lit.side === view.side ? lit.v : -1;
  drawGraph();
}

// A variable that was clicked on stays marked.
function follow(lit) {
  state.followed = lit;
  point(lit);
}

rowsElement.addEventListener("mouseover", (event) => {
  const variable = event.target.closest("[data-v]"), row = event.target.closest(".row");
  const cell = event.target.closest("[data-side]");
  if (variable) {
    const side = Number(cell.dataset.side), v = Number(variable.dataset.v);
    point({ side, v });
    showTip(variableTip(programs[side], v), event);
    return;
  }
  point(state.followed || null);
  if (row && event.target.closest(".pr, .pa, .from")) {
    const { eqns } = state.rows[Number(row.dataset.row)], side = cell ? Number(cell.dataset.side) : 0;
    if (eqns && eqns[side] >= 0) showTip(equationTip(programs[side], eqns[side]), event);
  } else hideTip();
});
rowsElement.addEventListener("mouseleave", () => { hideTip(); point(state.followed || null); });
rowsElement.addEventListener("click", (event) => {
  const row = event.target.closest(".row"), cell = event.target.closest("[data-side]");
  if (!row) return;
  const index = Number(row.dataset.row);
  const variable = event.target.closest("[data-v]");
  if (variable) follow({ side: Number(cell.dataset.side), v: Number(variable.dataset.v) });
  if (event.target.closest(".fold")) fold(index);
  else select(index, { side: cell ? Number(cell.dataset.side) : undefined, scroll: false });
});
rowsElement.addEventListener("dblclick", (event) => {
  const row = event.target.closest(".row");
  if (row) fold(Number(row.dataset.row));
});
scroller.addEventListener("scroll", () => { drawRows(false); hideTip(); }, { passive: true });

details.addEventListener("click", (event) => {
  const link = event.target.closest("[data-to]");
  if (link) goTo(Number(details.dataset.side), Number(link.dataset.to));
});
details.addEventListener("mouseover", (event) => {
  const variable = event.target.closest("[data-v]");
  if (!variable) { hideTip(); return; }
  const side = Number(details.dataset.side), v = Number(variable.dataset.v);
  point({ side, v });
  showTip(variableTip(programs[side], v), event);
});
details.addEventListener("mouseleave", () => { hideTip(); point(state.followed || null); });

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (drag) {
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    canvas.classList.add("dragging");
    view.x += dx;
    view.y += dy;
    view.moved = true;
    hideTip();
    drawGraph();
    return;
  }
  const at = toGraph(event), program = programs[view.side];
  view.hover = boxAt(at);
  view.arrow = view.hover < 0 && view.scale > READABLE ? arrowAt(at) : -1;
  if (view.hover >= 0) {
    const box = graph().boxes[view.hover], e = equationOf(box), [v] = boxValues(box);
    showTip(e >= 0 ? equationTip(program, e) : v >= 0 ? variableTip(program, v) : escape(box[NAME]), event);
  } else if (view.arrow >= 0) showTip(variableTip(program, graph().arrows[view.arrow][2]), event);
  else hideTip();
  drawGraph();
});
canvas.addEventListener("pointerup", (event) => {
  const moved = drag && drag.moved;
  drag = null;
  canvas.classList.remove("dragging");
  if (moved) return;
  const i = boxAt(toGraph(event)), e = i < 0 ? -1 : equationOf(graph().boxes[i]);
  if (e >= 0) goTo(view.side, e);
});
canvas.addEventListener("pointerleave", () => { view.hover = view.arrow = -1; hideTip(); drawGraph(); });
canvas.addEventListener("dblclick", (event) => {
  const i = boxAt(toGraph(event)), e = i < 0 ? -1 : equationOf(graph().boxes[i]);
  if (e >= 0 && programs[view.side].held[e].length) enter(view.side, programs[view.side].held[e][0].jaxpr);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) {
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 120), [event.clientX - box.left, event.clientY - box.top]);
  } else { view.x -= event.deltaX; view.y -= event.deltaY; view.moved = true; drawGraph(); }
}, { passive: false });
nav.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.side !== undefined) enter(Number(button.dataset.side), 0);
  else enter(view.side, Number(button.dataset.jaxpr));
});

const divider = $(".divider"), aside = $("aside");
divider.addEventListener("pointerdown", (event) => {
  divider.setPointerCapture(event.pointerId);
  const move = ({ clientX }) => {
    const share = Math.min(80, Math.max(15, 100 * (innerWidth - clientX) / innerWidth));
    aside.style.flexBasis = `${share}%`;
    $(".program").style.flexBasis = `${100 - share}%`;
    drawGraph();
  };
  const done = () => { divider.removeEventListener("pointermove", move); layoutRows(); };
  divider.addEventListener("pointermove", move);
  divider.addEventListener("pointerup", done, { once: true });
});

// -- Buttons and keys

function toggle(name) {
  shown[name] = !shown[name];
  dress();
  layoutRows();
}

function dress() {
  document.querySelectorAll("button.toggle").forEach((button) => button.setAttribute("aria-pressed", shown[button.dataset.do]));
  document.body.classList.toggle("no-source", !shown.source);
}

function theme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  drawGraph();
  drawOverview();
}

const ACTIONS = {
  expand: () => foldAll(true), collapse: () => foldAll(false),
  types: () => toggle("types"), params: () => toggle("params"), source: () => toggle("source"),
  previous: () => goToFound(-1), next: () => goToFound(1), change: () => goToChange(1),
  theme, help: () => $("dialog").showModal(),
  in: () => zoom(1.3), out: () => zoom(1 / 1.3), fit: () => fit(true),
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button) ACTIONS[button.dataset.do]();
});

function step(by) {
  const from = rowOf.has(state.selected) ? rowOf.get(state.selected) : by > 0 ? -1 : state.rows.length;
  for (let index = from + by; index >= 0 && index < state.rows.length; index += by) {
    if (state.rows[index].kind === "eqn") { select(index); return; }
  }
}

function outwards() {
  const index = rowOf.get(state.selected);
  if (index === undefined || fold(index, false)) return;
  for (let i = index - 1; i >= 0; i -= 1) {
    if (state.rows[i].kind === "eqn" && state.rows[i].depth < state.rows[index].depth) { select(i); return; }
  }
}

const KEYS = {
  "/": () => { search.focus(); search.select(); }, "?": ACTIONS.help,
  ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1),
  ArrowRight: () => { if (!fold(rowOf.get(state.selected), true)) step(1); }, ArrowLeft: outwards,
  Enter: () => fold(rowOf.get(state.selected)),
  n: () => (comparing ? goToChange(1) : goToFound(1)), N: () => (comparing ? goToChange(-1) : goToFound(-1)),
  e: ACTIONS.expand, c: ACTIONS.collapse, t: ACTIONS.types, p: ACTIONS.params, s: ACTIONS.source, f: ACTIONS.fit,
  Home: () => select(0), End: () => select(state.rows.length - 1), Escape: selectNothing,
};
document.addEventListener("keydown", (event) => {
  hideTip();
  if ($("dialog").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === search) {
    if (event.key === "Enter") goToFound(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") { search.value = ""; find(""); search.blur(); scroller.focus(); }
    else return;
    event.preventDefault();
    return;
  }
  if (event.target.closest("button") && event.key === "Enter") return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
let typing = 0;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => find(search.value), programs[0].eqns.length > 3000 ? 180 : 40);
});

// -- At the start

const preferred = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => { document.documentElement.dataset.theme = preferred.matches ? "dark" : "light"; drawGraph(); drawOverview(); };
preferred.addEventListener("change", followSystem);

document.body.classList.toggle("comparing", comparing);
$("h1").textContent = DATA.title;
$("h1").title = DATA.title;
$(".facts").textContent = programs.map((program) => {
  const inner = program.jaxprs.length - 1, [, , , first, count] = program.jaxprs[0];
  const most = program.eqns.slice(first, first + count).reduce((most, eqn) => Math.max(most, eqn[ALIVE]), 0);
  const parts = [plural(program.eqns.length, "equation")];
  if (inner) parts.push(plural(inner, "inner jaxpr"));
  if (!comparing) parts.push(`${amount(most, "B")} alive at most`);
  return parts.join(" · ");
}).join("  →  ");
const headed = (title) => `<div class="number"></div><div class="code">${escape(title)}</div>`;
$(".columns").innerHTML = (comparing
  ? programs.map(({ label }) => headed(label)).join("")
  : `${headed("Program")}<div class="from">${files.size === 1 ? escape([...files][0]) : "Your line"}</div>` +
    COSTS.map(([, name, title]) => `<div class="cost ${name}">${title}</div>`).join(""));
const digits = String(programs.reduce((most, { jaxprs }) => jaxprs.reduce((m, [, , , , n]) => Math.max(m, n), most), 0)).length;
document.body.style.setProperty("--number", `${Math.max(40, 22 + 7 * digits)}px`);
dress();
findStatuses();
layoutRows();
followSystem();
showDetails(0, -1);
drawPath();
fit(false);
new ResizeObserver(() => { if (Math.abs(scroller.clientWidth - state.width) > 4) { state.width = scroller.clientWidth; layoutRows(); } drawRows(); drawOverview(); drawGraph(); }).observe(scroller);
new ResizeObserver(() => { if (view.moved) drawGraph(); else fit(false); }).observe(canvas);
state.width = scroller.clientWidth;
