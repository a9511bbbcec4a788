"""Exact laws of the minimiser of F(θ) + bθ, by quadrature: what the theorems are tested against.

θ̃ is a bijection of b = −∇F(θ̃), so its density is φ_σ(∇F(θ))·det ∇²F(θ) and nothing has to be
sampled or estimated. `Lines` holds many problems on the line, `Plane` one problem in the plane.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, ndtr

from ppadmm.accounting.events import ObjectivePerturbation
from ppadmm.problem.losses import HuberHinge, Loss

LOG_2PI = np.log(2.0 * np.pi)
ORDERS = (1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0)
PAIRS = ("antipodal", "random", "aligned", "zero-out")


@dataclass(frozen=True)
class Lines:
    """I problems on the line, each for a data set D and a neighbour D'.

    F'(θ) = Σⱼ wⱼ ℓ'(θvⱼ)vⱼ + μθ + c. The last record is `old` in D and `new` in D', where it
    counts `kept` times (0 when its loss is zeroed out). Vectors have shape (I,), `others` and
    `weights` (I, J), points (I, M).
    """

    loss: Loss
    n: np.ndarray
    mu: np.ndarray
    c: np.ndarray
    sigma: np.ndarray
    others: np.ndarray
    weights: np.ndarray
    old: np.ndarray
    new: np.ndarray
    kept: np.ndarray

    @property
    def rank(self) -> np.ndarray:
        return np.where(self.kept == 1.0, 2, 1)

    @property
    def ratio(self) -> np.ndarray:
        return self.rank * self.loss.lipschitz / (self.n * self.sigma)

    @property
    def kappa(self) -> np.ndarray:
        return self.loss.smoothness / (self.n * self.mu)

    def events(self) -> list[ObjectivePerturbation]:
        rows = zip(self.ratio, self.kappa, self.rank, strict=True)
        return [ObjectivePerturbation(float(r), float(k), int(rank)) for r, k, rank in rows]

    def _records(self, primed: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = list(zip(self.others.T, self.weights.T, strict=True))
        last = (self.new, self.kept / self.n) if primed else (self.old, 1.0 / self.n)
        return [(v[:, None], w[:, None]) for v, w in [*pairs, last]]

    def slope(self, theta: np.ndarray, primed: bool = False) -> np.ndarray:
        """F'(θ) = −b."""
        total = self.mu[:, None] * theta + self.c[:, None]
        for v, w in self._records(primed):
            total = total + w * v * self.loss.gradient(v * theta)
        return total

    def curvature(self, theta: np.ndarray, primed: bool = False) -> np.ndarray:
        total = np.broadcast_to(self.mu[:, None], theta.shape)
        for v, w in self._records(primed):
            total = total + w * v**2 * self.loss.curvature(v * theta)
        return total

    def standard(self, theta: np.ndarray, primed: bool = False) -> np.ndarray:
        """F'(θ)/σ, standard normal when θ is the release."""
        return self.slope(theta, primed) / self.sigma[:, None]

    def points(self, z: np.ndarray) -> np.ndarray:
        """Solve F'(θ) = σz by bisection; (I, M) → (I, M)."""
        level = self.sigma[:, None] * z
        most = self.loss.lipschitz * (self.weights.sum(axis=1) + 1.0 / self.n)[:, None]
        low = (level - self.c[:, None] - most) / self.mu[:, None]
        high = low + 2.0 * most / self.mu[:, None]
        for _ in range(45):
            middle = (low + high) / 2.0
            below = self.slope(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2.0

    def edges(self, reach: np.ndarray, panels: int) -> np.ndarray:
        """Panel edges in θ: even in b out to `reach` σ, and at every kink or bend of F'."""
        even = self.points(reach[:, None] * np.linspace(-1.0, 1.0, panels + 1))
        bends = np.clip(self._bends(), even[:, :1], even[:, -1:])
        return np.sort(np.concatenate([even, bends], axis=1), axis=1)

    def _bends(self) -> np.ndarray:
        if isinstance(self.loss, HuberHinge):
            h, v = self.loss.width, np.column_stack([self.others, self.old, self.new])
            safe = np.where(np.abs(v) < 1e-9, 1e-9, v)
            return np.concatenate([(1.0 - h) / safe, (1.0 + h) / safe], axis=1)
        powers = 2.0 ** np.arange(-1, 12)
        return np.tile(np.concatenate([-powers, [0.0], powers]), (len(self.n), 1))

    def renyi(self, orders: np.ndarray, nodes: int = 20) -> np.ndarray:
        """Exact divergences of each order, (I, A) → (2, I, A): D from D', and D' from D."""
        reach = 9.5 + (np.nanmax(orders, axis=1) + 1.0) * self.ratio
        theta, log_w = _gauss_legendre(self.edges(reach, 110), nodes)
        log_p, log_q = (self._log_density(theta, primed) for primed in (False, True))
        for log_density in (log_p, log_q):
            assert np.abs(logsumexp(log_density + log_w, axis=1)).max() < 1e-9
        out = np.empty((2, *orders.shape))
        for a in range(orders.shape[1]):
            lam = orders[:, a, None] - 1.0
            there, back = log_p + lam * (log_p - log_q), log_q + lam * (log_q - log_p)
            out[0, :, a] = logsumexp(there + log_w, axis=1) / lam[:, 0]
            out[1, :, a] = logsumexp(back + log_w, axis=1) / lam[:, 0]
        return out

    def _log_density(self, theta: np.ndarray, primed: bool) -> np.ndarray:
        z = self.standard(theta, primed)
        jacobian = np.log(self.curvature(theta, primed) / self.sigma[:, None])
        return -0.5 * z**2 - 0.5 * LOG_2PI + jacobian

    def cells(self, count: int = 2500) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities under D and D' that θ̃ falls into each of many cells, (I, C) twice."""
        edges = self.edges(9.0 + 2.0 * self.ratio, count)
        return interval_masses(self.standard(edges)), interval_masses(self.standard(edges, True))


def interval_masses(z: np.ndarray) -> np.ndarray:
    """Φ(zₖ₊₁) − Φ(zₖ) along the last axis, accurate in both tails."""
    low, high = z[..., :-1], z[..., 1:]
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    return ndtr(b) - ndtr(a)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: np.ndarray | float) -> np.ndarray:
    """Σ (p − eᵉq)₊ over the last axis: never above the exact δ(ε), and close to it."""
    return np.maximum(p - np.exp(np.asarray(epsilon))[..., None] * q, 0.0).sum(axis=-1)


def _gauss_legendre(edges: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges, axis=1)[:, :, None] / 2.0
    theta = edges[:, :-1, None] + half * (1.0 + x)
    with np.errstate(divide="ignore"):
        log_w = np.log(half * w)
    return theta.reshape(len(edges), -1), log_w.reshape(len(edges), -1)


def random_lines(
    loss: Loss,
    pair: str,
    count: int,
    rng: np.random.Generator,
    *,
    kappa: tuple[float, float] = (1e-4, 3.0),
    ratio: tuple[float, float] = (1e-3, 10.0),
) -> Lines:
    """Random problems on the line; κ and s/σ log-uniform between the given limits."""
    n = np.round(np.exp(rng.uniform(0.0, np.log(50.0), count)))
    share = rng.dirichlet(np.ones(3), count)
    old, new = _records_on_the_line(pair, count, rng)
    kept = np.full(count, 0.0 if pair == "zero-out" else 1.0)
    mu = loss.smoothness / (n * _log_uniform(kappa, count, rng))
    s = np.where(kept == 1.0, 2.0, 1.0) * loss.lipschitz / n
    lines = Lines(
        loss=loss,
        n=n,
        mu=mu,
        c=np.zeros(count),
        sigma=s / _log_uniform(ratio, count, rng),
        others=rng.uniform(-1.0, 1.0, (count, 3)),
        weights=share * ((n - 1.0) / n)[:, None],
        old=old,
        new=new,
        kept=kept,
    )
    return centred(lines, _centres(loss, old, count, rng))


def centred(lines: Lines, theta: np.ndarray) -> Lines:
    """Choose the linear term such that θ̃ = θ when b = 0."""
    slope = lines.slope(theta[:, None])[:, 0] - lines.c
    return replace(lines, c=-slope)


def _records_on_the_line(pair: str, count: int, rng: np.random.Generator):
    sign = rng.choice([-1.0, 1.0], count)
    if pair == "antipodal":
        return sign * rng.uniform(0.9, 1.0, count), -sign * rng.uniform(0.9, 1.0, count)
    if pair == "aligned":
        return sign, sign * rng.uniform(0.0, 1.0, count)
    if pair == "zero-out":
        return sign * rng.uniform(0.8, 1.0, count), np.zeros(count)
    return rng.uniform(-1.0, 1.0, count), rng.uniform(-1.0, 1.0, count)


def _centres(loss: Loss, old: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Near 0, at the bend of the changed record's loss, far out, or anywhere."""
    bend = (1.0 if isinstance(loss, HuberHinge) else 0.0) / np.where(old == 0.0, 1.0, old)
    near, far = rng.normal(0.0, 0.3, count), -np.sign(old) * rng.uniform(4.0, 60.0, count)
    choices = np.stack([near, bend + rng.normal(0.0, 0.3, count), far, rng.normal(0, 10, count)])
    return choices[rng.integers(0, 4, count), np.arange(count)]


def _log_uniform(limits: tuple[float, float], count: int, rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.uniform(np.log(limits[0]), np.log(limits[1]), count))


def orders_for(lines: Lines, reach: float = 40.0) -> np.ndarray:
    """Orders worth testing, (I, A): fixed ones and some close to 1 + 1/κ; NaN out of reach."""
    fixed = np.tile(ORDERS, (len(lines.n), 1))
    near_pole = 1.0 + np.array([0.3, 0.7, 0.95]) / lines.kappa[:, None]
    orders = np.concatenate([fixed, near_pole], axis=1)
    far = (orders * lines.ratio[:, None] > reach) | (orders > 2000.0)
    far[:, 0] = False
    return np.where(far, np.nan, orders)


@dataclass(frozen=True)
class Plane:
    """One problem in the plane; `others` (J, 2) with `weights` (J,), μ, c (2,), σ as in `Lines`."""

    loss: Loss
    n: int
    mu: float
    c: np.ndarray
    sigma: float
    others: np.ndarray
    weights: np.ndarray
    old: np.ndarray
    new: np.ndarray | None

    @property
    def event(self) -> ObjectivePerturbation:
        rank = 1 if self.new is None else 2
        ratio = rank * self.loss.lipschitz / (self.n * self.sigma)
        return ObjectivePerturbation(ratio, self.loss.smoothness / (self.n * self.mu), rank)

    def _records(self, primed: bool) -> tuple[np.ndarray, np.ndarray]:
        last = self.new if primed else self.old
        if last is None:
            return self.others, self.weights
        return np.vstack([self.others, last]), np.append(self.weights, 1.0 / self.n)

    def gradient(self, theta: np.ndarray, primed: bool = False) -> np.ndarray:
        v, w = self._records(primed)
        return (self.loss.gradient(theta @ v.T) * w) @ v + self.mu * theta + self.c

    def hessian(self, theta: np.ndarray, primed: bool = False) -> np.ndarray:
        """The entries (h₁₁, h₁₂, h₂₂), stacked in front."""
        v, w = self._records(primed)
        bend = self.loss.curvature(theta @ v.T) * w
        return np.stack(
            [
                bend @ v[:, 0] ** 2 + self.mu,
                bend @ (v[:, 0] * v[:, 1]),
                bend @ v[:, 1] ** 2 + self.mu,
            ]
        )

    def points(self, b: np.ndarray) -> np.ndarray:
        """Solve ∇F(θ) + b = 0 by Newton, halving steps that do not shrink the residual."""
        theta = -(b + self.c) / self.mu
        residual = self.gradient(theta) + b
        enough = 1e-12 * (1.0 + np.abs(b).max() + np.abs(self.c).max())
        for _ in range(200):
            rows = np.flatnonzero(np.linalg.norm(residual, axis=1) > enough)
            if not len(rows):
                return theta
            theta[rows], residual[rows] = self._newton(theta[rows], residual[rows], b[rows])
        raise AssertionError("The minimiser was not found.")

    def _newton(self, theta, residual, b):
        h11, h12, h22 = self.hessian(theta)
        r1, r2 = residual.T
        step = np.stack([h22 * r1 - h12 * r2, h11 * r2 - h12 * r1], axis=1)
        step /= (h11 * h22 - h12**2)[:, None]
        size, t = np.linalg.norm(residual, axis=1), np.ones((len(theta), 1))
        for _ in range(12):
            trial = theta - t * step
            rest = self.gradient(trial) + b
            bad = ~(np.linalg.norm(rest, axis=1) < (1.0 - 0.1 * t[:, 0]) * size)
            if not bad.any():
                break
            t[bad] /= 2.0
        return trial, rest

    def losses(self, reach: float, step: float) -> tuple[np.ndarray, np.ndarray]:
        """On a grid of b/σ: log weights under D, and log p_D/p_D' at θ̃(b)."""
        axis = np.arange(-np.ceil(reach / step), np.ceil(reach / step) + 1) * step
        z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        theta = self.points(self.sigma * z)
        other = self.gradient(theta, True) / self.sigma
        ratio = 0.5 * ((other**2).sum(axis=1) - (z**2).sum(axis=1))
        ratio += np.log(_det(self.hessian(theta))) - np.log(_det(self.hessian(theta, True)))
        log_w = -0.5 * (z**2).sum(axis=1) - LOG_2PI + 2.0 * np.log(step)
        return log_w, ratio

    def panels(self, reach: float, nodes: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """For losses with kinks, all records along two axes: as `losses`, panels between kinks.

        In the coordinates t = (θ·u, θ·w), u and w the two axes, every kink is a straight line
        t₁ = const or t₂ = const, and Gauss–Legendre panels between them converge fast.
        """
        axes = self._axes()
        turn = np.linspace(0.0, 2.0 * np.pi, 400)
        circle = reach * self.sigma * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        image = self.points(circle) @ axes.T
        area = abs(np.linalg.det(axes))
        width = 1.5 * self.sigma * area / self._steepest
        parts = [self._axis_panels(image[:, k], axes[k], width, nodes) for k in (0, 1)]
        (t1, w1), (t2, w2) = parts
        t = np.stack(np.meshgrid(t1, t2, indexing="ij"), axis=-1).reshape(-1, 2)
        theta = t @ np.linalg.inv(axes).T
        log_p, log_q = (self._log_density(theta, primed) for primed in (False, True))
        return (w1[:, None] + w2).ravel() - np.log(area) + log_p, log_p - log_q

    @property
    def _steepest(self) -> float:
        return float(self.mu + self.loss.smoothness * (self.weights.sum() + 1.0 / self.n))

    def _axes(self) -> np.ndarray:
        second = np.array([-self.old[1], self.old[0]]) if self.new is None else self.new
        return np.stack([self.old, second])

    def _axis_panels(self, image: np.ndarray, axis: np.ndarray, width: float, nodes: int):
        low, high = image.min(), image.max()
        even = np.linspace(low, high, int(np.ceil((high - low) / width)) + 1)
        along = [1.0, *(v @ axis / (axis @ axis) for v in self.others if _parallel(v, axis))]
        assert isinstance(self.loss, HuberHinge)
        kinks = [(1.0 + sign * self.loss.width) / v for v in along if v for sign in (-1.0, 1.0)]
        edges = np.sort(np.concatenate([even, np.clip(kinks, low, high)]))
        t, log_w = _gauss_legendre(edges[None, :], nodes)
        keep = np.isfinite(log_w[0])
        return t[0, keep], log_w[0, keep]

    def _log_density(self, theta: np.ndarray, primed: bool) -> np.ndarray:
        z = self.gradient(theta, primed) / self.sigma
        jacobian = np.log(_det(self.hessian(theta, primed))) - 2.0 * np.log(self.sigma)
        return -0.5 * (z**2).sum(axis=1) - LOG_2PI + jacobian

    def renyi(self, orders: np.ndarray, step: float = 0.125) -> np.ndarray:
        """Exact divergences of D from D' and of D' from D, (A,) → (2, A)."""
        reach = 8.0 + (orders.max() + 1.0) * self.event.ratio
        kinked = isinstance(self.loss, HuberHinge)
        log_w, ratio = self.panels(reach) if kinked else self.losses(reach, step)
        for lam in (0.0, -1.0):
            assert abs(logsumexp(log_w + lam * ratio)) < 1e-9
        there = [logsumexp(log_w + (a - 1.0) * ratio) / (a - 1.0) for a in orders]
        back = [logsumexp(log_w - a * ratio) / (a - 1.0) for a in orders]
        return np.array([there, back])


def _parallel(v: np.ndarray, axis: np.ndarray) -> bool:
    return abs(v[0] * axis[1] - v[1] * axis[0]) < 1e-12


def _det(h: np.ndarray) -> np.ndarray:
    return h[0] * h[2] - h[1] ** 2


def random_plane(loss: Loss, pair: str, rng: np.random.Generator) -> Plane:
    """Return a random problem in the plane, the noise no wider than the bends of the loss."""
    kinked = isinstance(loss, HuberHinge)
    n = int(rng.integers(1, 6)) if kinked else round(np.exp(rng.uniform(0.0, np.log(50.0))))
    mu = loss.smoothness / (n * np.exp(rng.uniform(np.log(1e-3), np.log(0.6 if kinked else 2.0))))
    old, new, start = _records_in_the_plane(pair, kinked, rng)
    s = (1.0 if new is None else 2.0) * loss.lipschitz / n
    ratio = np.exp(rng.uniform(np.log(max(s * 0.2 / mu, 0.01)), np.log(max(s / mu, 2.0))))
    others = rng.normal(size=(3, 2))
    others *= rng.uniform(0.0, 1.0, (3, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    if kinked:
        others = np.stack([0.7 * old, -0.4 * old, 0.0 * old])
    weights = rng.dirichlet(np.ones(3)) * (n - 1) / n
    plane = Plane(loss, n, mu, np.zeros(2), s / min(ratio, 4.0), others, weights, old, new)
    return replace(plane, c=-plane.gradient(start[None, :])[0])


def _records_in_the_plane(pair: str, kinked: bool, rng: np.random.Generator):
    turn = rng.uniform(0.0, 2.0 * np.pi)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    near = 0.2 if kinked else 0.085
    psi = {"antipodal": near, "aligned": 1.3}.get(pair, rng.uniform(0.2, np.pi / 2.0 - 0.2))
    old, new = np.array([-np.sin(psi), np.cos(psi)]), np.array([-np.sin(psi), -np.cos(psi)])
    far = pair in ("antipodal", "zero-out") and not kinked
    start = np.array([60.0, 0.0]) if far else rng.normal(0, 1 if kinked else 3, 2)
    if pair == "random":
        old, new = old * rng.uniform(0.3, 1.0), new * rng.uniform(0.3, 1.0)
    return rotation @ old, None if pair == "zero-out" else rotation @ new, rotation @ start
