#!/bin/sh
# Make .venv and install Rushlight in it, editable; with "test" also the packages for the tests.
#
#   tools/env.sh [test]
#
# PYTHON names the interpreter; otherwise the first suitable one on PATH is used. If the stamp in
# .venv says that the same pyproject.toml is installed, nothing is done.
set -eu
cd "$(dirname "$0")/.."
extra=${1:-}

fail() {
    echo "$*" >&2
    exit 1
}

suitable() { # whether $1 is a Python that can run Rushlight
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if suitable "$name"; then
            echo "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed (found none as: ${PYTHON:-python3 python3.11 to .14});" \
        "install it, or name one: make PYTHON=/path/to/python3"
}

# The folder is part of the key because scripts in .venv/bin name it.
key=$( (pwd; cat pyproject.toml hatch_build.py) | sha256sum | cut -d ' ' -f 1)
stamp=.venv/stamp${extra:+-$extra}
if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && suitable .venv/bin/python; then
    exit 0
fi

if ! suitable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "python3-venv is missing; install it (Debian: apt-get install python3-venv)" \
            "and run make again"
    echo "Making .venv with $("$python" --version) ..."
    rm -rf .venv
    "$python" -m venv .venv
fi

echo "Installing Rushlight${extra:+ and its $extra tools} into .venv ..."
.venv/bin/python -m pip install -qq --disable-pip-version-check -e ".${extra:+[$extra]}"
echo "$key" >"$stamp"
echo "$key" >.venv/stamp
