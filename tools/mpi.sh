#!/bin/sh
# Make sure that tests of several processes find mpirun: Debian's Open MPI (needs root).
set -eu

if command -v mpirun >/dev/null; then
    exit 0
fi

if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Open MPI with apt-get ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openmpi-bin
fi
