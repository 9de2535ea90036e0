"""What no editor of manifests writes: bytes flipped and lost, bombs, odd line breaks, enormous and deep values."""

from tests.fuzz.rewriting import Mutation

# A byte that is no UTF-8 is written as the surrogate that `surrogateescape` makes of it.
_ODD = (
    "\0", "\udcff", "\udcc3", "\x07", "\x85", "\u2028", "\u2029", "\ufeff", "\r", "\t", "\x1b", "\ufffe", "\x7f",
    "\v", "\f", "\udced\udca0\udc80", "\udcf4\udc90\udc80\udc80", "\U0010ffff", "\xa0", "\u200b", "[", "{", "]", "}",
    ",", "&", "*", "!", "|", ">", "'", '"', "#", "%", "@", "`", "?", ":", "-", "<<", "\\", "---", "...", "\n", " ",
    "~", "$", "0", "9" * 400,
)  # fmt: skip
_PIECES = ("9", "x", "a ", "é", "'", "\\n", "${", "{{", "a.", "- ", "1_", "a,", "\n", "#", "e", "<<: ", "1e")
_OPENINGS = ("[", "{a: ", "- ", "? ", "[a: ", "&a [", "!x [", "- - ", "{? ", "- ? ")


def insert_odd(text: str, place: int, number: int) -> str:
    """Insert what means something in YAML, or must not be there."""
    index = place % (len(text) + 1)
    return text[:index] + _ODD[number % len(_ODD)] + text[index:]


def flip_byte(text: str, place: int, number: int) -> str:
    """Change one bit of one byte."""
    encoded = bytearray(text.encode(errors="surrogateescape"))
    if encoded:
        encoded[place % len(encoded)] ^= 1 << number % 8
    return encoded.decode(errors="surrogateescape")


def lose_bytes(text: str, place: int, number: int) -> str:
    """Lose some characters, or all behind a place."""
    start = place % (len(text) + 1)
    return text[:start] + (text[start + number % 40 :] if number % 4 else "")


def move_text(text: str, place: int, number: int) -> str:
    """Move a stretch to another place."""
    start, target = place % (len(text) + 1), number % (len(text) + 1)
    moved, rest = text[start : start + 60], text[:start] + text[start + 60 :]
    return rest[:target] + moved + rest[target:]


def nest(text: str, place: int, number: int) -> str:
    """Open more levels than anybody needs, behind a colon or in place of all."""
    opening, depth = _OPENINGS[number % len(_OPENINGS)], (3, 40, 99, 101, 3_000)[place % 5]
    nested = opening * depth + ("]" * depth if opening == "[" and place % 2 else "")
    colon = text.find(": ", place % (len(text) + 1))
    return nested if colon < 0 else text[: colon + 2] + nested + text[colon + 2 :]


def swell(text: str, place: int, number: int) -> str:
    """Make one value enormous."""
    colon = text.find(": ", place % (len(text) + 1))
    enormous = _PIECES[number % len(_PIECES)] * (200, 4_000)[place % 2]
    return text[: colon + 2] + enormous + text[colon + 2 :]


def bomb(text: str, place: int, number: int) -> str:
    """Put towers of aliases above everything, and use the highest."""
    width, height = 2 + place % 9, 2 + number % 9
    shapes = ("[{}]", "{{<<: [{}]}}", "[{}, 1]")
    tower = ["x0: &x0 {a: 1, b: [2]}"]
    for level in range(1, height):
        members = ", ".join([f"*x{level - 1}"] * width)
        tower.append(f"x{level}: &x{level} {shapes[number % 3].format(members)}")
    return "\n".join(tower) + "\n" + text.replace("metadata:", f"metadata:\n  <<: *x{height - 1}", place % 2)


def widen_bytes(text: str, place: int, number: int) -> str:
    """Write it in another encoding."""
    del place
    encoding = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252")[number % 6]
    return text.encode(encoding, errors="replace").decode(errors="surrogateescape")


BREAKAGES: tuple[Mutation, ...] = (
    insert_odd, insert_odd, insert_odd, flip_byte, lose_bytes, move_text, nest, swell, bomb, widen_bytes,
)  # fmt: skip
