"use strict";
const flames = (() => {
  const pictures = [...document.querySelectorAll("svg.flame")];
  const bars = (picture) => [...picture.querySelectorAll(":scope > svg")];
  const name = (bar) => bar.querySelector("title").textContent.split(":")[0];
  // A name that has no room ends in an ellipsis.
  const label = (bar) => {
    let text = bar.querySelector("text");
    if (!text) {
      text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("x", 3);
      text.setAttribute("y", 11);
      bar.append(text);
    }
    const wides = [...bar.querySelectorAll("rect")].map((one) => one.getBoundingClientRect().width);
    const full = name(bar), room = Math.max(...wides) - 6;
    text.textContent = full;
    const wide = text.getComputedTextLength();
    if (wide <= room || !wide) return;
    const fits = Math.floor(full.length * room / wide) - 1;
    text.textContent = fits > 1 ? full.slice(0, fits) + "\u2026" : "";
  };
  const fit = () => pictures.flatMap(bars).filter((bar) => bar.querySelector("text")).forEach(label);
  addEventListener("resize", fit);
  document.addEventListener("toggle", fit, true);
  fit();

  // A click on a function gives it the whole width; one on the first gives it back.
  for (const picture of pictures) {
    const place = (bar) => ["x", "width"].map((side) => parseFloat(bar.getAttribute(side)));
    const places = new Map(bars(picture).map((bar) => [bar, place(bar)]));
    picture.addEventListener("click", (event) => {
      const chosen = bars(picture).find((bar) => bar.contains(event.target));
      if (!chosen) return;
      const [from, width] = places.get(chosen);
      for (const [bar, [x, wide]] of places) {
        const left = Math.max(x, from), right = Math.min(x + wide, from + width);
        bar.style.display = right - left > width / 1e4 ? "" : "none";
        bar.setAttribute("x", (left - from) / width * 100 + "%");
        bar.setAttribute("width", Math.max(right - left, 0) / width * 100 + "%");
        label(bar);
      }
    });
  }

  const mark = (word) => {
    const wanted = word.toLowerCase();
    const is = (bar) => wanted.length > 1 && name(bar).toLowerCase().includes(wanted);
    pictures.flatMap(bars).forEach((bar) => bar.classList.toggle("found", is(bar)));
  };
  return { mark };
})();
