#!/bin/sh
# Fetches GitHub's own description of its API (npm, 13 MB, never committed) for the contract tests.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --no-save --prefix .tools @octokit/openapi@23
ls .tools/node_modules/@octokit/openapi/generated/api.github.com.json
