#!/bin/sh
# Fetches GitHub's own description of its API and types made from Gitea's (npm, 14 MB, never committed) for contract tests.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --no-save --prefix .tools @octokit/openapi@23 gitea-js@1.23
ls .tools/node_modules/@octokit/openapi/generated/api.github.com.json
