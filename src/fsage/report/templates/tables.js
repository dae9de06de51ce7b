"use strict";
// Sorting by a heading and, where columns are marked data-choose, filters, which stand in the address. Without this they
// are plain tables, and figures plain pictures.
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
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...rows].sort(compare(head));
      body.append(...(down ? sorted.reverse() : sorted));
    };
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", sort);
    head.append(button);
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
  const fields = [[search, "text"], ...selects.map(([select, column], index) => [select, chosen[index].dataset.choose])];
  const prefix = `#${table.dataset.tools}?`;
  const remember = () => {
    const set = fields.filter(([field]) => field.value).map(([field, name]) => [name, field.value]);
    history.replaceState(null, "", set.length ? prefix + new URLSearchParams(set) : "#");
  };
  if (location.hash.startsWith(prefix)) {
    const asked = new URLSearchParams(location.hash.slice(prefix.length));
    for (const [field, name] of fields) field.value = asked.get(name) ?? "";
    table.closest("details")?.setAttribute("open", "");
    queueMicrotask(() => controls.scrollIntoView());
  }
  const save = document.createElement("button");
  save.textContent = "download";
  save.title = save.ariaLabel = `download: the rows of ${table.dataset.tools} that are shown, as CSV`;
  save.addEventListener("click", () => {
    // Without what buttons say; a text that a spreadsheet would take for a formula has an apostrophe first.
    const plain = (cell) => [...cell.childNodes].filter((node) => node.nodeName !== "BUTTON").map((node) => node.textContent)
      .join("").trim().replace(/^[=+@\t\r]|^-(?![\d.])/, "'$&");
    const quoted = (cell) => `"${plain(cell).replaceAll('"', '""')}"`;
    const named = [...heads[0].parentElement.cells].map((cell) => `"${cell.textContent.trim()}"`);
    const lines = [named, ...[...body.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(quoted))];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\n") + "\n"], {type: "text/csv"}));
    link.download = `${table.dataset.tools}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  });
  controls.append(shown, save);
  controls.addEventListener("input", () => { apply(); remember(); });
  table.parentElement.before(controls);
  apply();
  if (!table.dataset.again) continue;
  const ran = JSON.parse(document.getElementById("ran").textContent);
  for (const row of rows) {
    const [state, cell] = [text(row, 0), text(row, 1)];
    const offer = (name, what, command) => {
      const copy = document.createElement("button");
      copy.textContent = name;
      copy.title = copy.ariaLabel = `${name}: copy ${what} ${state} ${cell}`;
      copy.addEventListener("click", () => {
        navigator.clipboard?.writeText(command);
        copy.textContent = "copied";
      });
      row.cells[1].append(" ", copy);
    };
    offer("again", "the command that measures once more", table.dataset.again.replace("STATE", state).replace("CELL", cell));
    if (row.dataset.ran) offer("ran", "the commands of", ran[row.dataset.ran]);
  }
}

// A table of words wraps; on a phone it stands row by row, with headings beside cells (style.css). One of numbers scrolls.
for (const table of document.querySelectorAll("table.told")) {
  const cells = [...table.tBodies[0].querySelectorAll("td")];
  if (!cells.some((cell) => cell.textContent.length > 24)) continue;
  for (const cell of cells) cell.dataset.head = table.tHead.rows[0].cells[cell.cellIndex].textContent;
  table.classList.add("words");
}

// Each figure enlarged, and what it says under the pointer as a list, for fingers and keyboards.
for (const figure of document.querySelectorAll("figure.panel")) {
  const svg = figure.querySelector("svg");
  const said = [...svg.querySelectorAll("title")].map((one) => one.textContent);
  const button = (label, act) => {
    const made = document.createElement("button");
    made.textContent = label;
    made.ariaLabel = `${label}: ${svg.getAttribute("aria-label")}`;
    made.addEventListener("click", act);
    figure.querySelector("figcaption").append(made);
    return made;
  };
  button("enlarge", () => {
    const home = svg.parentElement;
    const dialog = document.createElement("dialog");
    dialog.ariaLabel = svg.getAttribute("aria-label");
    dialog.append(svg);
    dialog.addEventListener("close", () => { home.append(svg); dialog.remove(); });
    dialog.addEventListener("click", () => dialog.close());
    document.body.append(dialog);
    dialog.showModal();
  });
  if (!said.length) continue;
  const values = button("values", () => {
    const list = figure.querySelector("ul");
    values.ariaExpanded = String(!list);
    if (list) { list.remove(); return; }
    const made = document.createElement("ul");
    made.tabIndex = 0;
    made.append(...said.map((one) => Object.assign(document.createElement("li"), {textContent: one})));
    figure.append(made);
  });
}
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
