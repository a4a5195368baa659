"use strict";
/* Tables answer to their headings (sort), to a search, and to a choice of one value of a column (filter). */

const SHOWN = 10, WORTH_HIDING = 3, FEW = 12, SHORT = 40;

function startTable(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (rows.length < 2) return;
  // One or two rows take no more room than the button that shows them.
  const isLong = rows.length >= SHOWN + WORTH_HIDING;
  const state = { usual: rows, rows, words: "", kept: new Map(), all: !isLong };
  sortable(table, body, state);
  const tools = document.createElement("div");
  tools.className = "tools";
  if (isLong) tools.append(searchBox(table, state), ...filters(table, state), showAll(table, state));
  if (tools.childElementCount) table.parentElement.before(tools);
  apply(table, state);
}

function cellText(row, at) {
  return row.cells[at].textContent.trim();
}

/** Headings become buttons: the first click sorts numbers from the largest on, texts from A on. */
function sortable(table, body, state) {
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (head.classList.contains("bars")) return;
    const isText = head.classList.contains("text"), button = document.createElement("button");
    button.append(...head.childNodes);
    button.title = "sort by this column";
    head.append(button);
    button.addEventListener("click", () => {
      const rising = head.ariaSort ? head.ariaSort === "descending" : isText;
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      head.ariaSort = rising ? "ascending" : "descending";
      const sign = rising ? 1 : -1;
      // Rows that are equal in this column stay in their usual order.
      state.rows = [...state.usual].sort((one, other) => sign * compare(cellText(one, at), cellText(other, at), isText));
      body.append(...state.rows);
      apply(table, state);
    });
  });
}

function compare(one, other, isText) {
  if (isText) return one.localeCompare(other, "en");
  const [a, b] = [one, other].map((text) => (text === "-" ? -Infinity : Number(text.replace(/[<,]/g, ""))));
  return a === b ? 0 : a - b;
}

function searchBox(table, state) {
  const box = Object.assign(document.createElement("input"), { type: "search", placeholder: "search", ariaLabel: "search this table" });
  box.addEventListener("input", () => {
    state.words = box.value.toLowerCase();
    apply(table, state);
  });
  return box;
}

/** A choice for each column of text, but for the names, that has a few short values only. */
function filters(table, state) {
  return [...table.tHead.rows[0].cells].flatMap((head, at) => {
    if (!head.classList.contains("text")) return [];
    const values = [...new Set(state.rows.map((row) => cellText(row, at)))].sort();
    if (at === 0 || values.length < 2 || values.length > FEW || values.some((value) => value.length > SHORT)) return [];
    const name = head.textContent.trim(), select = document.createElement("select");
    select.ariaLabel = `filter by ${name}`;
    select.append(new Option(`any ${name}`, ""), ...values.map((value) => new Option(value, value)));
    select.addEventListener("change", () => {
      state.kept.set(at, select.value);
      apply(table, state);
    });
    return [select];
  });
}

function showAll(table, state) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: `show all ${state.rows.length}` });
  button.addEventListener("click", () => {
    state.all = !state.all;
    button.textContent = state.all ? `show ${SHOWN}` : `show all ${state.rows.length}`;
    apply(table, state);
  });
  return button;
}

/** Show the rows that match, the first ones only unless all were asked for. */
function apply(table, state) {
  const chosen = [...state.kept].filter(([, value]) => value);
  const asked = state.words || chosen.length;
  let left = state.all || asked ? Infinity : SHOWN;
  for (const row of state.rows) {
    const fits = row.textContent.toLowerCase().includes(state.words) && chosen.every(([at, value]) => cellText(row, at) === value);
    row.hidden = !fits || left-- <= 0;
  }
}

document.querySelectorAll("table.data").forEach(startTable);
