"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Tables: a click on a head sorts by that column; cells without a value stay at the end.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort !== undefined ? cell.dataset.sort : cell.textContent.trim();
  };
  const compare = (a, b, numbers, turn) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    return turn * (numbers ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true }));
  };
  const sort = (table, head) => {
    const column = head.cellIndex, body = table.tBodies[0], rows = Array.from(body.rows);
    const numbers = rows.every((row) => row.cells[column].dataset.sort !== undefined);
    const first = numbers ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    const next = now === "none" ? first : now === "ascending" ? "descending" : "ascending";
    all("th[aria-sort]", table).forEach((each) => each.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", next);
    const turn = next === "ascending" ? 1 : -1;
    rows.sort((a, b) => compare(value(a, column), value(b, column), numbers, turn));
    body.append(...rows);
  };
  all("table").forEach((table) =>
    all("th[aria-sort] button", table).forEach((button) =>
      button.addEventListener("click", () => sort(table, button.closest("th")))));

  // Filters: a field named like an attribute of the items compares with it, the search field with their text.
  all("form.filters").forEach((form) => {
    const place = document.getElementById(form.dataset.for);
    const items = () => all("[data-item]", place);
    const size = Number(form.dataset.page || 0), pager = document.getElementById(`${form.dataset.for}-pager`);
    const output = form.querySelector("output");
    let page = 0;
    const show = () => {
      const fields = all("select", form).filter((field) => field.value);
      const words = form.querySelector("input").value.trim().toLowerCase();
      const found = items().filter((item) =>
        fields.every((field) => item.dataset[field.name] === field.value) &&
        (!words || item.textContent.toLowerCase().includes(words)));
      const pages = size ? Math.max(1, Math.ceil(found.length / size)) : 1;
      page = Math.min(page, pages - 1);
      const kept = new Set(size ? found.slice(page * size, (page + 1) * size) : found);
      items().forEach((item) => { item.hidden = !kept.has(item); });
      output.value = found.length === items().length ? `${found.length} in all` : `${found.length} of ${items().length}`;
      if (pager) {
        pager.hidden = pages < 2;
        pager.querySelector("span").textContent = `page ${page + 1} of ${pages}`;
        const [back, on] = all("button", pager);
        back.disabled = page === 0;
        on.disabled = page === pages - 1;
      }
    };
    form.hidden = false;
    form.addEventListener("input", () => { page = 0; show(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    if (pager) all("button", pager).forEach((button, number) =>
      button.addEventListener("click", () => { page += number ? 1 : -1; show(); place.scrollIntoView({ block: "start" }); }));
    show();
  });

  // A button copies a command or a configuration. Pages from the disk may have no clipboard: then the text is selected.
  all(".copied").forEach((place) => {
    const button = document.createElement("button"), text = place.querySelector("pre");
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(text);
      try {
        await navigator.clipboard.writeText(text.textContent);
      } catch {
        document.execCommand("copy");
      }
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    });
    place.append(button);
  });

  // On paper nothing can be opened.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));
})();
