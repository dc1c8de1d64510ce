(() => {
  const $ = (id) => document.getElementById(id);
  const all = (what, from = document) => [...from.querySelectorAll(what)];
  const nav = $("tools"), find = $("find"), only = $("only"), open = $("all");
  const rows = all("details.row");
  const judged = all("[data-v], details.row");
  const closed = new Set();

  // What the fragment says, and nothing else, is the state of the page.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const keep = () => {
    const said = new URLSearchParams();
    if (find.value) said.set("find", find.value);
    if (only.value) said.set("only", only.value);
    const text = said.toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  };

  const filter = () => {
    const word = find.value.toLowerCase();
    let shown = 0;
    for (const one of judged) {
      // A history has no verdict of its own, but steps that have one.
      const fits = (!only.value || one.dataset.v === only.value ||
        (!one.dataset.v && one.querySelector(`[data-v="${only.value}"]`))) &&
        (!word || one.textContent.toLowerCase().includes(word));
      one.classList.toggle("gone", !fits && !one.closest("details.row details, details.row tr"));
      if (fits && one.matches("details.row")) shown += 1;
    }
    flames.mark(find.value);
    $("count").textContent = rows.length ? shown + " of " + rows.length + " rows" : "";
  };

  const value = (row, at) => {
    const text = row.cells[at]?.textContent.trim() ?? "";
    const number = parseFloat(text.replace(/[\s\u00a0<]/g, "").replace(/^new/, "Infinity"));
    return Number.isNaN(number) ? text : number;
  };
  const sort = (table, at, head) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    const body = table.tBodies[0];
    const sorted = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, at), value(b, at)];
      const order = typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? 1 : -1;
      return down ? -order : order;
    });
    body.append(...sorted);
    all("th", table.tHead).forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  for (const table of all("table.sortable")) {
    for (const head of all("thead th", table)) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.title = "Sort";
      head.append(button);
      button.addEventListener("click", () => sort(table, head.cellIndex, head));
    }
  }

  const go = (target) => {
    if (!target) return;
    const row = target.closest("details.row");
    if (row) row.open = true;
    target.scrollIntoView();
    target.querySelector("summary")?.focus({ preventScroll: true });
  };
  const follow = () => {
    const id = location.hash.slice(1);
    if (/^r\d+-\d+$/.test(id)) go($(id));
    else {
      find.value = state().get("find") ?? "";
      only.value = state().get("only") ?? "";
      if (only.selectedIndex < 0) only.selectedIndex = 0;
      filter();
    }
  };
  addEventListener("hashchange", follow);
  find.addEventListener("input", () => { filter(); keep(); });
  only.addEventListener("change", () => { filter(); keep(); });
  open.addEventListener("click", () => {
    const wanted = rows.some((row) => !row.open);
    rows.forEach((row) => { row.open = wanted; });
    open.textContent = wanted ? "Close all rows" : "Open all rows";
  });
  $("keys").addEventListener("click", () => $("help").showModal());

  const step = (by) => {
    const seen = rows.filter((row) => !row.classList.contains("gone"));
    const at = seen.indexOf(document.activeElement?.closest("details.row"));
    const next = seen[Math.min(Math.max(at + by, 0), seen.length - 1)];
    next?.querySelector("summary").focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const does = { "/": () => find.focus(), j: () => step(1), k: () => step(-1), "?": () => $("help").showModal() };
    if (does[event.key]) {
      event.preventDefault();
      does[event.key]();
    }
  });

  // Paper has no way to open a row. Of many rows those are printed that are open.
  const FEW_ROWS = 12;
  addEventListener("beforeprint", () => all("details:not(.again)").forEach((one) => {
    const row = one.closest("details.row");
    const is_wanted = rows.length <= FEW_ROWS || (row && row.open);
    if (!one.open && is_wanted) { closed.add(one); one.open = true; }
  }));
  addEventListener("afterprint", () => {
    closed.forEach((one) => { one.open = false; });
    closed.clear();
  });

  if (rows.length > 1) nav.hidden = false;
  follow();
})();
