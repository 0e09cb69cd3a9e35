#!/usr/bin/env bash
# Installs the real servers of test_real_servers.py into tests/node_modules, at the versions of package-lock.json.
set -euo pipefail
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "npm is not here: the tests of real servers will be skipped" >&2; exit 0; }
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
