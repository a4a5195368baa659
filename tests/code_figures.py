"""How the code reads, in figures: ``python -m tests.code_figures`` prints a row for each package.

Of every function: the lines of its body without the docstring (median, 90th percentile, largest). Of all functions: the
share that is private (one leading underscore), of private ones the share whose name is one word, and of all the share
whose name is used in one place (calls and references, the definition left out; of a private name in its own file, so
that equally named helpers of two files do not hide each other). Comments are counted per 100 lines that hold code;
docstrings over public functions, methods and classes. A line more tells of the whole product: how many files it has,
their median length, the share of lines that import or list names in ``__all__``, and in how many circles modules import
each other. ``--walks`` counts instead which files and functions of the product run on five ways through it
(``sys.setprofile``); ``--climbs TRACE`` lists where ``critical-path`` goes against the flow, and counts these places.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.import_graph import circles, imports_of, module_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("hta_graph", "analyses")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield every function and method."""
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Count the lines of a body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def comments_and_code(text: str) -> tuple[int, int]:
    """Count the comments (linters' marks left out) and the lines that hold code."""
    comments, code = 0, set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            mark = token.string.lstrip("# ")
            comments += not mark.startswith(("noqa", "type:", "fmt:", "ruff:", "pragma"))
        elif token.type not in skipped:
            code |= set(range(token.start[0], token.end[0] + 1))
    return comments, len(code - docstrings)


def names_used(tree: ast.Module) -> Iterator[str]:
    """Yield each use of a name: variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def has_docstring(node: ast.AST) -> bool:
    """Tell whether a definition says what it is."""
    return isinstance(node, (*Function.__args__, ast.ClassDef)) and ast.get_docstring(node) is not None


def public_definitions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield classes, functions and methods that are public and stand in nothing private."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*Function.__args__, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def figures(package: Path) -> dict[str, str]:
    """Return the row of one package."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    named = [(tree, [node for node in functions(tree) if not node.name.startswith("__")]) for tree in trees]
    every = [function for _, own in named for function in own]
    lengths = np.array([body_lines(function) for function in every])
    private = [function.name for function in every if function.name.startswith("_")]
    everywhere = Counter(name for tree in trees for name in names_used(tree))
    once = 0
    for tree, own in named:
        here = Counter(names_used(tree))
        once += sum((here if node.name.startswith("_") else everywhere)[node.name] == 1 for node in own)
    counted = [comments_and_code(text) for text in texts]
    public = [node for tree in trees for node in public_definitions(tree)]
    sizes = np.percentile(lengths, [50, 90, 100], method="lower").astype(int)
    return {
        "package": package.name,
        "files": str(len(texts)),
        "body": "/".join(map(str, sizes)),
        "private": share(len(private), len(every)),
        "used once": share(once, len(every)),
        "one word": share(sum("_" not in name.strip("_") for name in private), len(private)),
        "comments/100": f"{100 * sum(c for c, _ in counted) / sum(n for _, n in counted):.1f}",
        "docstrings": share(sum(map(has_docstring, public)), len(public)),
        "code lines": str(sum(n for _, n in counted)),
    }


def import_lines(text: str) -> int:
    r"""Count the lines that import something, or list names in ``__all__``.

    >>> import_lines("import a\nfrom b import (\n    c,\n)\n__all__ = [\n    'd',\n]\ne = 1\n")
    7
    """
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Import | ast.ImportFrom) or "__all__" in map(ast.unparse, targets):
            lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def whole_product(packages: Sequence[Path]) -> dict[str, str]:
    """Return what is counted over all packages together."""
    paths = [path for package in packages for path in sorted(package.rglob("*.py"))]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    lengths = [len(text.splitlines()) for text in texts]
    files = {module_name(path, package.parent): path for package in packages for path in package.rglob("*.py")}
    return {
        "files": str(len(paths)),
        "lines": str(sum(lengths)),
        "median file": f"{np.median(lengths):.0f}",
        "imports and __all__": f"{sum(map(import_lines, texts)) / sum(lengths):.1%}",
        "circles": str(len(circles(imports_of(files)))),
    }


def share(part: int, whole: int) -> str:
    """Print a share."""
    return f"{part / max(whole, 1):.0%}"


def walks(trace: str, sync_trace: str) -> dict[str, list[str]]:
    """Return the five ways: what each runs, as Python."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    cli = f"from {scripts['hta-graph'].partition(':')[0]} import main; main({{}})"
    return {
        "byte → path segment": [cli.format(["critical-path", trace, "--json", os.devnull])],
        "sync record → edge": [f"import hta_graph as hg; t = hg.read_trace({sync_trace!r})", "hg.build_graph(t)"],
        "idle-time → JSON": [cli.format(["idle-time", trace, "--json", os.devnull])],
        "chakra convert": [
            cli.format(["chakra", "convert", trace, "--unknown-collectives", "as-compute", "-o", "out"])
        ],
        "a facade call": [
            f"from analyses import TraceAnalysis; t = TraceAnalysis(trace_files={{0: {trace!r}}})",
            "t.get_gpu_kernel_breakdown(visualize=False)",
        ],
    }


PROBE = """
import os, sys, tempfile
sys.argv = ["probe"]
os.chdir(tempfile.mkdtemp())
files, functions = set(), set()
def seen(frame, event, _):
    code = frame.f_code
    inside = any(f"/{{name}}/" in code.co_filename for name in {packages!r})
    # Functions and methods: bodies of modules and classes (not optimised), comprehensions and lambdas are none.
    if event == "call" and inside and code.co_flags & 1 and code.co_name[0] != "<":
        files.add(code.co_filename)
        functions.add((code.co_filename, code.co_firstlineno))
{before}
sys.stdout = open(os.devnull, "w")
sys.setprofile(seen)
{walked}
sys.setprofile(None)
sys.__stdout__.write(f"{{len(files)}} {{len(functions)}}")
"""


def executed(steps: list[str]) -> tuple[int, int]:
    """Run a way in a process of its own; return how many files and functions of the product it runs."""
    before = "\n".join(steps[:-1])
    probe = PROBE.format(packages=PACKAGES, before=before, walked=steps[-1])
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    files, count = done.stdout.split()
    return int(files), int(count)


def climbs(trace: str) -> list[str]:
    """Return the climbs of ``critical-path`` (:mod:`tests.climbs`), in a process of its own."""
    probe = [sys.executable, str(ROOT / "tests" / "climbs.py"), trace]
    return subprocess.run(probe, check=True, capture_output=True, text=True).stdout.splitlines()


def main(say: Callable[[str], None] = print) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", type=Path, default=[ROOT / name for name in PACKAGES])
    parser.add_argument("--walks", nargs=2, metavar=("TRACE", "SYNC_TRACE"))
    parser.add_argument("--climbs", metavar="TRACE")
    options = parser.parse_args()
    if options.climbs:
        found = climbs(options.climbs)
        say("\n".join([*found, f"{len(found)} climbs"]))
        return
    if options.walks:
        for name, steps in walks(*[str(Path(name).absolute()) for name in options.walks]).items():
            files, count = executed(steps)
            say(f"{name:<22} {files:>4} files {count:>5} functions")
        return
    for number, row in enumerate(map(figures, options.packages)):
        if not number:
            say(" | ".join(row))
        say(" | ".join(row.values()))
    say("")
    say(", ".join(f"{name} {figure}" for name, figure in whole_product(options.packages).items()))


if __name__ == "__main__":
    main()
