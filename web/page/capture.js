// capture.js: the AudioWorklet that hands the sound of a stream to the page, in blocks.

const BLOCK = 2048; // samples: 0.13 s at 16 kHz

/** Samples of one input, its channels mixed, in blocks of one size. */
class Capture extends AudioWorkletProcessor {
  block = new Float32Array(BLOCK);
  filled = 0;

  /** @param {Float32Array[][]} inputs */
  process([channels]) {
    const length = channels[0]?.length ?? 0; // none while no source is connected
    for (let i = 0; i < length; i += 1) {
      let sum = 0;
      for (const channel of channels) sum += channel[i];
      this.block[this.filled++] = sum / channels.length;
      if (this.filled < BLOCK) continue;
      this.port.postMessage(this.block, [this.block.buffer]);
      this.block = new Float32Array(BLOCK);
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("capture", Capture);
