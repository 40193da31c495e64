"use strict";
// Tooltips, pinning, search, zoom. Work per hover is constant: one buffer is looked up by its number.
// Address: #f=train_step shows a function, &q=text searches, &v=%12 pins a value.
(() => {
  const plan = JSON.parse(document.getElementById("plan").textContent);
  const tip = document.getElementById("tip"), input = document.getElementById("q"), hits = document.getElementById("hits");
  const [BUF, NAME, KIND, OP, LINE, BYTES, FIRST, LAST, SEG, OFFSET, OWNER, TYPE, FILE, KEEPS, SLOT, WHAT] = Array(16).keys();
  const exact = (n) => n.toString().replace(/\B(?=(\d{3})+$)/g, ",") + " B";
  const bytes = (n) => {
    let u = 0;
    for (; n >= 1024 && u < 4; u++) n /= 1024;
    return `${Number.isInteger(n) ? n : n.toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB"][u]}`;
  };
  let shown = 0, pinned = [], marked = [], hovered = null;

  // ---- one function at a time; its elements are indexed when it is first shown
  const fns = plan.map((fn, k) => ({ fn, el: document.getElementById("fn" + k), zoom: 1, ready: false }));
  function ready(f) {
    if (f.ready) return f;
    f.ready = true;
    f.drawn = new Map();
    f.byBuf = new Map(f.fn.bufs.map((b) => [b[BUF], b]));
    f.el.querySelectorAll("rect[data-b], i[data-b]").forEach((e) => f.drawn.set(+e.dataset.b, e));
    f.pin = f.el.querySelector(".pin");
    f.cursor = f.el.querySelector(".cursor");
    return f;
  }
  const here = () => ready(fns[shown]);

  function show(k) {
    if (k === shown && fns[k].ready) return;
    hide();
    fns.forEach((f, j) => { f.el.hidden = j !== k; });
    document.querySelectorAll(".tabs button").forEach((b, j) => b.setAttribute("aria-pressed", j === k));
    clearMarks();
    unpin();
    shown = k;
    ready(fns[k]);
    search(input.value);
  }

  // ---- what is said of a buffer
  const life = (b) => b[LAST] < 0 ? "no kernel" : `[${b[FIRST]},${b[LAST]}] of ${here().fn.kernels}`;
  const place = (b) => `${b[SEG]}+${b[OFFSET]}`;
  const share = (b) => b[SEG] === "arena" ? ` (${(100 * b[BYTES] / here().fn.arena).toFixed(2)} % of the arena)` : "";
  function add(parent, tag, text) {
    const e = parent.appendChild(document.createElement(tag));
    e.textContent = text;
    return e;
  }
  function fillTip(b) {
    tip.textContent = "";
    add(tip, "b", b[NAME]);
    tip.append(` ${b[WHAT]} `, document.createElement("br"), `${b[OP]} at ${b[LINE]}`, document.createElement("br"),
      `${bytes(b[BYTES])}, ${place(b)}`, document.createElement("br"), `kernels ${life(b)}, ${b[KIND]}`);
  }
  function fillPin(b) {
    const box = here().pin;
    box.textContent = "";
    box.classList.add("filled");
    const close = add(box, "button", "\u00d7");
    close.type = "button";
    close.setAttribute("aria-label", "close");
    close.dataset.close = "";
    add(box, "h3", b[NAME]);
    add(box, "p", b[WHAT] || b[KIND]).className = "muted";
    const list = box.appendChild(document.createElement("dl"));
    const row = (k, v) => { if (v) { add(list, "dt", k); add(list, "dd", v); } };
    row("made by", b[OP]);
    row("source", b[LINE]);
    row("type", b[TYPE]);
    row("in the file", b[FILE]);
    row("bytes", exact(b[BYTES]) + share(b));
    row("place", place(b));
    row("kernels", life(b));
    row("owner", b[OWNER]);
    row("slot", b[SLOT]);
    add(box, "p", b[KEEPS]);
  }

  // ---- hover
  function hide() {
    hovered = null;
    tip.hidden = true;
  }
  function moveTip(x, y) {
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 6)) + "px";
    tip.style.top = (y + 18 + h > innerHeight ? Math.max(4, y - h - 12) : y + 18) + "px";
  }
  document.addEventListener("pointermove", (ev) => {
    const e = ev.target.closest ? ev.target.closest("rect[data-b], i[data-b], i[data-leaf]") : null;
    if (!e) return hovered && hide();
    if (e !== hovered) {
      const b = here().byBuf.get(+(e.dataset.b ?? e.dataset.leaf));
      if (!b) return;
      hovered = e;
      fillTip(b);
      tip.hidden = false;
    }
    moveTip(ev.clientX, ev.clientY);
  });
  document.addEventListener("pointerleave", hide);
  addEventListener("scroll", () => hovered && hide(), { passive: true });

  // ---- pin
  function unpin() {
    pinned.forEach((e) => e.classList.remove("pinned"));
    pinned = [];
    here().pin.classList.remove("filled");
    here().pin.textContent = "";
    document.body.dataset.pinned = "";
  }
  function pin(buf) {
    const f = here(), b = f.byBuf.get(buf);
    if (!b) return;
    unpin();
    pinned = [f.drawn.get(buf), ...f.el.querySelectorAll(`tr[data-b="${buf}"], i[data-leaf="${buf}"]`)].filter(Boolean);
    pinned.forEach((e) => e.classList.add("pinned"));
    fillPin(b);
    document.body.dataset.pinned = b[NAME];
  }
  function showKernel(k) {
    const c = here().cursor;
    if (c) c.setAttribute("x", k);
  }
  document.addEventListener("click", (ev) => {
    const tab = ev.target.closest(".tabs button"), zoom = ev.target.closest("[data-zoom]");
    if (tab) return show(+tab.dataset.fn);
    if (ev.target.closest("[data-close]")) return unpin();
    if (zoom) return zoomBy(+zoom.dataset.zoom);
    const e = ev.target.closest("[data-b], [data-leaf]"), k = ev.target.closest("tr[data-k]");
    if (e) pin(+(e.dataset.b ?? e.dataset.leaf));
    else if (k) showKernel(+k.dataset.k);
  });
  document.addEventListener("keydown", (ev) => {
    const e = ev.target.closest("tr[data-b]");
    if (ev.key === "Escape") unpin();
    if (e && ev.key === "Enter") pin(+e.dataset.b);
  });

  // ---- search: buffers are marked, rows are filtered
  function clearMarks() {
    marked.forEach((e) => e.classList.remove("hit"));
    marked = [];
    const f = here();
    f.el.querySelectorAll(".searching").forEach((e) => e.classList.remove("searching"));
    f.el.querySelectorAll("tbody tr[hidden]").forEach((r) => { r.hidden = false; });
  }
  const textOf = (b) => [b[NAME], b[FILE], b[OP], b[LINE], b[OWNER], b[KIND], b[WHAT], b[SEG]].join("\n").toLowerCase();
  // A buffer is found by its own words or by a row of the ledger that lies on it; a row by its words or its buffer.
  function search(text) {
    const f = here(), want = text.trim().toLowerCase();
    clearMarks();
    hits.textContent = "";
    document.body.dataset.hits = "";
    document.body.classList.toggle("searching-page", want !== "");
    if (!want) return;
    f.texts ??= f.fn.bufs.map((b) => [String(b[BUF]), textOf(b)]);
    f.rows ??= [...f.el.querySelectorAll("tbody tr")].map((r) => [r, r.textContent.toLowerCase()]);
    const found = new Set();
    for (const [buf, t] of f.texts) if (t.includes(want)) found.add(buf);
    for (const [r, t] of f.rows) if (r.dataset.b && t.includes(want)) found.add(r.dataset.b);
    for (const [r, t] of f.rows) r.hidden = !(t.includes(want) || found.has(r.dataset.b));
    marked = [...found].map((buf) => f.drawn.get(+buf)).filter(Boolean);
    marked.forEach((e) => e.classList.add("hit"));
    f.el.querySelectorAll(".map, .segbar").forEach((e) => e.classList.add("searching"));
    f.el.querySelectorAll(".tables .tablewrap").forEach(showTable);
    hits.textContent = `${found.size} of ${f.fn.bufs.length}`;
    document.body.dataset.hits = found.size;
  }
  function showTable(wrap) {
    const any = wrap.querySelector("tbody tr:not([hidden])") !== null, group = wrap.closest("details");
    (group ?? wrap.closest(".card")).classList.toggle("none", !any);
    if (any && group) group.open = true;
  }
  let wait = 0;
  input.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => search(input.value), 60);
  });

  // ---- passes: lines that the text before has not, but for numbers of values and facts, are marked
  let passes = null;
  const shape = (line) => line.replace(/%\d+/g, "%").replace(/\s+\/\/.*$/, "");
  function textAfter(steps, k) {
    while (k > 0 && steps[k][1] === null) k--;
    return steps[k][1].split("\n");
  }
  function showPass(slider) {
    passes = passes || JSON.parse(document.getElementById("passes").textContent);
    const steps = passes[+slider.dataset.passes], k = +slider.value, card = slider.closest(".passes");
    const left = new Map(), lines = textAfter(steps, k), pre = card.querySelector("pre");
    const before = k ? textAfter(steps, k - 1) : lines;
    for (const line of before) left.set(shape(line), (left.get(shape(line)) || 0) + 1);
    let fresh = 0;
    pre.textContent = "";
    for (const line of lines) {
      const n = left.get(shape(line)) || 0, mark = n === 0 && line !== "";
      if (n) left.set(shape(line), n - 1);
      add(pre, mark ? "ins" : "span", line + "\n");
      fresh += mark;
    }
    let gone = 0;
    for (const [line, n] of left) if (line !== "") gone += n;
    const what = k === 0 ? `${lines.length} lines` : fresh || gone ? `${fresh} new lines, ${gone} gone` : "nothing changed";
    card.querySelector("output").textContent = `${k ? "after pass " : ""}${steps[k][0]}: ${what}`;
    pre.querySelector("ins")?.scrollIntoView({ block: "nearest" });
  }
  document.querySelectorAll("input[data-passes]").forEach((slider) => {
    slider.addEventListener("input", () => showPass(slider));
  });
  const seen = new IntersectionObserver((entries) => entries.forEach((e) => {
    if (!e.isIntersecting) return;
    seen.unobserve(e.target);
    showPass(e.target);
  }));
  document.querySelectorAll("input[data-passes]").forEach((slider) => seen.observe(slider));

  // ---- ways to a lower peak: one treemap and one sentence at a time
  document.querySelectorAll("input[data-ways]").forEach((slider) => slider.addEventListener("input", () => {
    const card = slider.closest(".peakmap");
    for (const list of [card.querySelectorAll(".treemap"), card.querySelectorAll("output")])
      list.forEach((e, k) => { e.hidden = k !== +slider.value; });
  }));

  // ---- code: the lines of a kernel, what they made, its assembly; a line and what it made have one hue
  const codeText = document.getElementById("code");
  let code = null;
  function showCode(select) {
    code = code || JSON.parse(codeText.textContent);
    const kernel = code[+select.dataset.code][+select.value], [lines, ir, assembly] = select.closest(".code").querySelectorAll("pre");
    const tint = (e, line) => {
      e.dataset.line = line;
      e.style.setProperty("--hue", (line * 137) % 360);
    };
    lines.textContent = ir.textContent = "";
    kernel.lines.forEach((text, k) => tint(add(lines, "span", text + "\n"), k));
    kernel.ir.forEach(([line, text]) => tint(add(ir, "span", text), line));
    assembly.textContent = kernel.asm || "no code: computed in place, or by another kernel";
  }
  document.querySelectorAll("select[data-code]").forEach((select) => {
    const card = select.closest(".code");
    showCode(select);
    select.addEventListener("input", () => showCode(select));
    card.addEventListener("pointerover", (e) => {
      const line = e.target.dataset.line;
      card.querySelectorAll("span[data-line]").forEach((s) => s.classList.toggle("same", line !== undefined && s.dataset.line === line));
    });
  });

  // ---- zoom
  function zoomBy(factor) {
    const f = here(), wide = f.el.querySelector(".wide"), box = f.el.querySelector(".scroll");
    const mid = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
    f.zoom = Math.min(64, Math.max(1, f.zoom * factor));
    wide.style.width = f.zoom * 100 + "%";
    box.scrollLeft = mid * box.scrollWidth - box.clientWidth / 2;
  }

  // ---- address
  // %57 is a value here, not the letter W.
  function decode(text) {
    if (/^%\d+$/.test(text)) return text;
    try { return decodeURIComponent(text); } catch { return text; }
  }
  function follow() {
    const part = {};
    for (const p of location.hash.slice(1).split("&")) {
      const at = p.indexOf("=");
      if (at > 0) part[p.slice(0, at)] = decode(p.slice(at + 1));
    }
    const k = part.f === undefined ? -1 : plan.findIndex((fn) => fn.name === part.f);
    if (k >= 0) show(k);
    if (part.q !== undefined) {
      input.value = part.q;
      search(part.q);
    }
    if (part.v === undefined) return;
    const names = [part.v, "%" + part.v], bufs = here().fn.bufs;
    const b = [NAME, FILE, WHAT].map((field) => bufs.find((x) => names.includes(x[field]))).find(Boolean);
    if (b) pin(b[BUF]);
  }
  shown = Math.max(0, fns.findIndex((f) => !f.el.hidden));
  if (!fns.length) return;
  here();
  addEventListener("hashchange", follow);
  follow();
  document.body.dataset.ready = "yes";
})();
