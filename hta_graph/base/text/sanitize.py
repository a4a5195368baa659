"""Texts that others wrote, made safe to show: nothing in them moves a cursor or hides anything."""

from __future__ import annotations

import os
import re

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is not shown but does something: controls, marks of direction, surrogates, line ends."""
REPLACEMENT = "\ufffd"
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
# Joiners are part of words in Persian and Hindi and of emoji; beside ASCII and each other they only hide.
STRAY_JOINER = re.compile("(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])")


class _ShownCharacters(dict[int, int]):
    """What each character is shown as, filled as characters are met."""

    def __missing__(self, code: int) -> int:
        from unicodedata import category  # late: most texts have nothing to hide

        is_hidden = category(chr(code)) in HIDDEN and code not in (0x200C, 0x200D)
        return self.setdefault(code, ord(REPLACEMENT) if is_hidden else code)


_SHOWN = _ShownCharacters()


def sanitize(text: str) -> str:
    r"""Return a text without characters that move a cursor, colour, hide or turn what follows; its length stays.

    >>> sanitize("a\x1b[2J\u202eb\n\udcff"), sanitize("naïve 内核 👩‍💻 می‌خواهم")
    ('a\ufffd[2J\ufffdb\ufffd\ufffd', 'naïve 内核 👩\u200d💻 می\u200cخواهم')
    """
    if text.isprintable():
        return text
    return STRAY_JOINER.sub(REPLACEMENT, text.translate(_SHOWN))


def sanitize_lines(text: str) -> str:
    r"""Do the same with each line of a text.

    >>> sanitize_lines("a\n\x9bb\n")
    'a\n\ufffdb\n'
    """
    return "\n".join(map(sanitize, text.split("\n")))


def one_line(text: str) -> str:
    r"""Return a text as one printable line, with one space for each run of white space.

    >>> one_line("a\n  b\x1b[2J")
    'a b\ufffd[2J'
    """
    return sanitize(" ".join(text.split()))


def replace_surrogates(text: str) -> str:
    r"""Return a text without what no encoding can write: bytes that were not UTF-8, and lone halves of characters.

    >>> replace_surrogates("a\ud83db")
    'a\ufffdb'
    """
    return text if text.isascii() else HALF_CHARACTER.sub(REPLACEMENT, text)


def encodable_path(path: object) -> str:
    """Return a path as text that can be encoded, for documents; file names need not be UTF-8."""
    return os.fsencode(str(path)).decode("utf-8", "replace")
