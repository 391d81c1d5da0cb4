"use strict";
// Keys: / goes to the search; j and k to the next and the previous record, or row of a table; Enter
// opens that row. A row opens by a click too. A choice that says so sends its form; a command is
// copied by its button.
(() => {
  const typing = (element) => element.closest("input, select, textarea, [contenteditable]");
  const rows = () => [...document.querySelectorAll("table.rows > tbody > tr[data-row]")];
  const current = () => document.querySelector("tr.current");

  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(current());
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    all.forEach((row) => row.classList.toggle("current", row === next));
    next.querySelector("a").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  // The calls of a task open below its row; the link leads to a page with the same.
  const open = async (link) => {
    const row = link.closest("tr");
    const below = row.nextElementSibling;
    if (below && below.matches("tr.inside")) {
      below.hidden = !below.hidden;
      row.classList.toggle("opened", !below.hidden);
      link.setAttribute("aria-expanded", String(!below.hidden));
      return;
    }
    const inside = document.createElement("tr");
    const cell = document.createElement("td");
    inside.className = "inside";
    cell.colSpan = row.cells.length;
    cell.textContent = "…";
    inside.append(cell);
    row.after(inside);
    row.classList.add("opened");
    link.setAttribute("aria-expanded", "true");
    try {
      const page = await (await fetch(link.href)).text();
      const calls = new DOMParser().parseFromString(page, "text/html").querySelector("#calls");
      cell.textContent = "";
      const pane = document.createElement("div");
      pane.className = "pane";
      if (calls) pane.append(calls);
      cell.append(calls ? pane : "This cannot be shown.");
      if (calls) calls.removeAttribute("id");
    } catch {
      location.href = link.href;
    }
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
      return;
    }
    const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && current() && event.target === document.body) current().querySelector("a").click();
  });

  document.addEventListener("click", (event) => {
    const copies = event.target.closest("button[data-copy]");
    if (copies) {
      const said = copies.textContent;
      navigator.clipboard.writeText(copies.dataset.copy).then(() => {
        copies.textContent = "copied";
        setTimeout(() => { copies.textContent = said; }, 1500);
      });
      return;
    }
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const square = event.target.closest("[data-leads]");
    if (square) {
      location.href = square.dataset.leads;
      return;
    }
    const sorts = event.target.closest("button.sorts");
    if (sorts) {
      sort(sorts.closest("th"));
      return;
    }
    const link = event.target.closest("a[data-opens]");
    if (link) {
      event.preventDefault();
      open(link);
      return;
    }
    const row = event.target.closest("tr[data-row]");
    if (!row || event.target.closest("a, button, input, label, select, summary")) return;
    if (String(getSelection())) return;
    row.querySelector("a").click();
  });

  // A head of a table sorts its rows, by number where they begin with one; again, the other way.
  const value = (row, at) => {
    const text = (row.cells[at]?.textContent ?? "").trim().replace(/^[✓✕$]\s*/u, "").replace("−", "-");
    const number = Number.parseFloat(text.replaceAll(",", "").replace(/^\$/, ""));
    return [Number.isNaN(number) ? (text && text !== "—" ? 1 : 2) : 0, number, text];
  };
  const compare = (a, b) => a[0] - b[0] || (a[0] ? 0 : a[1] - b[1]) || a[2].localeCompare(b[2], undefined, { numeric: true });

  const sort = (head) => {
    const table = head.closest("table");
    const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.matches(".number"));
    table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const sorted = [...table.tBodies[0].rows].sort((one, other) => {
      const [a, b] = [value(one, head.cellIndex), value(other, head.cellIndex)];
      return a[0] === 2 || b[0] === 2 ? a[0] - b[0] : (up ? 1 : -1) * compare(a, b);
    });
    table.tBodies[0].append(...sorted);
  };

  const makeSortable = () => {
    for (const table of document.querySelectorAll("main .table > table:not(.matrix, .samples, [data-sortable])")) {
      const body = table.tBodies[0];
      table.dataset.sortable = "";
      if (!table.tHead || table.tBodies.length > 1 || body.rows.length < 2 || body.querySelector("tr.section, [rowspan]")) continue;
      for (const head of table.tHead.querySelectorAll("th")) {
        if (!head.textContent.trim() || head.querySelector("a, abbr")) continue;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sorts";
        button.append(...head.childNodes);
        head.append(button);
      }
    }
  };
  makeSortable();
  document.addEventListener("htmx:load", makeSortable);

  document.addEventListener("change", (event) => {
    if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  });
})();
