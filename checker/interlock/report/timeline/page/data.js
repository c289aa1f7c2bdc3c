// The data of the page: columns of rows, as html.py writes them, and what operations are called.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const canvas = $("view"), ctx = canvas.getContext("2d"), card = $("card"), main = canvas.parentElement;
const TYPES = { u1: Uint8Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };
const COMPUTE = new Set(["F", "B", "I", "W"]), NO = -1;

function column(c) {
  if (c.v !== undefined) return new Int32Array(c.n).fill(c.v);
  const text = atob(c.b), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[c.t](bytes.buffer);
}

const kinds = data.kinds, K = Object.fromEntries(kinds.map((k, i) => [k, i]));
const isTransfer = kinds.map(k => /^(SEND|RECV)/.test(k)), isSend = kinds.map(k => /^SEND/.test(k)), withMb = kinds.map(k => /^(F|B|I|W|LOSS|(SEND|RECV|WAIT)_[FB])$/.test(k));

const scenes = data.scenes.map(raw => {
  const s = { ...raw };
  for (const [name, c] of Object.entries(raw.columns)) s[name] = column(c);
  s.first = column(raw.first);
  s.n = s.kind.length;
  s.rank = new Int32Array(s.n);
  for (let r = 0; r < s.ranks; r++) s.rank.fill(r, s.first[r], s.first[r + 1]);
  s.critical = new Uint8Array(s.n);
  s.path = column(raw.path);
  for (const row of s.path) s.critical[row] = 1;
  s.mark = new Uint8Array(s.n);
  for (const row of raw.marks) s.mark[row] = 1;
  s.partner = new Int32Array(s.n).fill(NO);
  const a = column(raw.sends), b = column(raw.receives);
  for (let i = 0; i < a.length; i++) { s.partner[a[i]] = b[i]; s.partner[b[i]] = a[i]; }
  s.tracks = raw.tracks.map(t => ({ time: column(t.time), value: column(t.value), peak: t.peak, limit: t.limit }));
  const bub = raw.bubbles, br = column(bub.rank), bs = column(bub.start), be = column(bub.end), bp = column(bub.phase);
  s.lanes = []; s.idle = [];
  for (let r = 0; r < s.ranks; r++) {
    const lanes = Array.from({ length: 1 + s.lines[r] }, () => []);
    for (let row = s.first[r]; row < s.first[r + 1]; row++) if (s.lane[row] >= 0) lanes[Math.min(s.lane[row], s.lines[r])].push(row);
    for (const lane of lanes) lane.sort((x, y) => s.start[x] - s.start[y] || s.end[x] - s.end[y]);
    s.lanes.push(lanes);
    s.idle.push([]);
  }
  for (let i = 0; i < br.length; i++) s.idle[br[i]].push({ start: bs[i], end: be[i], phase: bp[i] });
  s.slots = raw.ghosts.reduce((m, g) => Math.max(m, g[1] + 1), 0);
  s.slot = s.slots ? Math.max(s.makespan, 1) * 1.1 / s.slots : 0;
  s.at = new Map(raw.ghosts.filter(g => g[2] >= 0).map(g => [g[2], g]));
  s.extent = s.makespan + s.slots * s.slot;
  s.match = null;
  return s;
});
const extent = Math.max(1, ...scenes.map(s => s.extent)), several = scenes.length > 1;

function name(s, row) {
  const k = kinds[s.kind[row]], st = s.stage[row], mb = s.mb[row], comm = s.comm[row], at = comm > 0 ? "@" + s.comms[comm] : "", n = s.name_[row] >= 0 ? s.names[s.name_[row]] : "";
  if (withMb[s.kind[row]]) return `${st}${k}${mb}${at}`;
  if (k === "REDUCE" || k === "UNSHARD" || k === "RESHARD") return `${st}${k}`;
  if (k === "SEND" || k === "RECV") return `${k.toLowerCase()}(${s.peer[row]}, ${n})${at}`;
  if (k === "WAIT" || k === "FREE") return `${k.toLowerCase()}(${n})`;
  if (k === "COLL") return `coll(${s.comms[comm]}, ${n})`;
  if (k === "INIT") return `init(${s.comms[comm]})`;
  if (k === "REDUCE_DATA") return `reduce(data: ${n})`;
  if (k === "REDUCE_TIE") return `reduce(tie: ${n})${at}`;
  return k;
}
const WORDS = { F: "forward", B: "backward", I: "backward, input half", W: "backward, weight half", LOSS: "loss", STEP: "optimizer step", SEND_F: "sends activations", RECV_F: "receives activations", SEND_B: "sends a gradient", RECV_B: "receives a gradient", SEND: "send", RECV: "receive", REDUCE: "sums weight gradients", REDUCE_DATA: "sums gradients over replicas", REDUCE_TIE: "sums tied weights", COLL: "collective", INIT: "creates a communicator" };
const PHASES = ["warmup", "residual", "cooldown"];

function time(ns, unit) {
  if (unit) return ns === unit ? "1 unit" : `${+(ns / unit).toPrecision(10)} units`;
  const a = Math.abs(ns);
  for (const [w, z] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (a >= z) return `${+(ns / z).toPrecision(5)} ${w}`;
  return `${Math.round(ns)} ns`;
}
function bytes(n) {
  for (const [w, z] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (Math.abs(n) >= z) return n % z === 0 ? `${n / z} ${w}` : `${(n / z).toFixed(2)} ${w}`;
  return `${n} B`;
}
const amount = (s, n) => s.inBytes ? bytes(n) : `${n} in flight`;
