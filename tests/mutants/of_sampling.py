"""A sampler that is not exact, or gives numbers twice."""

from tests.mutants.mutant import Change, Mutant

LANES = "sampling/lanes.py"
NUMPY = "sampling/vectorised.py"
NUMBA = "sampling/compiled.py"
STOCK = "sampling/stock.py"
WORDS = "tests/sampling/test_words.py"
STREAM = "tests/sampling/test_keystream.py"
GRID = "tests/sampling/test_grid.py"

SAMPLING = (
    Mutant(
        "a tie is a loss",
        "digits that tie are decided without further digits",
        f"{WORDS}::test_a_tie_is_broken_by_further_digits",
        (
            Change(
                LANES,
                "        if a[t] != b[t]:\n            return a[t] < b[t]\n",
                "        return a[t] < b[t]\n",
            ),
        ),
    ),
    Mutant(
        "ties are not seen",
        "NumPy goes on where digits tie",
        f"{WORDS}::test_words_that_tie_all_the_time",
        (Change(NUMPY, "    if (w == u).any():\n        raise Tie\n", ""),),
    ),
    Mutant(
        "a near miss is decided",
        "numba decides V < (2j+y)/(2j+2) by the first digit alone",
        f"{WORDS}::test_the_second_test_of_a_part_near_its_edge",
        (
            Change(
                NUMBA,
                "                if low > ~c or (low <= y and y - low <= c):\n"
                "                    return TIED\n",
                "",
            ),
        ),
    ),
    Mutant(
        "sign of the fraction",
        "the sign is a bit of the fraction, which was used already",
        "tests/sampling/test_law.py::test_sizes_signs_and_neighbours_are_independent",
        (
            Change(
                NUMPY,
                "    at.negative[i] = w >= _HALF\n",
                "    at.negative[i] = at.digit[i] >= _HALF\n",
            ),
        ),
    ),
    Mutant(
        "scale rounded down",
        "σ is rounded down to the grid",
        f"{GRID}::test_the_scale_is_the_one_that_is_asked_for",
        (
            Change(
                "sampling/grid.py",
                "        multiplier, parts = scale.as_integer_ratio()\n",
                "        scale = math.floor(scale / 2.0**exponent) * 2.0**exponent\n"
                "        multiplier, parts = scale.as_integer_ratio()\n",
            ),
        ),
    ),
    Mutant(
        "floor in place of round",
        "noise is cut to the grid, towards 0",
        "tests/sampling/test_law.py::test_a_coarse_grid_has_the_law_of_a_rounded_continuous_one",
        (
            Change("sampling/grid.py", "        least += 1 << places - 1\n", ""),
            Change(NUMPY, "    least += half\n", ""),
        ),
    ),
    Mutant(
        "sum in floating point",
        "value and noise are added as doubles: what leaves follows from more than their sum",
        f"{GRID}::test_every_size_of_value",
        (
            Change(
                NUMPY,
                "    np.multiply(total, unit, out=found)\n",
                "    found[:] = np.where(decided, values, 0.0) + noise * unit\n",
            ),
        ),
    ),
    Mutant(
        "words twice",
        "the key stream does not go on after a word",
        f"{STREAM}::TestWords::test_single_words_are_used_once",
        (
            Change(
                "sampling/keystream.py",
                "        self._spare[0] = 0\n        self._spare = self._spare[1:]\n",
                "",
            ),
        ),
    ),
    Mutant(
        "one key for all",
        "every request has the first key, and nobody looks",
        f"{STREAM}::TestWords::test_every_request_has_a_key_of_its_own",
        (
            Change(
                "sampling/keystream.py",
                '        if len(set(key)) == 1 or self._was_last("key", key):\n',
                '        key = self._seen.setdefault("key", key)\n        if len(set(key)) == 1:\n',
            ),
            Change(
                "sampling/keystream.py",
                "        self._look_at(found.reshape(-1, BLOCK))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "the parent's numbers",
        "a process that was forked off goes on with its parent's numbers",
        f"{STREAM}::TestForks::test_a_child_draws_other_numbers",
        (
            Change(
                STOCK,
                "    if not _opened or _opened[0].process != os.getpid():\n",
                "    if not _opened:\n",
            ),
            Change(STOCK, "    os.register_at_fork(after_in_child=_opened.clear)\n", "    pass\n"),
        ),
        quick=True,
    ),
    Mutant(
        "a stuck generator",
        "a generator that gives the same key again is not noticed",
        f"{STREAM}::TestBroken",
        (
            Change(
                "sampling/keystream.py",
                '        if len(set(key)) == 1 or self._was_last("key", key):\n',
                "        if len(key) == 1:\n",
            ),
        ),
        quick=True,
    ),
)
