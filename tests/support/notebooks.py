"""Run the examples' notebooks: ``python -m tests.support.notebooks`` stores what they print in them, as text.

``python -m tests.support.notebooks --to FOLDER NOTEBOOK…`` leaves them as they are and writes the run ones to a folder.
Figures and pages in frames are not stored: they are up to megabytes.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = ("text/html", "text/plain")
"""What is kept of an output, and shown by what displays notebooks without running them."""

STRICT = "import warnings as _warnings; _warnings.simplefilter('error')"
LAX = "_warnings.resetwarnings()"
"""Before the kernel shuts down, which is not the notebook's doing."""

TIMEOUT_S = 120
FIGURE = "(a figure; run the notebook to see it)"
"""What is stored of one."""

Cell = dict[str, Any]


async def run(path: Path, folder: Path) -> Any:
    """Run a notebook from top to bottom in a folder of its own, warnings as errors."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    folder.mkdir()
    own = notebook.cells
    before, after = map(nbformat.v4.new_code_cell, (STRICT, LAX))
    notebook.cells = [before, *own, after]
    resources = {"metadata": {"path": str(folder)}}
    await NotebookClient(notebook, kernel_name="python3", timeout=TIMEOUT_S, resources=resources).async_execute()
    notebook.cells = own
    return as_stored(notebook)


def as_stored(notebook: Any) -> Any:
    """Keep what is text, and nothing of who ran it when."""
    number = 0
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            number += 1
            cell.execution_count = number
            cell.outputs = [_text_only(output, number) for output in cell.outputs]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def _text_only(output: Any, number: int) -> Any:
    if "execution_count" in output:
        output.execution_count = number
    if "data" in output:
        drawn = any("plotly" in kind for kind in output.data) or _is_frame("".join(output.data.get("text/html", "")))
        output.metadata = {}
        output.data = (
            {"text/plain": FIGURE} if drawn else {kind: output.data[kind] for kind in TEXTS if kind in output.data}
        )
    return output


def shown(notebook: Any) -> list[str]:
    """Return what the cells printed, as the words that a reader sees: markup and blanks do not count."""
    return [
        f"cell {number}: {_words(text)}"
        for number, cell in enumerate(notebook["cells"])
        for output in cell.get("outputs", ())
        for text in _texts(output)
    ]


def shown_words(notebook: Any) -> list[str]:
    """Return what the cells printed, without figures."""
    return [text for text in shown(notebook) if not text.endswith(FIGURE)]


def _texts(output: Cell) -> list[Any]:
    if "data" not in output:
        return [output.get("text") or output.get("evalue", "")]
    data: dict[str, Any] = output["data"]
    return [next(data[kind] for kind in TEXTS if kind in data)]


def _words(text: str | list[str]) -> str:
    plain = re.sub(r"<style.*?</style>|<[^>]*>", " ", "".join(text), flags=re.DOTALL)
    return " ".join(plain.split())


def run_here(notebook: Any) -> Any:
    """Run a notebook's cells in this process, without a kernel, and return it with the words that they print."""
    names: dict[str, Any] = {}
    return {"cells": [cell | {"outputs": list(_outputs_here(cell, names))} for cell in notebook["cells"]]}


def _outputs_here(cell: Cell, names: dict[str, Any]) -> Iterator[Cell]:
    if cell["cell_type"] != "code":
        return
    displayed: list[Any] = []
    names["display"] = displayed.append
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
        if isinstance(last, ast.Expr):
            displayed.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # noqa: S307
    if text := printed.getvalue():
        yield {"text": text}
    words = (value for value in displayed if value is not None and not _is_figure(value))
    yield from ({"data": _data_here(value)} for value in words)


def _is_figure(value: Any) -> bool:
    return any(kind.__module__.startswith("plotly") for kind in type(value).__mro__)


def _data_here(value: Any) -> dict[str, str]:
    as_html = getattr(value, "_repr_html_", None)
    if as_html is None:
        return {"text/plain": repr(value)}
    html = as_html()
    return {"text/plain": FIGURE} if _is_frame(html) else {"text/html": html}


def _is_frame(html: str) -> bool:
    """Say whether something shows itself as a page of its own."""
    return html.startswith("<iframe")


async def run_all(paths: list[Path], out: Path | None) -> None:
    """Run notebooks side by side and write them to a folder, or back."""
    import nbformat

    with TemporaryDirectory() as scratch:
        os.environ |= {"IPYTHONDIR": f"{scratch}/ipython", "JUPYTER_RUNTIME_DIR": f"{scratch}/runtime"}
        runs = [run(path, Path(scratch, path.stem)) for path in paths]
        # All end before one fails: a kernel whose notebook is given up would outlive its folder.
        done = await asyncio.gather(*runs, return_exceptions=True)
    if failures := [result for result in done if isinstance(result, Exception)]:
        raise ExceptionGroup("notebooks that do not run", failures)
    for path, notebook in zip(paths, done, strict=True):
        nbformat.write(notebook, out / path.name if out else path)


def main() -> None:
    """Run the notebooks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--to", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    asyncio.run(run_all(options.notebooks or sorted(EXAMPLES.glob("*.ipynb")), options.to))


if __name__ == "__main__":
    main()
