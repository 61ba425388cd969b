#!/bin/sh
# Make sure that wgpu-py finds an adapter: the machine's own, or Mesa's lavapipe (needs root).
set -eu

for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d; do
    if ls "$folder"/*.json >/dev/null 2>&1; then
        exit 0
    fi
done

if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing a Vulkan driver (lavapipe) with apt-get ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        mesa-vulkan-drivers libvulkan1
fi
