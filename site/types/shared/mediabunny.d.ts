// mediabunny.d.ts: the used part of Mediabunny, which the build puts beside the pages.
export const ALL_FORMATS: unknown[];
export class BlobSource {
  constructor(blob: Blob);
}
export interface Track {
  canDecode(): Promise<boolean>;
  getSampleRate(): Promise<number>;
  computeDuration(): Promise<number>;
}
export class Input {
  constructor(options: { source: BlobSource; formats: unknown[] });
  canRead(): Promise<boolean>;
  getPrimaryAudioTrack(): Promise<Track | null>;
}
export class AudioBufferSink {
  constructor(track: Track);
  buffers(
    from: number,
    to: number,
  ): AsyncGenerator<{ buffer: AudioBuffer; timestamp: number }, void, unknown>;
}
