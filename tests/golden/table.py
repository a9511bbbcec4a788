"""Every command with its arguments, options and defaults, and every exit code, as plain data."""

import importlib
import pkgutil

import typer

import ppadmm
from ppadmm.cli import app
from ppadmm.errors import PpadmmError


def commands():
    """Return the parameters of every command, one text each."""
    return dict(_commands(typer.main.get_command(app), "ppadmm"))


def _commands(command, path):
    inner = getattr(command, "commands", {})
    if command.params or not inner:
        yield path, sorted(_spelt(parameter) for parameter in command.params)
    for name in inner:
        yield from _commands(inner[name], f"{path} {name}")


def _spelt(parameter):
    names = "/".join((*parameter.opts, *parameter.secondary_opts))
    if not names.startswith("-"):
        names = (parameter.metavar or names).upper()
    elif parameter.metavar:
        names += f" {parameter.metavar}"
    marks = [word for word in ("required", "multiple") if getattr(parameter, word)]
    default = parameter.default
    if default not in (None, False, ()) and not callable(default):
        marks.append(f"default {default}")
    return ", ".join((names, *marks))


def exit_codes():
    """Return the exit code of every error that the package defines."""
    for module in pkgutil.walk_packages(ppadmm.__path__, "ppadmm."):
        importlib.import_module(module.name)
    return dict(sorted(_codes(PpadmmError)))


def _codes(error):
    if error.__module__.startswith("ppadmm"):
        yield error.__name__, error.exit_code
    for each in error.__subclasses__():
        yield from _codes(each)
