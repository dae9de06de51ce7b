"use strict";
// Sorting by a click on a heading and, where columns are marked data-choose, filters. Without this they are plain tables.
for (const table of document.querySelectorAll("table[data-tools]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.querySelectorAll("th[data-column]")];
  const text = (row, column) => row.cells[column].textContent.trim();
  const number = (row, column) => Number.parseFloat(text(row, column).replace(/\u202f/g, ""));

  const compare = (head) => {
    const column = head.dataset.column;
    if (!("number" in head.dataset)) return (a, b) => text(a, column).localeCompare(text(b, column), "en", {numeric: true});
    const value = (row) => { const found = number(row, column); return Number.isNaN(found) ? Infinity : found; };
    return (a, b) => { const [x, y] = [value(a), value(b)]; return x === y ? 0 : x < y ? -1 : 1; };
  };
  for (const head of heads) {
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...rows].sort(compare(head));
      body.append(...(down ? sorted.reverse() : sorted));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  }

  const chosen = heads.filter((head) => "choose" in head.dataset);
  if (chosen.length === 0) continue;
  const controls = document.createElement("div");
  const search = document.createElement("input");
  const shown = document.createElement("output");
  const words = rows.map((row) => row.textContent.toLowerCase());
  search.type = "search";
  search.placeholder = "any text";
  search.setAttribute("aria-label", `any text in ${table.dataset.tools}`);
  controls.className = "controls";
  controls.append(search);
  const selects = chosen.map((head) => {
    const select = document.createElement("select");
    const name = head.dataset.choose;
    const values = [...new Set(rows.map((row) => text(row, head.dataset.column)))];
    values.sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
    select.setAttribute("aria-label", name);
    select.append(new Option(`${name}: all`, ""), ...values.map((value) => new Option(value, value)));
    controls.append(select);
    return [select, head.dataset.column];
  });
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    let count = 0;
    rows.forEach((row, index) => {
      row.hidden = !words[index].includes(wanted)
        || selects.some(([select, column]) => select.value && text(row, column) !== select.value);
      count += !row.hidden;
    });
    shown.textContent = `${count} of ${rows.length}`;
  };
  controls.append(shown);
  controls.addEventListener("input", apply);
  table.parentElement.before(controls);
  apply();
}
