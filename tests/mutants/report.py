"""`scripts/mutants`: make every broken build and see that it is caught."""

import argparse
import os
import sys
import tempfile
import time

from tests.mutants.catalogue import MUTANTS
from tests.mutants.catcher import CAUGHT, PASSED
from tests.mutants.workshop import WORDS, Workshop


def main():
    options = _options()
    chosen = [m for m in MUTANTS if _wanted(m, options)]
    if not chosen:
        sys.exit(f"Error: No mutant has a name with {options.only!r}.")
    began, bad = time.perf_counter(), 0
    with tempfile.TemporaryDirectory(prefix="ppadmm-mutants-") as folder:
        workshop = Workshop(folder)
        sound = workshop.run(*dict.fromkeys(m.caught_by for m in chosen))
        if sound.code != PASSED:
            sys.exit(f"Error: What must catch mutants fails without one: {sound.reason}")
        print(f"Without a mutation all pass ({sound.seconds:.0f} s).", flush=True)
        width = max(len(m.name) for m in chosen)
        for mutant in chosen:
            found = workshop.try_out(mutant)
            bad += found.code != CAUGHT
            print(
                f"{WORDS[found.code]:10}  {mutant.name:{width}}  {found.seconds:5.1f} s  "
                f"{mutant.caught_by}\n{'':12}{found.reason[:150]}",
                flush=True,
            )
    print(
        f"{len(chosen) - bad} of {len(chosen)} mutants are caught; "
        f"{time.perf_counter() - began:.0f} s in all."
    )
    sys.exit(1 if bad else 0)


def _options():
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__.split(": ")[1])
    parser.add_argument("--quick", action="store_true", help="only those that take a second or two")
    parser.add_argument("--only", metavar="WORDS", default="", help="only those named like this")
    return parser.parse_args()


def _wanted(mutant, options):
    return options.only in mutant.name and (mutant.quick or not options.quick)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
