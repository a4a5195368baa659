"use strict";
/* Tables sort by their headings, filter by the values of a column, and answer to searches, one per table and one per page. */

const SHOWN = 10, WORTH_HIDING = 3, FEW = 12, SHORT = 40;

/** What is shown of each table: all its rows in their usual order and in the chosen one, the words and values to find. */
const states = [];

function startTable(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  // One or two rows take no more room than the button that shows them.
  const isLong = rows.length >= SHOWN + WORTH_HIDING;
  const part = table.closest(".table-part");
  const state = { part, usual: rows, rows, texts: new Map(rows.map((row) => [row, searchText(row)])), words: "", kept: new Map(), all: !isLong };
  states.push(state);
  if (rows.length < 2) return;
  sortable(table, body, state);
  if (isLong) {
    const tools = Object.assign(document.createElement("div"), { className: "tools" });
    tools.append(searchBox(state), ...filters(table, state), showAll(state));
    table.parentElement.before(tools);
  }
  apply(state);
}

function cellText(row, at) {
  return row.cells[at].textContent.trim();
}

/** A row is found by what its cells show, and by the full names behind them. */
function searchText(row) {
  return [...row.cells].map((cell) => `${cell.textContent} ${cell.title}`).join(" ").toLowerCase();
}

/** Headings become buttons: the first click sorts numbers from the largest, texts from A. */
function sortable(table, body, state) {
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (head.classList.contains("bars")) return;
    const isText = head.classList.contains("text"), button = document.createElement("button");
    button.append(...head.childNodes);
    button.title = "Sort by this column";
    head.append(button);
    button.addEventListener("click", () => {
      const rising = head.ariaSort ? head.ariaSort === "descending" : isText;
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      head.ariaSort = rising ? "ascending" : "descending";
      const sign = rising ? 1 : -1;
      // Rows that are equal in this column stay in their usual order.
      state.rows = [...state.usual].sort((one, other) => sign * compare(cellText(one, at), cellText(other, at), isText));
      body.append(...state.rows);
      apply(state);
    });
  });
}

function compare(one, other, isText) {
  if (isText) return one.localeCompare(other, "en");
  const [a, b] = [one, other].map((text) => (text === "-" ? -Infinity : Number(text.replace(/[<,]/g, ""))));
  return a === b ? 0 : a - b;
}

function searchBox(state) {
  const box = Object.assign(document.createElement("input"), { type: "search", placeholder: "Search", ariaLabel: "Search this table" });
  box.addEventListener("input", () => {
    state.words = box.value.trim().toLowerCase();
    apply(state);
  });
  return box;
}

/** A choice for each column of text, except names, that has a few short values. */
function filters(table, state) {
  return [...table.tHead.rows[0].cells].flatMap((head, at) => {
    if (!head.classList.contains("text")) return [];
    const values = [...new Set(state.rows.map((row) => cellText(row, at)))].sort();
    if (at === 0 || values.length < 2 || values.length > FEW || values.some((value) => value.length > SHORT)) return [];
    const name = head.textContent.trim(), select = document.createElement("select");
    select.ariaLabel = `Filter by ${name}`;
    select.append(new Option(`any ${name}`, ""), ...values.map((value) => new Option(value, value)));
    select.addEventListener("change", () => {
      state.kept.set(at, select.value);
      apply(state);
    });
    return [select];
  });
}

function showAll(state) {
  const all = `Show all ${state.rows.length.toLocaleString("en")} rows`;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: all });
  button.addEventListener("click", () => {
    state.all = !state.all;
    button.textContent = state.all ? `Show ${SHOWN} rows` : all;
    apply(state);
  });
  return button;
}

/** Names break after punctuation, not within a word. */
function breakNames() {
  for (const cell of document.querySelectorAll("td.long")) {
    for (const text of [...(cell.querySelector("a") || cell).childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
      const parts = text.data.split(/(?<=[_:,.<>()/=#-])(?![_:,.<>()/=#-])/);
      if (parts.length > 1) text.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
  }
}

/** A box that scrolls fades where more columns follow. */
function fadeEdges() {
  const boxes = [...document.querySelectorAll(".scroll")];
  const fade = (box) => {
    const hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("scrolls", hidden > 1);
    box.classList.toggle("more", hidden - box.scrollLeft > 1);
  };
  const watcher = new ResizeObserver((seen) => seen.forEach(({ target }) => fade(target.closest(".scroll"))));
  for (const box of boxes) {
    watcher.observe(box);
    if (box.firstElementChild) watcher.observe(box.firstElementChild);
    box.addEventListener("scroll", () => fade(box), { passive: true });
  }
}

let wordsOfPage = "";

/** Show the rows that match, the first ones only unless all are wanted; return how many match. */
function apply(state) {
  const chosen = [...state.kept].filter(([, value]) => value), wanted = [state.words, wordsOfPage];
  const searched = state.words || wordsOfPage || chosen.length;
  let left = state.all || searched ? Infinity : SHOWN, matching = 0;
  for (const row of state.rows) {
    const text = state.texts.get(row);
    const fits = wanted.every((words) => text.includes(words)) && chosen.every(([at, value]) => cellText(row, at) === value);
    row.hidden = !fits || left-- <= 0;
    matching += fits;
  }
  state.part.hidden = Boolean(wordsOfPage) && !matching;
  return matching;
}

/** The search of the page looks into all tables, and hides the sections without a match. */
function searchPage() {
  const box = document.getElementById("page-search"), found = document.getElementById("page-found");
  if (!box) return;
  box.closest(".page-search").hidden = false;
  box.addEventListener("input", () => {
    wordsOfPage = box.value.trim().toLowerCase();
    const counts = states.map(apply), tables = counts.filter(Boolean).length;
    const rows = counts.reduce((sum, count) => sum + count, 0);
    found.textContent = wordsOfPage ? `${rows.toLocaleString("en")} ${rows === 1 ? "row" : "rows"} in ${tables} ${tables === 1 ? "table" : "tables"}` : "";
    for (const section of document.querySelectorAll("main section"))
      section.hidden = Boolean(wordsOfPage) && !section.querySelector(".table-part:not([hidden])");
  });
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
  });
}

document.querySelectorAll("table.data").forEach(startTable);
searchPage();
breakNames();
fadeEdges();
