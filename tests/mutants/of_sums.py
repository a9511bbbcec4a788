"""Sums whose parts show, or that have less noise than was paid for."""

from tests.mutants.mutant import Change, Mutant

TRUST, FIXED, MASKS = (f"summing/{name}.py" for name in ("trust", "fixed_point", "masks"))
NEWTON, ADDING = "algorithms/newton.py", "algorithms/sums.py"
OF_MASKS = "tests/summing/test_masks.py"
OF_INTEGERS = "tests/summing/test_fixed_point.py"
OF_AGENTS = "tests/summing/test_sum_agent.py"
OF_RESTARTS = "tests/summing/test_restarts.py"
OF_NEWTON = "tests/algorithms/test_newton_privacy.py"
INFO = '        info = struct.pack(f"<3Q{len(members)}Q", *pair, sum_, *members)\n'
ADD = "            total = total + shared if self.number < j else total - shared\n"
CLIP = "        values = within(values, np.full(len(values), self.bound(stage) * (1.0 + MARGIN)))\n"

SUMS = (
    Mutant(
        "shares as if nobody colluded",
        "every site adds σ²/N in place of σ²/(N−c)",
        "game: newton, sum",
        (
            Change(
                TRUST,
                "        return members - self.colluding\n",
                "        return members\n",
            ),
        ),
    ),
    Mutant(
        "shares a little too small",
        "every site adds σ²/(N−c+1): the noise of one site too many is counted",
        f"{OF_AGENTS}::test_every_site_adds_as_much_as_the_honest_ones_need",
        (
            Change(
                TRUST,
                "        return members - self.colluding\n",
                "        return members - self.colluding + 1\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "masks of zeros",
        "masks are zero: every part can be read, with its own share of the noise",
        "game: newton, sum of moments",
        (Change(MASKS, ADD, "            total = total + 0 * shared\n"),),
    ),
    Mutant(
        "masks that are used again",
        "the number of the exchange is no part of a mask's key",
        f"{OF_MASKS}::test_the_key_of_a_pair_depends_on_all_members_and_the_exchange",
        (Change(MASKS, INFO, INFO.replace("*pair, sum_,", "*pair, 0,")),),
        quick=True,
    ),
    Mutant(
        "masks for any members",
        "who takes part is no part of a mask's key",
        f"{OF_MASKS}::test_the_key_of_a_pair_depends_on_all_members_and_the_exchange",
        (Change(MASKS, INFO, '        info = struct.pack("<3Q", *pair, sum_)\n'),),
        quick=True,
    ),
    Mutant(
        "one mask for all pairs",
        "the two sites are no part of a mask's key: a copied key has the mask of another pair",
        f"{OF_MASKS}::test_who_announces_the_key_of_another_learns_nothing_and_cancels_nothing",
        (Change(MASKS, INFO, INFO.replace("*pair, sum_,", "0, 0, sum_,")),),
        quick=True,
    ),
    Mutant(
        "repetitions with the same noise",
        "an exchange that is repeated has the noise of its round again",
        f"{OF_AGENTS}::test_a_repetition_has_fresh_noise_and_another_mask",
        (
            Change(
                ADDING,
                "Key(self.site.agent, state.exchange, stage)",
                "Key(self.site.agent, state.round, stage)",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "parts of any size",
        "parts are not brought to the norm that records can have",
        f"{OF_AGENTS}::test_what_no_records_could_say_is_brought_within_bounds",
        (Change(ADDING, CLIP, ""),),
        quick=True,
    ),
    Mutant(
        "numbers modulo 2³²",
        "parts are taken modulo 2³²: sums wrap round",
        f"{OF_INTEGERS}::test_the_opened_sum_is_the_sum_of_the_parts_exactly",
        (
            Change(
                FIXED,
                "    return integers.astype(np.int64).view(np.uint64)\n",
                "    return (integers.astype(np.int64) & 0xFFFFFFFF).view(np.uint64)\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "a grid for free",
        "√L is left out of how far one record moves integers",
        f"{OF_INTEGERS}::test_noise_is_enough_and_no_number_leaves_its_range",
        (
            Change(
                FIXED,
                "    scale = (math.ldexp(sensitivity, -exponent) + math.sqrt(size)) / share\n",
                "    scale = math.ldexp(sensitivity, -exponent) / share\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "second moments that move half as far",
        "Δ of second moments is 1/n in place of √2/n",
        "game: newton, second moments",
        (
            Change(
                NEWTON,
                "        moved = (math.sqrt(2.0) if both else 1.0) / n\n",
                "        moved = 1.0 / n\n",
            ),
        ),
    ),
    Mutant(
        "slopes that move half as far",
        "Δ of slopes is G/n in place of 2G/n",
        "game: newton",
        (
            Change(
                NEWTON,
                "        steep = (2.0 if both else 1.0) * loss.lipschitz / n\n",
                "        steep = loss.lipschitz / n\n",
            ),
        ),
    ),
    Mutant(
        "every site its own budget",
        "a site with a loose budget adds little to a sum that protects all",
        f"{OF_NEWTON}::test_all_sites_of_a_sum_have_the_strictest_budget",
        (
            Change(
                "runs/run.py",
                "        return (strictest(budgets),) * len(budgets) "
                "if self.spec.trusting.by_sum else budgets\n",
                "        return budgets\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "every party its own budget",
        "the same between organisations",
        f"{OF_NEWTON}::test_the_noise_of_an_agreement_is_that_of_the_strictest_party",
        (
            Change(
                "peers/agreement.py",
                "            return min(party.epsilon for party in self.parties)\n",
                "            return self.parties[agent].epsilon\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "keys that are not kept",
        "a site announces a key and a crash takes the key",
        f"{OF_RESTARTS}::test_a_key_is_kept_before_it_is_announced",
        (Change(ADDING, '            charged.keep("key", self._repeated(found))\n', ""),),
        quick=True,
    ),
    Mutant(
        "totals that are not kept",
        "what all said together is not kept: a restarted site needs what others have forgotten",
        f"{OF_RESTARTS}::test_a_total_is_kept_before_the_next_part_is_paid_for",
        (
            Change(
                "sum_agent.py",
                "            self.charged.keep(self._total_name, total)\n",
                "            pass\n",
            ),
        ),
        quick=True,
    ),
)
