"use strict";
/* Input of the timeline: pointer, wheel, keys, buttons, links (#t=START,END&row=EVENT), the choice of a step. */

async function startTimeline() {
  const section = document.getElementById("timeline-part");
  if (!section) return;
  const status = section.querySelector(".status");
  if (!("DecompressionStream" in window)) {
    status.textContent = "This browser cannot show the timeline; use one from 2023 or later.";
    return;
  }
  const canvas = section.querySelector("canvas");
  const scene = await unpackScene(document.getElementById("timeline-data").textContent);
  const timeline = new Timeline(scene, canvas);
  section.querySelector(".controls").hidden = false;
  canvas.addEventListener("drawn", () => {
    const pixel = (timeline.until - timeline.from) / canvas.clientWidth, merged = timeline.merged;
    status.textContent = `1 px = ${lengthText(pixel)}${merged ? `; ${merged.toLocaleString("en")} events share pixels` : ""}`;
    document.documentElement.dataset.drawn = String(Math.round(performance.now()));
  });
  listenToPointer(timeline, section);
  listenToButtons(timeline, section);
  listenToLinks(timeline, section);
  new ResizeObserver(() => timeline.request()).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.request());
}

/** Drag to move, Ctrl and the wheel (or a pinch on a touchpad) to zoom, double click to zoom in, hover for details. */
function listenToPointer(timeline, section) {
  const canvas = timeline.canvas, tip = section.querySelector(".tip");
  const timeAt = (x) => timeline.from + (x / canvas.clientWidth) * (timeline.until - timeline.from);
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (grip !== null && event.buttons) {
      timeline.pan((grip - event.offsetX) / canvas.clientWidth);
      grip = event.offsetX;
    }
    showTip(tip, canvas, event, timeline.under(event.offsetX, event.offsetY));
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (grip = null));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("dblclick", (event) => timeline.zoom(0.4, timeAt(event.offsetX)));
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    // A plain wheel scrolls the page, as everywhere.
    if (!event.ctrlKey && !event.metaKey && !sideways) return;
    event.preventDefault();
    if (sideways) timeline.pan(event.deltaX / canvas.clientWidth);
    else timeline.zoom(Math.exp(Math.max(-50, Math.min(50, event.deltaY)) * 0.008), timeAt(event.offsetX));
  }, { passive: false });
}

function showTip(tip, canvas, event, lines) {
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((line, at) => Object.assign(document.createElement(at ? "div" : "b"), { textContent: line })));
  const room = canvas.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, room))}px`;
  tip.style.top = `${canvas.offsetTop + event.offsetY + 16}px`;
}

function listenToButtons(timeline, section) {
  const whole = () => timeline.show(0, timeline.scene.length);
  const window_ = () => timeline.show(...timeline.scene.windows[timeline.path]);
  const actions = {
    in: () => timeline.zoom(0.5), out: () => timeline.zoom(2), left: () => timeline.pan(-0.3), right: () => timeline.pan(0.3),
    window: window_, all: whole,
  };
  for (const button of section.querySelectorAll("button[data-do]"))
    button.addEventListener("click", actions[button.dataset.do]);
  const keys = {
    "+": "in", "=": "in", w: "in", "-": "out", s: "out", ArrowLeft: "left", a: "left", ArrowRight: "right", d: "right",
    Home: "window", 0: "window",
  };
  timeline.canvas.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });
  const select = section.querySelector("select");
  select?.addEventListener("change", () => {
    turnToPath(timeline, section, select.selectedIndex);
    window_();
  });
}

/** Show the path of another step, and what it is bound by. */
function turnToPath(timeline, section, path) {
  timeline.path = path;
  const select = section.querySelector("select");
  if (select) select.selectedIndex = path;
  section.querySelectorAll(".step").forEach((part, at) => (part.hidden = at !== path));
}

/** Follow #t=START,END (ns, as in JSON) and &row=EVENT_INDEX, on this page or from another. */
function listenToLinks(timeline, section) {
  const follow = () => {
    const found = /^#t=(\d{1,19}),(\d{1,19})(?:&row=(\d+))?$/.exec(location.hash);
    if (!found) return;
    const [from, until] = [found[1], found[2]].map((text) => Number(BigInt(text) - timeline.scene.base));
    timeline.marked = found[3] === undefined ? null : Number(found[3]);
    const windows = timeline.scene.windows;
    const exact = windows.findIndex(([start, end]) => start === from && end === until);
    const inside = windows.findIndex(([start, end]) => start <= from && until <= end);
    const [start, end] = windows[timeline.path];
    if (exact >= 0) turnToPath(timeline, section, exact);
    else if (inside >= 0 && !(start <= from && until <= end)) turnToPath(timeline, section, inside);
    const room = exact >= 0 ? 0 : Math.max((until - from) * 1.5, 1000);
    timeline.show(from - room, until + room);
    section.closest("section")?.removeAttribute("hidden");
    section.scrollIntoView({ block: "start" });
    timeline.canvas.focus({ preventScroll: true });
  };
  addEventListener("hashchange", follow);
  // A link that is followed twice changes nothing in the address, and still leads there.
  addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#t="]');
    if (link && link.getAttribute("href") === location.hash) follow();
  });
  follow();
}

startTimeline();
