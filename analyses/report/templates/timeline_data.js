"use strict";
/* What the timeline draws: the page's columns unpacked, and the time of each kind of work in a stretch of time.
   Nothing here knows the document. Times are nanoseconds after the first that the page holds. */

/** Unpack the text that packed_columns.py wrote: base64 of a zlib stream. */
async function unpackScene(text) {
  const chars = atob(text.trim()), packed = new Uint8Array(chars.length);
  for (let at = 0; at < chars.length; at++) packed[at] = chars.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return readScene(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/** Read the head and the columns. */
function readScene(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const scene = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const [tracks, groups, onPath, counts] = scene.series;
  const total = counts.reduce((sum, count) => sum + count, 0);
  const reader = { bytes, at: 4 + size };
  const [gap, length, empty, more, name, index] = Array.from({ length: 6 }, () => readColumn(reader, total));
  let event = 0;
  for (let row = 0; row < total; row++) index[row] = event += unzigzag(index[row]);
  let first = 0;
  scene.series = counts.map((count, at) => {
    const rows = [first, (first += count)];
    const columns = [gap, length, empty, more, name, index].map((column) => column.subarray(...rows));
    return { track: tracks[at], group: groups[at], onPath: onPath[at] === 1, ...readSeries(...columns) };
  });
  scene.base = BigInt(scene.base);
  scene.tracks = tracksOf(scene);
  return scene;
}

/** Read numbers written in groups of 7 bits, the lowest first. */
function readColumn(reader, count) {
  const { bytes } = reader, found = new Float64Array(count);
  let at = reader.at;
  for (let row = 0; row < count; row++) {
    let byte = bytes[at++], value = byte & 127;
    for (let factor = 128; byte > 127; factor *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * factor;
    }
    found[row] = value;
  }
  reader.at = at;
  return found;
}

function unzigzag(value) {
  return value % 2 ? -(value + 1) / 2 : value / 2;
}

/** Turn gaps and lengths into times; `busy` and `rows` are running totals, so that any stretch is a difference. */
function readSeries(gap, length, empty, more, name, index) {
  const count = gap.length;
  const start = new Float64Array(count), end = new Float64Array(count);
  const busy = new Float64Array(count + 1), rows = new Float64Array(count + 1);
  let before = 0;
  for (let row = 0; row < count; row++) {
    start[row] = before + unzigzag(gap[row]);
    end[row] = before = start[row] + length[row];
    busy[row + 1] = busy[row] + length[row] - empty[row];
    rows[row + 1] = rows[row] + more[row] + 1;
  }
  return { start, end, busy, rows, name, index };
}

/** List the tracks from top to bottom: the paths' classes, then of each lane the paths' runs and the events. */
function tracksOf(scene) {
  const paths = scene.windows.length;
  const tracks = scene.windows.map((_, path) => ({ kind: "classes", path, lane: -1, series: [] }));
  scene.lanes.forEach(([, depth], lane) => {
    for (let path = 0; path < paths; path++) tracks.push({ kind: "path", path, lane, series: [] });
    for (let at = 0; at < depth; at++) tracks.push({ kind: "events", path: -1, lane, series: [] });
  });
  for (const series of scene.series) tracks[series.track].series.push(series);
  return tracks;
}

/** Return the first row, from a row on, that ends after a time. */
function firstEndingAfter(end, time, from = 0) {
  // Steps that double, then halves: near rows, the usual case, are found in a few steps.
  let low = from, step = 1;
  while (low + step < end.length && end[low + step - 1] <= time) {
    low += step;
    step *= 2;
  }
  let high = Math.min(low + step, end.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Return a series' busy time before a time, where `row` is the first row that ends after it. */
function busyBefore(series, row, time) {
  const total = series.busy[row];
  if (row >= series.start.length || series.start[row] >= time) return total;
  const share = (time - series.start[row]) / (series.end[row] - series.start[row]);
  return total + share * (series.busy[row + 1] - total);
}

const LEAST = 1e-6; // rows without length are seen, too

/** Add a series' busy time to each pixel of a view; return how many rows share a pixel, and the rows that are wide. */
function addPixelTimes(series, view, times) {
  const { start, end } = series, { from, perPixel, width } = view;
  const wide = [];
  let row = firstEndingAfter(end, from), merged = 0;
  let before = busyBefore(series, row, from);
  for (let x = 0; x < width && row < start.length; x++) {
    const until = from + (x + 1) * perPixel;
    if (start[row] >= until) {
      x = Math.max(x, Math.min(Math.floor((start[row] - from) / perPixel), width) - 1);
      continue;
    }
    if (end[row] - start[row] >= view.wide * perPixel && wide[wide.length - 1] !== row) wide.push(row);
    const next = firstEndingAfter(end, until, row);
    const after = busyBefore(series, next, until);
    times[x] += Math.max(after - before, LEAST);
    if (series.rows[next] - series.rows[row] > 1) merged += series.rows[next] - series.rows[row];
    before = after;
    row = next;
  }
  return { merged, wide };
}

/** Return for each pixel of a track the group with most time in it (-1: none), all time, and the group's on the path. */
function majorityPerPixel(track, view) {
  const groups = new Map();
  const wide = [];
  let merged = 0;
  for (const series of track.series) {
    if (!groups.has(series.group))
      groups.set(series.group, { onPath: new Float64Array(view.width), beside: new Float64Array(view.width) });
    const own = groups.get(series.group);
    const found = addPixelTimes(series, view, series.onPath ? own.onPath : own.beside);
    merged += found.merged;
    for (const row of found.wide) wide.push([series, row]);
  }
  const group = new Int16Array(view.width).fill(-1), onPath = new Uint8Array(view.width);
  const most = new Float64Array(view.width), total = new Float64Array(view.width);
  for (const [number, own] of groups) {
    for (let x = 0; x < view.width; x++) {
      const time = own.onPath[x] + own.beside[x];
      total[x] += time;
      if (time > most[x]) {
        most[x] = time;
        group[x] = number;
        onPath[x] = own.onPath[x] >= own.beside[x] ? 1 : 0;
      }
    }
  }
  return { group, onPath, most, total, merged, wide };
}

/** Return the rows of a track that meet a stretch of time, the longest of the largest group first. */
function rowsBetween(track, from, until) {
  const found = [];
  for (const series of track.series) {
    let low = firstEndingAfter(series.end, from), high = low;
    // A row without length at the edge counts, too.
    while (low > 0 && series.end[low - 1] >= from && series.start[low - 1] === series.end[low - 1]) low--;
    while (high < series.start.length && series.start[high] < until) high++;
    if (high === low) continue;
    let longest = low;
    for (let row = low; row < high; row++)
      if (series.end[row] - series.start[row] > series.end[longest] - series.start[longest]) longest = row;
    const last = firstEndingAfter(series.end, until, low);
    const busy = busyBefore(series, last, until) - busyBefore(series, firstEndingAfter(series.end, from), from);
    found.push({ series, row: longest, rows: series.rows[high] - series.rows[low], busy });
  }
  return found.sort((one, other) => other.busy - one.busy);
}

/** Print a length of time in the unit that suits it. */
function lengthText(ns) {
  if (ns < 1000) return `${ns.toFixed(ns < 10 && ns % 1 ? 1 : 0)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`.replace(/\.0+ /, " ");
  const ms = ns / 1e6;
  return `${ms < 1000 ? ms.toPrecision(4) : Math.round(ms).toLocaleString("en")} ms`;
}
