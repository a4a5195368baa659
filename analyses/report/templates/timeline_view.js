"use strict";
/* The timeline on a canvas: where tracks stand, how a view of them is painted, what is under the pointer. */

const AXIS = 24, STRIP = 24, LABEL = 18, LINE = 5, TRACK = 16, GAP = 8;
const FADED = 0.45, FAINTEST = 0.35;
const SEPARATED = 4, NAMED = 34; // rows from so many pixels on are told apart, and named

class Timeline {
  constructor(scene, canvas) {
    this.scene = scene;
    this.canvas = canvas;
    this.path = scene.chosen;
    this.marked = null; // an event's number
    this.colours = scene.groups.map(([, colour]) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
    this.rows = document.createElement("canvas");
    [this.from, this.until] = scene.windows[scene.chosen];
    this.show(this.from, this.until);
  }

  /** The length of a device's pixel in ns, and of one on the page. */
  get perPixel() {
    return (this.until - this.from) / this.canvas.width;
  }

  get origin() {
    return this.scene.windows[this.path][0];
  }

  /** Turn to a stretch of time, within what the page holds. */
  show(from, until) {
    const length = Math.min(Math.max(until - from, 20), this.scene.length * 1.02 || 20);
    const middle = (from + until) / 2;
    const edge = this.scene.length * 0.01;
    this.from = Math.max(Math.min(middle - length / 2, this.scene.length + edge - length), -edge);
    this.until = this.from + length;
    this.request();
  }

  zoom(factor, at = (this.from + this.until) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.until - at) * factor);
  }

  pan(share) {
    const by = (this.until - this.from) * share;
    this.show(this.from + by, this.until + by);
  }

  /** Paint before the next frame, once. */
  request() {
    if (this.requested) return;
    this.requested = requestAnimationFrame(() => {
      this.requested = 0;
      this.draw();
    });
  }

  /** Return where each track of the chosen path stands: {track, y, height}, and the labels of the lanes. */
  layout() {
    const places = [], labels = [];
    let y = AXIS, lane = -2;
    for (const track of this.scene.tracks) {
      if (track.path >= 0 && track.path !== this.path) continue;
      if (track.lane !== lane) {
        if (lane > -2) y += GAP;
        lane = track.lane;
        labels.push({ y, text: lane < 0 ? "critical path by class" : this.scene.lanes[lane][0] });
        y += LABEL;
      }
      const height = { classes: STRIP, path: LINE, events: TRACK }[track.kind];
      places.push({ track, y, height: track.kind === "events" ? height - 1 : height });
      y += height + (track.kind === "path" ? 2 : 0);
    }
    return { places, labels, height: y + GAP };
  }

  /** Paint the view. */
  draw() {
    const { places, labels, height } = (this.placed = this.layout());
    const scale = window.devicePixelRatio || 1, width = this.canvas.clientWidth;
    if (!width) return;
    const paint = this.cleared(width, height, scale);
    const ink = getComputedStyle(this.canvas).color;
    const view = { from: this.from, perPixel: this.perPixel, width: this.canvas.width, wide: SEPARATED * scale };
    this.drawAxis(paint, ink, width, height);
    this.merged = this.drawTracks(paint, ink, places, view, scale);
    for (const { y, text } of labels) {
      paint.fillStyle = ink;
      paint.font = "600 11px system-ui, sans-serif";
      paint.fillText(text, 4, y + LABEL / 2);
    }
    this.drawMark(paint, ink, places);
    this.canvas.dispatchEvent(new CustomEvent("drawn"));
  }

  /** Empty the canvas; making it anew, which is dear, only if its size has changed. */
  cleared(width, height, scale) {
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.style.height = `${height}px`;
      [this.canvas.width, this.canvas.height] = [wide, high];
    }
    const paint = this.canvas.getContext("2d");
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.textBaseline = "middle";
    return paint;
  }

  drawAxis(paint, ink, width, height) {
    paint.font = "11px system-ui, sans-serif";
    const rough = ((this.until - this.from) / width) * 90, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    paint.fillStyle = ink;
    for (let at = Math.ceil((this.from - this.origin) / step); ; at++) {
      const x = ((at * step + this.origin - this.from) / (this.until - this.from)) * width;
      if (x > width) break;
      paint.globalAlpha = 0.15;
      paint.fillRect(x, AXIS - 4, 1, height - AXIS);
      paint.globalAlpha = 0.85;
      const text = tickText(at * step, step);
      if (x + paint.measureText(text).width + 3 < width) paint.fillText(text, x + 3, AXIS / 2);
    }
    paint.globalAlpha = 1;
  }

  /** Paint all tracks; return how many rows share a pixel. */
  drawTracks(paint, ink, places, view, scale) {
    // Each track is one line of pixels, stretched to its height: the cost is that of pixels, not of rows.
    if (this.rows.width !== view.width || this.rows.height !== places.length)
      [this.rows.width, this.rows.height] = [view.width, places.length];
    const lines = this.rows.getContext("2d");
    const image = lines.createImageData(view.width, Math.max(places.length, 1));
    let merged = 0;
    const wide = places.map(({ track }, at) => {
      const found = majorityPerPixel(track, view);
      this.colourLine(image.data, at * view.width * 4, found, view, track.kind);
      if (track.kind !== "path") merged += found.merged;
      return found.wide;
    });
    lines.putImageData(image, 0, 0);
    paint.imageSmoothingEnabled = false;
    const width = view.width / scale;
    places.forEach(({ y, height }, at) => paint.drawImage(this.rows, 0, at, view.width, 1, 0, y, width, height));
    places.forEach((place, at) => this.drawWide(paint, ink, place, wide[at], width));
    return merged;
  }

  /** Colour a line by the group with most time in each pixel, as strongly as the pixel is filled. */
  colourLine(data, at, found, view, kind) {
    for (let x = 0; x < view.width; x++, at += 4) {
      const group = found.group[x];
      if (group < 0) continue;
      const filled = Math.max(FAINTEST, Math.min(1, found.total[x] / view.perPixel));
      const faded = kind === "events" && !found.onPath[x] ? FADED : 1;
      [data[at], data[at + 1], data[at + 2]] = this.colours[group];
      data[at + 3] = Math.round(255 * filled * faded);
    }
  }

  /** Tell rows apart that are wide enough, and name them. */
  drawWide(paint, ink, { track, y, height }, wide, width) {
    if (track.kind === "path") return;
    const scale = width / (this.until - this.from);
    paint.font = "10.5px system-ui, sans-serif";
    for (const [series, row] of wide) {
      const left = (series.start[row] - this.from) * scale, right = (series.end[row] - this.from) * scale;
      paint.clearRect(right - 0.5, y, 0.5, height);
      const low = Math.max(left, 0), room = Math.min(right, width) - low - 6;
      if (room < NAMED || !series.name[row]) continue;
      paint.fillStyle = track.kind === "classes" || series.onPath ? "#000" : ink;
      paint.fillText(fitting(paint, this.nameOf(series, row), room), low + 3, y + height / 2 + 0.5);
    }
  }

  /** Frame the event that a link named. */
  drawMark(paint, ink, places) {
    if (this.marked === null) return;
    const scale = this.canvas.clientWidth / (this.until - this.from);
    paint.strokeStyle = ink;
    paint.lineWidth = 2;
    for (const { track, y, height } of places) {
      for (const series of track.series) {
        const row = track.kind === "events" ? series.index.indexOf(this.marked) : -1;
        if (row < 0) continue;
        const left = (series.start[row] - this.from) * scale;
        paint.strokeRect(left - 1, y - 1, Math.max((series.end[row] - series.start[row]) * scale, 3) + 2, height + 2);
      }
    }
  }

  nameOf(series, row) {
    return series.name[row] ? this.scene.names[series.name[row] - 1] : "nothing recorded";
  }

  /** Return what to say about a place on the canvas, in lines; null where nothing is. */
  under(x, y) {
    const place = (this.placed?.places ?? []).find((item) => y >= item.y && y < item.y + item.height + 1);
    if (!place || place.track.kind === "path") return null;
    const width = (this.until - this.from) / this.canvas.clientWidth, from = this.from + x * width;
    const found = rowsBetween(place.track, from, from + width);
    if (!found.length) return null;
    const { series, row } = found[0], rows = found.reduce((sum, part) => sum + part.rows, 0);
    const kind = this.scene.groups[series.group][0];
    const lines = [this.nameOf(series, row), `${kind}${series.onPath ? ", on the critical path" : ""}`];
    const [start, length] = [series.start[row], series.end[row] - series.start[row]];
    if (rows === 1 || found[0].rows === 1) lines.push(`at ${lengthText(start - this.origin)}, duration ${lengthText(length)}`);
    if (rows === 1 && series.index[row] >= 0) lines.push(`event ${series.index[row]}`);
    if (rows > 1) lines.push(`${rows.toLocaleString("en")} events within ${lengthText(width)}; the name is that of the longest`);
    return lines;
  }
}

/** Print a time of the axis with as many places as its steps need. */
function tickText(ns, step) {
  const [unit, size] = step >= 1e5 ? ["ms", 1e6] : step >= 100 ? ["µs", 1e3] : ["ns", 1];
  const places = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(ns / size).toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places })} ${unit}`;
}

/** Cut a text to a width, in its middle: names tell most at their beginning, and then at their end. */
function fitting(paint, text, room) {
  const cut = (size) => `${text.slice(0, Math.ceil(size * 0.7))}…${text.slice(text.length - Math.floor(size * 0.3))}`;
  const whole = paint.measureText(text).width;
  if (whole <= room) return text;
  let size = Math.max(Math.floor(text.length * (room / whole)), 2);
  while (size > 2 && paint.measureText(cut(size)).width > room) size--;
  return cut(size);
}
