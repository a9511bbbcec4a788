"""Tests without noise, and runs that end otherwise on D than on D'."""

from tests.mutants.mutant import MINIMISER, TESTING, Change, Mutant

HOSTILE = "tests/contracts/test_malicious_neighbour.py"
HEAVY = "tests/algorithms/test_weights.py"

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
        "tests/algorithms/test_ipp.py::test_noise_decides_however_far_a_value_is_from_the_threshold",
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
        "tests for free",
        "Gaussian tests are made and not charged",
        "tests/engines/test_local.py::test_no_noise_is_drawn_for_a_charge_that_is_refused",
        (
            Change(
                TESTING,
                "        noise = charged.charge([charges[k] for k in rows])\n",
                "        noise = charged.source\n",
            ),
        ),
    ),
    Mutant(
        "sparse vector with half its query noise",
        "Lap(cΔ/ε₂) in place of Lap(2cΔ/ε₂)",
        "tests/mechanisms/test_noise_scales.py::test_the_sparse_vector_costs_what_it_says",
        (
            Change(
                TESTING,
                "np.asarray(2.0 * self.releases * self.sensitivity / self._split[1])",
                "np.asarray(self.releases * self.sensitivity / self._split[1])",
            ),
        ),
    ),
    Mutant(
        "a candidate without its residual",
        "the movement statistic as if candidates were exact minimisers",
        "tests/algorithms/test_ipp.py::test_a_candidate_may_be_anywhere_that_its_certificate_allows",
        (
            Change(
                "algorithms/statistics.py",
                "        moved = step.sensitivity / reach.mu + step.spread\n",
                "        moved = step.sensitivity / reach.mu\n",
            ),
        ),
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
                '        if (kept := charged.kept("threshold")) is not None:\n'
                "            return kept\n",
                "",
            ),
            Change(
                TESTING,
                "        if charged.paid(charges):\n"
                "            return np.full_like(self.threshold, np.inf)\n"
                "        noise = charged.charge(charges)\n",
                "        noise = charged.source if charged.paid(charges)"
                " else charged.charge(charges)\n",
            ),
            Change(
                TESTING,
                '        charged.keep("threshold", drawn)\n',
                '        if charged.kept("threshold") is None:\n'
                '            charged.keep("threshold", drawn)\n',
            ),
        ),
    ),
    Mutant(
        "statistic without room for rounding",
        "Δ = s: a neighbour makes ‖∇F‖ a small difference of large numbers",
        "tests/algorithms/test_ipp.py::test_a_neighbour_cannot_make_rounding_add_to_the_sensitivity",
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
        runs=300,
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
                "from ppadmm.mechanisms.limits import Reach, within\n",
                "from ppadmm.mechanisms.limits import Reach, noise_quantile, within\n",
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
    ),
    Mutant(
        "messages from beyond the radius",
        "messages of any size are taken",
        f"{HOSTILE}::test_what_is_beyond_the_radius_is_refused_and_changes_nothing",
        (Change("agent.py", "        self._require_within(message)\n", ""),),
    ),
    Mutant(
        "c of any size",
        "c is not scaled to ‖c‖ ≤ μR",
        f"{HOSTILE}::test_no_subproblem_has_a_linear_term_beyond_the_radius",
        (
            Change(
                "mechanisms/limits.py",
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
        "a radius for one's own weight",
        "R follows from an agent's own weight: heavy agents refuse what light ones may send",
        f"{HEAVY}::test_all_agents_find_one_radius_at_which_each_has_room_for_rounding",
        (
            Change(
                "algorithms/pp.py",
                "    loss, d, heaviest = site.risk.loss, site.risk.d, site.heaviest\n",
                "    loss, d, heaviest = site.risk.loss, site.risk.d, site.weight\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "a radius for a weight of one",
        "R as if all agents weighed 1: at a heavy one rounding out there takes more than β/w",
        f"{HEAVY}::test_all_agents_find_one_radius_at_which_each_has_room_for_rounding",
        (
            Change(
                "algorithms/pp.py",
                "    loss, d, heaviest = site.risk.loss, site.risk.d, site.heaviest\n",
                "    loss, d, heaviest = site.risk.loss, site.risk.d, 1.0\n",
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
        "tests/solvers/test_every_solver.py::test_the_certificate_is_true",
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
                "np.flatnonzero(~(double & (residual <= tolerances)))",
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
                "accounting/sensitivity.py",
                "    return 2.0 * total_variation(d, 1.0, FINENESS) + TAIL\n",
                "    return 2.0 * total_variation(d, 1.0, FINENESS)\n",
            ),
        ),
    ),
)
