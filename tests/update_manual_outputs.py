"""The outputs that the manual shows, from real runs: ``python -m tests.update_manual_outputs [--write] [PAGE…]``.

Without ``--write`` it says of each page how many blocks are run, which are not and why, and which outputs differ. With
it the blocks ``text`` that differ are renewed; of one that is cut by lines ``…`` as many lines are kept before, between
and behind these as it had, the most similar ones. An empty block gets the whole output.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.manual_pages import Block, blocks, external_hosts, pages
from tests.support.manual_runs import CUT, demo_folder, difference_of_texts, parts_of, run_page, trimmed_lines


def renewed_pages(chosen: Sequence[Path], *, write: bool) -> list[str]:
    """Run pages and return a line for each output that differs; write them where that is asked for."""
    said = []
    for page in chosen:
        with TemporaryDirectory() as parent:
            outputs = list(run_page(page, demo_folder(Path(parent) / "demo")))
        changed = [(block, printed) for block, printed in outputs if difference_of_texts(block.text, printed)]
        said += [f"{block.place}: {difference_of_texts(block.text, printed)}" for block, printed in changed]
        if write and changed:
            page.write_text(renewed_text(page, changed), encoding="utf-8")
    return said


def renewed_text(page: Path, changed: Sequence[tuple[Block, str]]) -> str:
    """Return a page with the outputs of some of its blocks anew."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block, printed in reversed(changed):
        fence = lines[block.line - 1]
        indent = fence[: len(fence) - len(fence.lstrip())]
        cut = [f"{indent}{line}".rstrip() for line in cut_output(block.text, printed)]
        lines[block.line : block.line + block.text.count("\n")] = cut
    return "\n".join(lines) + "\n"


def cut_output(shown: str, printed: str) -> list[str]:
    r"""Return an output cut as a page shows it.

    >>> cut_output("a 1\n…\nc 1\n", "a 2\nb 2\nc 2\n")
    ['a 2', '…', 'c 2']
    """
    real, parts = trimmed_lines(printed), parts_of(shown)
    if len(parts) == 1:
        return real
    first, *inner, last = parts
    kept, place, end = [real[: len(first)]], len(first), len(real) - len(last)
    for part in inner:
        place = most_similar(part, real[:end], place)
        kept.append(real[place : place + len(part)])
        place += len(part)
    kept.append(real[max(end, place) :] if last else [])
    return [line for number, part in enumerate(kept) for line in ([CUT] if number else []) + part]


def most_similar(part: Sequence[str], real: Sequence[str], place: int) -> int:
    """Return from which line on an output is most like a part."""
    starts = range(place, max(place, len(real) - len(part)) + 1)

    def likeness(start: int) -> float:
        there = "\n".join(real[start : start + len(part)])
        return SequenceMatcher(None, "\n".join(part), there, autojunk=False).ratio()

    return max(starts, key=likeness)


def counted_blocks(page: Path) -> str:
    """Return a line about a page's blocks: how many are run, and which are not, and why."""
    here = [block for block in blocks(page) if block.is_code]
    left = [f"\n    line {block.line} not run: {block.why_not}" for block in here if block.why_not]
    return f"{page.name}: {len(here) - len(left)} of {len(here)} blocks run{''.join(left)}"


def main() -> None:
    """Check or renew the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the outputs that differ")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    options = parser.parse_args()
    chosen = [page.resolve() for page in options.pages] or pages()
    lines = [counted_blocks(page) for page in chosen] + renewed_pages(chosen, write=options.write)
    hosts = Counter(host for page in chosen for host in external_hosts(page))
    print(*lines, f"links elsewhere: {dict(sorted(hosts.items()))}", sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
