// cut.js: a picture cut out, or shaded, by a mask.

/** The picture with a mask as its opacity. @param {ImageData} image @param {Uint8Array} mask */
export function cut(image, mask) {
  const made = new ImageData(new Uint8ClampedArray(image.data), image.width, image.height);
  for (let i = 0; i < mask.length; i += 1) made.data[4 * i + 3] = mask[i];
  return made;
}

/** The picture with what is masked in a color. @param {ImageData} image @param {Uint8Array} mask */
export function shaded(image, mask) {
  const made = new ImageData(new Uint8ClampedArray(image.data), image.width, image.height);
  const color = [240, 138, 36];
  for (let i = 0; i < mask.length; i += 1) {
    const share = (mask[i] / 255) * 0.5;
    for (let j = 0; j < 3; j += 1) {
      made.data[4 * i + j] = made.data[4 * i + j] * (1 - share) + color[j] * share;
    }
  }
  return made;
}
