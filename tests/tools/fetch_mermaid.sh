#!/bin/sh
# Fetches what draws charts in pull requests (npm, 3.5 MB, never committed), for make_pictures.py.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix .tools/mermaid mermaid@12
mkdir -p .tools/pictures
cp .tools/mermaid/node_modules/mermaid/dist/mermaid.min.js .tools/pictures/
rm -r .tools/mermaid
ls .tools/pictures/mermaid.min.js
