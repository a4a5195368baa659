"""Names of kernels, operators and frames as people read them: demangled, short, cut in the middle, still distinct."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from hta_graph.base.text.sanitize import one_line

FRAME = re.compile(r"(?:.*/)?([^/]+\.py\(\d+\): .*)", re.DOTALL)
# A generic kernel is named by what remains in front of its arguments: without the prefix nothing would say what it is.
PREFIX = re.compile(r"^nccl(Dev)?Kernel_(?!Generic)(?=\w)|^autograd::engine::evaluate_function: |^nn\.Module: ")
FUNCTION = re.compile(r"[\w:~]+[<(]")
DISTINCTIVE = re.compile(r"[Ff]unctor|_kernel|Kernel|Ops$|gemm|Gemm|fprop|dgrad|wgrad|[a-z]Op$|Flash|Attn")
"""Marks of functors and inner kernels, by which instances of a C++ template differ."""
BETWEEN_NAMES = re.compile(r"( [→⇒] |^rank \d+: )")
"""Between the names of a sequence, each of which is shortened by itself, and before that of an event of a job."""

MANGLED = re.compile(r"_Z(?:L|N[rVK]*)?(?=\d|St)")
NO_NAME = re.compile(r"(?:L[a-z]n?\d{1,20}E|S[0-9A-Z]{0,4}_|T\d{0,4}_|DF\d{1,3}[b_x]?|[^\dE])*+")
"""What stands between the names of a mangled name and has digits that are no lengths: literals, references, float16."""
LENGTH = re.compile(r"\d{1,4}")
COMMON_BEGINNING = 8
"""A beginning that all texts share is left out only if it is longer than this."""


def shorten_middle(text: str, size: int) -> str:
    """Cut out the middle of a text that is too long: names differ at their beginnings and ends.

    >>> shorten_middle("triton_poi_fused_add_mul_12", 16), shorten_middle("short", 16)
    ('triton_po…mul_12', 'short')
    """
    line, tail = one_line(text), max(size, 1) * 2 // 5
    return line if len(line) <= size else f"{line[: max(size - tail - 1, 0)]}…{line[len(line) - tail :]}"


def closest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names closest to a mistyped one, the closest first, regardless of case.

    >>> closest_names("launch_free", ["launches_free", "fused"]), closest_names("ATEN::MM", ["aten::mm"])
    (['launches_free'], ['aten::mm'])
    """
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in known}
    return [spelled[found] for found in get_close_matches(name.lower(), spelled, count, cutoff=0.7)]


def suggest_known(word: str, known: Collection[str]) -> str:
    """Return the valid words for an error about an unknown one: a close one, if there is any, and all.

    >>> suggest_known("raed", ["read", "write"]), suggest_known("x", ["read", "write"])
    ('did you mean read? Available: read, write', 'available: read, write')
    """
    close = closest_names(word, known, 1)
    return f"{f'did you mean {close[0]}? Available' if close else 'available'}: {', '.join(known)}"


def suggest_number(number: int, known: Collection[int], most: int = 12) -> str:
    """Suggest a number that exists: the nearest one, and the first ones.

    >>> suggest_number(7, [4, 5, 6]), suggest_number(1, range(3, 9), 2)
    ('did you mean 6? Available: 4, 5, 6', 'did you mean 3? Available: 3, 4 and 4 more')
    """
    ordered = sorted(known)
    nearest = min(ordered, key=lambda other: abs(other - number))
    rest = f" and {len(ordered) - most:,} more" if len(ordered) > most else ""
    return f"did you mean {nearest}? Available: {', '.join(map(str, ordered[:most]))}{rest}"


def short_name(name: str) -> str:
    """Shorten a name: a C++ kernel to its function and distinctive part, a Python frame to its file's name.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)")
    'vectorized_elementwise [CUDAFunctor_add]'
    >>> short_name("torch/nn/modules/module.py(1501): _call_impl"), short_name("aten::mm")
    ('module.py(1501): _call_impl', 'aten::mm')
    """
    if frame := FRAME.match(name):
        return frame[1]
    name = PREFIX.sub("", demangle(name))
    if not _is_function(name):
        return name
    base, arguments = _without_arguments(name.replace("(anonymous namespace)::", ""))
    base = base.removeprefix("void ").strip().rsplit("::", 1)[-1] or name
    # The last one is the innermost: outer templates are the same for hundreds of kernels.
    words = re.findall(r"\w+…?", arguments)
    telling = [word.rstrip("…") for word in words if word.endswith("…") or DISTINCTIVE.search(word)]
    return f"{base.removesuffix('_kernel')} [{telling[-1]}]" if telling else base


def _is_function(name: str) -> bool:
    """Return whether a name is a C++ function with its arguments."""
    if name.startswith("void "):
        return True
    return bool(FUNCTION.match(name)) and name.partition(" [clone")[0].endswith((">", ")"))


def _without_arguments(name: str) -> tuple[str, str]:
    """Split a C++ name into what stands before all brackets and its template arguments."""
    first = min((at for at in (name.find("<"), name.find("(")) if at >= 0), default=len(name))
    depth, last = 0, first
    for last, char in enumerate(name[first:], first):
        depth += (char == "<") - (char == ">" and name[last - 1] != "-")
        if depth == 0:
            break
    return name[:first], name[first:last]


def short_names(names: Sequence[str], longest: int | None = None) -> list[str]:
    """Shorten names; different ones stay different: whole, if no longer than ``longest``, else numbered.

    >>> short_names(["AddBackward0", "autograd::engine::evaluate_function: AddBackward0"])
    ['AddBackward0', 'autograd::engine::evaluate_function: AddBackward0']
    >>> short_names(["void add<1, float>(int)", "void add<2, float>(int)", "mul"], 12)
    ['add #1', 'add #2', 'mul']
    """
    short = {name: "".join(map(short_name, BETWEEN_NAMES.split(name))) for name in dict.fromkeys(names)}
    seen = Counter(short.values())
    # Where two would look the same the whole names say what is different, if these can be read.
    fit = {
        name: one_line(name) if seen[text] > 1 and (longest is None or len(name) <= longest) else text
        for name, text in short.items()
    }
    shown = _numbered_where_equal(fit, None)
    return [shown[name] for name in names]


def shorten_distinct(texts: Sequence[str], size: int) -> list[str]:
    """Cut texts to a number of characters; different ones stay different: without a common beginning, else numbered.

    >>> shorten_distinct(["stream 1 of a long name", "stream 2 of a long name", "stream 3"], 12)
    ['strea…ame #1', 'strea…ame #2', 'stream 3']
    >>> shorten_distinct(["executed_op_add.sum", "executed_op_mul.sum"], 12)
    ['…add.sum', '…mul.sum']
    """
    whole = {text: text for text in texts}
    shown = _numbered_where_equal(whole, size)
    begins = _common_beginning(whole)
    ends = {text: f"…{text.removeprefix(begins)}" for text in whole}
    is_numbered = any(shown[text] != shorten_middle(text, size) for text in whole)
    if is_numbered and len(begins) > COMMON_BEGINNING and all(len(end) <= size for end in ends.values()):
        shown = ends
    return [shown[text] for text in texts]


def _common_beginning(texts: Collection[str]) -> str:
    """Return what all texts begin with.

    >>> _common_beginning(["executed_add", "executed_and", "executed_mul"])
    'executed_'
    """
    first, last = min(texts, default=""), max(texts, default="")
    return first[: next((at for at, char in enumerate(first) if not last.startswith(char, at)), len(first))]


def _numbered_where_equal(texts: Mapping[str, str], size: int | None) -> dict[str, str]:
    """Cut the texts of some keys to a size; those that would look the same are numbered in their order."""
    sizes = {key: len(text) if size is None else size for key, text in texts.items()}
    cut = {key: shorten_middle(text, sizes[key]) for key, text in texts.items()}
    seen, numbers = Counter(cut.values()), Counter[str]()
    for key, text in cut.items():
        if seen[text] > 1:
            numbers[text] += 1
            mark = f" #{numbers[text]}"
            cut[key] = shorten_middle(texts[key], sizes[key] - len(mark) * (size is not None)) + mark
    return cut


def demangle(name: str) -> str:
    """Return function and first type of a mangled C++ name; others as they are. Linear in the name, which may lie.

    The grammar is that of the Itanium C++ ABI, of which only nested names are read: whole ones of templates have
    thousands of characters, and what references stand for may grow without bound.

    >>> demangle("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIfEEEEvDpT1_"), demangle("_ZN2at6nativeL4fillEv")
    ('ck_tile::kentry<Rmsnorm2dFwd…>', 'at::native::fill')
    >>> demangle("_Z99no"), demangle("aten::_Z3add")
    ('_Z99no', 'aten::_Z3add')
    """
    start = MANGLED.match(name)
    if not start:
        return name
    names, at = _nested_names(name, start.end())
    if not names:
        return name
    if not name.startswith("I", at):
        return "::".join(names)
    first, _ = _nested_names(name, _next_name(name, at))
    return f"{'::'.join(names)}<{first[-1] if first else ''}…>"


def _nested_names(text: str, at: int) -> tuple[list[str], int]:
    """Read names one after the other, each behind its length; return them and where they end."""
    names: list[str] = []
    if text.startswith("St", at):
        names, at = ["std"], at + 2
    while length := LENGTH.match(text, at + text.startswith("L", at)):
        begin, at = length.end(), length.end() + int(length[0])
        if at > len(text):
            return [], at
        own = text[begin:at]
        names.append("(anonymous namespace)" if own.startswith("_GLOBAL__N") else own)
    return names, at


def _next_name(text: str, at: int) -> int:
    """Return where the next name begins."""
    found = NO_NAME.match(text, at)
    return found.end() if found else at
