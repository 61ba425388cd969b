// pad.js: a canvas to draw on, by pointer or by keys; what is drawn as a small grey picture.

const STEP = 10; // pixels of the canvas that an arrow key moves

/**
 * Makes a canvas one to draw on.
 * @param {HTMLCanvasElement} canvas @param {string} label
 * @param {() => void} [changed]  called after each line
 */
export function makePad(canvas, label, changed = () => {}) {
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  if (!pen) throw new Error("This browser cannot draw pictures.");
  let at = { x: canvas.width / 2, y: canvas.height / 2 };
  let down = false; // the keyboard's pen
  let drawing = false;
  let empty = true;
  let shown = false; // the cursor of the keys
  const ink = document.createElement("canvas");
  [ink.width, ink.height] = [canvas.width, canvas.height];
  const inked = /** @type {CanvasRenderingContext2D} */ (
    ink.getContext("2d", { willReadFrequently: true })
  );

  function show() {
    if (!pen) return;
    pen.fillStyle = "black";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(ink, 0, 0);
    if (!shown) return;
    pen.strokeStyle = down ? "#f5ae3d" : "#888";
    pen.lineWidth = 3;
    pen.strokeRect(at.x - 11, at.y - 11, 22, 22);
  }

  /** @param {{ x: number, y: number }} to */
  function line(to) {
    inked.lineCap = inked.lineJoin = "round";
    inked.lineWidth = canvas.width / 12;
    inked.strokeStyle = "white";
    inked.beginPath();
    inked.moveTo(at.x, at.y);
    inked.lineTo(to.x + 0.01, to.y);
    inked.stroke();
    at = to;
    empty = false;
  }

  /** @param {PointerEvent} event */
  function place({ clientX, clientY }) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [(clientX - box.left) / box.width, (clientY - box.top) / box.height];
    return { x: x * canvas.width, y: y * canvas.height };
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    at = place(event);
    drawing = true;
    shown = false;
    line(at);
    show();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    line(place(event));
    show();
  });
  const lift = () => {
    if (drawing) changed();
    drawing = false;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (event.key === " ") {
      down = !down;
      if (down) line(at);
    } else if (move) {
      const inside = (/** @type {number} */ v) => Math.min(canvas.width, Math.max(0, v));
      const to = { x: inside(at.x + STEP * move[0]), y: inside(at.y + STEP * move[1]) };
      if (down) line(to);
      at = to;
    } else return;
    event.preventDefault();
    shown = true;
    show();
    if (down) changed();
  });
  canvas.addEventListener("blur", () => {
    shown = down = false;
    show();
  });
  show();

  return {
    empty: () => empty,
    clear() {
      inked.clearRect(0, 0, ink.width, ink.height);
      empty = true;
      down = false;
      show();
    },
    /** Shows another picture. @param {CanvasImageSource} source */
    put(source) {
      inked.drawImage(source, 0, 0, ink.width, ink.height);
      empty = false;
      show();
    },
    /** The drawing. @param {number} channels @param {number} side */
    pixels(channels, side) {
      return pixelsOf(ink, channels, side, side);
    },
  };
}

/** A picture's middle as a square of bytes, one channel after the other.
 *  @param {HTMLCanvasElement | ImageBitmap} source @param {number} channels
 *  @param {number} height @param {number} width */
export function pixelsOf(source, channels, height, width) {
  // Halved until it is near its size: one large step would leave most pixels out.
  let [w, h] = [source.width, source.height];
  const side = Math.min(w, h);
  let now = document.createElement("canvas");
  now.width = now.height = side;
  const first = /** @type {CanvasRenderingContext2D} */ (now.getContext("2d"));
  first.fillStyle = "black";
  first.fillRect(0, 0, side, side);
  first.drawImage(source, (w - side) / 2, (h - side) / 2, side, side, 0, 0, side, side);
  for (let size = side; size !== width; ) {
    size = Math.max(width, Math.ceil(size / 2));
    const next = document.createElement("canvas");
    [next.width, next.height] = [size, size === width ? height : size];
    const pen = /** @type {CanvasRenderingContext2D} */ (next.getContext("2d"));
    pen.imageSmoothingQuality = "high";
    pen.drawImage(now, 0, 0, next.width, next.height);
    now = next;
  }
  const pen = /** @type {CanvasRenderingContext2D} */ (now.getContext("2d"));
  const { data } = pen.getImageData(0, 0, width, height);
  const found = new Uint8Array(channels * width * height);
  for (let i = 0; i < width * height; i += 1) {
    const [r, g, b] = data.subarray(4 * i, 4 * i + 3);
    if (channels === 1) found[i] = Math.round(0.299 * r + 0.587 * g + 0.114 * b);
    else [r, g, b].forEach((v, c) => (found[c * width * height + i] = v));
  }
  return found;
}
