#!/bin/sh
# Say at once all that `make test` would miss on this machine, before anything is installed.
set -eu
missing=""

need() { # what is missing, and the way out
    missing="$missing
  $1: $2"
}

has() {
    command -v "$1" >/dev/null
}

# Root has apt-get install what Debian carries; anybody else needs it on the machine.
installs=no
if [ "$(id -u)" = 0 ] && has apt-get; then
    installs=yes
fi

has git || need git "install it (Debian: apt-get install git)"
suitable=""
for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        suitable=$name
        break
    fi
done
if [ -z "$suitable" ]; then
    need "Python 3.11 or newer" "install it, or name one: make test PYTHON=/path/to/python3"
elif ! "$suitable" -c 'import venv, ensurepip' 2>/dev/null; then
    need "Python's venv" "install it (Debian: apt-get install python3-venv)"
fi
if [ "$installs" = no ]; then
    if [ "$(uname)" = Linux ] && ! ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json \
        >/dev/null 2>&1; then
        need "a Vulkan driver" \
            "install one (Debian: apt-get install mesa-vulkan-drivers libvulkan1)"
    fi
fi
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$free" -lt 8 ]; then
    need "room on the disk" "8 GB are needed for packages, models and sites; $free GB are free"
fi

if [ -n "$missing" ]; then
    echo "make test needs what this machine has not:$missing" >&2
    exit 1
fi
