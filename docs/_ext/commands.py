"""Put every command and option, read off the command line itself, where a page asks for them."""

import inspect
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

from ppadmm.cli import app as program

PLACE = "<!-- every command -->"


def commands(command: Any, name: str = "ppadmm") -> Iterator[tuple[str, Any]]:
    """Yield (full name, command) for every command that does something, in the order of --help."""
    if hasattr(command, "commands"):
        for word, inner in command.commands.items():
            if not inner.hidden:
                yield from commands(inner, f"{name} {word}")
    else:
        yield name, command


def markdown(name: str, command: Any) -> str:
    """Return the section of one command: usage, what it does, arguments and options."""
    context = command.context_class(command, info_name=name)
    if hasattr(command, "fill_help"):  # lists of names, which --help reads off the registries
        command.fill_help()
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        _row(record) for p in command.get_params(context) if (record := p.get_help_record(context))
    ]
    table = ["| option | meaning |", "|---|---|", *rows]
    return "\n".join(
        [
            f"## {name}",
            "",
            f"    {name} {usage}",
            "",
            *_paragraphs(command.help or ""),
            "",
            *table,
            "",
        ]
    )


def _row(record: tuple[str, str]) -> str:
    name, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
    return f"| `{name}` | {_escaped(meaning)} |"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of a help text; an example becomes a block."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        line = " ".join(paragraph.replace("\b", "").split())
        if line.startswith("Example: "):
            yield f"```sh\n{line.removeprefix('Example: ')}\n```"
        else:
            yield _escaped(line)
        yield ""


def _escaped(text: str) -> str:
    for letter in "\\`*_[]<>#":
        text = text.replace(letter, "\\" + letter)
    return text


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the mark in a page that is about to be read."""
    if PLACE in source[0]:
        found = dict(commands(get_command(program)))
        text = "\n".join(markdown(name, command) for name, command in found.items())
        source[0] = source[0].replace(PLACE, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for pages that are read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
