// Zoom, pan and search of a timeline. Without it, and on paper, a page shows the drawing of the whole time.
"use strict";
{
  const LEVEL = 18, GAP = 10, TOP = 8, BELOW = 24, NAMES = 150, LETTERS = 12;
  // The shortest time that is shown, as a share of all of it.
  const CLOSEST = 1e-6;

  const make = (tag, attributes, parent) => parent.appendChild(Object.assign(document.createElement(tag), attributes));
  const digits = value => Number(value.toPrecision(4)).toLocaleString("en");
  const colour = variable => getComputedStyle(document.documentElement).getPropertyValue(variable.slice(4, -1));

  const enliven = (figure, { label, extent, tracks, series, names, spans, leftOut }) => {
    const box = document.createElement("div");
    box.className = "live";
    figure.insertBefore(box, figure.querySelector(".drawing"));
    figure.classList.add("alive");
    const bar = make("div", { className: "controls" }, box);
    const button = (textContent, title, click) => make("button", { type: "button", textContent, title, onclick: click }, bar);
    button("+", "closer (Ctrl and wheel, or +)", () => zoom(0.5));
    button("\u2212", "farther (Ctrl and wheel, or -)", () => zoom(2));
    button("\u2190", "earlier (drag, or arrow)", () => pan(-0.25));
    button("\u2192", "later (drag, or arrow)", () => pan(0.25));
    button("all", "the whole time (0)", () => show(...extent));
    const search = make("input", { type: "search", placeholder: "search; Enter: the next" }, bar);
    search.setAttribute("aria-label", "search names");
    const found = make("output", {}, bar);
    if (leftOut) make("small", { textContent: `the ${spans.length} longest; ${leftOut} shorter ones are left out` }, bar);
    const canvas = make("canvas", { tabIndex: 0 }, box);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", figure.querySelector(".drawing svg").getAttribute("aria-label"));
    const tip = make("div", { className: "tip", hidden: true }, box);

    let [from, to] = extent, matches = null, at = -1, width = 0;
    const tops = [];
    const height = tracks.reduce((top, { levels }) => (tops.push(top), top + Math.max(levels, 1) * LEVEL + GAP), TOP) + BELOW;
    const margin = () => Math.min(NAMES, width / 4);
    const x = time => margin() + (time - from) / (to - from) * (width - margin());
    const time = x => from + (x - margin()) / (width - margin()) * (to - from);

    const show = (start, end) => {
      const all = extent[1] - extent[0], length = Math.min(Math.max(end - start, all * CLOSEST), all);
      from = Math.min(Math.max(start, extent[0]), extent[1] - length);
      to = from + length;
      draw();
    };
    const zoom = (factor, centre = (from + to) / 2) => show(centre - (centre - from) * factor, centre + (to - centre) * factor);
    const pan = share => show(from + share * (to - from), to + share * (to - from));

    const draw = () => {
      width = box.clientWidth;
      const scale = window.devicePixelRatio || 1, paint = canvas.getContext("2d");
      [canvas.width, canvas.height] = [width * scale, height * scale];
      canvas.style.height = height + "px";
      paint.scale(scale, scale);
      paint.font = `${LETTERS}px system-ui, sans-serif`;
      paint.textBaseline = "middle";
      const [ink, paper, muted, grid] = ["ink", "paper", "muted", "grid"].map(name => colour(`var(--${name})`));
      const fills = series.map(one => colour(one.colour));
      ticks(paint, muted, grid);
      for (const [place, span] of spans.entries()) {
        const [track, level, which, start, end, name] = span;
        if (end < from || start > to) continue;
        const left = Math.max(x(start), margin()), right = Math.min(x(end), width), top = tops[track] + level * LEVEL;
        paint.globalAlpha = matches && !matches.has(name) ? 0.2 : 1;
        paint.fillStyle = fills[which];
        // Narrower than a pixel, it is as faint as it is short.
        paint.fillRect(left, top + 0.5, Math.max(right - left - (right - left > 2 ? 0.5 : 0), 0.02), LEVEL - 1);
        if (right - left > 24) write(paint, names[name], left, right, top, paper);
        if (place === at) { paint.strokeStyle = ink; paint.lineWidth = 2; paint.strokeRect(left, top + 0.5, Math.max(right - left, 2), LEVEL - 1); }
      }
      paint.globalAlpha = 1;
      paint.fillStyle = muted;
      paint.textAlign = "right";
      tracks.forEach(({ name }, track) => fit(paint, name, margin() - 16, text => paint.fillText(text, margin() - 8, tops[track] + LEVEL / 2)));
    };
    const fit = (paint, text, room, put) => {
      while (text.length > 2 && paint.measureText(text).width > room) text = text.slice(0, text.endsWith("\u2026") ? -2 : -1) + "\u2026";
      if (text.length > 2) put(text);
    };
    const write = (paint, text, left, right, top, paper) => {
      paint.fillStyle = paper;
      paint.textAlign = "center";
      fit(paint, text, right - left - 6, text => paint.fillText(text, (left + right) / 2, top + LEVEL / 2));
    };
    const ticks = (paint, muted, grid) => {
      const rough = (to - from) / Math.max(width / 130, 2), power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].find(one => one * power >= rough) * power;
      const decimals = Math.max(0, -Math.floor(Math.log10(step)));
      paint.fillStyle = muted;
      paint.strokeStyle = grid;
      paint.textAlign = "center";
      for (let mark = Math.ceil(from / step); mark * step <= to; mark++) {
        const place = x(mark * step);
        paint.beginPath();
        paint.moveTo(place, TOP);
        paint.lineTo(place, height - BELOW);
        paint.stroke();
        const text = (mark * step).toFixed(decimals);
        const half = paint.measureText(text).width / 2;
        paint.fillText(text, Math.min(place, width - half), height - BELOW / 2);
      }
      paint.textAlign = "left";
      paint.fillText(label, 0, height - BELOW / 2);
    };

    const under = event => {
      const { left, top } = canvas.getBoundingClientRect(), moment = time(event.clientX - left), y = event.clientY - top;
      const slack = (to - from) / width;
      let best = -1;
      for (const [place, [track, level, , start, end]] of spans.entries()) {
        const row = tops[track] + level * LEVEL;
        if (y < row || y >= row + LEVEL || moment < start - slack || moment > end + slack) continue;
        if (best < 0 || end - start < spans[best][4] - spans[best][3]) best = place;
      }
      return best;
    };
    const told = ([, , which, start, end, name]) =>
      `${names[name]} (${series[which].name}): ${digits(end - start)} from ${digits(start)} to ${digits(end)}`;

    let held = null;
    canvas.onpointerdown = event => { held = { from, x: event.clientX }; canvas.setPointerCapture(event.pointerId); };
    canvas.onpointerup = () => { held = null; };
    canvas.onpointermove = event => {
      if (held) { const moved = (held.x - event.clientX) / (width - margin()) * (to - from); show(held.from + moved, held.from + moved + (to - from)); }
      const place = held ? -1 : under(event);
      tip.hidden = place < 0;
      if (place < 0) return;
      tip.textContent = told(spans[place]);
      const { left, top } = box.getBoundingClientRect();
      tip.style.left = Math.min(event.clientX - left + 12, Math.max(width - tip.offsetWidth, 0)) + "px";
      tip.style.top = event.clientY - top + 16 + "px";
    };
    canvas.onpointerleave = () => { tip.hidden = true; };
    canvas.ondblclick = event => { const place = under(event); if (place >= 0) look(place, 0.8); };
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 0.8 : 1.25, time(event.clientX - canvas.getBoundingClientRect().left));
    }, { passive: false });
    canvas.onkeydown = event => {
      const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), 0: () => show(...extent) }[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
    };
    const look = (place, share) => {
      const [, , , start, end] = spans[place], length = Math.max(end - start, (extent[1] - extent[0]) * CLOSEST) / share;
      at = place;
      show((start + end - length) / 2, (start + end + length) / 2);
    };
    const hits = () => [...spans.keys()].filter(place => matches && matches.has(spans[place][5])).sort((a, b) => spans[a][3] - spans[b][3]);
    search.oninput = () => {
      const wanted = search.value.trim().toLowerCase();
      matches = wanted ? new Set([...names.keys()].filter(name => names[name].toLowerCase().includes(wanted))) : null;
      const all = hits(), took = all.reduce((sum, place) => sum + spans[place][4] - spans[place][3], 0);
      found.textContent = wanted ? `${all.length} found` + (all.length ? `, together ${digits(took)}` : "") : "";
      at = -1;
      draw();
    };
    search.onkeydown = event => {
      const all = hits();
      if (event.key !== "Enter" || !all.length) return;
      look(all[(all.indexOf(at) + 1) % all.length], 0.2);
      found.textContent = `${all.indexOf(at) + 1} of ${all.length}: ${told(spans[at])}`;
    };
    new ResizeObserver(draw).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
  const read = text => {
    const data = JSON.parse(text);
    // Lengths make shorter files, ends are easier to draw.
    for (const span of data.spans) span[4] += span[3];
    return data;
  };
  for (const data of document.querySelectorAll("script.spans")) enliven(data.closest("figure"), read(data.textContent));
}
