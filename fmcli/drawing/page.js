"use strict";
// Makes the page respond: the threshold, the order and the choice of rows in tables, values under the pointer, and print.
// Everything is readable without it.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 20;

const format = (value) => (value === null || Number.isNaN(value) ? "–" : Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 }));

// The places of the points of a curve, in the units of its panel.
function places(path) {
  return [...path.getAttribute("d").matchAll(/(-?[\d.]+) (-?[\d.]+)/g)].map((found) => [Number(found[1]), Number(found[2])]);
}

function showValues() {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.querySelectorAll("svg.chart").forEach((chart, number) => {
    const curves = [...chart.querySelectorAll(".curve")].map((path, place) => ({ path, points: places(path), values: data.charts[number].curves[place] }));
    chart.addEventListener("pointermove", (event) => {
      let best = null;
      for (const { path, points, values } of curves) {
        const matrix = path.getScreenCTM();
        points.forEach(([x, y], place) => {
          const at = new DOMPoint(x, y).matrixTransform(matrix);
          const distance = Math.hypot(at.x - event.clientX, at.y - event.clientY);
          if (best === null || distance < best.distance) {
            best = { distance, at, text: `${values.name}: ${format(values.x[place])}, ${format(values.y[place])}` };
          }
        });
      }
      tip.hidden = best === null || best.distance > 40;
      if (!tip.hidden) {
        tip.textContent = best.text;
        tip.style.left = `${Math.max(4, Math.min(best.at.x + 10, window.innerWidth - tip.offsetWidth - 8))}px`;
        tip.style.top = `${Math.max(4, best.at.y - 34)}px`;
      }
    });
    chart.addEventListener("pointerleave", () => { tip.hidden = true; });
  });
}

function moveThreshold() {
  const slider = document.getElementById("threshold");
  if (!slider) {
    return;
  }
  const { threshold, true: positive, false: negative } = data.thresholds;
  const marks = [...document.querySelectorAll(".by-threshold .curve")].map((path) => {
    const mark = document.createElementNS(SVG, "circle");
    mark.setAttribute("class", "mark");
    mark.setAttribute("r", "6");
    path.after(mark);
    return { mark, points: places(path) };
  }).filter(({ points, mark }) => points.length === threshold.length || mark.remove());
  const put = (name, value) => { document.querySelector(`[data-figure="${name}"]`).textContent = format(value); };
  const share = (part, whole) => (whole ? part / whole : null);
  // The thresholds but for the last one, which is above all rows.
  const last = threshold[threshold.length - 2];
  const step = (last - threshold[0]) / 500 || 1;
  Object.assign(slider, { min: threshold[0], max: last + step, step: "any", value: threshold[slider.dataset.usual] ?? last + step });
  const move = () => {
    const place = threshold.findIndex((one) => one === null || one >= Number(slider.value));
    const [tp, fp] = [positive[place], negative[place]];
    const [fn, tn] = [positive[0] - tp, negative[0] - fp];
    document.getElementById("at").textContent = threshold[place] === null ? "above all rows" : format(threshold[place]);
    Object.entries({ tp, fp, fn, tn }).forEach(([name, value]) => {
      document.querySelector(`[data-figure="${name}"]`).textContent = value.toLocaleString("en-US");
    });
    put("precision", share(tp, tp + fp));
    put("recall", share(tp, tp + fn));
    put("f1", share(2 * tp, 2 * tp + fp + fn));
    put("accuracy", share(tp + tn, positive[0] + negative[0]));
    marks.forEach(({ mark, points }) => {
      mark.setAttribute("cx", points[place][0]);
      mark.setAttribute("cy", points[place][1]);
    });
  };
  slider.addEventListener("input", move);
  move();
}

// Sorts a table by the column that is clicked: numbers from the largest on, and the other way around the next time.
function sortTable(table) {
  const head = [...table.tHead.rows[0].cells];
  const value = (row, place) => row.cells[place].dataset.v;
  head.forEach((cell, place) => {
    const sort = () => {
      const falling = cell.getAttribute("aria-sort") !== "descending";
      head.forEach((other) => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const sign = falling ? -1 : 1;
      const rows = [...table.tBodies[0].rows].sort((one, other) => {
        const [a, b] = [value(one, place), value(other, place)];
        return a === undefined
          ? -sign * one.cells[place].textContent.localeCompare(other.cells[place].textContent, "en", { numeric: true })
          : sign * (Number(a) - Number(b));
      });
      table.tBodies[0].append(...rows);
      table.dispatchEvent(new Event("sorted"));
    };
    cell.tabIndex = 0;
    cell.addEventListener("click", sort);
    cell.addEventListener("keydown", (event) => { if (event.key === "Enter") { sort(); } });
  });
}

// Shows the first rows of a long table, of all columns or of one, and all of them on demand.
function chooseRows(table) {
  const choice = document.createElement("select");
  const button = document.createElement("button");
  const names = [...new Set([...table.tBodies[0].rows].map((row) => row.cells[0].textContent))];
  choice.setAttribute("aria-label", "column");
  choice.append(...["All columns", ...names].map((name, place) => new Option(name, place)));
  let every = false;
  const show = () => {
    const wanted = Number(choice.value);
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      const fits = wanted === 0 || row.cells[0].textContent === names[wanted - 1];
      count += fits;
      row.hidden = !fits || (!every && count > SHOWN);
    }
    button.hidden = count <= SHOWN;
    button.textContent = every ? `Show the first ${SHOWN}` : `Show all ${count}`;
  };
  choice.addEventListener("change", () => { every = false; show(); });
  button.addEventListener("click", () => { every = !every; show(); });
  table.addEventListener("sorted", show);
  table.parentElement.before(choice);
  table.parentElement.after(button);
  show();
}

document.querySelectorAll("table.sortable").forEach(sortTable);
document.querySelectorAll("table.choosable").forEach(chooseRows);
moveThreshold();
showValues();
const printing = document.getElementById("print");
printing.hidden = false;
printing.addEventListener("click", () => window.print());
