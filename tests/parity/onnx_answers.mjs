// What transformers.js answers on the folders that make_onnx_folders.py makes.
//
//     node tests/parity/onnx_answers.mjs PACKAGE FOLDERS
//
// PACKAGE: the folder of @huggingface/transformers; FOLDERS: one with the archives of
// tests/models/data/onnx/ unpacked by name. Writes tests/models/data/onnx/answers.json.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [root, folders] = process.argv.slice(2).map((name) => path.resolve(name));
const library = path.join(root, 'dist/transformers.node.mjs');
const {
  AutoModelForCTC,
  AutoModelForDepthEstimation,
  AutoModelForSpeechSeq2Seq,
  AutoProcessor,
  RawImage,
  SamModel,
  Tensor,
  env,
  pipeline,
} = await import(pathToFileURL(library).href);
env.allowRemoteModels = false;
env.localModelPath = folders + path.sep;

/** @type {Record<string, any>} */
const answers = {};
/**
 * @param {string} name
 * @param {string} task
 * @param {string} folder
 * @param {any[]} input
 */
async function ask(name, task, folder, input, options = {}, dtype = 'fp32') {
  const pipe = await pipeline(task, folder, { dtype });
  let out = await pipe(...input, options);
  if (out.tolist) out = out.tolist();
  answers[name] = out;
  console.log(name, JSON.stringify(out).slice(0, 200));
}

const text = 'the candle is light';
await ask('classes', 'text-classification', 'classes', [text], { top_k: 3 });
await ask('sentences', 'feature-extraction', 'sentences', [['the candle', 'a lamp at night']], {
  pooling: 'cls',
  normalize: true,
});
await ask('tags', 'token-classification', 'tags', [text]);
await ask('masks', 'fill-mask', 'masks', ['the [MASK] is light']);
await ask('answers', 'question-answering', 'answers', ['who?', 'the candle is light of the night']);
for (const dtype of ['fp32', 'fp16', 'q8', 'q4', 'q4f16']) {
  const options = { max_new_tokens: 12, do_sample: false };
  await ask(`llama ${dtype}`, 'text-generation', 'llama', ['the candle is'], options, dtype);
}
await ask('outliers', 'text-generation', 'outliers', ['the candle is'], { max_new_tokens: 6 });
await ask('grouped', 'text-generation', 'grouped', ['the candle is'], { max_new_tokens: 8 });
await ask('opt', 'text-generation', 'opt', ['the candle is'], { max_new_tokens: 12 });
await ask('t5', 'text2text-generation', 't5', [text], { max_new_tokens: 12 });
const least = { max_new_tokens: 12, min_new_tokens: 11 };
await ask('bart', 'text2text-generation', 'bart', [text], least);

// Pixels that both sides make: no file, so no decoder.
const [height, width] = [20, 24];
const bytes = new Uint8ClampedArray(height * width * 3);
for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 37 + (i >> 4) * 11) % 256;
const square = new RawImage(bytes.slice(0, 16 * 16 * 3), 16, 16, 3);
await ask('vit', 'image-classification', 'vit', [square], { top_k: 3 });
await ask('clip', 'zero-shot-image-classification', 'clip', [square, ['lamp', 'night']], {
  hypothesis_template: 'the {}',
});
await ask('yolos', 'object-detection', 'yolos', [square], { threshold: 0.1, percentage: true });
const pipe = await pipeline('image-segmentation', 'segformer', { dtype: 'fp32' });
answers.segformer = (await pipe(square)).map((/** @type {any} */ row) => ({
  label: row.label,
  shown: [...row.mask.data].reduce((sum, value) => sum + (value > 0), 0),
}));
const depth = await AutoModelForDepthEstimation.from_pretrained('depth', { dtype: 'fp32' });
const looked = await (await AutoProcessor.from_pretrained('depth'))(square);
answers.depth = (await depth(looked)).predicted_depth.tolist()[0].slice(0, 4);
const sam = await SamModel.from_pretrained('sam', { dtype: 'fp32' });
const processor = await AutoProcessor.from_pretrained('sam');
const dots = new Uint8ClampedArray(32 * 32 * 3).map((_, i) => (i * 37) % 256);
const large = new RawImage(dots, 32, 32, 3);
const prompted = await processor(large, { input_points: [[[9, 12]]] });
const seen = await sam(prompted);
answers.sam = { scores: seen.iou_scores.tolist(), masks: seen.pred_masks.tolist() };

const samples = new Float32Array(16000).map((_, i) => Math.fround(0.3 * Math.sin(i / 20)));
const letters = await AutoModelForCTC.from_pretrained('ctc', { dtype: 'fp32' });
const wave = await (await AutoProcessor.from_pretrained('ctc'))(samples);
answers.ctc = (await letters(wave)).logits.tolist()[0].slice(0, 5);
const whisper = await AutoModelForSpeechSeq2Seq.from_pretrained('whisper', { dtype: 'fp32' });
const mels = new Float32Array(8 * 3000).map((_, i) => Math.fround(Math.sin(i / 7)));
const read = await whisper({
  input_features: new Tensor('float32', mels, [1, 8, 3000]),
  decoder_input_ids: new Tensor('int64', BigInt64Array.from([79n, 5n, 6n]), [1, 3]),
});
answers.whisper = read.logits.tolist()[0];
await ask('sounds', 'audio-classification', 'sounds', [samples], { top_k: 3 });
const out = new URL('../models/data/onnx/answers.json', import.meta.url);
/** @type {(key: string, value: any) => any} */
const few = (_, value) => (typeof value === 'number' ? Number(value.toPrecision(7)) : value);
fs.writeFileSync(out, JSON.stringify(answers, few, 0) + '\n');
