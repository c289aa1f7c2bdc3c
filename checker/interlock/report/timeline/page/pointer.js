// What is under the pointer, and the card about it.

function hit(x, y) {
  if (x < view.left || y < view.top) return null;
  const at = y - view.top + view.y, b = bands.find(b => b.rank >= 0 && at >= b.y && at < b.y + b.h);
  if (!b) return null;
  const s = b.s, within = at - b.y, t = T(x), slack = 3 / view.scale;
  for (const g of s.ghosts) if (g[0] === b.rank && g[2] >= 0 && within < b.compute + b.comm) { const p = place(s, g[2]); if (p && x >= p.x && x <= p.x + p.w) return { s, row: g[2], rank: b.rank }; }
  if (within >= b.compute + b.comm) return t >= 0 && t <= s.makespan ? { s, row: NO, rank: b.rank, memory: t } : null;
  const lane = within < b.compute ? 0 : 1 + Math.min(Math.floor((within - b.compute) / (b.comm / s.lines[b.rank])), s.lines[b.rank] - 1), rows = s.lanes[b.rank][lane];
  let best = null, gap = slack;
  for (let i = from(rows, s.start, t - maxLength(s) - slack); i < rows.length; i++) {
    const row = rows[i];
    if (s.start[row] > t + slack) break;
    if (s.half[row] && !lane && (s.half[row] === 2) !== (within >= b.compute / 2)) continue;
    const d = Math.max(s.start[row] - t, t - s.end[row], 0);
    if (d <= gap) { gap = d; best = row; }
  }
  if (best !== null && (gap === 0 || lane)) return { s, row: best, rank: b.rank };
  if (!lane) { const g = s.idle[b.rank].find(g => g.start <= t && t < g.end); if (g) return { s, row: NO, rank: b.rank, idle: g }; }
  return null;
}
const el = (tag, text, parent) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (parent) parent.append(e); return e; };
function held(s, r, t) {
  const k = s.tracks[r];
  if (!k) return null;
  let a = 0, z = k.time.length;
  while (a < z) { const m = (a + z) >> 1; if (k.time[m] <= t) a = m + 1; else z = m; }
  return k.value[Math.max(a - 1, 0)];
}
function describe(pick) {
  const { s, row, rank } = pick, rows = [];
  if (pick.idle) return { title: "bubble", small: PHASES[pick.idle.phase], rows: [["rank", `${rank}`], ["from", `${time(pick.idle.start, s.unit)} to ${time(pick.idle.end, s.unit)}`], ["lasts", time(pick.idle.end - pick.idle.start, s.unit)]] };
  if (pick.memory !== undefined) { const k = s.tracks[rank]; return { title: amount(s, held(s, rank, pick.memory)), small: s.inBytes ? "memory in use" : "microbatches", rows: [["rank", `${rank}`], ["at", time(pick.memory, s.unit)], ["peak", amount(s, k.peak)], ...(k.limit !== null ? [["capacity", bytes(k.limit)]] : [])] }; }
  const k = kinds[s.kind[row]], st = s.stage[row];
  if (st >= 0 && st < s.stages.length) rows.push(["region", `${s.regions[s.stages[st][0]]}, stage ${st}` + (s.stages[st][2] ? ` (${s.stages[st][2]})` : "")]);
  if (s.mb[row] >= 0) rows.push(["microbatch", `${s.mb[row]}`]);
  rows.push(["rank", `${rank}`]);
  if (s.start[row] < 0) rows.push(["time", "never runs"]);
  else if (s.end[row] > s.start[row]) rows.push(["time", `${time(s.start[row], s.unit)} to ${time(s.end[row], s.unit)}`], ["lasts", time(s.end[row] - s.start[row], s.unit)]);
  else rows.push(["time", `${time(s.start[row], s.unit)}, takes none`]);
  if (s.partner[row] >= 0) rows.push([isSend[s.kind[row]] ? "to" : "from", `rank ${s.rank[s.partner[row]]}: ${name(s, s.partner[row])}`]);
  if (s.payload[row] >= 0) rows.push(["payload", bytes(s.payloads[s.payload[row]])]);
  if (COMPUTE.has(k) && s.start[row] >= 0 && s.tracks[rank]) rows.push([s.inBytes ? "memory" : "holds", amount(s, held(s, rank, s.start[row])) + (s.inBytes ? ` on rank ${rank}` + (s.tracks[rank].limit !== null ? ` of ${bytes(s.tracks[rank].limit)}` : "") : "")]);
  if (s.critical[row] && !s.slots) rows.push(["", "on the critical path"]);
  let code = null;
  const n = s.place[row];
  if (n >= 0) {
    const [line, col, width] = s.spans[n], [file, number, text] = s.texts[line], a = Math.max(0, col - 36), b = Math.min(text.length, col + width + 30);
    code = [`${file}:${number}:${col + 1}\n`, (a ? "…" : "") + text.slice(a, col).replace(/^\s+/, ""), text.slice(col, col + width), text.slice(col + width, b) + (b < text.length ? "…" : "")];
  }
  return { title: name(s, row), small: WORDS[k] || "", rows, code };
}
function showCard(pick, x, y) {
  if (!pick) { card.hidden = true; return; }
  const d = describe(pick);
  card.textContent = "";
  const h = el("h2", d.title, card); el("small", d.small, h);
  const table = el("table", undefined, card);
  for (const [a, b] of d.rows) { const tr = el("tr", undefined, table); el("th", a, tr); el("td", b, tr); }
  if (d.code) { const c = el("code", d.code[0] + d.code[1], card); el("b", d.code[2], c); c.append(d.code[3]); }
  card.hidden = false;
  const w = card.offsetWidth, t = card.offsetHeight;
  let left = x + 16, top = y + 16;
  if (left + w > view.W - 8) left = Math.max(8, x - w - 16);
  if (top + t > view.H - 8) top = Math.max(8, y - t - 16);
  if (view.W < 560) { left = Math.max(8, (view.W - w) / 2); top = y > view.H / 2 ? Math.max(8, y - t - 40) : Math.min(view.H - t - 8, y + 40); }
  card.style.left = left + "px"; card.style.top = top + "px";
}
function choose(s, row, move) {
  chosen = { s, row, rank: s.rank[row] };
  if (move) reveal(s, row);
  const p = place(s, row);
  if (p) showCard(chosen, p.x + p.w / 2, p.y + p.h);
  const d = describe(chosen);
  $("live").textContent = `${d.title}, ${d.small}: ${d.rows.map(r => r.join(" ")).join(", ")}`;
  draw();
}
function reveal(s, row) {
  const g = s.at.get(row), a = g ? s.makespan + g[1] * s.slot : s.start[row], z = g ? a + s.slot : s.end[row], width = Math.max((z - a) * view.scale, 1);
  if (a < 0) return;
  if (width < 34) view.scale *= Math.min(34 / width, 1e6);
  fitted = false;
  clamp();
  if (X(a) < view.left + 20 || X(z) > view.W - 20) view.t0 = (a + z) / 2 - span() / 2 / view.scale;
  const b = s.bands[s.rank[row]], room = view.H - view.top;
  if (b && (b.y < view.y || b.y + b.h > view.y + room)) view.y = b.y - (room - b.h) / 2;
  clamp();
}
