"use strict";
const flames = (() => {
  const pictures = [...document.querySelectorAll("svg.flame")];
  const bars = (picture) => [...picture.querySelectorAll(":scope > svg")];
  const name = (bar) => bar.querySelector("title").textContent.split(":")[0];
  // Shortens a name that is wider than its bar, with an ellipsis.
  const label = (bar) => {
    let text = bar.querySelector("text");
    if (!text) {
      text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("x", 3);
      text.setAttribute("y", 11);
      bar.append(text);
    }
    const widths = [...bar.querySelectorAll("rect")].map((rect) => rect.getBoundingClientRect().width);
    const full = name(bar), room = Math.max(...widths) - 6;
    text.textContent = full;
    const width = text.getComputedTextLength();
    if (width <= room || !width) return;
    const length = Math.floor(full.length * room / width) - 1;
    text.textContent = length > 1 ? full.slice(0, length) + "\u2026" : "";
  };
  const fitLabels = () => pictures.flatMap(bars).filter((bar) => bar.querySelector("text")).forEach(label);
  addEventListener("resize", fitLabels);
  document.addEventListener("toggle", fitLabels, true);
  fitLabels();

  // A click on a bar zooms in on the bar; a click on the root zooms out.
  for (const picture of pictures) {
    const span = (bar) => ["x", "width"].map((key) => parseFloat(bar.getAttribute(key)));
    const spans = new Map(bars(picture).map((bar) => [bar, span(bar)]));
    picture.addEventListener("click", (event) => {
      const chosen = bars(picture).find((bar) => bar.contains(event.target));
      if (!chosen) return;
      const [start, zoomed] = spans.get(chosen);
      for (const [bar, [x, width]] of spans) {
        const left = Math.max(x, start), right = Math.min(x + width, start + zoomed);
        bar.style.display = right - left > zoomed / 1e4 ? "" : "none";
        bar.setAttribute("x", (left - start) / zoomed * 100 + "%");
        bar.setAttribute("width", Math.max(right - left, 0) / zoomed * 100 + "%");
        label(bar);
      }
    });
  }

  const mark = (word) => {
    const wanted = word.toLowerCase();
    const matches = (bar) => wanted.length > 1 && name(bar).toLowerCase().includes(wanted);
    pictures.flatMap(bars).forEach((bar) => bar.classList.toggle("found", matches(bar)));
  };
  return { mark };
})();
