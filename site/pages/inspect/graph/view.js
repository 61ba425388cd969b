// view.js: draws a scene on a canvas, moved and zoomed by pointer, touch and keyboard. Only what is
// in sight is drawn.

import { colour, onTheme } from "../../shared/charts.js";
import { scaled } from "../../shared/scale.js";
import { FONT, HEAD, titleOf } from "./scene.js";

/**
 * @typedef {import("./scene.js").Box} Box
 * @typedef {import("./scene.js").Line} Line
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {{ scale: number, x: number, y: number }} Camera  x, y: pixels of the scene's origin
 */

const [LEAST, MOST] = [0.003, 2.5];
const STEP = 1.25;
const READ = 0.7; // the scale that a large graph is shown at first
/** Kinds of operators: words in their names, and a hue. @type {[RegExp, number][]} */
const KINDS = [
  [/conv|matmul|gemm|attention|einsum|lstm|gru|rnn/i, 28],
  [/norm/i, 150],
  [/relu|sigmoid|tanh|gelu|softmax|erf|silu|swish|elu|clip|mish|hard/i, 330],
  [/pool|resize|upsample|reduce|argmax|topk|nonmax|cumsum/i, 265],
  [
    /reshape|transpose|concat|split|slice|gather|squeeze|flatten|expand|pad|tile|scatter|space/i,
    205,
  ],
  [/quantize|cast/i, 95],
  [/^(if|loop|scan|sequence)/i, 0],
];

export class View {
  /** @param {HTMLCanvasElement} canvas
   *  @param {{ choose: (box: Box | null) => void, toggle: (box: Box) => void }} act */
  constructor(canvas, act) {
    this.canvas = canvas;
    this.act = act;
    /** @type {Scene} */
    this.scene = { boxes: [], lines: [], width: 0, height: 0 };
    /** @type {Camera} */
    this.camera = { scale: 1, x: 0, y: 0 };
    this.chosen = ""; // the key of an item
    /** @type {Set<string>} keys of items that a search finds */
    this.found = new Set();
    /** @type {((box: Box) => number | null) | null} from 0 to 1 */
    this.heat = null;
    this.touched = false; // by a visitor: the camera stays
    this.due = 0;
    this.#listen();
    onTheme(() => this.draw());
    new ResizeObserver(() => {
      if (!this.touched) this.fit();
      this.draw();
    }).observe(canvas);
  }

  /** Shows a scene; the box `keep` stays where it is.
   *  @param {Scene} scene @param {string} [keep] */
  show(scene, keep = "") {
    const before = this.box(keep);
    this.scene = scene;
    const after = this.box(keep);
    if (before && after) {
      const { scale } = this.camera;
      this.camera.x += (before.x - after.x + (before.width - after.width) / 2) * scale;
      this.camera.y += (before.y - after.y) * scale;
    } else if (!this.touched) this.fit();
    this.draw();
  }

  /** @param {string} key */
  box(key) {
    return this.scene.boxes.find(({ item }) => item.key === key);
  }

  /** All of it, or as much from the top as can be read. */
  fit() {
    const { width, height } = this.#size();
    const { scene } = this;
    if (!width || !scene.width) return;
    const whole = Math.min(width / (scene.width + 40), height / (scene.height + 40), 1);
    const scale = Math.max(whole, Math.min(READ, width / (scene.width + 40)), LEAST);
    const y = whole === scale ? (height - scene.height * scale) / 2 : 20;
    this.camera = { scale, x: (width - scene.width * scale) / 2, y };
    this.touched = false;
    this.draw();
  }

  /** All of it, however small. */
  whole() {
    const { width, height } = this.#size();
    const { scene } = this;
    const scale = Math.max(
      LEAST,
      Math.min(width / (scene.width + 40), height / (scene.height + 40), 1),
    );
    this.camera = {
      scale,
      x: (width - scene.width * scale) / 2,
      y: (height - scene.height * scale) / 2,
    };
    this.touched = true;
    this.draw();
  }

  /** Brings a box into sight. @param {string} key */
  center(key) {
    const box = this.box(key);
    if (!box) return;
    const { width, height } = this.#size();
    const scale = Math.max(this.camera.scale, 0.75);
    this.camera = {
      scale,
      x: width / 2 - (box.x + box.width / 2) * scale,
      y: height / 2 - (box.y + Math.min(box.height, height / scale) / 2) * scale,
    };
    this.touched = true;
    this.draw();
  }

  /** @param {number} by @param {number} [px] @param {number} [py] */
  zoom(by, px, py) {
    const { width, height } = this.#size();
    const [atX, atY] = [px ?? width / 2, py ?? height / 2];
    const scale = Math.max(LEAST, Math.min(MOST, this.camera.scale * by));
    const ratio = scale / this.camera.scale;
    this.camera = {
      scale,
      x: atX - (atX - this.camera.x) * ratio,
      y: atY - (atY - this.camera.y) * ratio,
    };
    this.touched = true;
    this.draw();
  }

  #size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  draw() {
    this.due ||= requestAnimationFrame(() => {
      this.due = 0;
      this.#paint();
    });
  }

  #paint() {
    const { canvas, scene, camera } = this;
    const { width, height } = this.#size();
    const ratio = devicePixelRatio || 1;
    if (!width) return;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) {
      canvas.width = across;
      canvas.height = down;
    }
    const paper = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const dark = document.documentElement.dataset.theme === "dark";
    const look = palette(dark);
    paper.setTransform(1, 0, 0, 1, 0, 0);
    paper.fillStyle = look.paper;
    paper.fillRect(0, 0, across, down);
    const { scale } = camera;
    paper.setTransform(scale * ratio, 0, 0, scale * ratio, camera.x * ratio, camera.y * ratio);
    const sight = {
      left: -camera.x / scale,
      top: -camera.y / scale,
      right: (width - camera.x) / scale,
      bottom: (height - camera.y) / scale,
    };
    for (const box of scene.boxes) {
      if (box.open && seen(box, sight)) this.#open(paper, box, look);
    }
    this.#lines(paper, sight, look, dark);
    for (const box of scene.boxes) {
      if (!box.open && seen(box, sight)) this.#closed(paper, box, look, dark);
    }
    canvas.dataset.boxes = String(scene.boxes.length);
  }

  /** @param {CanvasRenderingContext2D} paper @param {Box} box @param {Palette} look */
  #open(paper, box, look) {
    const { x, y, width, height, item } = box;
    paper.fillStyle = box.depth % 2 ? look.paper : look.sunk;
    paper.strokeStyle = this.chosen === item.key ? look.flame : look.line;
    paper.lineWidth = this.chosen === item.key ? 2.5 : 1;
    rounded(paper, x, y, width, height, 10);
    paper.fill();
    paper.stroke();
    if (this.camera.scale < 0.16) return;
    sign(paper, x + 14, y + HEAD / 2, look, true);
    paper.fillStyle = look.soft;
    paper.font = `600 12.5px ${FONT}`;
    paper.textAlign = "left";
    paper.textBaseline = "middle";
    text(paper, titleOf(item), x + 27, y + HEAD / 2 + 0.5, width - 36);
  }

  /** @param {CanvasRenderingContext2D} paper @param {Sight} sight @param {Palette} look
   *  @param {boolean} dark */
  #lines(paper, sight, look, dark) {
    const { scale } = this.camera;
    const marked = [];
    paper.strokeStyle = look.wire;
    paper.fillStyle = look.wire;
    paper.lineWidth = Math.max(1.1, 0.7 / scale);
    for (const line of this.scene.lines) {
      if (!within(line, sight)) continue;
      if (this.chosen && (line.from === this.chosen || line.to === this.chosen)) marked.push(line);
      else stroke(paper, line, scale);
    }
    paper.strokeStyle = paper.fillStyle = look.flame;
    paper.lineWidth = Math.max(2, 1.2 / scale);
    for (const line of marked) stroke(paper, line, scale);
    if (scale < 0.5) return;
    paper.font = `11px ${FONT}`;
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    for (const line of this.scene.lines) {
      if (!line.label || !within(line, sight)) continue;
      const [x, y] = line.points[Math.floor(line.points.length / 2)];
      const wide = paper.measureText(line.label).width + 6;
      paper.fillStyle = dark ? "rgb(23 20 16 / 85%)" : "rgb(250 247 241 / 88%)";
      paper.fillRect(x - wide / 2, y - 7, wide, 14);
      paper.fillStyle = marked.includes(line) ? look.flame : look.faint;
      paper.fillText(line.label, x, y + 0.5);
    }
  }

  /** @param {CanvasRenderingContext2D} paper @param {Box} box @param {Palette} look
   *  @param {boolean} dark */
  #closed(paper, box, look, dark) {
    const { x, y, width, height, item } = box;
    const heat = this.heat?.(box) ?? null;
    const value = item.kind === "value";
    const [fill, ink] = value
      ? [look.sunk, look.soft]
      : heat !== null
        ? heated(heat, dark)
        : item.kind === "leaf"
          ? [tint(item.title, dark), look.ink]
          : [look.card, look.ink];
    const chosen = this.chosen === item.key;
    const found = this.found.has(item.key);
    paper.lineWidth = chosen || found ? 2.5 : 1;
    paper.strokeStyle = chosen ? look.flame : found ? look.good : look.strong;
    paper.fillStyle = fill;
    if (item.kind === "group") {
      rounded(paper, x + 3, y + 3, width, height, 8); // a pile
      paper.fill();
      paper.stroke();
    }
    rounded(paper, x, y, width, height, value ? height / 2 : 8);
    paper.fill();
    if (value) paper.setLineDash([4, 3]);
    paper.stroke();
    paper.setLineDash([]);
    if (this.camera.scale < 0.2) return;
    const group = item.kind === "group";
    if (group) sign(paper, x + 15, y + height / 2, look, false);
    const middle = x + width / 2 + (group ? 8 : 0);
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    paper.fillStyle = ink;
    paper.font = value ? `12px ${FONT}` : `600 13px ${FONT}`;
    const words = this.camera.scale >= 0.34 && box.words;
    text(
      paper,
      titleOf(item),
      middle,
      y + (words ? height / 2 - 8 : height / 2),
      width - (group ? 34 : 12),
    );
    if (!words) return;
    paper.font = `11px ${FONT}`;
    paper.fillStyle = heat !== null ? ink : look.soft;
    text(paper, box.words, middle, y + height / 2 + 9, width - (group ? 34 : 12));
  }

  // --- pointer and keyboard ----------------------------------------------------------------------

  /** The innermost box at a place of the canvas. @param {number} px @param {number} py */
  at(px, py) {
    const { scale, x, y } = this.camera;
    const [sx, sy] = [(px - x) / scale, (py - y) / scale];
    let best = null;
    for (const box of this.scene.boxes) {
      const there =
        sx >= box.x && sx <= box.x + box.width && sy >= box.y && sy <= box.y + box.height;
      if (there && (!best || box.depth >= best.depth)) best = box;
    }
    if (!best) return null;
    const left = sx - best.x < 26;
    const signed = best.item.kind === "group" && left && (!best.open || sy - best.y < HEAD);
    return { box: best, signed };
  }

  #listen() {
    const { canvas } = this;
    /** @type {Map<number, { x: number, y: number }>} */
    const down = new Map();
    let moved = 0;
    const place = (/** @type {MouseEvent} */ event) => {
      const { left, top } = canvas.getBoundingClientRect();
      return { x: event.clientX - left, y: event.clientY - top };
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, place(event));
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      const now = place(event);
      if (!before) {
        const hit = this.at(now.x, now.y);
        canvas.style.cursor = hit?.signed ? "pointer" : hit && !hit.box.open ? "pointer" : "grab";
        return;
      }
      const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      if (others.length) {
        const far = (/** @type {{ x: number, y: number }} */ a) =>
          Math.hypot(a.x - others[0].x, a.y - others[0].y);
        const middle = [(now.x + others[0].x) / 2, (now.y + others[0].y) / 2];
        this.zoom(far(now) / Math.max(1, far(before)), middle[0], middle[1]);
        moved = Infinity;
      } else {
        moved += Math.hypot(now.x - before.x, now.y - before.y);
        if (moved > 4) {
          this.camera.x += now.x - before.x;
          this.camera.y += now.y - before.y;
          this.touched = true;
          canvas.style.cursor = "grabbing";
          this.draw();
        }
      }
      down.set(event.pointerId, now);
    });
    for (const kind of /** @type {const} */ (["pointerup", "pointercancel"])) {
      canvas.addEventListener(kind, (event) => {
        const was = down.delete(event.pointerId);
        if (!was || kind === "pointercancel" || moved > 4) return;
        const { x, y } = place(event);
        const hit = this.at(x, y);
        if (hit?.signed) this.act.toggle(hit.box);
        else this.choose(hit?.box.item.key ?? "");
      });
    }
    canvas.addEventListener("dblclick", (event) => {
      const { x, y } = place(event);
      const hit = this.at(x, y);
      if (hit && !hit.signed && hit.box.item.kind === "group") this.act.toggle(hit.box);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        // Until the canvas has the focus, the wheel scrolls the page.
        if (document.activeElement !== canvas && !event.ctrlKey) return;
        event.preventDefault();
        const { x, y } = place(event);
        const lines = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey) {
          this.camera.x -= (event.deltaX || event.deltaY) * lines;
          this.touched = true;
          this.draw();
        } else this.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {string} key  of an item */
  choose(key) {
    this.chosen = key;
    this.draw();
    this.act.choose(this.box(key) ?? null);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const box = this.box(this.chosen);
    const ways = /** @type {Record<string, [number, number]>} */ ({
      ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0],
    }); // prettier-ignore
    if (ways[key]) {
      const next = this.#beside(box, ways[key]);
      if (next) {
        this.choose(next.item.key);
        if (!this.#inSight(next)) this.center(next.item.key);
      }
    } else if (key === "+" || key === "=") this.zoom(STEP);
    else if (key === "-") this.zoom(1 / STEP);
    else if (key === "0") this.whole();
    else if ((key === "Enter" || key === " ") && box?.item.kind === "group") this.act.toggle(box);
    else if (key === "Escape") this.choose("");
    else return;
    event.preventDefault();
  }

  /** @param {Box} box */
  #inSight({ x, y, width }) {
    const { scale, x: cx, y: cy } = this.camera;
    const { width: across, height: down } = this.#size();
    const [left, top] = [x * scale + cx, y * scale + cy];
    return left > 0 && left + width * scale < across && top > 0 && top + 40 * scale < down;
  }

  /** The next box that way: along a line up and down, else the nearest.
   *  @param {Box | undefined} box @param {[number, number]} way */
  #beside(box, [right, below]) {
    const { boxes, lines } = this.scene;
    if (!box) return boxes.find(({ open }) => !open);
    if (below) {
      const keys = lines
        .filter((line) => (below > 0 ? line.from : line.to) === box.item.key)
        .map((line) => (below > 0 ? line.to : line.from));
      const next = boxes.find(({ item }) => keys.includes(item.key));
      if (next) return next;
    }
    const middle = (/** @type {Box} */ b) => [b.x + b.width / 2, b.y + Math.min(b.height, 40) / 2];
    const [x, y] = middle(box);
    let best = null;
    let least = Infinity;
    for (const other of boxes) {
      if (other === box || other.open) continue;
      const [ox, oy] = middle(other);
      const [along, across] = right
        ? [(ox - x) * right, Math.abs(oy - y)]
        : [(oy - y) * below, Math.abs(ox - x)];
      const far = along + 3 * across;
      if (along > 4 && far < least) [best, least] = [other, far];
    }
    return best;
  }
}

/** @typedef {{ left: number, top: number, right: number, bottom: number }} Sight
 *  @typedef {ReturnType<typeof palette>} Palette */

/** @param {boolean} dark */
function palette(dark) {
  return {
    paper: colour("--paper"),
    card: colour("--card"),
    sunk: colour("--sunk"),
    line: colour("--line-strong"),
    strong: dark ? "#6b5f4b" : "#b3a68f",
    wire: dark ? "#7d705a" : "#a3967f",
    ink: colour("--ink"),
    soft: colour("--ink-soft"),
    faint: colour("--ink-faint"),
    flame: colour("--flame"),
    good: colour("--good"),
  };
}

/** @param {Box} box @param {Sight} sight */
const seen = ({ x, y, width, height }, { left, top, right, bottom }) =>
  x < right && x + width > left && y < bottom && y + height > top;

/** @param {Line} line @param {Sight} sight */
function within({ points }, { left, top, right, bottom }) {
  const last = points[points.length - 1];
  if (points[0][1] > bottom || last[1] < top) return points[0][1] > last[1];
  return points.some(([x]) => x > left - 400 && x < right + 400);
}

/** A smooth line with a tip. @param {CanvasRenderingContext2D} paper @param {Line} line
 *  @param {number} scale */
function stroke(paper, { points }, scale) {
  paper.beginPath();
  paper.moveTo(points[0][0], points[0][1]);
  for (let i = 1; i < points.length - 1; i += 1) {
    const [x, y] = points[i];
    const [nx, ny] = points[i + 1];
    const last = i === points.length - 2;
    paper.quadraticCurveTo(x, y, last ? nx : (x + nx) / 2, last ? ny : (y + ny) / 2);
  }
  const [ex, ey] = points[points.length - 1];
  if (points.length === 2) paper.lineTo(ex, ey);
  paper.stroke();
  if (scale < 0.3) return;
  const [bx, by] = points[points.length - 2];
  const angle = Math.atan2(ey - by, ex - bx);
  paper.beginPath();
  paper.moveTo(ex, ey);
  for (const turn of [-0.42, 0.42]) {
    paper.lineTo(ex - 8 * Math.cos(angle + turn), ey - 8 * Math.sin(angle + turn));
  }
  paper.fill();
}

/** @param {CanvasRenderingContext2D} paper @param {number} x @param {number} y
 *  @param {number} width @param {number} height @param {number} radius */
function rounded(paper, x, y, width, height, radius) {
  paper.beginPath();
  paper.roundRect(x, y, width, height, radius);
}

/** A plus or a minus. @param {CanvasRenderingContext2D} paper @param {number} x @param {number} y
 *  @param {Palette} look @param {boolean} open */
function sign(paper, x, y, look, open) {
  paper.beginPath();
  paper.arc(x, y, 7, 0, 7);
  paper.fillStyle = look.card;
  paper.fill();
  paper.lineWidth = 1.2;
  paper.strokeStyle = look.flame;
  paper.stroke();
  paper.beginPath();
  paper.moveTo(x - 3.5, y);
  paper.lineTo(x + 3.5, y);
  if (!open) {
    paper.moveTo(x, y - 3.5);
    paper.lineTo(x, y + 3.5);
  }
  paper.stroke();
}

/** A text that is cut to a width. @param {CanvasRenderingContext2D} paper @param {string} words
 *  @param {number} x @param {number} y @param {number} most */
function text(paper, words, x, y, most) {
  let shown = words;
  while (shown.length > 3 && paper.measureText(shown).width > most) {
    shown = `${shown.slice(0, Math.floor(shown.length * 0.86) - 1)}…`;
  }
  paper.fillText(shown, x, y);
}

/** @param {string} op @param {boolean} dark */
function tint(op, dark) {
  const [, hue] = KINDS.find(([words]) => words.test(op)) ?? [null, null];
  if (hue === null) return dark ? "#2d2820" : "#f4efe5";
  return dark ? `hsl(${hue} 38% 22%)` : `hsl(${hue} 62% 90%)`;
}

/** A colour of the scale, and what can be read on it. @param {number} t @param {boolean} dark
 *  @returns {[fill: string, ink: string]} */
function heated(t, dark) {
  const [r, g, b] = scaled(t, dark);
  const light = (0.299 * r + 0.587 * g + 0.114 * b) / 255 > 0.52;
  return [`rgb(${r} ${g} ${b})`, light ? "#26211a" : "#fff8ea"];
}
