// Drawing: the grid, the boxes of each rank, memory.

function font(size, bold) { ctx.font = `${bold ? "600 " : ""}${size}px ${FONT}`; }
function draw() { if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; paint(); }); } }

function paint() {
  const ratio = devicePixelRatio || 1;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = css.paper; ctx.fillRect(0, 0, view.W, view.H);
  view.drawn = 0; view.painted++;
  grid();
  ctx.save();
  ctx.beginPath(); ctx.rect(view.left, view.top, view.W - view.left, view.H - view.top); ctx.clip();
  const seen = bands.filter(b => { const y = b.y + view.top - view.y; return y < view.H && y + b.h > view.top; });
  for (const b of seen) ground(b);
  if (show.critical) for (const s of scenes) if (!s.slots) criticalLinks(s);
  for (const b of seen) rankBand(b);
  links();
  for (const s of scenes) circle(s);
  for (const pick of [hover, chosen]) if (pick && pick.row >= 0) outline(pick.s, pick.row, css.select, 2.5);
  ctx.restore();
  gutter(seen);
  axis();
  if (height > view.H - view.top) scrollbar();
}

function step() {
  const s = scenes[0], rough = 110 / view.scale, base = s.unit || 1, size = 10 ** Math.floor(Math.log10(rough / base)) * base;
  return [1, 2, 5, 10].map(k => k * size).find(z => z >= rough) || size * 10;
}
function grid() {
  const d = step(), end = Math.min(T(view.W), Math.max(...scenes.map(s => s.makespan)));
  ctx.fillStyle = css.grid;
  for (let t = Math.max(0, Math.ceil(view.t0 / d)) * d; t <= end; t += d) ctx.fillRect(Math.round(X(t)), view.top, 1, view.H);
}
function axis() {
  const d = step(), s = scenes[0], end = Math.min(T(view.W), Math.max(...scenes.map(s => s.makespan)) + d * 0.01);
  ctx.fillStyle = css.paper; ctx.fillRect(0, 0, view.W, view.top);
  ctx.fillStyle = css.line; ctx.fillRect(0, view.top - 1, view.W, 1);
  font(11.5); ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.fillStyle = css.soft;
  ctx.save(); ctx.beginPath(); ctx.rect(view.left - 4, 0, view.W, view.top); ctx.clip();
  const z = s.unit ? null : [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(x => d >= x[1] * 0.999 || end >= x[1] * 9999) || ["ns", 1];
  for (let t = Math.max(0, Math.ceil(view.t0 / d)) * d; t <= end; t += d) {
    const label = s.unit ? `${+(t / s.unit).toPrecision(8)}` : `${+(t / z[1]).toPrecision(10)} ${z[0]}`;
    ctx.fillRect(Math.round(X(t)), view.top - 6, 1, 5);
    if (X(t) + 4 + ctx.measureText(label).width <= view.W) ctx.fillText(label, Math.round(X(t)) + 4, view.top / 2 - 1);
  }
  const stop = scenes.find(s => s.slots);
  if (stop && X(stop.makespan) < view.W) { ctx.fillStyle = css.paper; ctx.fillRect(X(stop.makespan), 0, view.W, view.top - 1); ctx.fillStyle = css.stop; font(12, true); ctx.fillText(view.W - X(stop.makespan) > 200 ? "here nothing moves any more" : "it stops here", X(stop.makespan) + 6, view.top / 2 - 1); }
  ctx.restore();
}
function gutter(seen) {
  ctx.fillStyle = css.paper; ctx.fillRect(0, view.top, view.left - 3, view.H);
  ctx.save(); ctx.beginPath(); ctx.rect(0, view.top, view.W, view.H); ctx.clip();
  ctx.textBaseline = "middle";
  for (const b of seen) {
    const y = b.y + view.top - view.y;
    if (b.rank < 0) {
      font(13, true); ctx.textAlign = "left"; ctx.fillStyle = css.ink;
      ctx.fillText(b.s.name, 10, y + 18); const w = ctx.measureText(b.s.name).width;
      font(12); ctx.fillStyle = css.soft; ctx.fillText(`${b.s.makespanText}, ${b.s.verdict}`, 20 + w, y + 18);
      continue;
    }
    font(12, true); ctx.textAlign = "right"; ctx.fillStyle = css.ink;
    ctx.fillText(view.W < 560 ? `${b.rank}` : `rank ${b.rank}`, view.left - 9, y + b.compute / 2);
  }
  ctx.restore();
}
function scrollbar() {
  const room = view.H - view.top, h = Math.max(room * room / height, 24), y = view.top + (room - h) * view.y / Math.max(height - room, 1);
  ctx.fillStyle = css.idle; ctx.beginPath(); ctx.roundRect(view.W - 6, y + 2, 4, h - 4, 2); ctx.fill();
}

function from(rows, key, t) {
  let a = 0, b = rows.length;
  while (a < b) { const m = (a + b) >> 1; if (key[rows[m]] < t) a = m + 1; else b = m; }
  return Math.max(a - 3, 0);
}
function ground(b) {
  if (b.rank < 0) return;
  const s = b.s, y = b.y + view.top - view.y, x0 = Math.max(X(0), view.left), x1 = Math.min(X(s.makespan), view.W);
  ctx.fillStyle = css.lane; if (x1 > x0) ctx.fillRect(x0, y, x1 - x0, b.compute);
  idle(s, b.rank, y, b.compute);
}
function rankBand(b) {
  if (b.rank < 0) return;
  const s = b.s, y = b.y + view.top - view.y;
  boxes(s, s.lanes[b.rank][0], y, b.compute, true);
  if (b.comm) {
    const n = s.lines[b.rank], h = b.comm / n;
    for (let l = 0; l < n; l++) boxes(s, s.lanes[b.rank][1 + l], y + b.compute + l * h + 1.5, h - 1.5, false);
  }
  if (b.memory) track(s, b.rank, y + b.compute + b.comm + 3, b.memory - 3);
}
function idle(s, r, y, h) {
  ctx.fillStyle = hatch.idle;
  const t1 = T(view.W), t0 = T(view.left);
  let last = -9;
  for (const g of s.idle[r]) {
    if (g.end < t0) continue;
    if (g.start > t1) break;
    const a = Math.max(X(g.start), view.left), w = Math.min(X(g.end), view.W) - a;
    if (w < 1 && a - last < 1) continue;
    last = a; ctx.fillRect(a, y, Math.max(w, 0.5), h);
  }
}
function boxes(s, rows, y, h, big) {
  if (h <= 0) return;
  const t1 = T(view.W), least = big ? 1 : 2.5, fs = Math.max(9, Math.min(13, h * 0.46));
  font(fs, false);
  const glyph = ctx.measureText("0").width;
  let last = -9;
  for (let i = from(rows, s.start, T(view.left) - maxLength(s)); i < rows.length; i++) {
    const row = rows[i];
    if (s.start[row] > t1) break;
    const a = X(s.start[row]), e = X(s.end[row]);
    if (e < view.left - 4) continue;
    let w = Math.max(e - a, least);
    if (e - a < 1) {
      if (big) {
        const cut = Math.floor(a) + 1;
        if (crowd(s, row, a, Math.min(e, cut) - a, y, h)) view.drawn++;
        if (e > cut && crowd(s, row, cut, e - cut, y, h)) view.drawn++;
        continue;
      }
      if (a - last < 0.9) continue;
    }
    last = a;
    view.drawn++;
    if (w > 3.5) w -= 1;
    const half = s.half[row], top = half === 2 ? y + h / 2 : y, tall = half ? h / 2 - 0.5 : h;
    ctx.globalAlpha = s.match && !s.match[row] ? 0.18 : 1;
    const f = fill(s, row), tick = e - a < least;
    ctx.fillStyle = f; ctx.fillRect(a, top, w, tall);
    if (!big && tick) { ctx.beginPath(); ctx.moveTo(a + 1.2, top - 0.5); ctx.lineTo(a + 4.8, top + tall / 2); ctx.lineTo(a + 1.2, top + tall + 0.5); ctx.fill(); }
    const kind = kinds[s.kind[row]];
    if (big && COMPUTE.has(kind)) {
      if (show.critical && s.critical[row] && !s.slots && w > 4) { const l = Math.min(2, w / 6); ctx.strokeStyle = css.ink; ctx.lineWidth = l; ctx.strokeRect(a + l / 2, top + l / 2, w - l, tall - l); }
      const chunk = s.stages[s.stage[row]] ? s.stages[s.stage[row]][1] : 0;
      if (chunk > 0 && w > 8 && tall > 14) { ctx.fillStyle = kind === "W" ? data.palette[region(s, row)].line : inkOn(s, row); for (let c = 0; c < Math.min(chunk, (w - 6) / 5); c++) ctx.fillRect(a + 4 + c * 5, top + tall - 6, 3, 3); }
      if (tall >= 9 && w > glyph) {
        const mb = String(s.mb[row]), forms = [`${s.stage[row]}${kind}${mb}`, kind + mb, mb];
        const room = w - 4, small = fs * 0.8;
        let label = forms.find(t => t.length * glyph * 1.06 <= room), size = half ? Math.min(fs, tall - 2) : fs;
        if (!label && mb.length * glyph * 0.84 <= w - 2) { label = mb; size = Math.min(size, small); }
        if (label) {
          const left = Math.max(a, view.left), mid = (left + Math.min(a + w, view.W)) / 2;
          if (size !== fs) font(size);
          ctx.textAlign = "center"; ctx.textBaseline = "middle";
          if (kind === "W") { const tw = label.length * glyph * 1.06 + 4; ctx.fillStyle = data.palette[region(s, row)].W; ctx.fillRect(mid - tw / 2, top + tall / 2 - fs * 0.62, tw, fs * 1.2); }
          ctx.fillStyle = inkOn(s, row); ctx.fillText(label, mid, top + tall / 2 + 0.5);
          if (size !== fs) font(fs);
        }
      }
    }
    if (s.mark[row]) { ctx.strokeStyle = css.stop; ctx.lineWidth = 2.5; ctx.strokeRect(a + 1, top + 1, Math.max(w - 2, 2), tall - 2); }
  }
  if (big) crowd(null);
  ctx.globalAlpha = 1;
}
// Operations narrower than a pixel: each column of pixels shows the shares of time that kinds take in it, and what is left is idle.
const share = new Float64Array(4 * 16), crowded = { x: NO };
function crowd(s, row, a, w, y, h) {
  const x = s ? Math.floor(a) : NO, fresh = x !== crowded.x;
  if (fresh && crowded.x !== NO) {
    let top = crowded.y + crowded.h;
    let total = 0;
    for (let k = 0; k < share.length; k++) total += share[k];
    total = Math.max(1, total);
    ctx.globalAlpha = 1;
    for (let k = share.length - 1; k >= 0; k--) if (share[k]) {
      const p = data.palette[k >> 2], tall = share[k] / total * crowded.h;
      ctx.fillStyle = [p.F, p.B, p.I, p.W][k & 3]; ctx.fillRect(crowded.x, top - tall, 1, tall); top -= tall;
    }
    share.fill(0);
  }
  Object.assign(crowded, { x, y, h });
  if (s) { const k = s.kind[row]; if (k < 4 && (!s.match || s.match[row])) share[region(s, row) * 4 + k] += Math.max(w, 1e-3); }
  return fresh;
}
const maxLength = s => s.longest ?? (s.longest = (() => { let m = 0; for (let i = 0; i < s.n; i++) if (s.lane[i] >= 0) m = Math.max(m, s.end[i] - s.start[i]); return m; })());

function track(s, r, y, h) {
  const t = s.tracks[r], Y = v => y + h - v / s.most * h, end = Math.min(X(s.makespan), view.W), base = y + h;
  let i = 0, a = 0, z = t.time.length; const t0 = T(view.left);
  while (a < z) { const m = (a + z) >> 1; if (t.time[m] <= t0) a = m + 1; else z = m; }
  i = Math.max(a - 1, 0);
  const area = new Path2D(); let x = Math.max(X(t.time[i]), view.left), top = t.value[i], column = Math.floor(x);
  area.moveTo(x, base); area.lineTo(x, Y(top));
  for (i++; i < t.time.length; i++) {
    const nx = X(t.time[i]);
    if (nx > end) break;
    if (Math.floor(nx) === column) { top = Math.max(top, t.value[i]); continue; }   // at least the highest of each pixel
    area.lineTo(nx, Y(top)); top = t.value[i]; area.lineTo(nx, Y(top)); column = Math.floor(nx);
  }
  area.lineTo(end, Y(top)); area.lineTo(end, base); area.closePath();
  ctx.globalAlpha = dark() ? 0.55 : 0.5; ctx.fillStyle = css.memory; ctx.fill(area);
  const left = Math.max(X(0), view.left);
  if (t.limit !== null) {
    if (t.peak > t.limit) { ctx.save(); ctx.beginPath(); ctx.rect(view.left, y - 2, view.W, Y(t.limit) - y + 2); ctx.clip(); ctx.globalAlpha = 0.85; ctx.fillStyle = css.stop; ctx.fill(area); ctx.restore(); }
    ctx.globalAlpha = 1; ctx.strokeStyle = css.stop; ctx.lineWidth = 1.2; ctx.setLineDash([5, 3]);
    ctx.beginPath(); ctx.moveTo(left, Y(t.limit)); ctx.lineTo(end, Y(t.limit)); ctx.stroke(); ctx.setLineDash([]);
  }
  ctx.globalAlpha = 1; ctx.fillStyle = css.line; ctx.fillRect(left, base, Math.max(end - left, 0), 1);
  if (h >= 14) {
    const label = s.inBytes ? `peak ${bytes(t.peak)}${t.limit !== null ? " of " + bytes(t.limit) : ""}` : `${t.peak} in flight`;
    font(10.5); ctx.textAlign = "left"; ctx.textBaseline = "alphabetic";
    const w = ctx.measureText(label).width;
    ctx.globalAlpha = 0.75; ctx.fillStyle = css.paper; ctx.fillRect(left + 3, base - 14, w + 6, 13); ctx.globalAlpha = 1;
    ctx.fillStyle = t.limit !== null && t.peak > t.limit ? css.stop : css.ink; ctx.fillText(label, left + 6, base - 3.5);
  }
}

function place(s, row) {
  const b = s.bands[s.rank[row]];
  if (!b) return null;
  const y = b.y + view.top - view.y, g = s.at.get(row);
  if (g) { const x = X(s.makespan + g[1] * s.slot), w = s.slot * view.scale; return { x: x + 3, y: y + 1, w: Math.max(w - 6, 3), h: b.compute + b.comm - 2 }; }
  const lane = s.lane[row];
  if (lane < 0) return null;
  const x = X(s.start[row]), w = Math.max(X(s.end[row]) - x, lane ? 2.5 : 1), half = s.half[row];
  if (!lane) return { x, y: half === 2 ? y + b.compute / 2 : y, w, h: half ? b.compute / 2 : b.compute };
  if (!b.comm) return null;
  const h = b.comm / s.lines[b.rank];
  return { x, y: y + b.compute + (Math.min(lane, s.lines[b.rank]) - 1) * h + 1.5, w, h: h - 1.5 };
}
function outline(s, row, color, width) {
  const p = place(s, row);
  if (p) { ctx.strokeStyle = color; ctx.lineWidth = width; ctx.strokeRect(p.x - 0.5, p.y - 0.5, p.w + 1, p.h + 1); }
}
