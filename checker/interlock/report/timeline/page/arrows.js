// Lines between boxes: the critical path, transfers, the circle of waits.

function criticalLinks(s) {
  let before = null, many = 0;
  ctx.beginPath();
  const t0 = T(view.left), t1 = T(view.W);
  for (const row of s.path) {
    if (s.lane[row] < 0) continue;
    if (before !== null && s.rank[before] !== s.rank[row] && s.end[before] >= t0 && s.start[row] <= t1) {
      const a = place(s, before), b = place(s, row);
      if (a && b) { if (++many > span() / 8) return;            // more are no line but a dark area
        const down = b.y > a.y; ctx.moveTo(a.x + a.w, down ? a.y + a.h : a.y); ctx.lineTo(b.x, down ? b.y : b.y + b.h); }
    }
    if (COMPUTE.has(kinds[s.kind[row]])) before = row;
  }
  ctx.strokeStyle = css.ink; ctx.lineWidth = 1.6; ctx.globalAlpha = 0.85; ctx.stroke(); ctx.globalAlpha = 1;
}
function links() {                                        // the hovered operation with the other end of its transfers
  const pick = chosen || hover;
  if (!pick || pick.row < 0) return;
  const { s, row } = pick, ends = [];
  if (s.partner[row] >= 0) ends.push([row, s.partner[row]]);
  if (COMPUTE.has(kinds[s.kind[row]])) for (const r of around(s, row)) if (s.partner[r] >= 0) ends.push([r, s.partner[r]]);
  for (const [a, b] of ends) { const [x, y] = isSend[s.kind[a]] ? [a, b] : [b, a], p = place(s, x), q = place(s, y); if (p && q) arrow(p.x + p.w / 2, p.y + p.h / 2, q.x + q.w / 2, q.y + q.h / 2, css.select, 1.8); }
}
function around(s, row) {                                 // the transfers of what an operation needs and makes
  const out = [], k = kinds[s.kind[row]], want = k === "F" ? ["RECV_F", "SEND_F"] : ["RECV_B", "SEND_B"];
  for (let r = s.first[s.rank[row]]; r < s.first[s.rank[row] + 1]; r++) if (s.mb[r] === s.mb[row] && s.stage[r] === s.stage[row] && want.includes(kinds[s.kind[r]])) out.push(r);
  return out;
}
function arrow(x0, y0, x1, y1, color, width, text) {
  const bend = Math.max(18, Math.abs(x1 - x0) * 0.25), mx0 = x0 + bend, mx1 = x1 - bend, angle = Math.atan2(y1 - y0, (x1 - mx1) || 1);
  ctx.strokeStyle = ctx.fillStyle = color; ctx.lineWidth = width;
  ctx.beginPath(); ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(mx0, y0 + (y1 - y0) * 0.3, mx1, y1 - (y1 - y0) * 0.3, x1, y1); ctx.stroke();
  const g = Math.atan2((y1 - y0) * 0.3, bend);
  ctx.beginPath(); ctx.moveTo(x1, y1);
  for (const d of [0.42, -0.42]) ctx.lineTo(x1 - 10 * Math.cos(g + d), y1 - 10 * Math.sin(g + d));
  ctx.fill();
  if (text) {
    const x = (x0 + 3 * mx0 + 3 * mx1 + x1) / 8, y = (y0 + y1) / 2;
    ctx.beginPath(); ctx.arc(x, y, 8.5, 0, 7); ctx.fill();
    ctx.fillStyle = css.paper; font(11, true); ctx.textAlign = "center"; ctx.textBaseline = "middle"; ctx.fillText(text, x, y + 0.5);
  }
  return angle;
}
function circle(s) {                                      // what never runs, and who waits for whom
  if (!s.slots) return;
  const x = X(s.makespan);
  for (const b of bands) if (b.s === s && b.rank >= 0) {
    const y = b.y + view.top - view.y;
    ctx.fillStyle = css.stop; ctx.globalAlpha = 0.07; ctx.fillRect(x, y - 4, X(s.extent) - x, b.compute + b.comm + 8); ctx.globalAlpha = 1;
    ctx.fillStyle = css.stop; ctx.fillRect(x - 1, y - 4, 2.5, b.compute + b.comm + 8);
  }
  for (const g of s.ghosts) {
    const b = s.bands[g[0]], y = b.y + view.top - view.y, h = b.compute + b.comm - 2, gx = X(s.makespan + g[1] * s.slot) + 3, w = s.slot * view.scale - 6;
    if (w < 2) continue;
    font(12, g[3] === 1); ctx.textAlign = "center"; ctx.textBaseline = "middle";
    if (g[2] < 0) { ctx.fillStyle = css.soft; ctx.fillText(w > 60 ? `${g[4]} more` : "…", gx + w / 2, y + h / 2 + 1); continue; }
    ctx.fillStyle = css.paper; ctx.fillRect(gx, y + 1, w, h);
    ctx.strokeStyle = g[3] ? css.stop : css.idle; ctx.lineWidth = g[3] ? 2.5 : 1.2; ctx.setLineDash(g[3] ? [6, 3] : [3, 3]);
    ctx.strokeRect(gx, y + 1, w, h); ctx.setLineDash([]);
    ctx.fillStyle = g[3] ? css.ink : css.soft;
    const text = name(s, g[2]), tw = ctx.measureText(text).width;
    if (tw < w - 4) ctx.fillText(text, gx + w / 2, y + h / 2 + 1);
    else { const cut = text.split("_"); font(10, g[3] === 1); if (cut.length > 1 && ctx.measureText(cut[0] + "_").width < w - 2) { ctx.fillText(cut[0] + "_", gx + w / 2, y + h / 2 - 5); ctx.fillText(cut.slice(1).join("_"), gx + w / 2, y + h / 2 + 7); } }
  }
  s.arrows.forEach(([a, b], i) => {
    const p = place(s, a), q = place(s, b);
    if (!p || !q) return;
    const down = q.y > p.y, shift = down ? -0.18 : 0.18;
    straight(p.x + p.w * (0.5 + shift), down ? p.y + p.h : p.y, q.x + q.w * (0.5 + shift), down ? q.y : q.y + q.h, css.stop, String(i + 1));
  });
}
function straight(x0, y0, x1, y1, color, text) {
  const g = Math.atan2(y1 - y0, x1 - x0);
  ctx.strokeStyle = ctx.fillStyle = color; ctx.lineWidth = 2.5;
  ctx.beginPath(); ctx.moveTo(x0, y0); ctx.lineTo(x1 - 7 * Math.cos(g), y1 - 7 * Math.sin(g)); ctx.stroke();
  ctx.beginPath(); ctx.moveTo(x1, y1);
  for (const d of [0.42, -0.42]) ctx.lineTo(x1 - 12 * Math.cos(g + d), y1 - 12 * Math.sin(g + d));
  ctx.fill();
  const x = x0 + (x1 - x0) * 0.35, y = y0 + (y1 - y0) * 0.35;
  ctx.beginPath(); ctx.arc(x, y, 9, 0, 7); ctx.fill();
  ctx.fillStyle = css.paper; font(11.5, true); ctx.textAlign = "center"; ctx.textBaseline = "middle"; ctx.fillText(text, x, y + 0.5);
}
