"""One redactor for all doors: what it takes out, and what it leaves as it is."""

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.http.redaction import MAX_SHOWN, REDACTED, Redactor, secret_forms

SECRET = 't0p/s+cret k"y'
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJlLWNhbmFyeQ"


@pytest.mark.parametrize("form", secret_forms(SECRET, f"robot:{SECRET}"))
def test_a_secret_that_was_given_is_hidden_in_every_spelling(form: str) -> None:
    assert Redactor((SECRET, f"robot:{SECRET}")).show(f"before [{form}] after") == "before [***] after"


def test_the_spellings_are_what_urls_json_and_basic_authentication_make_of_a_secret() -> None:
    assert set(secret_forms("a/b c")) >= {"a/b c", "a%2Fb%20c", "a%2Fb+c", "YS9iIGM=", "YS9iIGM"}
    assert base64.b64encode(b"robot:a/b c").decode() in secret_forms("robot:a/b c")
    assert secret_forms("") == secret_forms() == ()


@pytest.mark.parametrize(
    "token",
    [
        "ghp_abcDEF123",
        "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghu_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghs_1234_eyJhbGciOi.JSUzI1NiJ9-abc",
        "ghr_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0_abcdefghijklmnop",
        "glpat-ABCdef-123_456xyz",
        "glpat-abcdefghijklmnopqrstuvwxyzABCDEF.01.1a2b3c4d5",
        "gldt-ABCdef-123_456xyz",
        "glrt-ABCdef-123_456xyz",
        "glcbt-64_ABCdef123456xyz",
        JWT,
    ],
)
@pytest.mark.parametrize("frame", ["remote: {} was refused", "https://host/?x=%3D{}&y", "['{}']", '{{"a":"{}"}}', "{}"])
def test_an_unknown_token_is_recognised_by_its_shape(token: str, frame: str) -> None:
    if token == JWT:
        frame = frame.replace("%3D", "=")
    shown = Redactor().show(frame.format(token))
    assert REDACTED in shown
    assert token not in shown
    assert token[-8:] not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://bob:hunter2@example.com/x", "at https://***@example.com/x"),
        ("at https://bob:p@ss:w@example.com/x", "at https://***@example.com/x"),
        ("at ssh://git@example.com", "at ssh://***@example.com"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Authorization: ***"),
        ("proxy-authorization:Digest user=bob, response=0a1b", "proxy-authorization:***"),
        ("{'Authorization': 'token abc', 'Accept': '*/*'}", "{'Authorization': '***', 'Accept': '*/*'}"),
        ('{"PRIVATE-TOKEN": "abc"}', '{"PRIVATE-TOKEN": "***"}'),
        ("Set-Cookie: session=1; Path=/\nContent-Length: 2", "Set-Cookie: *** Content-Length: 2"),
        ("what is Bearer c2VjcmV0LWNhbmFyeS0x?", "what is Bearer ***?"),
        ("GET /x?page=2&private_token=abc&per_page=9", "GET /x?page=2&private_token=***&per_page=9"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a *** b"),
        ("a -----BEGIN PRIVATE KEY-----\nMII", "a ***"),
    ],
)
def test_what_carries_a_secret_is_emptied(text: str, shown: str) -> None:
    assert Redactor().show(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/acme/fleet?page=2#x@y: 404, check the repository's name",
        "the token in environment variable RECONCILER_FORGE_TOKEN was refused",
        "basic authentication-required by global-llama-7b-instruct and glass-house-of-models",
        "commit 0123456789abcdef0123456789abcdef01234567 of git@github.com:acme/fleet.git",
        "expected a bearer or basicAuth, found both",
        "highest_value of eyJ, eyJab.c",
    ],
)
def test_what_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert Redactor(("canary",)).show(text) == text


def test_what_is_shown_is_one_short_printable_line() -> None:
    shown = Redactor().show("a\x1b[31m\r\nb\u202e\u200bc\x85" + "x" * 10_000)
    assert shown.startswith("a [31m b c x")
    assert len(shown) == MAX_SHOWN + len("...")


def test_no_part_of_a_secret_stays_where_a_text_is_cut() -> None:
    for room in range(MAX_SHOWN - 30, MAX_SHOWN + 5):
        assert "cana" not in Redactor(("canary-0123456789",)).show("x" * room + "canary-0123456789" * 3)


def test_hiding_alone_keeps_lines() -> None:
    assert Redactor(("s3cret",)).hide("one s3cret\n\ttwo\r\n") == "one ***\n\ttwo\r\n"


def test_bytes_of_any_encoding_lose_their_secrets_and_nothing_else() -> None:
    redactor = Redactor(("pässwörd",))
    for encoding in ("utf-8", "latin-1"):
        content = b"\xff\x00 " + "pässwörd".encode(encoding) + b' {"error":"Bearer '
        assert redactor.hide_bytes(content) == b'\xff\x00 *** {"error":"Bearer '


@given(st.binary())
def test_bytes_without_secrets_are_kept(content: bytes) -> None:
    assert Redactor(("no such thing in here",)).hide_bytes(content) == Redactor().hide_bytes(content)


@given(st.text(min_size=1).filter(lambda secret: "*" not in secret), st.text(), st.text())
def test_any_secret_is_taken_out(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor((secret,)).hide(before + secret + after)


def test_a_redactor_shows_no_secret_itself() -> None:
    assert "canary" not in repr(Redactor(("canary",)))


@pytest.mark.parametrize(
    "word", ["eyJ", "://", "gh", "ghp_", "eyJaaaaaa.", "authorization:", "-----BEGIN PRIVATE KEY-----", "@", "Basic "]
)
def test_a_hostile_text_is_read_in_linear_time(word: str) -> None:
    started_s = time.process_time()
    Redactor(("canary",)).hide(word * (1_000_000 // len(word)))
    assert time.process_time() - started_s < 2.0
