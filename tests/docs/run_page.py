"""Run the blocks of one page in their order, in the current folder: python run_page.py PAGE.

Python blocks share one namespace, as in a session; warnings are errors.
"""

import contextlib
import difflib
import io
import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import blocks, masked


def main(page):
    namespace, printed = {"__name__": "__main__"}, ""
    for block in blocks(page):
        if block.note.startswith("file: "):
            Path(block.note.removeprefix("file: ")).write_text(block.text, "utf-8")
        elif block.note.startswith("output"):
            compare(block, printed)
        elif block.is_run:
            run = run_python if block.language == "python" else run_shell
            printed = run(block, namespace)


def run_python(block, namespace):
    """Execute a block; a traceback names the page and the line in it."""
    out = io.StringIO()
    code = compile("\n" * block.line + block.text, block.page, "exec")
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_shell(block, _):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{block.page}:{block.line}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def compare(block, printed):
    """Exit unless the block is what was printed; a line "…" stands for any lines."""
    how = masked if "vary" in block.note else str
    wanted, got = how(block.text.strip("\n")), how(printed.strip("\n"))
    if not matches(wanted.split("\n"), got.split("\n")):
        lines = difflib.unified_diff(wanted.split("\n"), got.split("\n"), "page", "real", "")
        sys.exit(f"{block.page}:{block.line}: the output is another:\n" + "\n".join(lines))


def matches(wanted, got):
    if not wanted:
        return not got
    if wanted[0].strip() == "…":
        return any(matches(wanted[1:], got[k:]) for k in range(len(got) + 1))
    return bool(got) and wanted[0].rstrip() == got[0].rstrip() and matches(wanted[1:], got[1:])


if __name__ == "__main__":
    main(sys.argv[1])
