// Search.

let found = [], nth = NO;
function search(text) {
  const q = text.trim();
  found = []; nth = NO;
  for (const s of scenes) s.match = null;
  if (q) {
    const test = matcher(q);
    for (const s of scenes) {
      s.match = new Uint8Array(s.n);
      for (let row = 0; row < s.n; row++) if ((s.lane[row] >= 0 || s.at.has(row)) && test(s, row)) { s.match[row] = 1; found.push([s, row]); }
    }
    const when = ([s, r]) => s.start[r] < 0 ? Infinity : s.start[r];
    found.sort((a, b) => when(a) - when(b) || a[1] - b[1]);
    if (!found.length) for (const s of scenes) s.match = null;
  }
  $("found").textContent = q ? (found.length ? `${found.length.toLocaleString("en")}` : "none") : "";
  draw();
}
function matcher(q) {
  const word = q.toLowerCase(), m = /^(mb|m|microbatch|stage|s|rank|r)\s*=?\s*(\d+)$/.exec(word);
  if (m) { const n = +m[2], key = m[1][0]; return (s, row) => key === "r" ? s.rank[row] === n : key === "s" ? s.stage[row] === n : s.mb[row] === n && withMb[s.kind[row]]; }
  if (word === "critical" || word === "critical path") return (s, row) => !!s.critical[row];
  if (/^[a-z_]+\d*$/.test(word) && kinds.some(k => word.startsWith(k.toLowerCase()) && /^\d*$/.test(word.slice(k.length)))) { return (s, row) => { const k = kinds[s.kind[row]].toLowerCase(); return word.startsWith(k) && /^\d*$/.test(word.slice(k.length)) && (word.length === k.length || +word.slice(k.length) === s.mb[row]); }; }
  const regions = scenes.map(s => s.regions.findIndex(r => r.toLowerCase() === word));
  if (regions.some(r => r >= 0)) return (s, row) => s.stages[s.stage[row]] !== undefined && s.regions[s.stages[s.stage[row]][0]].toLowerCase() === word;
  return (s, row) => { const n = name(s, row).toLowerCase(); return n === word || n.split("@")[0] === word; };
}
function next(by) {
  if (!found.length) return;
  nth = nth < 0 ? (by > 0 ? 0 : found.length - 1) : (nth + by + found.length) % found.length;
  $("found").textContent = `${(nth + 1).toLocaleString("en")} of ${found.length.toLocaleString("en")}`;
  choose(...found[nth], true);
}
