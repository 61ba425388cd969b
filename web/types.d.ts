// types.d.ts: types that the runtime's files share and that are not part of the page API.

export interface PyProxy {
  destroy(): void;
  toJs(options?: { dict_converter?: (entries: Iterable<[string, unknown]>) => unknown }): any;
  getBuffer(type: "f32"): { data: Float32Array<ArrayBuffer>; release(): void };
  getBuffer(type: "u8"): { data: Uint8Array<ArrayBuffer>; release(): void };
}

export interface PyBuilder extends PyProxy {
  begin(path: string, head: Uint8Array, size: number): PyProxy | undefined;
  look(path: string, size: number, offset: number, bytes: Uint8Array): PyProxy | undefined;
  begin_stored(): PyProxy;
  open(number: number): PyProxy;
  commit(bytes: number): void;
  check(): Promise<void>;
  port: import("./gpu/gpu.js").Port | undefined;
  add_file(path: string, content: Uint8Array): void;
  add_graph(path: string, file: import("./loading/remote.js").Given): void;
  hash(): import("./loading/weights.js").Hash & PyProxy;
}

/** The class Inspection of rushlight.web.worker.inspecting.inspection. */
export interface PyInspection extends PyProxy {
  add_file(path: string, content: Uint8Array): void;
  begin(name: string, size: number): void;
  give(offset: number, bytes: Uint8Array): PyProxy | undefined;
  facts(): string;
  frequencies(): PyProxy | undefined;
  fit(frequencies: Uint8Array | undefined): string;
  record(number: number): PyProxy | undefined;
  choose(number: number, record: Uint8Array | undefined): PyProxy;
  figures(bytes: Uint8Array): PyProxy;
  tokens(search: string, start: number, count: number): string;
  prompt(messages: object[]): Promise<string>;
}

/** The Python module rushlight.web.worker.session. */
export interface Session {
  place(device: string, budget: number | undefined): Promise<PyProxy>;
  Builder(device: string): PyBuilder;
  build(
    builder: PyBuilder,
    dtype: string | Record<string, string> | undefined,
    linear: string,
    context: number | undefined,
    prefixCache: number | undefined,
  ): Promise<PyProxy>;
  run(
    id: number,
    task: string,
    input: unknown,
    options: Record<string, unknown>,
    breathe: () => Promise<boolean>,
    report: (stage: string, ...facts: any[]) => void,
  ): Promise<PyProxy & Iterable<any>>;
  tasks(): PyProxy;
  task(id: number, name: string): PyProxy;
  token_count(id: number, prompt: string | object[], options?: object): Promise<number>;
  bring_jinja(read: (name: string) => Promise<Uint8Array>): void;
  autotune(
    id: number,
    breathe: () => Promise<boolean>,
    report: (done: number, total: number, what: string) => void,
  ): Promise<PyProxy>;
  profile_begin(id: number): Promise<void>;
  profile_end(): Promise<PyProxy>;
  profile_trace(): string;
  dispose(id: number): void;
  info(): PyProxy;
  measure(size: number): number;
  explain(): PyProxy;
}

/** The Python module rushlight.web.worker.adapters. */
export interface Adapters {
  device_of(id: number): string;
  add_adapter(id: number, builder: PyBuilder, name: string): Promise<void>;
  set_adapters(id: number, names: string[]): void;
  finetune(
    id: number,
    rows: object[],
    options: Record<string, unknown>,
    breathe: () => Promise<boolean>,
    report: (done: number, total: number, loss: number) => void,
  ): Promise<PyProxy>;
  adapter_files(id: number, name: string): Promise<PyProxy>;
}

export interface Pyodide {
  version: string;
  _module: { HEAPU8: Uint8Array };
  FS: {
    readdir(folder: string): string[];
    stat(path: string): { mode: number; mtime: Date };
    isDir(mode: number): boolean;
    lookupPath(path: string): { node: { contents: Uint8Array<ArrayBuffer>; usedBytes: number } };
    mkdirTree(folder: string): void;
    writeFile(path: string, content: Uint8Array, options: { canOwn: boolean }): void;
    utime(path: string, used: number, changed: number): void;
  };
  loadPackage(name: string): Promise<unknown>;
  makeMemorySnapshot(): Uint8Array<ArrayBuffer>;
  registerJsModule(name: string, module: object): void;
  runPython(code: string): unknown;
  unpackArchive(bytes: ArrayBuffer, format: "wheel"): void;
  pyimport(name: "rushlight.web.worker.session"): Session;
  pyimport(name: "rushlight.web.worker.adapters"): Adapters;
  pyimport(name: "rushlight.web.worker.modules"): {
    open_modules(sources: Record<string, string>): void;
    call(
      name: string,
      args: unknown[],
      tell: (value: unknown) => void,
      stopped: () => boolean,
    ): Promise<any>;
  };
  pyimport(name: "rushlight.web.worker.inspecting.inspection"): { Inspection(): PyInspection };
  pyimport(name: "rushlight.web.worker.listening"): {
    begin(model: number, rate: number, every: number, options: object): number;
    hear(
      number: number,
      samples: Float32Array,
      ended: boolean,
      breathe: () => Promise<boolean>,
      report: (...facts: any[]) => void,
    ): Promise<string>;
    close(number: number): void;
    subtitles(form: string, result: string): string;
  };
  pyimport(name: "rushlight.web.worker.programs"): {
    run_program(
      code: string,
      device: string,
      tell: (kind: string, value: string, pixels: PyProxy | null) => void,
      hear?: () => Promise<unknown>,
    ): Promise<string>;
    complete(code: string, position: number): string;
  };
}

/** runtime.json, written beside worker.js when a site is built. */
export interface Runtime {
  version: string;
  wheel: string;
  files: { path: string; size: number; sha256: string }[];
}

/** The reply of a job of the worker. */
export interface Reply {
  /** Whether the message "over" follows the last report on the job's port. */
  reported?: boolean;
  value?: any;
  error?: {
    name: string;
    message: string;
    hint: string;
    stack?: string;
    fatal: boolean;
    retry: boolean;
  };
}

declare global {
  // WebGPU's constants, which TypeScript's library leaves out.
  const GPUBufferUsage: Record<
    "MAP_READ" | "COPY_SRC" | "COPY_DST" | "UNIFORM" | "STORAGE" | "QUERY_RESOLVE",
    number
  >;
  const GPUMapMode: Record<"READ", number>;
  const GPUShaderStage: Record<"COMPUTE", number>;

  /** Left by sha256.js (hash-wasm). */
  // eslint-disable-next-line no-var
  var hashwasm: { createSHA256(): Promise<import("./loading/weights.js").Hash> };
}
