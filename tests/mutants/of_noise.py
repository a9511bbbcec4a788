"""Too little noise, or the same noise twice."""

from tests.mutants.mutant import MINIMISER, Change, Mutant

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
                "accounting/calibration.py",
                "    return Noise(sigma1, sigma2, Charge(events + _approximate(step)))\n",
                "    charge = Charge(events + _approximate(step))\n"
                "    return Noise(sigma1 / math.sqrt(2.0), sigma2, charge)\n",
            ),
        ),
    ),
    Mutant(
        "sigma1 by two per cent",
        "0.98·σ₁ at the price of σ₁: too little to be seen in a game",
        "tests/mechanisms/test_noise_scales.py::test_both_noises_of_a_release",
        (
            Change(
                "accounting/calibration.py",
                "    return Noise(sigma1, sigma2, Charge(events + _approximate(step)))\n",
                "    return Noise(0.98 * sigma1, sigma2, Charge(events + _approximate(step)))\n",
            ),
        ),
    ),
    Mutant(
        "half the sensitivity",
        "s = 1/n in place of 2/n",
        "game: pp",
        (
            Change(
                "accounting/sensitivity.py",
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
                '        return self._released("normal", values, scale, grid)\n',
                '        if key.purpose != "linear":\n'
                '            return self._released("normal", values, scale, grid)\n'
                "        place = (key.agent, key.round, values.shape)\n"
                "        if place not in _DRAWN:\n"
                '            _DRAWN[place] = self._released("normal", values, scale, grid)\n'
                "        return _DRAWN[place]\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "secure noise ten per cent too small",
        "the secure sampler draws 0.9·σ",
        "tests/ground/test_noise.py::TestSecure::test_its_scale_is_the_one_that_is_asked_for",
        (
            Change(
                "noise.py",
                "on_grid.release(row, scale, exponent, law, store())",
                "on_grid.release(row, 0.9 * scale, exponent, law, store())",
            ),
        ),
    ),
    Mutant(
        "one noise for rows of one scale",
        "secure noise that is drawn at once is the same for everybody: who knows its own knows all",
        "tests/engines/test_vectorised.py::test_secure_noise_differs_from_agent_to_agent",
        (
            Change(
                "noise.py",
                "self._release(law, values[rows].ravel(), s, grid_exponent(g))\n",
                "self._release(law, 0.0 * values[0], s, grid_exponent(g))\n"
                "            noisy = (values[rows] + noisy).ravel()\n",
            ),
        ),
    ),
    Mutant(
        "one noise for all agents",
        "agents that run in step get the same secure noise: who knows its own knows the others'",
        "tests/engines/test_vectorised.py::test_secure_noise_differs_from_agent_to_agent",
        (
            Change(
                "engines/vectorised.py",
                "            noisy[row] = source.gaussian(values[row], scale[row], grid[row], own)",
                "            if row.start == 0:\n"
                "                drawn = source.gaussian(0.0 * values[row], scale[row], grid[row],"
                " own)\n"
                "            noisy[row] = values[row] + drawn * scale[row] / scale[0]",
            ),
        ),
    ),
    Mutant(
        "one residual only",
        "Δ₂ = β/μ in place of 2β/μ, as in the paper",
        "game: pp, second noise",
        (
            Change(
                "accounting/sensitivity.py",
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
                "        own = SharedState(release.value, state.own.total + release.value)\n",
                "        own = SharedState(release.value, state.own.total + warm.point)\n",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "curvature of a weight of one",
        "κ of a site that weighs 1, and nobody compares the noise's μ with the subproblem's",
        "game: pp, heavy site",
        (
            Change(
                "algorithms/pp.py",
                "    return (settings.ridge(site.agents) + 2.0 * settings.etas * site.degree)"
                " / site.weight\n",
                "    return settings.ridge(site.agents) + 2.0 * settings.etas * site.degree\n",
            ),
            Change(MINIMISER, "        self._require_convex(sub)\n", ""),
        ),
        quick=True,
    ),
    Mutant(
        "convexity of a weight of one",
        "κ of a site that weighs 1: every release of a heavy site is refused",
        "tests/algorithms/test_weights.py::test_noise_is_for_the_subproblem_that_is_solved",
        (
            Change(
                "algorithms/pp.py",
                "    return (settings.ridge(site.agents) + 2.0 * settings.etas * site.degree)"
                " / site.weight\n",
                "    return settings.ridge(site.agents) + 2.0 * settings.etas * site.degree\n",
            ),
        ),
    ),
    Mutant(
        "residual of a weight of one",
        "a solve ends at β where Δ₂ is for β/w",
        "game: pp, second noise",
        (
            Change(
                "algorithms/pp.py",
                "    beta, most_allowed = residual(site, settings), radius(site, settings, most)\n",
                "    beta, most_allowed = settings.beta, radius(site, settings, most)\n",
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
                "perturbed_minimiser(site, settings, ridge / site.weight, 1, most=ridge)",
                "perturbed_minimiser(site, settings, 2.0 * ridge / site.weight, 1, most=ridge)",
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
                "perturbed_minimiser(site, settings, ridge / site.weight, 1, most=ridge)",
                "perturbed_minimiser(site, settings, 2.0 * ridge / site.weight, 1, most=ridge)",
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
        "gradient noise of a weight of one",
        "noisy gradient descent weighs the gradient first and adds the noise of ∇f then",
        "game: gradient",
        (
            Change(
                "algorithms/gradient.py",
                "        slope = self.site.weight * self._noisy(state, charged)\n",
                "        slope = self._noisy(state, charged)\n",
            ),
            Change(
                "algorithms/gradient.py",
                "noise.gaussian(gradient, self.sigma, FINENESS * self.sigma, key)",
                "noise.gaussian(self.site.weight * gradient, self.sigma, FINENESS * self.sigma, "
                "key)",
            ),
        ),
        quick=True,
    ),
    Mutant(
        "score noise for all agents",
        "the noise of a score in `tune` for the records of all agents together",
        "game: tune, score",
        (
            Change(
                "runs/scoring.py",
                "(part.n * search.ratio)",
                "(sum(prepared.federation.records) * search.ratio)",
            ),
        ),
        quick=True,
    ),
)
