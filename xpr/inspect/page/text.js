// The text: words of each row, broken to the width; only the rows in sight are elements.

const LINE = 20, SHORT_PARAMETERS = 44, MANY = 36, SPARE = 12;
const scroller = document.querySelector(".scroll"), rowsElement = document.querySelector(".rows");
const overview = document.querySelector(".overview");
const shown = { types: true, params: false, source: true };
const state = { rows: [], tops: null, selected: "", lit: null, found: [], foundSet: [], now: -1, columns: 80 };
let rowOf = new Map();

const word = (...parts) => parts; // a word is a list of [text, class, variable]

function binderWord(program, v) {
  const name = program.names[v], type = program.typeOf(v);
  const parts = [[name, name === "_" ? "lb" : "v", v]];
  if (shown.types && name !== "*") parts.push([":", "eq"], [type, "ty"]);
  return parts;
}

const atomWord = (program, v, extra = "") => v < 0 ? [[program.textOf(v), `li ${extra}`]] : [[program.names[v], `v ${extra}`, v]];

// Of many words only the first, and how many more there are; a click shows them.
function fewer(words, row, what) {
  if (words.length <= MANY || open.has(row.key)) return words;
  return [...words.slice(0, MANY / 3), [[`… ${plural(words.length - MANY / 3, `more ${what}`)}`, "fold"]]];
}

function headWords(program, j, row) {
  const [constants, inputs] = program.jaxprs[j], label = row.label;
  const first = label ? [[`${label}=`, "lb"], ["{", "eq"]] : [["{", "eq"]];
  const binders = (vars, what) => fewer(vars.map((v) => binderWord(program, v)), row, what);
  const words = [first, [["lambda", "kw"]], ...binders(constants, "constant"), [[";", "eq"]], ...binders(inputs, "argument")];
  words[words.length - 1] = [...words[words.length - 1], [".", "eq"]];
  return [...words, [["let", "kw"]]];
}

function footWords(program, j, row) {
  const results = program.jaxprs[j][2];
  const words = fewer(results.map((v, i) =>
    [...atomWord(program, v), [i < results.length - 1 || i === 0 ? "," : "", "eq"]]), row, "result");
  if (words.length) {
    words[0] = [["(", "eq"], ...words[0]];
    words[words.length - 1].push([")", "eq"]);
  } else words.push([["()", "eq"]]);
  return [[["in", "kw"]], ...words, [["}", "eq"]]];
}

// `branches={2 equations} {1 equation}`, a click on which opens or closes them.
const foldWords = (key, texts) => texts.map((text, i) => [...(i ? [] : [[`${key}=`, "pa"]]), [text, "fold"]]);

function parameterWords(program, e, isOpen, brief) {
  const eqn = program.eqns[e];
  if (eqn[PARAMS] < 0) return [];
  const held = program.held[e].length > 0;
  const texts = program.paramsText(eqn);
  const plain = program.params[eqn[PARAMS]].map(([, value]) => !Array.isArray(value));
  const words = [];
  texts.forEach(([key, value], i) => {
    if (!plain[i]) words.push(...foldWords(key, isOpen ? ["{−}"] : value.match(/\{.*?\}|[^ ]+/g)));
    else if (!brief || (held && key === "name")) words.push([[`${key}=${value}`, "pa"]]);
  });
  if (brief && plain.some((isPlain, i) => isPlain && !(held && texts[i][0] === "name"))) words.push([["…", "pa"]]);
  words[0] = [["[", "pa"], ...words[0]];
  words[words.length - 1] = [...words[words.length - 1], ["]", "pa"]];
  return words;
}

function equationWords(program, e, isOpen, other, brief) {
  const eqn = program.eqns[e];
  const words = eqn[RESULTS].map((v) => binderWord(program, v));
  const params = parameterWords(program, e, isOpen, brief);
  const name = [program.primitives[eqn[PRIMITIVE]], "pr"];
  words.push([["=", "eq"]]);
  if (params.length) words.push([name, ...params[0]], ...params.slice(1));
  else words.push([name]);
  const differing = other === undefined ? new Set() : differences(program.side, e, other);
  eqn[OPERANDS].forEach((v, i) => words.push(atomWord(program, v, differing.has(i) ? "differs" : "")));
  return words;
}

const widthOf = (words) => words.reduce((sum, parts) => parts.reduce((inner, [text]) => inner + text.length, sum + 1), -1);

// Parameters are left out where they are long, or where the line would be.
function fittingWords(program, e, isOpen, other, columns) {
  const words = equationWords(program, e, isOpen, other, false);
  const long = !shown.params && (widthOf(words) > columns || widthOf(parameterWords(program, e, isOpen, false)) > SHORT_PARAMETERS);
  return long ? equationWords(program, e, isOpen, other, true) : words;
}

// Lines of words that fit; the later ones stand further in.
function wrap(words, columns) {
  const lines = [[]];
  let used = 0;
  for (const parts of words) {
    const length = parts.reduce((sum, [text]) => sum + text.length, 0);
    if (used && used + 1 + length > columns) { lines.push([]); used = 4; }
    lines[lines.length - 1].push(parts);
    used += length + 1;
  }
  return lines;
}

const indentOf = (row) => 2 * row.depth + (row.kind === "eqn" ? 2 : 0) + (row.kind === "foot" ? 2 : 0);

function linesOf(row, side) {
  const program = programs[side];
  const columns = Math.max(24, state.columns - indentOf(row));
  if (row.kind === "eqn") {
    const e = row.eqns[side];
    if (e < 0) return [];
    const other = comparing && row.status === CHANGED ? row.eqns[1 - side] : undefined;
    return wrap(fittingWords(program, e, open.has(row.key), other, columns), columns);
  }
  const j = row.jaxprs[side];
  if (j < 0) return [];
  return wrap(row.kind === "head" ? headWords(program, j, row) : footWords(program, j, row), columns);
}

// Which operands of a changed equation are not what the other program's are.
const partners = comparing ? partnersOf() : null;
function partnersOf() {
  const pairs = [new Map(), new Map()];
  const join = (a, b) => a.forEach((v, i) => {
    if (b[i] !== undefined) { pairs[0].set(v, b[i]); pairs[1].set(b[i], v); }
  });
  for (const [a, b, rows] of DATA.pairs) {
    const [left, right] = [programs[0].jaxprs[a], programs[1].jaxprs[b]];
    join(left[0], right[0]);
    join(left[1], right[1]);
    for (const [i, j, status] of rows) {
      if (status === SAME || status === CHANGED) {
        join(programs[0].eqns[left[3] + i][RESULTS], programs[1].eqns[right[3] + j][RESULTS]);
      }
    }
  }
  return pairs;
}
function differences(side, e, other) {
  const mine = programs[side].eqns[e][OPERANDS], theirs = programs[1 - side].eqns[other][OPERANDS];
  return new Set(mine.map((v, i) => i).filter((i) => {
    const [v, w] = [mine[i], theirs[i]];
    if (w === undefined || (v < 0) !== (w < 0)) return true;
    return v < 0 ? programs[side].textOf(v) !== programs[1 - side].textOf(w) : partners[side].get(v) !== w;
  }));
}

// -- Writing

const markup = ([text, style, v]) => v === undefined ? `<span class="${style}">${escape(text)}</span>`
  : `<span class="${style}" data-v="${v}">${escape(text)}</span>`;

function codeMarkup(row, side) {
  const lines = linesOf(row, side);
  const number = `<div class="number">${row.kind === "eqn" && row.eqns[side] >= 0 ? programs[side].indexOf(row.eqns[side]) : ""}</div>`;
  if (!lines.length) return `${number}<div class="code none" data-side="${side}"></div>`;
  const indent = " ".repeat(indentOf(row));
  const text = lines.map((words, i) => indent + (i ? "    " : "") + words.map((parts) => parts.map(markup).join("")).join(" "));
  return `${number}<div class="code" data-side="${side}">${text.join("\n")}</div>`;
}

const files = new Set(programs.flatMap((program) => program.sources.map(([file]) => file)));
const sourceName = ([file, line]) => files.size > 1 ? `${file}:${line}` : line;

function sourceMarkup(row, before) {
  const program = programs[0], source = row.kind === "eqn" ? program.sources[program.eqns[row.eqns[0]][SOURCE]] : undefined;
  if (!source) return `<div class="from"></div>`;
  const again = before && before.kind === "eqn" && before.depth === row.depth &&
    program.eqns[before.eqns[0]][SOURCE] === program.eqns[row.eqns[0]][SOURCE];
  return `<div class="from${again ? " again" : ""}"><span class="at">${escape(sourceName(source))}</span>  ${escape(source[3])}</div>`;
}

const COSTS = [
  programs[0].isTimed ? [SECONDS, "flops", "Time", duration] : [FLOPS, "flops", "Operations", (n) => amount(n, "")],
  [BYTES, "moved", "Moved", (n) => amount(n, "B")], [ALIVE, "alive", "Alive", (n) => amount(n, "B")],
  ...(programs[0].sends ? [[SENT, "sent", "Sent", (n) => n ? amount(n, "B") : ""]] : []),
];

function costMarkup(row) {
  if (row.kind !== "eqn") return COSTS.map(([, name]) => `<div class="cost ${name}"></div>`).join("");
  const program = programs[0], e = row.eqns[0];
  return COSTS.map(([column, name, , text]) => {
    const n = program.eqns[e][column];
    const share = (100 * program.share(e, column)).toFixed(1);
    return `<div class="cost ${name}" style="--share:${share}%">${text(n)}</div>`;
  }).join("");
}

function rowMarkup(index) {
  const row = state.rows[index];
  const codes = programs.map((_, side) => codeMarkup(row, side)).join("");
  const rest = comparing ? "" : sourceMarkup(row, state.rows[index - 1]) + costMarkup(row);
  const isFound = row.kind === "eqn" && row.eqns.some((e, side) => state.foundSet[side] && state.foundSet[side].has(e));
  const current = state.found[state.now];
  const isNow = isFound && current && row.eqns[current[0]] === current[1];
  const style = `row ${row.kind}${row.key === state.selected ? " selected" : ""}${isFound ? " found" : ""}${isNow ? " now" : ""}`;
  const status = row.status ? ` data-status="${row.status}" title="${STATUS[row.status]}"` : "";
  const expands = row.kind === "eqn" && heldBy(row.eqns).length ? ` aria-expanded="${open.has(row.key)}"` : "";
  return `<div class="${style}" role="treeitem" aria-level="${row.depth + 1}"${expands}${status} data-row="${index}" ` +
    `style="top:${state.tops[index]}px;height:${state.tops[index + 1] - state.tops[index]}px">` +
    `${codes}${rest}</div>`;
}

function rowAt(y) {
  let low = 0, high = state.rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (state.tops[middle] <= y) low = middle; else high = middle - 1;
  }
  return low;
}

let drawn = [-1, -1];
function drawRows(force = true) {
  const from = Math.max(0, rowAt(scroller.scrollTop) - SPARE);
  const to = Math.min(state.rows.length, rowAt(scroller.scrollTop + scroller.clientHeight) + SPARE + 1);
  if (!force && drawn[0] === from && drawn[1] === to) return;
  drawn = [from, to];
  const parts = [];
  for (let index = from; index < to; index += 1) parts.push(rowMarkup(index));
  rowsElement.innerHTML = parts.join("");
  light(state.lit);
}

function measure() {
  const probe = document.createElement("span");
  probe.textContent = "m".repeat(100);
  rowsElement.append(probe);
  const letter = probe.getBoundingClientRect().width / 100;
  probe.remove();
  const probeRow = document.createElement("div");
  probeRow.className = "row";
  probeRow.innerHTML = programs.map(() => `<div class="number"></div><div class="code"></div>`).join("") +
    (comparing ? "" : `<div class="from"></div>${COSTS.map(() => `<div class="cost"></div>`).join("")}`);
  rowsElement.append(probeRow);
  const width = probeRow.querySelector(".code").getBoundingClientRect().width;
  probeRow.remove();
  state.columns = Math.max(24, Math.floor(width / letter) - 1);
}

// Works out all rows anew, after something was opened or the width has changed; `keep` stays where it is on the screen.
function layoutRows(keep = state.selected) {
  const before = state.tops && rowOf.has(keep) ? state.tops[rowOf.get(keep)] - scroller.scrollTop : null;
  measure();
  state.rows = buildRows();
  rowOf = new Map(state.rows.map((row, index) => [row.key, index]));
  state.tops = new Float64Array(state.rows.length + 1);
  state.rows.forEach((row, index) => {
    const lines = Math.max(1, ...programs.map((_, side) => linesOf(row, side).length));
    state.tops[index + 1] = state.tops[index] + lines * LINE;
  });
  rowsElement.style.height = `${state.tops[state.rows.length] + 40}px`;
  if (before !== null && rowOf.has(keep)) scroller.scrollTop = state.tops[rowOf.get(keep)] - before;
  drawRows();
  drawOverview();
}

function scrollToRow(index, where = "near") {
  const top = state.tops[index], bottom = state.tops[index + 1], height = scroller.clientHeight;
  if (where === "near" && top >= scroller.scrollTop + LINE && bottom <= scroller.scrollTop + height - LINE) return;
  scroller.scrollTop = Math.max(0, top - height * 0.35);
}

// All occurrences of a variable.
function light(lit) {
  state.lit = lit;
  rowsElement.querySelectorAll(".v.lit").forEach((element) => element.classList.remove("lit"));
  if (!lit) return;
  rowsElement.querySelectorAll(`[data-side="${lit.side}"] [data-v="${lit.v}"]`)
    .forEach((element) => element.classList.add("lit"));
}

// Beside the scroll bar: what costs most, what was found, what has changed.
function drawOverview() {
  const box = overview.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  overview.width = box.width * ratio;
  overview.height = box.height * ratio;
  const pen = overview.getContext("2d"), total = Math.max(state.tops[state.rows.length] + 40, box.height);
  const css = getComputedStyle(document.documentElement), scale = overview.height / total;
  const colours = ["", "--changed-ink", "--removed-ink", "--added-ink", "--moved-ink"].map((name) => name && css.getPropertyValue(name));
  const heat = css.getPropertyValue("--heat"), found = css.getPropertyValue("--found-now");
  state.rows.forEach((row, index) => {
    if (row.kind !== "eqn") return;
    const y = state.tops[index] * scale, height = Math.max(ratio, (state.tops[index + 1] - state.tops[index]) * scale);
    if (comparing && row.status) { pen.fillStyle = colours[row.status]; pen.globalAlpha = 0.65; pen.fillRect(0, y, overview.width, height); pen.globalAlpha = 1; }
    if (!comparing) {
      const warmth = programs[0].heat(row.eqns[0]);
      if (warmth > 0.3) { pen.fillStyle = `rgba(${heat},${warmth * 0.8})`; pen.fillRect(overview.width * 0.5, y, overview.width * 0.5, height); }
    }
    if (row.eqns.some((e, side) => state.foundSet[side] && state.foundSet[side].has(e))) {
      pen.fillStyle = found;
      pen.fillRect(0, y, overview.width, Math.max(height, 2 * ratio));
    }
  });
}
