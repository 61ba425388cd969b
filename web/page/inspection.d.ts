// inspection.d.ts: the types of `Rushlight.inspect`, a part of client.d.ts.

import type { ChatMessage } from "./client.d.ts";

export interface InspectProgress {
  stage: "header" | "tensor";
  /** stage "header": the file, the bytes read of it so far, and its size. */
  file?: string;
  bytes?: number;
  size?: number;
  /** stage "tensor": bytes read of all that will be read. */
  done?: number;
  total?: number;
}

export interface InspectOptions {
  onProgress?: (progress: InspectProgress) => void;
  signal?: AbortSignal;
  /** The URL of the hub. */
  hubUrl?: string;
  /** Whether vocabulary and template are read too, of files beside the weights; true by default. */
  vocabulary?: boolean;
}

/** A tensor of a file: name, dtype, shape, bytes, and the number of its file. */
export type TensorRow = [
  name: string,
  dtype: string,
  shape: string[],
  bytes: number,
  file: number,
];

/** What the header of a file says. Long texts are cut off. Sizes are null where it does not say. */
export interface Facts {
  /** The name of the file or model. */
  source: string;
  /** "safetensors", "GGUF" with its version, or "PyTorch" or "NumPy" with the kind of file. */
  format: string;
  files: [name: string, bytes: number][];
  bytes: number;
  /** How many files were chosen beside this one and not looked into. */
  leftOut: number;
  tensorBytes: number;
  /** Bytes of the largest tensor. */
  largest: number;
  parameters: number;
  bitsPerWeight: number;
  types: [dtype: string, tensors: number, bytes: number, parameters: number][];
  tensors: TensorRow[];
  metadata: [key: string, value: string][];
  /** How many keys the metadata has; `metadata` lists at most 2000. */
  keys: number;
  name: string;
  architecture: string;
  contextLength: number | null;
  layers: number | null;
  heads: number | null;
  kvHeads: number | null;
  width: number | null;
  experts: number | null;
  /** The number of tokens; 0 without a vocabulary. */
  vocabulary: number;
  /** The chat template. */
  template: string | null;
  /** What was read: bytes, and requests to a server. */
  bytesRead: number;
  requests: number;
}

export interface Fit {
  /** Whether `load` takes the file; if not, the reason and a hint. */
  supported: boolean;
  why: string;
  hint: string;
  tasks: string[];
  /** Tokens of the context; 0 for a model that does not write. Missing if it is not supported. */
  contextLength?: number;
  /** Bytes of the cache of a conversation; null if it is not known. largestRow: bytes per token of
   *  its largest tensor. windows: [tokens, bytes per token] of layers that see only so many. */
  cache: {
    fixed: number;
    perToken: number;
    largestRow: number;
    windows: [number, number][];
  } | null;
  /** The adapter, and the size of the largest buffer that it can hold; null without one. */
  webgpu: { name: string; largest: number } | null;
  /** Bytes of the heap that the runtime takes without a model. */
  heapBytes: number;
}

/** The figures of a tensor. Of a large one only some rows were read: `whole` is false. */
export interface Figures {
  /** Numbers that were read. */
  count: number;
  whole: boolean;
  /** The tensor as a matrix, whose columns are its last dim; and how much of it was read. */
  rows: number;
  columns: number;
  sampledRows: number;
  sampledColumns: number;
  nan: number;
  infinite: number;
  zeros: number;
  first: number[];
  /** Of the finite values; missing if there are none. */
  mean?: number;
  std?: number;
  min?: number;
  max?: number;
  histogram?: { counts: number[]; edges: number[] };
  /** Cells row by row: the largest magnitude and the mean of each. Edges: the first and the last
   *  row or column of a cell. */
  map?: {
    largest: number[];
    mean: number[];
    rowEdges: [number, number][];
    columnEdges: [number, number][];
  };
  bytesRead: number;
}

/** A page of the vocabulary. */
export interface Tokens {
  total: number;
  rows: [id: number, token: string, kind: string][];
}

export interface Inspection {
  readonly facts: Facts;
  /** Whether the file is a model that `load` takes, and the memory that it needs. */
  fit(options?: { signal?: AbortSignal }): Promise<Fit>;
  /** Reads a tensor, by its place in `facts.tensors`, or some rows of a large one. */
  tensor(number: number, options?: InspectOptions): Promise<Figures>;
  /** Tokens that contain `search`; "#7" finds the id 7. */
  tokens(search?: string, start?: number, count?: number): Promise<Tokens>;
  /** What the chat template makes of messages. */
  prompt(messages: ChatMessage[]): Promise<string>;
  close(): Promise<void>;
}
