#!/bin/sh
# Fetches commitlint with its conventional rules (npm, 63 MB, never committed), for the tests of commit messages. In a
# folder of its own: npm removes what it did not install itself.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .tools/commitlint
echo '{"private": true}' >.tools/commitlint/package.json
npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix .tools/commitlint \
    @commitlint/cli@20.5.3 @commitlint/config-conventional@20.5.3
.tools/commitlint/node_modules/.bin/commitlint --version
