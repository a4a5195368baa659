"""mcp: a server that answers an agent's questions about the traces of a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from analyses.cli.command import Command
from analyses.cli.path_args import InputFolder, ReusedFolder
from analyses.declare.arg_types import size_in_bytes, whole_number
from hta_graph.base.errors import MissingExtraError, OutputError, UsageError
from hta_graph.base.storage.location import is_remote, resolve_location

SHARE_OF_MEMORY = 0.5
"""How much of the free memory the traces take that are kept between questions."""


def _add_folders(parser: argparse.ArgumentParser) -> None:
    """Add the folders that are read and written, how much is kept, and what a question may take."""
    parser.add_argument(
        "--root", type=InputFolder, default=InputFolder("."), metavar="DIR", help="serve traces below DIR (default: .)"
    )
    parser.add_argument(
        "--output", type=ReusedFolder, metavar="DIR", help="folder for pictures (default: none are written)"
    )
    parser.add_argument(
        "--keep",
        type=size_in_bytes,
        metavar="SIZE",
        help="memory for traces kept between questions, such as 4G (default: half of what is free)",
    )
    memory = "memory that a question may take (default: what is free)"
    parser.add_argument("--memory", type=size_in_bytes, metavar="SIZE", help=memory)
    seconds = "time that a question may take (default: 600)"
    parser.add_argument("--seconds", type=whole_number(1, 10**6), default=600, metavar="N", help=seconds)


def _run_mcp(options: argparse.Namespace) -> None:
    """Serve until standard input ends."""
    try:
        import mcp  # noqa: F401 - of the extra
    except ImportError:
        raise MissingExtraError("the server for agents", "mcp") from None
    from analyses.mcp.engines import Limits
    from analyses.mcp.served_files import ServedFiles
    from analyses.mcp.server import serve
    from hta_graph.base.memory import available_memory

    root, output = _folder(options.root), None if options.output is None else _folder(options.output, create=True)
    keep = int(SHARE_OF_MEMORY * available_memory()) if options.keep is None else options.keep
    serve(ServedFiles(root, output), Limits(options.seconds, options.memory or 0, keep))


def _folder(name: str, *, create: bool = False) -> Path:
    """Return a local folder without links in its name.

    Raises:
        OutputError: it cannot be created.
        UsageError: it is no local folder.
    """
    place = resolve_location(name)
    if is_remote(place):
        raise UsageError(f"{name}: not a local folder; name one on this machine")
    try:
        if create:
            place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{name}: cannot be created: {error.strerror or error}; name another folder") from None
    if not place.is_dir():
        raise UsageError(f"{name}: not a folder; name one")
    return place.resolve()


MCP = Command(
    name="mcp",
    help="Let agents ask about traces (Model Context Protocol)",
    more="It serves the traces below a folder over standard input and output, until the client ends it.",
    examples=("mcp --root traces",),
    page="agents.md",
    options=(_add_folders,),
    run=_run_mcp,
)
