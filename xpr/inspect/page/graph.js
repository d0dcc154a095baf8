// The graph of one jaxpr, on a canvas: only the boxes and arrows in sight are drawn.

const canvas = document.querySelector(".graph canvas"), nav = document.querySelector(".graph nav");
const SMALLEST = 0.12; // of a graph that is thousands of rows high only a part is seen
const BOX = 24, FEW = 4000, READABLE = 0.42;
const view = { side: comparing ? 1 : 0, jaxpr: 0, path: [], x: 0, y: 0, scale: 1, box: -1, hover: -1, arrow: -1, lit: -1, moved: false };
const KIND = 0, INDEX = 1, NAME = 2, X = 3, Y = 4, WIDTH = 5, ROW = 6;
const indexes = new Map();

const graph = () => programs[view.side].graphs[view.jaxpr];

// Boxes and arrows by the rows they are in.
function byRow() {
  const g = graph();
  if (!indexes.has(g)) {
    const rows = [], starting = [], ending = [];
    const put = (list, row, item) => (list[row] = list[row] || []).push(item);
    g.boxes.forEach((box, i) => put(rows, box[ROW], i));
    g.arrows.forEach(([start, end], i) => { put(starting, g.boxes[start][ROW], i); put(ending, g.boxes[end][ROW], i); });
    indexes.set(g, { rows, starting, ending, tops: rows.map((boxes) => g.boxes[boxes[0]][Y]) });
  }
  return indexes.get(g);
}

const equationOf = (box) => box[KIND] === "eqn" ? programs[view.side].jaxprs[view.jaxpr][3] + box[INDEX] : -1;
const boxOf = (e) => graph().boxes.findIndex((box) => box[KIND] === "eqn" && equationOf(box) === e);

function boxValues(box) {
  const [constants, inputs, results] = programs[view.side].jaxprs[view.jaxpr];
  const e = equationOf(box);
  return e >= 0 ? programs[view.side].eqns[e][RESULTS] : [{ const: constants, arg: inputs, out: results }[box[KIND]][box[INDEX]]];
}

let statuses = null; // of the equations of the graph's jaxpr, where two programs are compared
function findStatuses() {
  statuses = new Map();
  if (!comparing) return;
  const pairs = DATA.pairs.find((pair) => pair[view.side] === view.jaxpr);
  const first = programs[view.side].jaxprs[view.jaxpr][3];
  if (pairs) pairs[2].forEach((row) => { if (row[view.side] >= 0) statuses.set(first + row[view.side], row[2]); });
}

function inSight() {
  const g = graph();
  const box = canvas.getBoundingClientRect();
  const [top, bottom] = [-view.y / view.scale - 60, (box.height - view.y) / view.scale + 60];
  if (g.boxes.length < FEW) return { boxes: g.boxes.keys(), arrows: g.arrows.keys() };
  const index = byRow(), boxes = [], arrows = new Set();
  let row = index.tops.findIndex((y) => y >= top);
  for (; row >= 0 && row < index.rows.length && index.tops[row] <= bottom; row += 1) {
    boxes.push(...index.rows[row]);
    if (view.scale > READABLE / 4) for (const list of [index.starting[row], index.ending[row]]) (list || []).forEach((i) => arrows.add(i));
  }
  return { boxes, arrows };
}

let waiting = false;
function drawGraph() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect(), g = graph(), program = programs[view.side];
  if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  const pen = canvas.getContext("2d"), css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(name);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
  const { boxes, arrows } = inSight();
  const strong = [];
  pen.lineWidth = Math.max(1, 0.5 / view.scale);
  pen.strokeStyle = colour("--arrow");
  pen.fillStyle = colour("--arrow");
  for (const i of arrows) {
    const arrow = g.arrows[i];
    if (i === view.arrow || arrow[2] === view.lit || arrow[0] === view.box || arrow[1] === view.box) strong.push(arrow);
    else {
      pen.globalAlpha = arrow.length === 7 && g.boxes[arrow[1]][ROW] - g.boxes[arrow[0]][ROW] > 1 ? 0.3 : 1; // over boxes
      paintArrow(pen, arrow);
    }
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = pen.fillStyle = colour("--accent");
  pen.lineWidth = Math.max(1.6, 0.8 / view.scale);
  strong.forEach((arrow) => paintArrow(pen, arrow));
  const paints = { const: colour("--input"), arg: colour("--input"), out: colour("--output"), eqn: colour("--box"), call: colour("--call") };
  const marks = ["", "--changed", "--removed", "--added", "--moved"].map((name) => name && colour(name));
  const inks = ["", "--changed-ink", "--removed-ink", "--added-ink", "--moved-ink"].map((name) => name && colour(name));
  const [ink, line, callLine, accent, heat] = ["--ink", "--box-line", "--call-line", "--accent", "--heat"].map(colour);
  pen.font = `12px ${colour("--mono")}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const i of boxes) {
    const each = g.boxes[i], e = equationOf(each), call = e >= 0 && program.held[e].length > 0;
    const left = each[X] - each[WIDTH] / 2, top = each[Y] - BOX / 2, status = statuses.get(e) || SAME;
    pen.beginPath();
    pen.roundRect(left, top, each[WIDTH], BOX, e >= 0 ? 5 : BOX / 2);
    pen.fillStyle = view.scale < READABLE / 2 ? (status ? inks[status] : call ? callLine : line)
      : status ? marks[status] : paints[call ? "call" : each[KIND]];
    pen.fill();
    if (e >= 0 && !comparing) { pen.fillStyle = `rgba(${heat},${program.heat(e) * 0.38})`; pen.fill(); }
    const chosen = i === view.box || i === view.hover;
    if (e >= 0 || chosen) {
      pen.strokeStyle = chosen ? accent : status ? inks[status] : call ? callLine : line;
      pen.lineWidth = chosen ? Math.max(2, 1.5 / view.scale) : 1;
      pen.stroke();
    }
    if (view.scale < READABLE) continue;
    pen.fillStyle = ink;
    pen.fillText(each[NAME], each[X], each[Y] + 0.5);
    if (call) { pen.fillStyle = callLine; pen.fillRect(left + 6, top + BOX - 3.5, each[WIDTH] - 12, 1.5); }
  }
}

function paintArrow(pen, arrow) {
  let [x, y] = [arrow[3], arrow[4]];
  pen.beginPath();
  pen.moveTo(x, y);
  for (let i = 5; i < arrow.length; i += 2) {
    const [toX, toY] = [arrow[i], arrow[i + 1]], half = (y + toY) / 2;
    pen.bezierCurveTo(x, half, toX, half, toX, toY);
    [x, y] = [toX, toY];
  }
  pen.stroke();
  if (view.scale < READABLE) return;
  pen.beginPath();
  pen.moveTo(x - 3, y - 6);
  pen.lineTo(x + 3, y - 6);
  pen.lineTo(x, y);
  pen.fill();
}

// -- Where the pointer is

const toGraph = (event) => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left - view.x) / view.scale, (event.clientY - box.top - view.y) / view.scale];
};

function boxAt([x, y]) {
  const g = graph();
  for (const i of inSight().boxes) {
    const box = g.boxes[i];
    if (Math.abs(y - box[Y]) <= BOX / 2 && Math.abs(x - box[X]) <= box[WIDTH] / 2) return i;
  }
  return -1;
}

function arrowAt([x, y]) {
  const g = graph(), near = 5 / view.scale;
  for (const i of inSight().arrows) {
    const arrow = g.arrows[i];
    for (let p = 3; p + 3 < arrow.length; p += 2) {
      const [x0, y0, x1, y1] = arrow.slice(p, p + 4);
      if (y < y0 - near || y > y1 + near) continue;
      const height = (t) => y0 + (y1 - y0) * (1.5 * t * (1 - t) + t * t * t), across = (t) => x0 + (x1 - x0) * t * t * (3 - 2 * t);
      for (let t = 0; t <= 1; t += 0.05) if (Math.hypot(across(t) - x, height(t) - y) < near + 2) return i;
    }
  }
  return -1;
}

// -- Moving about

function zoom(factor, at) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = at || [box.width / 2, box.height / 2];
  view.moved = true;
  const scale = Math.min(3, Math.max(SMALLEST / 4, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  drawGraph();
}

function fit(whole) {
  const box = canvas.getBoundingClientRect(), g = graph();
  const across = (box.width - 40) / Math.max(g.width, 1), down = (box.height - 40) / Math.max(g.height, 1);
  view.scale = Math.max(whole ? SMALLEST : READABLE, Math.min(1, across, whole || down > 0.7 ? down : 1));
  const first = (g.boxes.find((each) => each[KIND] === "eqn") || g.boxes[0] || [])[X] || 0, fits = g.width * view.scale <= box.width - 20;
  view.x = fits ? (box.width - g.width * view.scale) / 2 : box.width / 2 - first * view.scale;
  view.y = 20;
  view.moved = whole;
  if (whole && view.box >= 0) bringIntoSight(g.boxes[view.box]);
  drawGraph();
}

function bringIntoSight(box) {
  const { width, height } = canvas.getBoundingClientRect();
  const [x, y] = [box[X] * view.scale + view.x, box[Y] * view.scale + view.y];
  if (x < 60 || x > width - 60) view.x += width / 2 - x;
  if (y < 40 || y > height - 40) view.y += height * 0.4 - y;
}

function centre(i) {
  view.moved = true;
  if (view.scale < 0.5) view.scale = 0.8;
  bringIntoSight(graph().boxes[i]);
  drawGraph();
}

// Shows the graph that an equation is in, or its own where it holds one.
function enter(side, jaxpr) {
  const changed = view.side !== side || view.jaxpr !== jaxpr;
  view.side = side;
  view.jaxpr = jaxpr;
  view.box = view.hover = view.arrow = -1;
  if (changed) { findStatuses(); fit(false); }
  drawPath();
}

function drawPath() {
  const program = programs[view.side];
  const chain = view.jaxpr ? program.chain(program.parentOf.get(view.jaxpr)) : [];
  const steps = [`<button data-jaxpr="0">${escape(program.label)}</button>`, ...chain.map((e) => {
    const own = e === chain[chain.length - 1] ? view.jaxpr : program.jaxprOf[chain[chain.indexOf(e) + 1]];
    const named = program.params[program.eqns[e][PARAMS]].find(([key]) => key === "name");
    const name = named && !Array.isArray(named[1]) ? named[1] : program.primitives[program.eqns[e][PRIMITIVE]];
    return `› <button data-jaxpr="${own}">${escape(name)}</button>`;
  })];
  const sides = comparing ? `<span class="sides">${programs.map(({ label }, side) =>
    `<button data-side="${side}" aria-pressed="${side === view.side}">${escape(label)}</button>`).join("")}</span>` : "";
  nav.innerHTML = steps.join("") + sides;
}
