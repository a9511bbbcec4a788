"""Runs what must catch a mutant, in a process of its own: catcher.py ROOT RUNS CATCHER...

Exit codes: 0, nothing was caught; 1, it was; 2, the mutant is no build at all, or the catcher is
none. What failed is the last line of the output. A test that fails because a name is missing or an
import does not work has caught nothing but a mutant that was written carelessly.
"""

import sys
from pathlib import Path

CARELESS = (NameError, SyntaxError, ImportError, AttributeError, TypeError)
PASSED, CAUGHT, BROKEN = range(3)
GAME = "game: "


def play(name, runs):
    from ppadmm.auditing.audit import audit
    from ppadmm.auditing.games import game_named

    found = audit(game_named(name), runs=runs)
    finding = found.finding
    if found.gave_up and found.gave_up >= 2 * finding.runs:
        print("every run gave up: that tells nothing")
        return BROKEN
    print(f"{finding.attack}: TPR ≥ {finding.tpr:.4f}, allowed {finding.allowed:.4f}")
    return CAUGHT if finding.exceeded else PASSED


class Failures:
    """Keeps what failed and why."""

    def __init__(self):
        self.reasons, self.errors, self.ran = [], [], 0

    def pytest_runtest_logreport(self, report):
        self.ran += report.when == "call"

    def pytest_exception_interact(self, node, call, report):
        self.reasons.append(f"{node.name}: {call.excinfo.exconly().splitlines()[0]}")
        self.errors.append(call.excinfo.value)


def test(nodes):
    import pytest

    failures = Failures()
    options = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*options, *nodes], plugins=[failures])
    print((failures.reasons or [f"{failures.ran} tests passed"])[0])
    if code == pytest.ExitCode.OK and failures.ran:
        return PASSED
    careless = any(isinstance(error, CARELESS) for error in failures.errors)
    return CAUGHT if code == pytest.ExitCode.TESTS_FAILED and not careless else BROKEN


def main(root, runs, *catchers):
    import ppadmm

    if not Path(ppadmm.__file__).is_relative_to(root):
        print(f"ppadmm is imported from {ppadmm.__file__}, not from {root}")
        return BROKEN
    games = [each.removeprefix(GAME) for each in catchers if each.startswith(GAME)]
    nodes = [each for each in catchers if not each.startswith(GAME)]
    codes = [play(name, int(runs)) for name in games] + ([test(nodes)] if nodes else [])
    return max(codes)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(BROKEN)
