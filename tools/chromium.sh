#!/bin/sh
# Make sure that the browser tests find a Chromium: Debian's (needs root), or Playwright's.
set -eu
cd "$(dirname "$0")/.."

for name in chromium chromium-browser; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium with apt-get ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        chromium fonts-liberation
else
    .venv/bin/playwright install chromium
fi
