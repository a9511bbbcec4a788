"""Records that are not what they seem, and books that do not add up."""

from tests.mutants.mutant import MINIMISER, Change, Mutant

WEIGHTS = "tests/statements/test_weights.py"

RECORDS = (
    Mutant(
        "a norm that misses a category",
        "rows are scaled as if the first one-hot group were not there",
        "tests/contracts/test_representations.py::test_coded_rows_are_the_dense_ones",
        (
            Change(
                "data/coded.py",
                "        present = (self.codes < self.d).sum(axis=1) + 1.0\n",
                "        present = (self.codes < self.d)[:, 1:].sum(axis=1) + 1.0\n",
            ),
        ),
        quick=True,
    ),
    # Here belongs a label whose type is inferred from all rows.
    Mutant(
        "a fingerprint of the order",
        "the place of a row is part of its hash: a shuffled file has another budget",
        "tests/data/test_fingerprint.py::test_the_order_of_rows_does_not_show",
        (
            Change(
                "data/fingerprint.py",
                "        hashes.append(row.digest())\n",
                "        row.update(i.to_bytes(8))\n        hashes.append(row.digest())\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "secrets outside the chain",
        "a secret that was deleted or changed is not noticed",
        "tests/ledger/test_chain.py::TestTampering"
        "::test_secrets_that_were_deleted_or_changed_are_named",
        (
            Change(
                "ledger/chain.py",
                '        ("the secret beside it is", row.secret, "secret"),\n',
                "",
            ),
            Change(
                "ledger/database.py",
                '        if found is None or canonical.digest(found[0]) != body["secret"]:\n',
                "        if found is None:\n",
            ),
        ),
    ),
)

BOOKS = (
    Mutant(
        "charged after the noise",
        "b is drawn first and paid for then",
        "tests/engines/test_local.py::test_no_noise_is_drawn_for_a_charge_that_is_refused",
        (
            Change(
                MINIMISER,
                "        noise = charged.charge(self.charges)\n"
                "        b = self._draw_linear(sub, noise, place)\n",
                "        b = self._draw_linear(sub, charged.source, place)\n"
                "        noise = charged.charge(self.charges)\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "noise redrawn after a crash",
        "a round that was paid for and lost is made again",
        "tests/ledger/test_crashes.py::test_killed_again_and_again",
        (
            Change(
                "ledger/run.py",
                "        return Lost() if self._lost else None\n",
                "        return None\n",
            ),
        ),
    ),
    Mutant(
        "what was lost is given back",
        "a run that was abandoned costs nothing, though it charged",
        "tests/ledger/test_spending.py::TestSpending"
        "::test_only_a_run_without_any_charge_is_given_back",
        (
            Change(
                "ledger/state.py",
                "        return self.outcome is not None and not self.charges\n",
                '        return self.outcome == "abandoned"\n',
            ),
        ),
    ),
    Mutant(
        "grants add up adjacencies",
        "runs of zero-out are charged to a grant for replace-one",
        "tests/ledger/test_protection.py::TestTheAttack",
        (
            Change(
                "ledger/balance.py",
                "    if protection == granted:\n        return None\n",
                "    return None\n",
            ),
            Change("ledger/state.py", "        self._require_protection(run)\n", ""),
        ),
    ),
    Mutant(
        "an order chosen after the fact",
        "the filter takes the order that is best for the runs that were made",
        "tests/accounting/test_filters.py::TestSums::test_the_worst_agent_of_every_run",
        (
            Change(
                "accounting/filters.py",
                "    return max(float(fixed_part(np.array(order), budget.delta))"
                " + _total(runs, order), 0.0)\n",
                "    orders = [order, *(1.0 + np.geomspace(1e-2, 1e4, 200)).tolist()]\n"
                "    fixed = [float(fixed_part(np.array(a), budget.delta)) for a in orders]\n"
                "    sums = [c + _total(runs, a) for c, a in zip(fixed, orders, strict=True)]\n"
                "    return max(min(sums), 0.0)\n",
            ),
        ),
    ),
    Mutant(
        "refits as if planned",
        "an estimator that is fitted again states the sum of a plan (0.1)",
        "tests/estimator/test_classifiers.py::TestTheSameRecordsAgain"
        "::test_a_refit_may_follow_from_a_result_so_no_plan_is_priced",
        (
            Change(
                "estimator/reuse_guard.py",
                "        found = odometer([fit.cost for fit in fits], first.delta, order)\n",
                "        from ppadmm.accounting.composition import together\n\n"
                "        found = together([fit.cost for fit in fits], first.delta).epsilon\n",
            ),
        ),
    ),
    Mutant(
        "how long a search took",
        "the ledger of a repeated search shows when its best run ended, and so how many there were",
        "tests/studies/test_tune.py::TestLedger"
        "::test_how_long_a_repeated_search_took_is_not_in_the_ledger",
        (
            Change(
                "ledger/run.py",
                '        self.stamp = {"time": self.state.body["time"]}\n',
                "        self.stamp = {}\n",
            ),
        ),
    ),
    Mutant(
        "a group with one determinant",
        "k records cost J at k times κ in place of k·J (0.1)",
        "tests/accounting/test_groups.py::TestTheCounterExample",
        (
            Change(
                "accounting/groups.py",
                "ratio=k * event.ratio, kappa=k * event.kappa, span=k * event.span)",
                "ratio=k * event.ratio, kappa=k * event.kappa, records=k * event.records)",
            ),
        ),
    ),
)

CLAIMS = (
    Mutant(
        "a certificate of too small an ε",
        "an ε below what the events give is accepted",
        "tests/statements/test_certificate.py::TestContent::test_a_false_statement_is_rejected",
        (
            Change(
                "statements/recheck.py",
                "    if not _is_at_least(_number(stated), found, 1e-9):\n",
                "    if not _is_at_least(_number(stated), found / 2.0, 1e-9):\n",
            ),
        ),
    ),
    Mutant(
        "a certificate of too small a κ",
        "a κ below that of the public terms and the site's weight is accepted",
        f"{WEIGHTS}::test_a_lie_about_weights_or_what_follows_is_refused",
        (Change("statements/recheck.py", "    _require_curvature(statement)\n", ""),),
    ),
    Mutant(
        "a certificate of a smaller weight",
        "a weight that does not follow from the numbers of records is accepted",
        f"{WEIGHTS}::test_a_lie_about_weights_or_what_follows_is_refused",
        (Change("statements/recheck.py", "    _require_weights(statement)\n", ""),),
    ),
    Mutant(
        "a weight that was not agreed on",
        "verify does not hold a site's weight against the agreement",
        "tests/peers/test_weights.py"
        "::test_one_site_alone_cannot_show_its_weight_and_verify_says_so",
        (
            Change(
                "peers/certified.py",
                '("agent", "name", "records", "weight")] for agent in agents],\n'
                "            [[i, party.name, party.records, terms.site_weights[i]]],\n",
                '("agent", "name", "records")] for agent in agents],\n'
                "            [[i, party.name, party.records]],\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "a seeded run called private",
        "a seed is no reason against a guarantee",
        "tests/cli/test_train.py::TestPrivacy::test_a_seed_repeats_and_is_not_private",
        (
            Change(
                "statements/facts.py",
                "    if seed is not None:\n",
                "    if seed is not None and seed < 0:\n",
            ),
        ),
    ),
    Mutant(
        "the claim is what was spent",
        "a silent run of IPP-ADMM states a smaller ε: the statement follows from the records",
        "tests/statements/test_claims.py"
        "::test_what_is_stated_is_what_was_reserved_however_little_was_spent",
        (
            Change(
                "runs/facts.py",
                "            reserved=end.reserved[0],\n",
                "            reserved=end.spent[0],\n",
            ),
        ),
    ),
    Mutant(
        "half the curvature",
        "Theorem A with half of its curvature term",
        "tests/accounting/test_recompute.py::test_both_give_the_same_epsilon",
        (
            Change(
                "accounting/accountant.py",
                "    return event.records * event.square / 2.0 * both\n",
                "    return event.records * event.square / 4.0 * both\n",
            ),
        ),
    ),
)
