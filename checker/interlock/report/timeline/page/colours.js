// Colours by theme, patterns, the legend.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
let css = {}, hatch = {};
const dark = () => document.documentElement.dataset.theme === "dark";
function theme(name) {
  document.documentElement.dataset.theme = name;
  const style = getComputedStyle(document.documentElement);
  for (const n of ["paper", "panel", "ink", "soft", "line", "grid", "lane", "idle", "accent", "stop", "select", "memory"]) css[n] = style.getPropertyValue("--" + n).trim();
  hatch = { idle: lines(css.idle, null, 7, 1) };
  data.palette.forEach((p, i) => { hatch[i] = lines(p.line, p.W, 5, 1.6); });
  legend(); draw();
}
function lines(color, ground, gap, width) {
  const ratio = devicePixelRatio || 1, tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(gap * ratio);
  const c = tile.getContext("2d"), g = tile.width;
  if (ground) { c.fillStyle = ground; c.fillRect(0, 0, g, g); }
  c.strokeStyle = color; c.lineWidth = width * ratio;
  c.beginPath();
  for (const d of [-g, 0, g]) { c.moveTo(d - 1, g + 1); c.lineTo(d + g + 1, -1); }
  c.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
const region = (s, row) => { const st = s.stage[row]; return st >= 0 && st < s.stages.length ? s.stages[st][0] % data.palette.length : data.palette.length - 1; };
function fill(s, row) {
  const k = kinds[s.kind[row]], p = data.palette[region(s, row)];
  if (COMPUTE.has(k)) return k === "W" ? hatch[region(s, row)] : p[k];
  if (k === "LOSS" || k === "STEP") return css.ink;
  if (/_F$/.test(k)) return p.F;
  if (/_B$/.test(k)) return p.B;
  return css.soft;
}
const inkOn = (s, row) => { const k = kinds[s.kind[row]], p = data.palette[region(s, row)]; return k === "W" ? "#000" : p["ink" + k] || css.paper; };

function legend() {
  const box = $("legend"), present = new Set();
  for (const s of scenes) for (let i = 0; i < s.n; i++) present.add(kinds[s.kind[i]]);
  box.textContent = "";
  const item = (text, width, paint) => {
    const span = document.createElement("span"), c = document.createElement("canvas"), ratio = devicePixelRatio || 1;
    c.width = width * ratio; c.height = 14 * ratio; c.style.width = width + "px"; c.style.height = "14px"; c.setAttribute("aria-hidden", "true");
    const g = c.getContext("2d"); g.scale(ratio, ratio); paint(g);
    span.append(c, text); box.append(span);
  };
  const regions = [...new Set(scenes.flatMap(s => s.regions))], used = ["F", "B", "I", "W"].filter(k => present.has(k));
  const swatch = (g, i, k, x, w) => {
    const p = data.palette[i];
    g.fillStyle = k === "W" ? hatch[i] : p[k]; g.fillRect(x, 0, w, 14);
    if (k === "W") { g.fillStyle = p.W; g.fillRect(x + w / 2 - 6, 2, 12, 10); }
    g.fillStyle = k === "W" ? "#000" : p["ink" + k]; g.font = `600 10px ${FONT}`; g.textAlign = "center"; g.textBaseline = "middle";
    g.fillText(k, x + w / 2, 7.5);
  };
  if (regions.length === 1) for (const k of used) item(WORDS[k], 20, g => swatch(g, 0, k, 0, 20));
  else regions.forEach(r => {
    const s = scenes.find(s => s.regions.includes(r)), i = s.regions.indexOf(r) % data.palette.length;
    item(r, used.length * 17, g => used.forEach((k, n) => swatch(g, i, k, n * 17, 16)));
  });
  if (regions.length > 1) item(used.map(k => `${k} ${WORDS[k]}`).join(", "), 1, () => {});
  item("bubble", 18, g => { g.fillStyle = css.lane; g.fillRect(0, 0, 18, 14); g.fillStyle = hatch.idle; g.fillRect(0, 0, 18, 14); });
  if (!several && (present.has("SEND_F") || present.has("SEND"))) item("receives above, sends below", 18, g => { const p = data.palette[0]; g.fillStyle = p.F; g.fillRect(0, 1, 12, 5); g.fillStyle = p.B; g.fillRect(5, 8, 12, 5); });
  if (scenes.some(s => s.stages.some(x => x[1] > 0))) item("a dot: second stage of the rank", 18, g => { g.fillStyle = data.palette[0].F; g.fillRect(0, 0, 18, 14); g.fillStyle = "#000"; g.fillRect(3, 9, 3, 3); });
  if (scenes.some(s => s.path.length) && show.critical && !scenes.some(s => s.slots)) item("critical path", 18, g => { g.strokeStyle = css.ink; g.lineWidth = 2; g.strokeRect(1, 1, 16, 12); });
  if (scenes.some(s => s.slots)) item("never runs; in the circle of waits", 18, g => { g.strokeStyle = css.stop; g.lineWidth = 2; g.setLineDash([3, 2]); g.strokeRect(1, 1, 16, 12); });
  if (show.memory && !several && scenes.some(s => s.tracks.length)) item(scenes.every(s => s.inBytes) ? (scenes.some(s => s.tracks.some(t => t.limit !== null)) ? "memory, with its capacity" : "memory") : "in flight", 18, g => { g.fillStyle = css.memory; g.fillRect(0, 6, 9, 8); g.fillRect(9, 3, 9, 11); if (!scenes.some(s => s.tracks.some(t => t.limit !== null))) return; g.strokeStyle = css.stop; g.setLineDash([3, 2]); g.beginPath(); g.moveTo(0, 1); g.lineTo(18, 1); g.stroke(); });
}
