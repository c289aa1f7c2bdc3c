// The view: time across, ranks down.

const show = { critical: true, memory: true };
const view = { t0: 0, scale: 1, y: 0, W: 0, H: 0, left: 72, top: 26, drawn: 0, painted: 0 };
let bands = [], height = 0, hover = null, chosen = null, fitted = true, pending = false;

function layout() {
  const some = show.memory, plain = [];
  for (const s of scenes) {
    if (several) plain.push({ s, rank: NO, h: 30 });
    for (let r = 0; r < s.ranks; r++) plain.push({ s, rank: r, compute: 26, comm: several ? 0 : 7 * s.lines[r], memory: some && s.tracks.length && !several ? 26 : 0, gap: several ? 4 : 12 });
  }
  const total = k => plain.reduce((sum, b) => sum + (b.rank < 0 ? b.h : Math.round(b.compute * k) + Math.round(b.comm * k) + Math.round(b.memory * k) + b.gap), 0);
  const room = view.H - view.top - 6;
  let k = 2.3;
  while (k > 0.62 && total(k) > room) k -= 0.04;
  let y = 4;
  bands = plain.map(b => {
    const band = b.rank < 0 ? { ...b, y } : { ...b, y, compute: Math.round(b.compute * k), comm: Math.round(b.comm * k), memory: Math.round(b.memory * k) };
    band.h = b.rank < 0 ? b.h : band.compute + band.comm + band.memory;
    y += band.h + (b.gap || 0);
    return band;
  });
  for (const s of scenes) s.bands = [];
  for (const b of bands) if (b.rank >= 0) b.s.bands[b.rank] = b;
  height = y;
  clamp();
}
function resize() {
  const box = main.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  view.W = Math.max(box.width, 50); view.H = Math.max(box.height, 50);
  canvas.width = Math.round(view.W * ratio); canvas.height = Math.round(view.H * ratio);
  const digits = String(Math.max(...scenes.map(s => s.ranks)) - 1).length;
  view.left = view.W < 560 ? 16 + 9 * digits : 52 + 8 * digits;
  layout();
  if (fitted) fit(); else { clamp(); draw(); }
}
const span = () => view.W - view.left - 10;
const X = t => view.left + (t - view.t0) * view.scale;
const T = x => view.t0 + (x - view.left) / view.scale;
function fit() { view.t0 = 0; view.scale = span() / extent; fitted = true; draw(); }
function clamp() {
  const least = span() / extent, most = Math.max(least, 400 / Math.max(1, shortest));
  view.scale = Math.min(Math.max(view.scale, least), most);
  view.t0 = Math.min(Math.max(view.t0, -20 / view.scale), Math.max(extent - span() / view.scale + 20 / view.scale, 0));
  if (view.scale <= least * 1.0001) view.t0 = 0;
  view.y = Math.min(Math.max(view.y, 0), Math.max(height - (view.H - view.top), 0));
}
const shortest = (() => { let m = Infinity; for (const s of scenes) for (let i = 0; i < s.n; i++) if (s.lane[i] >= 0 && s.end[i] > s.start[i]) m = Math.min(m, s.end[i] - s.start[i]); return m === Infinity ? 1 : m; })();
function zoom(factor, x = view.left + span() / 2) {
  const t = T(x);
  view.scale *= factor; clamp();
  view.t0 = t - (x - view.left) / view.scale;
  fitted = false; clamp(); draw();
}
function pan(dx, dy) { view.t0 -= dx / view.scale; view.y -= dy; fitted = false; clamp(); draw(); }
