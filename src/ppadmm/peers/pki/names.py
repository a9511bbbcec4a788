"""Names of agents, of their files and addresses of their endpoints."""

import re
from pathlib import Path
from typing import Any

from ppadmm.errors import InputError

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?")


def agent_name(name: str) -> str:
    """Return a name that a certificate, a file and a log can all carry, or refuse it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"Expected a name of 1 to 64 letters, digits, spaces, dots, dashes or underscores that "
            f"begins and ends with a letter or digit, got {name!r}."
        )
    return name


def host_of(endpoint: str) -> str:
    """Return the host of `tls/host:port` or `host:port`; IPv6 stands in brackets."""
    address = endpoint.removeprefix("tls/")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(\d{1,5})", address)
    if not found or not 0 < int(found[2]) < 65536:
        raise InputError(f"Expected an endpoint like tls/host.example.org:7447, got {endpoint!r}.")
    return found[1].strip("[]")


class FileOf:
    """A file of this name in the folder of whatever it is an attribute of."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type) -> Path:
        return Path(owner.folder, self._name)
