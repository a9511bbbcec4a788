"""Broken builds, each with what must catch it.

A mutant is the package with a few lines replaced; `workshop.py` makes one from a copy. What catches
it is a game of the audit ("game: NAME") or a test. A quick one takes a second or two; they are part
of the test suite, and `scripts/mutants` runs all. If a replacement no longer applies the mutant is
out of date: mend it, do not drop it.

The order is that of docs/audit.md.
"""

from tests.mutants.of_ledgers import BOOKS, CLAIMS, RECORDS
from tests.mutants.of_noise import NOISE
from tests.mutants.of_runs import ENDS, TESTS
from tests.mutants.of_sampling import SAMPLING
from tests.mutants.of_sums import SUMS

MUTANTS = (*NOISE, *SAMPLING, *SUMS, *TESTS, *ENDS, *RECORDS, *BOOKS, *CLAIMS)
