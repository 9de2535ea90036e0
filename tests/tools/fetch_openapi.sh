#!/bin/sh
# Fetches GitHub's own descriptions of its APIs and types made from Gitea's (npm, 30 MB, never committed) for contract tests.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --no-save --prefix .tools @octokit/openapi@23 @octokit/graphql-schema@15 gitea-js@1.23
ls .tools/node_modules/@octokit/openapi/generated/api.github.com.json
