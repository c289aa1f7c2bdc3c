// Pointer, wheel, touch, keys, buttons; and the start.

const pointers = new Map();
let moved = 0, pinch = 0;
const local = e => { const b = canvas.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
canvas.addEventListener("pointerdown", e => { if (e.button) return; canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, local(e)); moved = pointers.size > 1 ? 99 : 0; pinch = 0; canvas.classList.add("drag"); });
canvas.addEventListener("pointermove", e => {
  const [x, y] = local(e), before = pointers.get(e.pointerId);
  if (!before) {
    const pick = hit(x, y), same = hover && pick && hover.row === pick.row && hover.s === pick.s && hover.idle === pick.idle && pick.memory === undefined;
    hover = pick;
    if (pick || !chosen) showCard(pick, x, y);
    if (!same) draw();
    return;
  }
  pointers.set(e.pointerId, [x, y]);
  if (pointers.size === 1) {
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (moved > 4) { card.hidden = true; hover = null; pan(x - before[0], y - before[1]); }
  } else {
    const [a, b] = [...pointers.values()], d = Math.hypot(a[0] - b[0], a[1] - b[1]), mid = (a[0] + b[0]) / 2;
    if (pinch) { pan(x === before[0] ? 0 : (x - before[0]) / 2, (y - before[1]) / 2); zoom(d / pinch, mid); }
    pinch = d; card.hidden = true;
  }
});
const release = e => {
  if (!pointers.delete(e.pointerId)) return;
  pinch = 0;
  if (!pointers.size) canvas.classList.remove("drag");
  if (moved <= 4 && e.type === "pointerup") {
    const [x, y] = local(e), pick = hit(x, y);
    chosen = pick && pick.row >= 0 ? pick : null;
    hover = pick; showCard(pick, x, y); draw();
  }
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", e => { if (e.pointerType === "mouse") { hover = null; if (!chosen) card.hidden = true; draw(); } });
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const [x] = local(e), unit = e.deltaMode === 1 ? 16 : 1;
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(-(e.deltaX || e.deltaY) * unit, 0);
  else if (e.altKey) pan(0, -e.deltaY * unit);
  else zoom(Math.exp(-e.deltaY * unit * (e.ctrlKey ? 0.01 : 0.0016)), x);
  hover = null; card.hidden = true;
}, { passive: false });
canvas.addEventListener("dblclick", e => zoom(2, local(e)[0]));
canvas.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const far = e.shiftKey ? 0.8 : 0.2;
  switch (e.key) {
    case "ArrowLeft": pan(span() * far, 0); break;
    case "ArrowRight": pan(-span() * far, 0); break;
    case "ArrowUp": chosen ? across(-1) : pan(0, 60); break;
    case "ArrowDown": chosen ? across(1) : pan(0, -60); break;
    case "PageUp": pan(0, view.H * 0.8); break;
    case "PageDown": pan(0, -view.H * 0.8); break;
    case "Home": view.t0 = 0; clamp(); draw(); break;
    case "End": view.t0 = extent; clamp(); draw(); break;
    case "+": case "=": zoom(1.5); break;
    case "-": case "_": zoom(1 / 1.5); break;
    case "0": case "f": fit(); break;
    case ".": along(1); break;
    case ",": along(-1); break;
    case "c": $("critical").click(); break;
    case "m": $("memory").click(); break;
    case "t": $("theme").click(); break;
    case "n": next(1); break;
    case "p": next(-1); break;
    case "Escape": chosen = hover = null; card.hidden = true; draw(); break;
    default: return;
  }
  e.preventDefault();
});
function along(by) {                                      // the operation before or after on the rank, in its order
  const s = chosen ? chosen.s : scenes[0], r = chosen ? chosen.rank : 0;
  const inside = row => s.lane[row] === 0 || (s.lane[row] > 0 && !several) || s.at.has(row);
  let row = chosen ? chosen.row + by : (by > 0 ? s.first[r] : s.first[r + 1] - 1);
  while (row >= s.first[r] && row < s.first[r + 1] && !inside(row)) row += by;
  if (row >= s.first[r] && row < s.first[r + 1]) choose(s, row, true);
}
function across(by) {                                     // the operation of the next rank at the same time
  const { s, row } = chosen, r = s.rank[row] + by, t = (Math.max(s.start[row], 0) + Math.max(s.end[row], 0)) / 2;
  if (r < 0 || r >= s.ranks || !s.lanes[r][0].length) return;
  choose(s, s.lanes[r][0].reduce((a, b) => Math.abs((s.start[b] + s.end[b]) / 2 - t) < Math.abs((s.start[a] + s.end[a]) / 2 - t) ? b : a), true);
}
document.addEventListener("keydown", e => { if (e.key === "/" && document.activeElement !== $("find")) { e.preventDefault(); $("find").focus(); } });
$("find").addEventListener("input", e => search(e.target.value));
$("find").addEventListener("keydown", e => { if (e.key === "Enter") { e.preventDefault(); next(e.shiftKey ? -1 : 1); } else if (e.key === "Escape") { e.target.value = ""; search(""); canvas.focus(); } });
$("in").onclick = () => zoom(1.6); $("out").onclick = () => zoom(1 / 1.6); $("fit").onclick = fit;
$("theme").onclick = () => theme(dark() ? "light" : "dark");
for (const id of ["critical", "memory"]) $(id).onclick = () => { show[id] = !show[id]; $(id).setAttribute("aria-pressed", show[id]); layout(); legend(); draw(); };
if (several || !scenes.some(s => s.tracks.length)) $("memory").remove();
if (scenes.every(s => !s.path.length || s.slots)) $("critical").hidden = true;
for (const b of document.querySelectorAll("[data-row]")) b.onclick = () => choose(scenes[0], +b.dataset.row, true);

const scheme = matchMedia("(prefers-color-scheme: dark)");
scheme.addEventListener("change", e => theme(e.matches ? "dark" : "light"));
new ResizeObserver(resize).observe(main);
theme(scheme.matches ? "dark" : "light");
resize();
window.interlock = {                                     // for tests, and for the curious
  state: () => ({ t0: view.t0, t1: T(view.W), scale: view.scale, y: view.y, drawn: view.drawn, painted: view.painted, found: found.length, chosen: chosen && name(chosen.s, chosen.row), theme: document.documentElement.dataset.theme, ranks: bands.filter(b => b.rank >= 0).length }),
  place: (text, n = 0) => { const s = scenes[n]; for (let r = 0; r < s.n; r++) if (name(s, r) === text) return place(s, r); return null; },
  find: text => { $("find").value = text; search(text); next(1); },
};
