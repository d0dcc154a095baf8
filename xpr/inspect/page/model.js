// The program: its tables, its words, and the rows of text that are open.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SAME = 0, CHANGED = 1, REMOVED = 2, ADDED = 3, MOVED = 4;
const STATUS = ["", "changed", "removed", "added", "moved"];
const [PRIMITIVE, OPERANDS, RESULTS, PARAMS, SOURCE, FLOPS, BYTES, ALIVE, SENT, SECONDS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => escapes[c]);
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

function amount(n, unit) {
  const steps = ["", "k", "M", "G", "T", "P"];
  let step = 0;
  while (n >= 999.5 && step < steps.length - 1) { n /= 1000; step += 1; }
  const digits = step === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
  return `${n.toFixed(digits)} ${steps[step]}${unit}`;
}

function duration(seconds) {
  const [size, unit] = [[1, "s"], [1e-3, "ms"]].find(([least]) => seconds >= 0.9995 * least) || [1e-6, "us"];
  return `${Number((seconds / size).toPrecision(3))} ${unit}`;
}

class Program {
  constructor(tables, side) {
    Object.assign(this, tables);
    this.side = side;
    this.jaxprOf = new Int32Array(this.eqns.length);
    this.parentOf = new Map(); // of a jaxpr: the equation that holds it first
    this.jaxprs.forEach(([, , , first, count], j) => this.jaxprOf.fill(j, first, first + count));
    this.held = this.eqns.map((eqn) => this.jaxprsIn(eqn));
    this.held.forEach((held, e) => held.forEach(({ jaxpr }) => {
      if (!this.parentOf.has(jaxpr)) this.parentOf.set(jaxpr, e);
    }));
    this.producer = new Int32Array(this.names.length).fill(-1);
    this.readers = new Map();
    this.eqns.forEach((eqn, e) => {
      eqn[RESULTS].forEach((v) => { this.producer[v] = e; });
      new Set(eqn[OPERANDS]).forEach((v) => {
        if (v < 0) return;
        if (!this.readers.has(v)) this.readers.set(v, []);
        this.readers.get(v).push(e);
      });
    });
    this.most = [FLOPS, BYTES, ALIVE, SENT].map((c) => this.eqns.reduce((most, eqn) => Math.max(most, eqn[c]), 1));
    this.sends = this.eqns.some((eqn) => eqn[SENT] > 0);
    this.isTimed = this.eqns.some((eqn) => eqn.length > SECONDS);
    if (this.isTimed) this.most.push(this.eqns.reduce((most, eqn) => Math.max(most, eqn[SECONDS]), 1e-12));
  }

  jaxprsIn(eqn) {
    if (eqn[PARAMS] < 0) return [];
    return this.params[eqn[PARAMS]].flatMap(([key, value]) => !Array.isArray(value) ? [] :
      value.map((jaxpr, i) => ({ jaxpr, label: value.length > 1 ? `${key}[${i}]` : key }))
        .filter(({ jaxpr }) => typeof jaxpr === "number"));
  }

  indexOf(e) { return e - this.jaxprs[this.jaxprOf[e]][3]; }
  typeOf(v) { return v < 0 ? this.literals[-1 - v][1] : this.types[this.varTypes[v]]; }
  textOf(v) { return v < 0 ? this.literals[-1 - v][0] : this.names[v]; }
  bytesOf(v) { return v < 0 ? 0 : this.typeBytes[this.varTypes[v]]; }
  typed(v) { return `${this.textOf(v)}:${this.typeOf(v)}`; }
  // How much more expensive an equation is than others are on average: 0 for the average, 1 for the most expensive.
  heat(e) {
    const cost = (eqn) => this.isTimed ? eqn[SECONDS] : Math.max(eqn[FLOPS], eqn[BYTES]);
    this.mean = this.mean || this.eqns.reduce((sum, eqn) => sum + cost(eqn), 0) / this.eqns.length || 1;
    this.highest = this.highest || this.eqns.reduce((most, eqn) => Math.max(most, cost(eqn)), 0);
    const above = cost(this.eqns[e]) - this.mean;
    return above > 0 && this.highest > 1.5 * this.mean ? Math.sqrt(above / (this.highest - this.mean)) : 0;
  }

  share(e, column) { return this.eqns[e][column] / this.most[column - FLOPS]; }

  // Parameters as text; jaxprs stand as `{12 equations}`.
  paramsText(eqn) {
    if (eqn[PARAMS] < 0) return [];
    return this.params[eqn[PARAMS]].map(([key, value]) => [key, !Array.isArray(value) ? value :
      value.map((j) => typeof j === "number" ? `{${plural(this.jaxprs[j][4], "equation")}}` : j).join(" ")]);
  }

  // Whether a search for these terms finds an equation: in its primitive, parameters, types, literals and, as whole words,
  // names; or also in the line it came from.
  matches(e, terms, withSource) {
    if (!this.texts) this.texts = new Array(this.eqns.length);
    if (this.texts[e] === undefined) {
      const eqn = this.eqns[e], atoms = [...eqn[RESULTS], ...eqn[OPERANDS]];
      const params = this.paramsText(eqn).map(([key, value]) => `${key}=${value}`).join(" ");
      const words = `${this.primitives[eqn[PRIMITIVE]]}[${params}] ${atoms.map((v) => this.typeOf(v)).join(" ")}`;
      this.texts[e] = [words.toLowerCase(), ` ${atoms.flatMap((v) => [this.textOf(v), this.typed(v)]).join(" ")} `];
    }
    const [words, names] = this.texts[e], source = this.sources[this.eqns[e][SOURCE]];
    const from = withSource && source ? `${source[0]}:${source[1]} ${source[2]} ${source[3]}`.toLowerCase() : "";
    return terms.every((term) => words.includes(term) || names.includes(` ${term} `) || from.includes(term));
  }

  // From the outermost equation inwards to this one.
  chain(e) {
    const found = [e];
    for (let j = this.jaxprOf[e]; j !== 0; j = this.jaxprOf[found[0]]) found.unshift(this.parentOf.get(j));
    return found;
  }
}

const programs = DATA.programs.map((tables, side) => new Program(tables, side));
const comparing = programs.length === 2;
const aligned = new Map(DATA.pairs.map(([a, b, rows]) => [`${a},${b}`, rows]));

// What stands side by side in these jaxprs, one for each program (-1: none): equations by number, and a status.
function pairsOf(jaxprs) {
  const range = (side) => Array.from({ length: programs[side].jaxprs[jaxprs[side]][4] },
    (_, i) => programs[side].jaxprs[jaxprs[side]][3] + i);
  if (!comparing) return range(0).map((e) => ({ eqns: [e], status: SAME }));
  const rows = aligned.get(jaxprs.join(","));
  if (!rows) {
    return [0, 1].flatMap((side) => jaxprs[side] < 0 ? [] : range(side).map((e) =>
      ({ eqns: side ? [-1, e] : [e, -1], status: side ? ADDED : REMOVED })));
  }
  const first = jaxprs.map((j, side) => programs[side].jaxprs[j][3]);
  return rows.map(([i, j, status]) => ({ eqns: [i < 0 ? -1 : first[0] + i, j < 0 ? -1 : first[1] + j], status }));
}

const MOST_ROWS = 400000;
const open = new Set(); // keys of rows whose inner jaxprs are seen
const roots = programs.map(() => 0);

function heldBy(eqns) {
  const held = eqns.map((e, side) => e < 0 ? [] : programs[side].held[e]);
  const count = Math.max(...held.map((list) => list.length));
  return Array.from({ length: count }, (_, k) => ({
    jaxprs: held.map((list) => list[k] ? list[k].jaxpr : -1),
    label: (held[0][k] || held[1][k]).label,
  }));
}

// The rows to be seen: {kind: "head" | "eqn" | "foot", jaxprs | eqns, depth, status, key}.
function buildRows() {
  const rows = [];
  const build = (jaxprs, path, depth, label, within) => {
    const status = within === CHANGED ? SAME : within; // what it holds says itself what has changed
    rows.push({ kind: "head", jaxprs, depth, label, status, key: `${path}{` });
    for (const { eqns, status: own } of pairsOf(jaxprs)) {
      const key = `${path}/${eqns.join("|")}`;
      rows.push({ kind: "eqn", eqns, depth, status: own, key });
      if (open.has(key) && rows.length < MOST_ROWS) {
        heldBy(eqns).forEach((held, k) => build(held.jaxprs, `${key}.${k}`, depth + 1, held.label, own));
      }
    }
    rows.push({ kind: "foot", jaxprs, depth, status, key: `${path}}` });
  };
  build(roots, "", 0, "", SAME);
  return rows;
}

// Opens what an equation is in; gives its row's key.
function reveal(side, e) {
  let jaxprs = roots, path = "", key = "";
  const chain = programs[side].chain(e);
  chain.forEach((step, level) => {
    const { eqns } = pairsOf(jaxprs).find((pair) => pair.eqns[side] === step);
    key = `${path}/${eqns.join("|")}`;
    if (level === chain.length - 1) return;
    open.add(key);
    const inner = programs[side].jaxprOf[chain[level + 1]];
    const held = heldBy(eqns), k = held.findIndex((each) => each.jaxprs[side] === inner);
    jaxprs = held[k].jaxprs;
    path = `${key}.${k}`;
  });
  return key;
}

function openAll() {
  let count = 0;
  const walk = (jaxprs, path) => {
    for (const { eqns } of pairsOf(jaxprs)) {
      const held = heldBy(eqns);
      if (!held.length || (count += 1) > MOST_ROWS / 20) continue;
      const key = `${path}/${eqns.join("|")}`;
      open.add(key);
      held.forEach((each, k) => walk(each.jaxprs, `${key}.${k}`));
    }
  };
  walk(roots, "");
}
