"""Recordings are shared: what in them may be a secret is left out, or replaced."""

import logging
import random
import re
import zipfile
from textwrap import indent

import pytest

from reconciler.domain.recording import ManifestFile
from reconciler.manifests.documents import parse_readable
from reconciler.pipeline.confidential import ASSIGNED, NAMED, may_hold_secrets, without_secrets
from reconciler.pipeline.prepare import prepare
from reconciler.pipeline.recording import read_recording
from reconciler.pipeline.run import warning_of
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from tests.servers.desk import BUSY, QUIET, Desk
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT

KUSTOMIZATION = "kind: Kustomization\nsecretGenerator:\n  - name: db\n"
SECRET = "kind: Secret\nmetadata: {name: db}\nstringData:\n  a: canary\n  b: |\n    canary\n    canary\n"
CONFIG_MAP = "kind: ConfigMap\ndata:\n  all.yaml: |\n"
SUSPICIOUS = {
    "a literal": KUSTOMIZATION + "    literals: [password=canary, 'user=canary=', \"a=canary\"]\n",
    "literals of an object": KUSTOMIZATION + "    literals:\n      - &x key=canary\n      - |\n        key=canary\n",
    "an object in a text": CONFIG_MAP + indent(SECRET, "    "),
    "an object in a list in a text": CONFIG_MAP + indent("items:\n  - " + indent(SECRET, "    ")[4:], "    "),
    "an object in a template": CONFIG_MAP + indent("{{ if .a }}\n" + SECRET + "{{ end }}\n", "    "),
    "an object in quotes": 'data: {a.json: \'{"kind": "Secret", "data": {"a": "canary"}}\'}\n',
    "an object in escapes": 'data: {a.json: "{\\"kind\\": \\"Secret\\", \\"data\\": {\\"a\\": \\"canary\\"}}"}\n',
    "values of a chart": "image: {tag: v1}\nauth:\n  adminPassword: canary  # the old one: password=canary\n",
    "values of a release": "spec:\n  values:\n    auth: {apiKey: canary, password: 'ca''nary', token: \"canary\"}\n",
    "values of an application": "valuesObject: {hf: {token: canary}}\n",
    "values in a text": "helm:\n  values: |\n    # to change\n    auth:\n      password: canary\n    n: 1\n",
    "values with an object": "helm:\n  values: |\n    extraObjects:\n      - " + indent(SECRET, " " * 8)[8:],
    "a parameter": "parameters:\n  - name: auth.password\n    value: canary\n  - {value: canary, name: a.apiKey}\n",
    "all below a name": "secrets:\n  hf: canary\n  more: [canary, {a: canary}]\n",
    "other names": "smtp_pass: canary\ndata: {tls.key: canary}\nSECRET_KEY_BASE: canary\nprivateKeyPem: canary\n",
    "merged": "a:\n  <<: {password: canary}\n  b: 1\n",
    "an anchor and a tag": "password: &a !!str canary\ntoken: *a\n",
    "an object without values": CONFIG_MAP + "    kind: Secret\n    data:\n      a: canary\n      b:\n    c: 1\n",
    "digits": "password: 12345canary\n",
    "several lines": "password: canary\n  canary\ntoken: 'canary\n\n  canary'\nz: {token: \"canary\n  canary\"}\n",
    "a block": "private_key: >-\n  canary\n  canary\nz: 1\n",
    "a key": "data:\n  tls.key: |\n    -----BEGIN PRIVATE KEY-----\n    canary\n    -----END PRIVATE KEY-----\n",
    "a patch": "patches:\n  - patch: |-\n      - op: replace\n        path: /data/password\n        value: canary\n",
    "a variable": "env:\n  - name: HF_TOKEN\n    value: canary\n  - name: OPENAI_KEY\n    value: canary\n",
    "a variable on one line": "env: [{name: API_KEY, value: canary}]\n",
    "an argument": "args: [--api-key=canary, --port=80, --api-key, canary, '--api-key canary --port 80']\n",
    "a script": "command: [sh, -c, 'HF_TOKEN=canary exec vllm']\nargs:\n  - |\n    export API_KEY=canary\n    vllm\n",
    "a token by its shape": "args: [ghp_0123456789canaryABCDEF]\n",
    "a connection": "url: postgres://ann:canary@db/fleet\ndsn: 'host=db password=canary dbname=x'\n",
    "escapes": 'config: "{\\"password\\": \\"canary\\", \\"port\\": 1}"\n',
    "a file that is no YAML": "a: [\npassword: canary\n",
    "JSON": '{"auth": {"password": "canary"}, "port": 80}\n',
    "literals of an anchor": "x: &l [a=canary]\nsecretGenerator: [{name: x, literals: *l}]\nother: *l\n",
    "literals of a merge": "x: &b {literals: [a=canary]}\nsecretGenerator:\n- <<: *b\n  name: x\n",
    "a generator": "apiVersion: builtin\nkind: SecretGenerator\nliterals: [a=canary]\n",
    "a generator in a text": "generators:\n- |\n  kind: SecretGenerator\n  literals: [a=canary]\n",
    "a remark on a literal": KUSTOMIZATION
    + "    literals:\n      - a=canary # canary, '# of old'\n      - 'b=#canary'\n",
    "a list of objects": CONFIG_MAP + "    kind: SecretList\n    items:\n    - data: {x: canary}\n",
    "bytes of a map": "kind: ConfigMap\nbinaryData: {a: canary}\n",
    "a patch of an object": "patches:\n- target: {kind: Secret}\n  patch: |\n    - op: add\n      value: canary\n",
    "a patch of its data": "patch: |\n  - {op: replace, path: /stringData/x, value: canary}\n",
    "XML": CONFIG_MAP + '    <db><password>canary</password><x apiKey="canary"/></db>\n',
    "netrc": CONFIG_MAP + "    machine x login ann password canary\n",
    "curl": "command: [sh, -c, 'curl -u ann:canary --user ann:canary http://x']\n",
    "a signed address": "a: https://x/?a=1&sig=canary\nb: https://x/?X-Amz-Signature=canary\n",
    "names of charts": "rootPw: canary\ndb_pw: canary\nbasicAuth: canary\ndockerconfigjson: canary\nsalt: canary\n"
    "REDISCLI_AUTH: canary\nslackWebhook: canary\nwebhookUrl: canary\n",
    "a key in escapes": '"pass\\u0077ord": canary\n"\\x74oken": canary\n"api\\U0000005Fkey": canary\n',
    "a key over two lines": '? "pass\\\n  word"\n: canary\n',
    "a key of JSON in escapes": 'data: {a.json: \'{"pass\\u0077ord": "canary"}\'}\n',
    "a key of JSON in a text": CONFIG_MAP + '    {"api\\u005fkey": "canary", "port": 1}\n',
    "escapes in escapes": 'a: "{\\"pass\\\\u0077ord\\": \\"canary\\"}"\n',
    "a kind in escapes": 'data: {a.json: \'{"kind": "Secr\\u0065t", "data": {"a": "canary"}}\'}\n',
    "a kind in escapes in a template": CONFIG_MAP
    + '    {{ if .a }}\n    {"kind": "Secr\\u0065t", "a": "canary"}\n    {{ end }}\n',
    "an address in escapes": "url: https://x/?pass%77ord=canary&a=1\n",
    "XML in escapes": CONFIG_MAP + '    <a name="x">pass&#119;ord=canary</a>\n',
    "a shell's escapes": "args: [\"export $'pass\\\\167ord'=canary\"]\n",
    "a remark in escapes": "a: 1 # pass\\u0077ord=canary\n",
    "a name in escapes": 'env: [{name: "API\\x5FKEY", value: canary}]\n',
    "colons": "args: ['--api_key:canary', --hf-token:canary, '-token canary', '-api-key:canary', 'api_key:canary']\n",
    "colons in a script": "args:\n- |\n  vllm --api_key:canary --port:80\n  HF_TOKEN:canary\n",
    "an option over two lines": "args:\n- |\n  vllm serve --api-key \\\n    canary \\\n    --port 80\n",
    "a name over two lines": "args:\n- |\n  export HF_TO\\\n  KEN=canary\n  x --api-\\\n  key canary\n",
    "a folded option": "args:\n- >-\n  vllm serve --api-key\n  canary --port 80\n",
    "a list in a text": 'a: \'["--api-key", "canary"]\'\n',
    "a list in a script": "a: |\n  run('--api-key', 'canary')\n",
    "an option in escapes": 'args: ["--api%5fkey", canary]\n',
    "a word with quotes in it": 'args:\n- |\n  export HF_TO\'\'KEN=canary\n- "export HF_TO\\"\\"KEN=canary"\n',
    "a word with a part in quotes": "a: |\n  export HF_TO'KEN'=canary\nb: |\n  export \"HF_TO\"KEN=canary\n"
    "c: |\n  'HF_'TO\"KE\"N=canary\n",
    "a word with a backslash": "a: |\n  export HF_TO\\KEN=canary\n",
    "CRLF": "auth:\r\n  password: canary\r\n  key_data: |\r\n    canary\r\n  port: 80\r\n",
}
HARMLESS = {
    "a reference": "imagePullSecrets:\n  - name: registry\nvolumes: [{secret: {secretName: tls}}]\n",
    "a variable from elsewhere": "env:\n  - name: HF_TOKEN\n    valueFrom: {secretKeyRef: {name: hf, key: token}}\n",
    "numbers": "maxTokens: 512\nbatch_tokens: 2048\nargs: [--max-num-batched-tokens=8k, --max-model-len, 8k]\n",
    "switches": "automountServiceAccountToken: false\nargs: [--trust-remote-code, --tokenizer=a/b]\n",
    "nothing in it": "password: ''\ntoken:\nsecret: {}\n",
    "names with colons": "image: acme/token:v1\nb: 'acme/team/webhook:v2'\nquery: 'm:token:rate5m'\na: --token:8080\n",
    "tags and series with colons": "image: vllm-token:v1\nb: {image: acme-secret:v1.2}\n"
    "args: [--served-model-name llm-token:a]\n"
    "query: sum(llm_token:rate5m)\nq: prompt_token:sum[5m]\n",
    "an option that continues": "args:\n- |\n  vllm serve --enable-token \\\n    --port 80\n",
    "escapes": 'a: "caf\\u00e9\\x20"\nb: label=~"a%2Fb\\\\d" # \\u0041\n',
    "quotes": "a: don't, it's 'quoted'\nb: 'it''s'\nc: |\n  echo a'b'c \"d\"e x\\y\n  [\"token\",\"b\"]\n",
    "put in later": "password: ${DB_PASSWORD}\nargs: [--api-key=$(API_KEY)]\n",
    "other keys": "topologyKey: zone\ntolerations: [{key: nvidia.com/gpu, operator: Exists}]\n",
}


def shape(value: object) -> object:
    """A value with its keys and lengths, without its texts."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else isinstance(value, str)


def shared(*files: tuple[str, str]) -> list[str]:
    """The files as they are recorded."""
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files]
    once = list(without_secrets(manifests))
    assert list(without_secrets(once)) == once
    return [each.body.decode() for each in once]


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_what_may_be_a_secret_is_replaced_and_nothing_else_moves(name: str) -> None:
    before = SUSPICIOUS[name]
    (after,) = shared(("kustomization.yaml", before))
    assert "canary" not in after
    assert after.count("\n") == before.count("\n")
    documents, errors = parse_readable("a.yaml", before.encode())
    documents_after, errors_after = parse_readable("a.yaml", after.encode())
    assert [shape(each.value) for each in documents_after] == [shape(each.value) for each in documents]
    assert [each.lines for each in documents_after] == [each.lines for each in documents]
    assert errors_after == errors or [each.message for each in errors_after] == [each.message for each in errors]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_none_is_kept(name: str) -> None:
    assert shared(("kustomization.yaml", HARMLESS[name])) == [HARMLESS[name]]


def test_the_rest_of_a_file_is_kept() -> None:
    text = "args: [--api-key=canary, --max-num-seqs=64]\nurl: https://ann:canary@db/a  # here\n"
    assert shared(("a.yaml", text)) == ["args: [--api-key=***, --max-num-seqs=64]\nurl: https://***@db/a  # here\n"]


def test_a_list_that_is_set_again_hides_nothing() -> None:
    (text,) = shared(("kustomization.yaml", KUSTOMIZATION + "    literals: [a=canary]\n" + KUSTOMIZATION[20:]))
    assert "canary" not in text


@pytest.mark.parametrize("body", [b"password: canary\xe9\n", b"password: canary\0\n", b"\xff\xfecanary"])
def test_a_file_that_is_no_text_keeps_its_error_alone(body: bytes) -> None:
    manifest = ManifestFile(path="a.yaml", body=body)
    (found,) = without_secrets([manifest])
    assert b"canary" not in found.body
    assert [str(each) for each in parse_readable("a", found.body)[1]] == [str(parse_readable("a", body)[1][0])]


def test_files_that_secrets_are_generated_from_hold_none() -> None:
    lists = "    files: [all.yaml, x=../b.json]\n    envs: [c.yaml]\n"
    texts = shared(
        ("base/kustomization.yaml", KUSTOMIZATION + lists),
        ("base/all.yaml", "a: canary\nb: {c: [canary, 5]}\n"),
        ("b.json", '{"auths": {"x": "canary"}}\n'),
        ("base/c.yaml", "A=canary\nB={canary\n: [\n"),
        ("c.yaml", "a: stays\n"),
    )
    assert "canary" not in "".join(texts)
    assert texts[-1] == "a: stays\n"


def test_of_many_files_a_few_are_named_and_the_rest_counted() -> None:
    manifests = [ManifestFile(path=f"{number}.yaml", body=b"password: x") for number in range(8)]
    assert warning_of(manifests).endswith("3.yaml, 4.yaml and 3 more")


HIDDEN = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: bundle}
data:
  all.yaml: |
    kind: Secret
    stringData: {a: canary}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: db}
spec:
  chart: {spec: {chart: db, sourceRef: {kind: HelmRepository, name: x}}}
  values: {auth: {password: canary}, url: "postgres://ann:canary@db/x"}
"""


def test_a_recording_holds_no_secret_and_its_replay_gives_the_same_plan(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    annotated = b"---\nkind: Service\nmetadata: {annotations: {example.com/password: canary}}\n"
    desk.write("clusters/prod/chat/deployment.yaml", CHAT_DEPLOYMENT + annotated)
    desk.write("clusters/prod/hidden.yaml", HIDDEN)
    desk.write("clusters/prod/db/kustomization.yaml", KUSTOMIZATION + "    literals: [a=canary]\n    files: [s.yaml]\n")
    desk.write("clusters/prod/db/s.yaml", "a: canary\n")
    path = desk.folder / "recording.zip"
    with caplog.at_level(logging.WARNING):
        prepared = desk.plan(BUSY, record=path)
    assert "look before you share it: clusters/prod/chat/deployment.yaml, " in caplog.text
    with zipfile.ZipFile(path) as archive:
        assert {"clusters/prod/db/s.yaml", "clusters/prod/hidden.yaml"} <= {
            name.removeprefix("manifests/") for name in archive.namelist()
        }
        assert not any(b"canary" in archive.read(name) for name in archive.namelist())
    replayed = prepare(read_recording(path), Renderer())
    assert prepared.edited.change_sets
    assert plan_json(replayed.plan) == plan_json(prepared.plan)
    (drafted,), (redrafted,) = prepared.edited.change_sets, replayed.edited.change_sets
    assert redrafted.changes == drafted.changes
    assert [body.replace(b"canary", b"'***'") for body in drafted.files.values()] == list(redrafted.files.values())


BROKEN_SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: canary-in-git\n"


def test_a_secret_that_cannot_be_parsed_is_left_out_with_its_file(desk: Desk) -> None:
    text = CHAT_VARIANT.replace("name: llama", "name: x")
    desk.write("clusters/prod/secret.yaml", text + BROKEN_SECRET)
    path = desk.folder / "recording.zip"
    prepared = desk.plan(QUIET, record=path)
    with zipfile.ZipFile(path) as archive:
        assert not any(b"canary-in-git" in archive.read(name) for name in archive.namelist())
    assert any(finding.place.path == "clusters/prod/secret.yaml" for finding in prepared.plan.findings)
    assert plan_json(prepare(read_recording(path), Renderer()).plan) == plan_json(prepared.plan)


def test_nothing_that_is_replaced_is_passed_over_unread() -> None:
    """The quick look at a file finds whatever the slow one would act on."""
    pieces = [
        "pass",
        "pwd",
        "word",
        "secret",
        "credential",
        "key",
        "api",
        "data",
        "base",
        "hash",
        "s",
        "token",
        "_",
        "-",
    ]
    pieces += [".", ": ", "=", '"', "x", "--", " ", "\n", "private", "license", "authorization", "bearer ", "://u:p@h"]
    drawn = random.Random(7)  # noqa: S311 - the same texts each time
    texts = [
        "".join(drawn.choices(pieces, k=drawn.randint(1, 6))) + drawn.choice(["", ": a", "=a", " a"])
        for _ in range(20_000)
    ]
    acted = [
        each for each in texts if ASSIGNED.search(each) or any(map(NAMED.search, re.findall(r"[\w.-]+(?==|:|$)", each)))
    ]

    assert len(acted) > 2_000
    assert [each for each in acted if not may_hold_secrets(each)] == []
    assert sum(map(may_hold_secrets, texts)) < len(texts) * 0.8


def test_lines_that_were_looked_at_are_not_looked_at_again() -> None:
    texts = [
        "a: b\npassword: x\n",
        "a: b\nc: d\n",
        "c: d\ne: 'f'\n",
        "c: d\npassword: x\n",
        "c: d",
        "g: h\\\n",
        "i\n_key: x",
        "key\ni_",
    ]
    plain = set[str]()

    assert [may_hold_secrets(each, plain) for each in texts] == [may_hold_secrets(each) for each in texts]
    assert plain == {"a: b\n", "c: d\n", "e: 'f'\n", "c: d", "key\n", "i_"}
