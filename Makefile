# Rushlight: `make demo` shows it, `make test` checks it. No target needs root.

MODELS ?= all-minilm-l6-v2 smollm2-135m-instruct bergamot-en-pt bergamot-pt-en whisper-tiny.en \
    silero-vad piper-joe u2netp mobilenet-v2 dinov2-small yolov3-tiny pp-ocr-v4
PORT ?= 8000
ARGS ?=
BIN := .venv/bin
# Modules and tests are compiled once, not in each of the processes that the tests start.
export PYTHONDONTWRITEBYTECODE =
NODE = PATH="$$(tools/node.sh):$$PATH"

.PHONY: help demo examples test test-all subjects preflight quick lint pytest pytest-numpy format wheel wheels screenshots bench-web bench-native gpu gpu-bundle clean env env-test assets kernels node_modules
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: env kernels ## build the site with its models and serve it on loopback (PORT=8000)
	@for model in $(MODELS); do $(BIN)/rushlight fetch $$model || exit 1; done
	@$(BIN)/python -m rushlight.site.builder.datasets
	@$(BIN)/rushlight site build $(addprefix --models ,$(MODELS))
	@exec $(BIN)/rushlight site serve --port $(PORT)

examples: env kernels ## run examples/classic to the numbers they state (minutes each)
	@$(BIN)/pip install -q gymnasium
	@for one in examples/fashion.py examples/classic/*.py; do \
	    echo "== $$one"; $(BIN)/python $$one || exit 1; done

SUBJECTS = changed

test: preflight lint pytest ## check everything, as CI does

test-all: ## the same, with what `make subjects` runs whether changed or not; keeps durations
	@RUSHLIGHT_DURATIONS=write $(MAKE) --no-print-directory test SUBJECTS=all

subjects: SUBJECTS = only
subjects: pytest ## what `make test` skips if it passed here: fuzzing, prices, real weights, ...

preflight:
	@tools/preflight.sh

lint: env-test node_modules ## ruff, mypy --strict and tsc
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(NODE) npm run --silent check

# One run: what takes long begins first (tests/order.py), and subjects whose files have not changed
# since `make test-all` are left out (tests/changes.py). BLAS and lavapipe get one thread each, as two
# workers with a thread per core would slow each other.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --timeout 1200

pytest: env-test node_modules assets kernels ## every test; ARGS="-k name" for some
	@tools/chromium.sh
	@tools/vulkan.sh
	@tools/mpi.sh
	@$(NODE); export RUSHLIGHT_REQUIRE=cpu,webgpu,browser,node OPENBLAS_NUM_THREADS=1 \
	    LP_NUM_THREADS=1 RUSHLIGHT_SUBJECTS=$(if $(ARGS),all,$(SUBJECTS)); \
	$(PYTEST) --durations=30 $(ARGS)
	$(if $(ARGS)$(filter only,$(SUBJECTS)),,@$(MAKE) --no-print-directory pytest-numpy)

# What C kernels replace, with NumPy's: everything that computes on `cpu`. Files, ONNX graphs, texts and
# commands do not depend on it, nor do other devices.
pytest-numpy: env-test node_modules assets
	@$(NODE) RUSHLIGHT_KERNELS=numpy RUSHLIGHT_TEST_DEVICES=cpu RUSHLIGHT_REQUIRE=cpu,node \
	    OPENBLAS_NUM_THREADS=1 $(PYTEST) --durations=10 -k "not webgpu" \
	    --ignore-glob="*_js.py" --ignore=tests/core/io --ignore=tests/core/onnx \
	    --ignore=tests/core/utils --ignore-glob="*test_torch_[nps]*.py" \
	    tests/core tests/parity tests/memory

quick: env-test kernels ## lint and nearest tests of what has changed, within 90 seconds
	@$(BIN)/python tools/quick.py

format: env-test ## format the Python with ruff, write the stubs, the index of families, docs/torch.md and docs/array_api.md
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/stubs.py
	$(BIN)/python tools/family_index.py
	$(BIN)/python tools/torch_names.py
	$(BIN)/python tools/array_api_names.py
	$(BIN)/ruff format .

wheel: env-test kernels ## dist/*.whl and dist/*.tar.gz
	$(BIN)/python -m build --outdir dist

# Without isolation, as each of the seven builds would install zig again.
wheels: wheel ## the wheels of all platforms, with their C kernels, into dist
	@tools/kernels.sh zig
	@for target in $$($(BIN)/python simd_kernels/build.py --wheels); do \
	    RUSHLIGHT_WHEEL=$$target $(BIN)/python -m build --wheel --no-isolation --outdir dist \
	        >/dev/null || exit 1; \
	done
	@ls -l dist/*.whl

screenshots: env-test kernels ## open every page and write docs/screenshots
	@tools/chromium.sh
	$(BIN)/python tests/browser/screenshots.py

# The quick ones come first. A benchmark that fails does not keep the others from running; the last
# line names it.
BENCH_WEB = "transfers tab" "replay tab" "eager tab" "ops tab" "minilm tab" "smollm2 tab" \
    "host_time tab" "host_time webgpu_tab" "tab_memory" "speech tab" "matmul_cpu tab" "blocks tab" \
    "wasm_ops" "cold_start" "reranking tab" "training_web" "smollm2_cpu tab" "billion tab" \
    "minilm_cpu tab" "onnx_web" "matmul_web" "minilm_webgpu" "smollm2_webgpu tab"
BENCH_NATIVE = "transfers native" "replay native" "smollm2 native" "minilm native" "ops native" \
    "gpu" "host_time native" "host_time webgpu_native" "block_kinds --devices cpu,webgpu" \
    "blocks native" "matmul_native" "matmul_cpu native" "smollm2_cpu native" "eager native" "small_steps" \
    "speech_accuracy" "speech_out" "reranking native" "silero" "smollm2_webgpu native" "cache_types" \
    "translation" "speech native" "vision" "pictures" "ocr" "onnx_files" "training" "minilm_cpu native" "quality" "billion native"
BENCH = failed=""; began=$$(date +%s); for benchmark in $(1); do \
        set -- $$benchmark; name=$$1; shift; echo "== benchmarks/$$name.py $$*"; \
        $(BIN)/python benchmarks/$$name.py "$$@" || failed="$$failed; $$benchmark"; \
    done; \
    echo "== $$(( $$(date +%s) - began )) seconds"; \
    [ -z "$$failed" ] || { echo "failed: $${failed\#; }"; exit 1; }

bench-web: env-test assets kernels ## measure in the tab; writes tables to benchmarks/RESULTS.md
	@tools/chromium.sh
	@for model in $(MODELS); do $(BIN)/rushlight fetch $$model || exit 1; done
	@$(BIN)/rushlight site build $(addprefix --models ,$(MODELS))
	@$(NODE); $(call BENCH,$(BENCH_WEB))

bench-native: env-test kernels ## measure natively, WebGPU included
	@tools/vulkan.sh
	@for model in $(MODELS); do $(BIN)/rushlight fetch $$model || exit 1; done
	@$(call BENCH,$(BENCH_NATIVE))

gpu: env-test kernels ## measure the GPU of this machine, within 8 minutes; ARGS="--stages check,ops"
	$(BIN)/python benchmarks/gpu.py $(ARGS)

gpu-bundle: env-test kernels ## the same for a machine without a network: dist/gpu-bundle.tar.xz
	@$(NODE) $(BIN)/python tools/gpu_bundle.py

clean: ## remove built files (.venv and downloaded models stay)
	rm -rf dist build web/build simd_kernels/build node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis

env:
	@tools/env.sh

env-test:
	@tools/env.sh test

# The third-party JavaScript of the wheel, which an editable install does not download.
assets: env-test
	@$(BIN)/python hatch_build.py >/dev/null

# Built again only if their sources have changed. If zig cannot be installed, NumPy's kernels run,
# and `rushlight info` says so. The tests need the C kernels.
kernels: env
	@tools/kernels.sh

# Installed again only if the lock file has changed.
node_modules: env-test
	@key=$$(sha256sum <package-lock.json); \
	if [ "$$(cat node_modules/.stamp 2>/dev/null)" != "$$key" ]; then \
	    echo "Installing the JavaScript checker ..."; \
	    $(NODE) npm ci --silent --no-audit --no-fund && echo "$$key" >node_modules/.stamp; \
	fi
