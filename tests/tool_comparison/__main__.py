"""Ask a tool all questions, print its scores: ``python -m tests.tool_comparison [--kind K] [--seed S] [--tool T]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.tool_comparison import this_tool
from tests.tool_comparison.asking import Graded, Tool, all_questions, failures, put_all, scores, table
from tests.tool_comparison.hta_answers import HTA_ASKED, HtaProcess
from tests.tool_comparison.nsys_ai_answers import NSYS_AI_ASKED, NsysAi
from tests.tool_comparison.question import KINDS


def _this_tool(_: argparse.Namespace) -> Tool:
    return Tool(this_tool.ask)


def _hta(options: argparse.Namespace) -> Tool:
    return Tool(HtaProcess(options.python).ask, HTA_ASKED)


def _nsys_ai(options: argparse.Namespace) -> Tool:
    return Tool(NsysAi(options.python).ask, NSYS_AI_ASKED)


TOOLS: dict[str, Callable[[argparse.Namespace], Tool]] = {"hta_graph": _this_tool, "hta": _hta, "nsys_ai": _nsys_ai}


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description="A comparison of tools: questions with known answers.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only questions of this kind (repeatable)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only questions whose identity contains TEXT")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of the simulated questions")
    parser.add_argument("--no-shared", action="store_true", help="leave out the shared recordings")
    parser.add_argument("--tool", choices=TOOLS, default="hta_graph")
    parser.add_argument("--python", metavar="PYTHON", help="the interpreter that has the other tool")
    parser.add_argument("--list", action="store_true", help="print the questions and exit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every question, truth, answer and grade")
    options = parser.parse_args()
    questions = [
        one
        for one in all_questions(options.seed, shared=not options.no_shared)
        if one.kind in (options.kind or KINDS) and options.only in one.id
    ]
    if options.list:
        sys.stdout.writelines(f"{one.id}: {one.text} ({one.recipe})\n" for one in questions)
        return
    graded: list[Graded] = []
    for one in put_all(questions, TOOLS[options.tool](options)):
        graded.append(one)
        sys.stderr.write(f"{len(graded)} of {len(questions)}: {one.question.id}: {one.grade}\n")
        sys.stderr.flush()
    if options.json:
        records = [one.as_record() for one in graded]
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join([*table(scores(graded)), "", *failures(graded), ""]))


if __name__ == "__main__":
    main()
