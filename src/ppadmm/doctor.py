"""Is this machine fit to train on: versions, extras, data, kernel, and a look at the noise.

The look at the noise draws from the sampler and the entropy source that a private run uses and
compares with the law they should follow (Kolmogorov–Smirnov, χ²). It finds a sampler that is badly
broken, not a subtle fault, and proves nothing.
"""

import os
import platform
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from scipy.stats import chisquare, kstest

from ppadmm import __version__
from ppadmm.arrays import Array
from ppadmm.datasets import SOURCES, data_folder
from ppadmm.noise import FINENESS, Key, NoiseSource, SecureNoise
from ppadmm.problem import kernels
from ppadmm.sampling.choice import in_words

DRAWS = 4096
BYTES = 1 << 16
ALARM = 1e-6
"""A p-value below this is an alarm: by chance once in a million looks."""
BASE = (
    "numpy", "scipy", "opendp", "dp-accounting", "cryptography", "jinja2", "networkx", "pyarrow",
    "typer", "rich",
)  # fmt: skip
EXTRAS = {
    "docs": ("furo", "building the documentation"),
    "fast": ("numba", "compiled gradients and noise: training in less time"),
    "figures": ("matplotlib", "the paper's figures (ppadmm reproduce) and result.plot_curves()"),
    "mlflow": ("mlflow-skinny", "tracking runs with MLflow"),
    "peer": ("eclipse-zenoh", "links between sites over a network"),
    "ray": ("ray", "sweeps and agents on a Ray cluster of your own"),
    "sklearn": ("scikit-learn", "PrivateAdditiveClassifier and other classifiers"),
}
"""What each extra installs, and what it is for."""


@dataclass(frozen=True)
class Look:
    """One comparison of draws with their law; `passed` unless the p-value is an alarm."""

    name: str
    test: str
    draws: int
    p_value: float
    passed: bool


@dataclass(frozen=True)
class Findings:
    """All that was found; `well` if private training can be relied on as far as it was looked."""

    version: str
    python: str
    platform: str
    packages: dict[str, str | None]
    extras: dict[str, dict[str, Any]]
    data_dir: str | None
    data: dict[str, bool]
    kernel: str
    sampler: str
    noise: tuple[Look, ...]
    problems: tuple[str, ...]

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return {"well": self.well, **asdict(self)}


def examine(
    data_dir: str | None = None,
    noise: NoiseSource | None = None,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
) -> Findings:
    """Look at this machine; `noise` and `entropy` are those of a private run unless given."""
    folder = data_folder(data_dir)
    packages = {name: _installed(name) for name in BASE}
    looks = look_at_noise(noise or SecureNoise(), entropy)
    kernel = os.environ.get(kernels.VARIABLE, "auto")
    quickest = "numba" if kernels.has_numba() else "numpy"
    return Findings(
        version=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=packages,
        extras={name: _extra(*what) for name, what in EXTRAS.items()},
        data_dir=None if folder is None else str(folder),
        data={name: source.present(folder) for name, source in SOURCES.items()},
        kernel=quickest if kernel == "auto" else kernel,
        sampler=in_words(),
        noise=looks,
        problems=tuple(_problems(packages, looks, kernel)),
    )


def look_at_noise(noise: NoiseSource, entropy: Callable[[int], bytes]) -> tuple[Look, ...]:
    """Compare Gaussian and Laplace draws with their laws, and bytes with the uniform one."""
    counts = np.bincount(np.frombuffer(entropy(BYTES), dtype=np.uint8), minlength=256)
    looks = (
        ("Gaussian noise", "Kolmogorov–Smirnov", DRAWS, _against(noise.gaussian, "norm")),
        ("Laplace noise", "Kolmogorov–Smirnov", DRAWS, _against(noise.laplace, "laplace")),
        ("entropy of the system", "χ² over bytes", BYTES, float(chisquare(counts).pvalue)),
    )
    return tuple(Look(*look, passed=look[-1] >= ALARM) for look in looks)


def _against(draw: Callable[[Array, Array, Array, Key], Array], law: str) -> float:
    """Return the p-value of draws of scale 3 around 1, scaled back."""
    scale = np.array([3.0])
    drawn = draw(np.ones((1, DRAWS)), scale, scale * FINENESS, Key(0, 0, "doctor"))
    return float(kstest((drawn[0] - 1.0) / 3.0, law).pvalue)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _extra(package: str, purpose: str) -> dict[str, Any]:
    found = _installed(package)
    return {"package": package, "version": found, "present": found is not None, "for": purpose}


def _problems(packages: dict[str, str | None], looks: Sequence[Look], kernel: str) -> list[str]:
    lacking = [f"{name} is not installed" for name, found in packages.items() if found is None]
    alarms = [
        f"{look.name}: {look.test} over {look.draws:,} draws gives p = {look.p_value:.2g}; do not "
        "train on private records here"
        for look in looks
        if not look.passed
    ]
    if kernel not in kernels.CHOICES:
        lacking.append(f"{kernels.VARIABLE} is {kernel!r}, not one of {', '.join(kernels.CHOICES)}")
    elif kernel == "numba" and not kernels.has_numba():
        lacking.append(f"{kernels.VARIABLE} is 'numba', which is not installed")
    return lacking + alarms
