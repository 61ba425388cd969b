// sample.js: a text to learn, of plain sentences that are put together by chance.

const WHO = ["the miner", "a poor king", "the old whale", "a bee", "the glass blower", "my cow"];
const DOES = ["lights", "carries", "finds", "sells", "forgets", "mends"];
const WHAT = ["a rushlight", "the oil lamp", "a wax candle", "the blue flame", "a copper wire"];
const WHERE = ["in the house", "on the ship", "by the street", "under the moon", "at sea"];

/** Sentences: the same for the same count. @param {number} count */
export function sampleText(count = 500) {
  let state = 1;
  /** @param {string[]} words */
  const one = (words) => {
    state = (state * 1103515245 + 12345) % 2147483648; // the generator of C's standard
    return words[Math.floor((state / 2147483648) * words.length)];
  };
  const lines = [];
  for (let i = 0; i < count; i += 1) {
    lines.push(`${one(WHO)} ${one(DOES)} ${one(WHAT)} ${one(WHERE)}.`);
  }
  return lines.join("\n");
}
