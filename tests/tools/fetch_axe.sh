#!/bin/sh
# Fetches what checks pages for accessibility (npm, 3 MB, never committed), for tests/integration/test_pages.py.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix .tools/axe axe-core@4
cp .tools/axe/node_modules/axe-core/axe.min.js .tools/axe.min.js
rm -r .tools/axe
ls .tools/axe.min.js
