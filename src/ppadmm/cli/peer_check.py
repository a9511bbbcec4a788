"""`ppadmm peer check`: a look at everything that a run needs, at this site and its neighbours."""

from functools import partial
from typing import Annotated

from ppadmm.cli import options
from ppadmm.cli.common import interruptible, show
from ppadmm.cli.passphrases import PassphraseFile, opened
from ppadmm.cli.peer import PeerPath, group, quoted
from ppadmm.errors import PpadmmError


class ProblemsError(PpadmmError):
    """`peer check` found something that is wrong."""

    exit_code = 11


@group.command()
def check(
    file: PeerPath,
    seconds: Annotated[float, options.value("S", "How long to listen for the neighbours.")] = 10.0,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Look at everything a run needs, at this site and at its neighbours; one line for each.

    Reaches each neighbour (which must be running `peer check` or `peer run`), compares versions,
    agreements and clocks. Exit code 11 if anything is wrong.

    Example: ppadmm peer check hospital-a/peer.toml
    """
    from ppadmm.peers.check import check_site
    from ppadmm.peers.settings import PeerFile

    with interruptible():
        rows = check_site(PeerFile.load(file), seconds, partial(opened, file=passphrase_file))
    problems = [row for row in rows if row.problem]
    if as_json:
        show({"ok": not problems, "found": [vars(row) for row in rows]})
    else:
        show("\n".join(map(str, rows)))
    if problems:
        raise ProblemsError(f"Problems found: {len(problems)}; mend them and check again.")
    if not as_json:
        show(f"All is well. Next: ppadmm peer run {quoted(file)}")
