#!/bin/sh
# Build the C kernels for this machine and for the tab into simd_kernels/build, if needed.
#
#   tools/kernels.sh [zig]
#
# zig compiles them, which pip installs (100 MB, once); with "zig" even if nothing is to be built.
# RUSHLIGHT_KERNELS=numpy skips all.
set -eu
cd "$(dirname "$0")/.."
[ "${RUSHLIGHT_KERNELS:-}" != numpy ] || exit 0

build() {
    .venv/bin/python simd_kernels/build.py "$@"
}

build --current && [ "${1:-}" != zig ] && exit 0
if ! .venv/bin/python -c 'import ziglang' 2>/dev/null; then
    zig=$(build --zig)
    echo "Installing $zig, which compiles the C kernels, into .venv ..."
    .venv/bin/python -m pip install -qq --disable-pip-version-check "$zig" || {
        echo "zig could not be installed, so NumPy's kernels run, many times slower." >&2
        [ "${1:-}" = zig ] && exit 1
        exit 0
    }
fi
build --current && exit 0
echo "Building the C kernels ..."
build >/dev/null
