"""Broken builds, each with what must catch it.

A mutant is the package with a few lines replaced; `workshop.py` makes one from a copy. What catches
it is a game of the audit ("game: NAME") or a test. A quick one takes a second or two; they are part
of the test suite, and `scripts/mutants` runs all. If a replacement no longer applies the mutant is
out of date: mend it, do not drop it.

The order is that of docs/audit.md.
"""

from dataclasses import dataclass

RUNS = 20_000
"""As many as `ppadmm audit` plays by default."""


@dataclass(frozen=True)
class Change:
    """One replacement: `old` is in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken build: its name, what is broken, and the game, with its runs, or test that fails."""

    name: str
    about: str
    caught_by: str
    changes: tuple[Change, ...]
    quick: bool = False
    runs: int = RUNS


MINIMISER = "mechanisms/minimiser.py"
TESTING = "mechanisms/testing.py"
HOSTILE = "tests/engines/test_malicious_neighbour.py"

NOISE = (
    Mutant(
        "no b",
        "the linear term b is zero",
        "game: pp",
        (
            Change(
                MINIMISER,
                "        return noise.gaussian(np.zeros(sub.linear.shape), sigma, grid, key)\n",
                "        return np.zeros(sub.linear.shape)\n",
            ),
        ),
    ),
    Mutant(
        "sigma1 by root two",
        "σ₁/√2 at the price of σ₁",
        "game: pp",
        (
            Change(
                "privacy/calibration.py",
                "    return Noise(sigma1, sigma2, Charge(events + _approximate(step)))\n",
                "    charge = Charge(events + _approximate(step))\n"
                "    return Noise(sigma1 / math.sqrt(2.0), sigma2, charge)\n",
            ),
        ),
    ),
    Mutant(
        "half the sensitivity",
        "s = 1/n in place of 2/n",
        "game: pp",
        (
            Change(
                "privacy/sensitivity.py",
                "sensitivity=(2.0 if replaced else 1.0) * lipschitz / n",
                "sensitivity=lipschitz / n",
            ),
        ),
    ),
    Mutant(
        "noise of round one",
        "the same b in every round",
        "game: pp",
        (
            Change(
                MINIMISER,
                '        key = Key(place.agent, place.round, "linear")\n'
                "        return noise.gaussian(",
                '        key = Key(place.agent, 0, "linear")\n        return noise.gaussian(',
            ),
        ),
    ),
    Mutant(
        "secure noise of an earlier run",
        "secure b is kept by agent and round, and used again in the next run",
        "game: pp, secure noise",
        (
            Change("noise.py", "FINENESS = 2.0**-44\n", "_DRAWN: Any = {}\nFINENESS = 2.0**-44\n"),
            Change(
                "noise.py",
                '        """Release each row through `make_gaussian`; `key` is not used."""\n'
                '        return self._released("gaussian", values, scale, grid)\n',
                '        if key.purpose != "linear":\n'
                '            return self._released("gaussian", values, scale, grid)\n'
                "        place = (key.agent, key.round, values.shape)\n"
                "        if place not in _DRAWN:\n"
                '            _DRAWN[place] = self._released("gaussian", values, scale, grid)\n'
                "        return _DRAWN[place]\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "secure noise ten per cent too small",
        "the secure sampler draws 0.9·σ",
        "tests/privacy/test_noise.py::TestSecure::test_its_scale_is_the_one_that_is_asked_for",
        (
            Change(
                "noise.py",
                "_measurement(kind, row.size, scale, grid_exponent(grid))",
                "_measurement(kind, row.size, 0.9 * scale, grid_exponent(grid))",
            ),
        ),
    ),
    Mutant(
        "one residual only",
        "Δ₂ = β/μ in place of 2β/μ, as in the paper",
        "game: pp, second noise",
        (
            Change(
                "privacy/sensitivity.py",
                "spread=2.0 * beta * (1.0 + MARGIN) ** 2 / mu",
                "spread=beta * (1.0 + MARGIN) ** 2 / mu",
            ),
        ),
    ),
    Mutant(
        "second noise of the hub",
        "σ₂ for the μ of the best connected neighbour",
        "game: pp, second noise",
        (
            Change(
                "algorithms/pp.py",
                "    budget, step = settings.budgets[k], perturbed(site, settings, mu)\n",
                "    budget, step = settings.budgets[k], perturbed(site, settings, mu)\n"
                "    most = max(site.degree, *site.neighbour_degrees)\n"
                "    step = replace(step, spread=step.spread * site.degree / most)\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "dual of the unreleased value",
        "the sum that messages carry is that of the θ̂ before the second noise",
        "game: pp, second noise",
        (
            Change(
                "algorithms/admm.py",
                "        own = Heard(release.value, state.own.total + release.value)\n",
                "        own = Heard(release.value, state.own.total + warm.point)\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "one-shot for twice its convexity",
        "one-shot noise for 2μ, and nobody compares it with the subproblem's μ",
        "game: one-shot, second noise",
        (
            Change(
                "algorithms/one_shot.py",
                "perturbed_minimiser(site, settings, weight, releases=1)",
                "perturbed_minimiser(site, settings, 2.0 * weight, releases=1)",
            ),
            Change(MINIMISER, "        self._require_convex(sub)\n", ""),
        ),
    ),
    Mutant(
        "one-shot with twice the convexity",
        "one-shot noise for 2μ",
        "tests/engines/test_local.py::test_no_noise_is_drawn_for_a_charge_that_is_refused",
        (
            Change(
                "algorithms/one_shot.py",
                "perturbed_minimiser(site, settings, weight, releases=1)",
                "perturbed_minimiser(site, settings, 2.0 * weight, releases=1)",
            ),
        ),
    ),
    Mutant(
        "one-vs-rest without the root",
        "G of one margin for K of them at once",
        "game: pp, one-vs-rest",
        (
            Change(
                "problem/multiclass.py",
                "return math.sqrt(self.classes) * self.margin.lipschitz",
                "return self.margin.lipschitz",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "multinomial slope of one",
        "G = 1 in place of √2 for the multinomial loss",
        "game: pp, three classes",
        (Change("problem/multiclass.py", "return math.sqrt(2.0)", "return 1.0"),),
    ),
    *(
        Mutant(
            f"Gamma noise of half the size, {name}",
            "Gamma noise for a sensitivity of 1/n",
            f"game: {name}",
            (
                Change(
                    MINIMISER,
                    "        return np.asarray(room / self.sensitivity)\n",
                    "        return np.asarray(2.0 * room / self.sensitivity)\n",
                ),
            ),
        )
        for name in ("dvp", "m-admm", "r-admm")
    ),
    Mutant(
        "gradient noise of half the size",
        "σ/2 at the price of σ in noisy gradient descent",
        "game: gradient",
        (
            Change(
                "algorithms/gradient.py",
                "noise.gaussian(gradient, self.sigma, FINENESS * self.sigma, key)",
                "noise.gaussian(gradient, self.sigma / 2.0, FINENESS * self.sigma, key)",
            ),
        ),
    ),
    Mutant(
        "score noise for all agents",
        "the noise of a score in `tune` for the records of all agents together",
        "game: tune, score",
        (
            Change(
                "experiments/scoring.py",
                "(part.n * till.ratio)",
                "(sum(result.prepared.scene.records) * till.ratio)",
            ),
        ),
        quick=True,
    ),
)

GAUSSIAN_ANSWER = (
    "        noisy = noise.gaussian(values[:, None], sigma, FINENESS * sigma, key)[:, 0]"
)
TESTS = (
    Mutant(
        "tests with half of their noise",
        "σ/2 at the price of σ in Gaussian tests",
        "game: ipp, Gaussian tests",
        (
            Change(
                TESTING,
                "        sigma = self.noise[rows]\n",
                "        sigma = 0.5 * self.noise[rows]\n",
            ),
        ),
    ),
    Mutant(
        "far tests without noise",
        "Gaussian tests more than 4σ from the threshold are decided without noise",
        "game: ipp, far off",
        (
            Change(
                TESTING,
                GAUSSIAN_ANSWER,
                GAUSSIAN_ANSWER + "\n"
                "        noisy = np.where(np.abs(values - kept) > 4.0 * sigma, values, noisy)",
            ),
        ),
    ),
    Mutant(
        "farther tests without noise",
        "Gaussian tests more than 9σ from the threshold are decided without noise",
        "tests/engines/test_ipp.py::test_noise_decides_however_far_a_value_is_from_the_threshold",
        (
            Change(
                TESTING,
                GAUSSIAN_ANSWER,
                GAUSSIAN_ANSWER + "\n"
                "        noisy = np.where(np.abs(values - kept) > 9.0 * sigma, values, noisy)",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "threshold redrawn",
        "the kept threshold gets fresh noise for every question, as in the paper",
        "game: ipp, sparse vector",
        (
            Change(
                TESTING,
                "        scale = self.query_scale[rows]\n",
                "        wide = (self.sensitivity / self._split[0])[rows]\n"
                '        own = Key(place.agent, place.round, "threshold")\n'
                "        middle = self.threshold[rows, None]\n"
                "        kept = noise.laplace(middle, wide, FINENESS * wide, own)[:, 0]\n"
                "        scale = self.query_scale[rows]\n",
            ),
        ),
    ),
    Mutant(
        "threshold redrawn after a crash",
        "a restarted agent draws a threshold anew",
        "tests/ledger/test_crashes.py::test_killed_again_and_again",
        (
            Change(
                TESTING,
                '        if (kept := desk.kept("threshold")) is not None:\n'
                "            return kept\n",
                "",
            ),
            Change(
                TESTING,
                "        if desk.paid(charges):\n"
                "            return np.full_like(self.threshold, np.inf)\n"
                "        noise = desk.pay(charges)\n",
                "        noise = desk.source if desk.paid(charges) else desk.pay(charges)\n",
            ),
            Change(
                TESTING,
                '        desk.keep("threshold", drawn)\n',
                '        if desk.kept("threshold") is None:\n'
                '            desk.keep("threshold", drawn)\n',
            ),
        ),
    ),
    Mutant(
        "statistic without room for rounding",
        "Δ = s: a neighbour makes ‖∇F‖ a small difference of large numbers",
        "tests/engines/test_ipp.py::test_a_neighbour_cannot_make_rounding_add_to_the_sensitivity",
        (
            Change(
                "algorithms/statistics.py",
                "        return np.asarray((step.sensitivity + 2.0 * error) * (1.0 + MARGIN))\n",
                "        return np.asarray((step.sensitivity + 0.0 * error) * (1.0 + MARGIN))\n",
            ),
        ),
    ),
)

RAISE_AFTER_PAYMENT = Change(
    "solvers/guarded.py",
    "        except Exception:  # whatever went wrong may depend on the records\n"
    "            return None\n",
    "        except Exception:\n            raise\n",
)
CARELESS = (
    RAISE_AFTER_PAYMENT,
    Change("solvers/base.py", "SINGLE_BLUR = 2.0**-20\n", "SINGLE_BLUR = 0.0\n"),
)
ENDS = (
    Mutant(
        "a failed solve ends the run",
        "what the quick solver raises is raised, after payment",
        "game: pp, failing solver",
        (RAISE_AFTER_PAYMENT,),
        quick=True,
        runs=200,
    ),
    Mutant(
        "solves that stall far out",
        "single precision is used however far out θ is, and a solve that stalls ends the run (0.1)",
        "game: pp, pushed across",
        CARELESS,
        quick=True,
        runs=100,
    ),
    Mutant(
        "solves that stall far out, with tests",
        "the same in IPP-ADMM",
        "game: ipp, pushed across",
        CARELESS,
        runs=100,
    ),
    Mutant(
        "aborts beyond the sphere",
        "the run ends if ‖c + b‖ > μR (0.1)",
        "game: pp, pushed along",
        (
            Change(
                MINIMISER,
                "        b = self._draw_linear(sub, noise, place)\n",
                "        b = self._draw_linear(sub, noise, place)\n"
                "        size = np.linalg.norm(sub.linear + b, axis=1)\n"
                "        if (size > sub.mu * self.radius).any():\n"
                '            raise SolverError("Too far out.")\n',
            ),
        ),
        quick=True,
    ),
    Mutant(
        "aborts on large noise",
        "the run ends if ‖b‖ is beyond its quantile q",
        f"{HOSTILE}::test_noise_beyond_the_quantile_makes_a_release_all_the_same",
        (
            Change(
                MINIMISER,
                "from ppadmm.mechanisms.reach import Reach, within\n",
                "from ppadmm.mechanisms.reach import Reach, noise_quantile, within\n",
            ),
            Change(
                MINIMISER,
                "        b = self._draw_linear(sub, noise, place)\n",
                "        b = self._draw_linear(sub, noise, place)\n"
                '        q = noise_quantile(self.scales["sigma1"], b.shape[1])\n'
                "        if (np.linalg.norm(b, axis=1) > q).any():\n"
                '            raise SolverError("Too much noise.")\n',
            ),
        ),
        quick=True,
    ),
    Mutant(
        "messages from beyond the radius",
        "messages of any size are taken",
        f"{HOSTILE}::test_what_is_beyond_the_radius_is_refused_and_changes_nothing",
        (Change("agent.py", "        self._require_within(message)\n", ""),),
        quick=True,
    ),
    Mutant(
        "c of any size",
        "c is not scaled to ‖c‖ ≤ μR",
        f"{HOSTILE}::test_no_subproblem_has_a_linear_term_beyond_the_radius",
        (
            Change(
                "mechanisms/reach.py",
                "        linear = within(sub.linear, sub.mu * self.radius)\n",
                "        linear = sub.linear\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "a radius of one's own",
        "R follows from an agent's own μ: honest neighbours refuse each other",
        f"{HOSTILE}::test_all_agents_of_a_network_find_the_same_radius",
        (
            Change(
                "algorithms/pp.py",
                "2.0 * settings.etas * max(site.agents - 1, 1)\n",
                "2.0 * settings.etas * site.degree\n",
            ),
        ),
    ),
    Mutant(
        "releases from beyond the radius",
        "values are sent as they are: neighbours refuse the largest",
        f"{HOSTILE}::test_the_noise_is_cut_off_nowhere",
        (
            Change(
                MINIMISER,
                "        return Release.everyone(within(value, self.radius)), solution.warm\n",
                "        return Release.everyone(value), solution.warm\n",
            ),
        ),
    ),
    Mutant(
        "single precision to the last",
        "gradients in single precision are used and believed down to the tolerance",
        "tests/contracts/test_solvers.py::test_the_certificate_is_true",
        (
            Change(
                "solvers/base.py",
                "    return max(SINGLE_ABOVE, 30.0 * tolerance)\n",
                "    return tolerance\n",
            ),
            Change(
                "solvers/base.py",
                "        if not (single or norms.min() > tolerance):\n",
                "        if not norms.min() > tolerance:\n",
            ),
            Change("solvers/base.py", "SINGLE_BLUR = 2.0**-20\n", "SINGLE_BLUR = 0.0\n"),
            Change(
                "solvers/single.py",
                "        if not at.double:\n            return inf\n",
                "",
            ),
            Change(
                "solvers/each.py",
                "np.flatnonzero(~(double & (residual <= tolerance)))",
                "np.flatnonzero(~(residual <= tolerance))",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "the tail of b is free",
        "‖b‖ > q is not charged like the distance of a sampler",
        f"{HOSTILE}::test_the_tail_beyond_the_quantile_is_what_is_charged",
        (
            Change(
                "privacy/sensitivity.py",
                "    return 2.0 * total_variation(d, 1.0, FINENESS) + TAIL\n",
                "    return 2.0 * total_variation(d, 1.0, FINENESS)\n",
            ),
        ),
    ),
)

RECORDS = (
    Mutant(
        "a norm that misses a category",
        "rows are scaled as if the first one-hot group were not there",
        "tests/contracts/test_representations.py::test_coded_rows_are_the_dense_ones",
        (
            Change(
                "data/coded.py",
                "+ (codes < d).sum(axis=1) + 1.0",
                "+ (codes < d)[:, 1:].sum(axis=1) + 1.0",
            ),
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
        "tests/ledger/test_tampering.py::TestTampering"
        "::test_secrets_that_were_deleted_or_changed_are_named",
        (
            Change(
                "privacy/chain.py",
                '        ("the secret beside it is", row.secret, "secret"),\n',
                "",
            ),
            Change(
                "privacy/chain_file.py",
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
                "        noise = desk.pay(self.charges)\n"
                "        b = self._draw_linear(sub, noise, place)\n",
                "        b = self._draw_linear(sub, desk.source, place)\n"
                "        noise = desk.pay(self.charges)\n",
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
                "privacy/run_ledger.py",
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
                "privacy/books.py",
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
                "privacy/accounts.py",
                "    if protection == granted:\n        return None\n",
                "    return None\n",
            ),
            Change("privacy/books.py", "        self._require_protection(run)\n", ""),
        ),
    ),
    Mutant(
        "an order chosen after the fact",
        "the filter takes the order that is best for the runs that were made",
        "tests/privacy/test_filters.py::TestAConcreteSequence::test_the_filter_stops_it_in_time",
        (
            Change(
                "privacy/filters.py",
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
                "estimator/watch.py",
                "        found = odometer([fit.cost for fit in fits], first.delta, order)\n",
                "        from ppadmm.privacy.totals import together\n\n"
                "        found = together([fit.cost for fit in fits], first.delta).epsilon\n",
            ),
        ),
    ),
    Mutant(
        "how long a search took",
        "the ledger of a repeated search shows when its best run ended, and so how many there were",
        "tests/cli/test_tune.py::TestLedger"
        "::test_how_long_a_repeated_search_took_is_not_in_the_ledger",
        (
            Change(
                "privacy/run_ledger.py",
                '        self.stamp = {"time": self.state.body["time"]}\n',
                "        self.stamp = {}\n",
            ),
        ),
    ),
    Mutant(
        "a group with one determinant",
        "k records cost J at k times κ in place of k·J (0.1)",
        "tests/privacy/test_groups.py::TestTheCounterExample",
        (
            Change(
                "privacy/groups.py",
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
        "tests/ledger/test_certificates.py::TestContent::test_a_false_statement_is_rejected",
        (
            Change(
                "privacy/truth.py",
                "if stated is None or not math.isclose(stated, found, rel_tol=TOLERANCE,"
                " abs_tol=1e-9):",
                "if stated is None or stated > found * (1.0 + TOLERANCE) + 1e-9:",
            ),
        ),
    ),
    Mutant(
        "a seeded run called private",
        "a seed is no reason against a guarantee",
        "tests/cli/test_train.py::TestPrivacy::test_a_seed_repeats_and_is_not_private",
        (
            Change(
                "experiments/verdict.py",
                "    if spec.seed is not None:\n",
                "    if spec.seed is not None and spec.seed < 0:\n",
            ),
        ),
    ),
    Mutant(
        "half the curvature",
        "Theorem A with half of its curvature term",
        "tests/ledger/test_recompute.py::test_both_give_the_same_epsilon",
        (
            Change(
                "privacy/accountant.py",
                "event.ratio / 2.0 + width / 2.0 * curvature\n",
                "event.ratio / 2.0 + width / 4.0 * curvature\n",
            ),
        ),
    ),
)

MUTANTS = (*NOISE, *TESTS, *ENDS, *RECORDS, *BOOKS, *CLAIMS)
