(() => {
  const $ = (id) => document.getElementById(id);
  const all = (what, from = document) => [...from.querySelectorAll(what)];
  const nav = $("tools"), find = $("find"), only = $("only"), open = $("all");
  const rows = all("details.row");
  const judged = all("[data-v], details.row");
  const closed = new Set();

  // The fragment of the URL is the state of the page: the word to find and the verdict to show.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const storeState = () => {
    const params = new URLSearchParams();
    if (find.value) params.set("find", find.value);
    if (only.value) params.set("only", only.value);
    const text = params.toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  };

  const filter = () => {
    const word = find.value.toLowerCase();
    let shown = 0;
    for (const one of judged) {
      // A row of a history has no verdict; its steps have verdicts.
      const fits = (!only.value || one.dataset.v === only.value ||
        (!one.dataset.v && one.querySelector(`[data-v="${only.value}"]`))) &&
        (!word || one.textContent.toLowerCase().includes(word));
      one.classList.toggle("gone", !fits && !one.closest("details.row details, details.row tr"));
      if (fits && one.matches("details.row")) shown += 1;
    }
    flames.mark(find.value);
    $("count").textContent = rows.length ? shown + " of " + rows.length + " rows" : "";
  };

  const value = (row, column) => {
    const text = row.cells[column]?.textContent.trim() ?? "";
    const number = parseFloat(text.replace(/[\s\u00a0<]/g, "").replace(/^new/, "Infinity"));
    return Number.isNaN(number) ? text : number;
  };
  const sort = (table, column, head) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    const body = table.tBodies[0];
    const sorted = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
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
  find.addEventListener("input", () => { filter(); storeState(); });
  only.addEventListener("change", () => { filter(); storeState(); });
  open.addEventListener("click", () => {
    const wanted = rows.some((row) => !row.open);
    rows.forEach((row) => { row.open = wanted; });
    open.textContent = wanted ? "Close all rows" : "Open all rows";
  });
  $("keys").addEventListener("click", () => $("help").showModal());

  const focusRow = (offset) => {
    const visible = rows.filter((row) => !row.classList.contains("gone"));
    const index = visible.indexOf(document.activeElement?.closest("details.row"));
    const next = visible[Math.min(Math.max(index + offset, 0), visible.length - 1)];
    next?.querySelector("summary").focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const actions = {
      "/": () => find.focus(),
      j: () => focusRow(1),
      k: () => focusRow(-1),
      "?": () => $("help").showModal(),
    };
    if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });

  // Printing opens the rows, because nobody can open them on paper. If there are many rows, only the rows
  // that the reader opened are printed with their details.
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
