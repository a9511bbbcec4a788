"""A census that never was: the same 48,842 made-up people on every machine, no file needed.

Each column is drawn given the ones before it, so that they depend on one another as in a census;
the label follows a logistic model of them. No real record was used.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ppadmm.data.features import Categorical, Numeric
from ppadmm.data.schema import Label, Schema
from ppadmm.data.shard import Vector

RECORDS, TRAIN_RECORDS = 48_842, 35_000
_SEED = 19_940_401

Codes = NDArray[np.int64]

WORK_CLASSES = ("Private", "Public", "Self-employed", "Own-company", "Unpaid")
MARITAL = ("Married", "Never-married", "Divorced", "Separated", "Widowed")
RELATIONSHIPS = ("Spouse", "Child", "Alone", "Lone-parent", "Other-relative")
OCCUPATIONS = (
    "Professional", "Manager", "Technician", "Clerical", "Sales", "Craft", "Machine-operator",
    "Transport", "Service", "Farming", "Labourer",
)  # fmt: skip
REGIONS = ("North", "East", "South", "West", "Centre", "Islands")
SEXES = ("Female", "Male")

SYNTHETIC = Schema(
    columns=(
        Numeric("age", 0, 100, whole=True),
        Numeric("education-years", 0, 20, whole=True),
        Numeric("hours-per-week", 0, 100, whole=True),
        Numeric("household-size", 1, 10, whole=True),
        Numeric("capital-gain", 0, 100_000, "log"),
        Numeric("capital-loss", 0, 5_000, "log"),
        Categorical("work-class", WORK_CLASSES),
        Categorical("marital-status", MARITAL),
        Categorical("occupation", OCCUPATIONS),
        Categorical("relationship", RELATIONSHIPS),
        Categorical("region", REGIONS),
        Categorical("sex", SEXES),
    ),
    label=Label("income", positive=("high",), negative=("low",)),
)
"""6 numeric + one-hot 5 + 5 + 11 + 5 + 6 + 2 = 40 features, and the intercept."""


def generate() -> Any:
    """Return the 48,842 records as a `pyarrow.Table`; about a quarter have a high income."""
    # Only random, standard_normal and integers, whose streams numpy has kept unchanged.
    rng = np.random.Generator(np.random.PCG64(_SEED))
    age, sex, region = _person(rng)
    years = _education(rng, age, region)
    marital = _marital(rng, age)
    relationship = _relationship(rng, age, marital)
    occupation = _occupation(rng, years, sex, region)
    work = _work_class(rng, age, occupation)
    hours = _hours(rng, age, sex, occupation, work)
    gain, loss = _capital(rng, age, years, work)
    size = _household(rng, relationship)
    groups = _by_group(sex, marital, occupation, work, region)
    score = _score(groups, age, years, hours, gain, loss)
    high = score + _logistic(rng) > 0
    unknown = rng.random(RECORDS) < 0.05
    return pa.table(
        {
            "age": age,
            "education-years": years,
            "hours-per-week": hours,
            "household-size": size,
            "capital-gain": gain,
            "capital-loss": loss,
            "work-class": _names(WORK_CLASSES, work, unknown),
            "marital-status": _names(MARITAL, marital),
            "occupation": _names(OCCUPATIONS, occupation, unknown),
            "relationship": _names(RELATIONSHIPS, relationship),
            "region": _names(REGIONS, region),
            "sex": _names(SEXES, sex),
            "income": _names(("low", "high"), high.astype(np.int64)),
        }
    )


def _person(rng: np.random.Generator) -> tuple[Vector, Codes, Codes]:
    """Age falls off from 17 to 90; sex and region are independent of it."""
    age = np.floor(17 + 74 * (1 - np.sqrt(1 - rng.random(RECORDS) ** 1.1)))
    sex = (rng.random(RECORDS) < 0.55).astype(np.int64)
    region = _choose(rng, np.tile(np.log([0.3, 0.2, 0.2, 0.15, 0.1, 0.05]), (RECORDS, 1)))
    return age, sex, region


def _education(rng: np.random.Generator, age: Vector, region: Codes) -> Vector:
    """Older people went to school for less long, the young are still there."""
    by_region = np.array([0.5, 0.2, -0.7, 0.3, 0.0, -0.5])[region]
    mean = 12.3 + by_region - 0.035 * np.maximum(age - 45, 0) - 0.25 * np.maximum(23 - age, 0)
    return np.clip(np.round(mean + 2.6 * rng.standard_normal(RECORDS)), 1, 18)


def _marital(rng: np.random.Generator, age: Vector) -> Codes:
    settled = np.clip((age - 17) / 20, 0, 1.5)
    weights = np.column_stack(
        [
            2.6 * settled - 0.8,
            2.2 - 1.9 * settled,
            1.3 * settled - 0.6,
            0.7 * settled - 1.6,
            0.09 * (age - 70),
        ]
    )
    return _choose(rng, weights)


def _relationship(rng: np.random.Generator, age: Vector, marital: Codes) -> Codes:
    """Almost all who are married are a spouse; the young live with their parents."""
    married = marital == 0
    apart = (marital >= 2).astype(np.float64)
    zero = np.zeros(RECORDS)
    weights = np.column_stack(
        [np.where(married, 6.0, -np.inf), 0.25 * (25 - age), zero + 1.5, 1.5 * apart - 0.5, zero]
    )
    return _choose(rng, weights)


def _occupation(rng: np.random.Generator, years: Vector, sex: Codes, region: Codes) -> Codes:
    """log-odds = base + slope·(years of education − 12) + shift·[male]; farms lie in the south."""
    base = np.array([-0.3, 0.0, -1.2, 0.3, 0.2, 0.0, -0.3, -0.6, 0.2, -1.2, -0.6])
    slope = np.array([0.75, 0.4, 0.3, 0.1, 0.1, -0.2, -0.3, -0.25, -0.2, -0.3, -0.35])
    shift = np.array([0.0, 0.3, 0.0, -1.0, 0.0, 2.0, 0.6, 1.6, -0.7, 1.0, 0.9])
    weights = base + slope * (years - 12)[:, None] + shift * (sex - 0.5)[:, None]
    weights[:, 9] += region == 2
    return _choose(rng, weights)


def _work_class(rng: np.random.Generator, age: Vector, occupation: Codes) -> Codes:
    own = np.array([0.0, 0.6, -0.5, -1.5, 0.5, 0.7, -1.5, 0.0, -0.3, 2.0, -1.0])[occupation]
    public = np.array([0.8, 0.2, 0.3, 0.6, -1.5, -0.6, -1.5, -0.3, 0.2, -1.5, -0.8])[occupation]
    older = (age - 40) / 30
    zero = np.zeros(RECORDS)
    weights = [zero + 1.8, public, own - 0.5 + older, own - 1.4 + 1.5 * older, zero - 4]
    return _choose(rng, np.column_stack(weights))


def _hours(
    rng: np.random.Generator, age: Vector, sex: Codes, occupation: Codes, work: Codes
) -> Vector:
    """Half of those aged 23 to 64 work 40 hours sharp."""
    mean = 40 + 3 * (2 * sex - 1) + np.array([0, -1, 4, 7, -10])[work]
    mean = mean + np.array([2, 4, 0, -2, 0, 1, 0, 2, -5, 6, -2])[occupation]
    mean = mean - 2.0 * np.maximum(23 - age, 0) - 1.0 * np.maximum(age - 62, 0)
    hours = np.clip(np.round(mean + 10 * rng.standard_normal(RECORDS)), 1, 99)
    sharp = (rng.random(RECORDS) < 0.5) & (age > 22) & (age < 65)
    return np.where(sharp, 40.0, hours)


def _capital(
    rng: np.random.Generator, age: Vector, years: Vector, work: Codes
) -> tuple[Vector, Vector]:
    """One in twelve has gains, one in twenty losses: log-normal, in whole units of money."""
    wealth = 0.03 * (age - 40) + 0.25 * (years - 12) + np.array([0, 0, 0.3, 1.0, 0])[work]
    gains = wealth + _logistic(rng) > 3.3
    losses = ~gains & (0.7 * wealth + _logistic(rng) > 3.4)
    gain = np.exp(8.3 + 0.3 * wealth + 0.8 * rng.standard_normal(RECORDS))
    loss = np.exp(7.5 + 0.2 * rng.standard_normal(RECORDS))
    return (
        np.where(gains, np.minimum(np.round(gain), 99_999), 0.0),
        np.where(losses, np.minimum(np.round(loss), 4_999), 0.0),
    )


def _household(rng: np.random.Generator, relationship: Codes) -> Vector:
    least = np.array([2, 2, 1, 2, 2])[relationship]
    more = np.floor(-1.2 * np.log(1 - rng.random(RECORDS)))
    return np.asarray(np.minimum(least + np.where(relationship == 2, 0, more), 10), np.float64)


def _by_group(sex: Codes, marital: Codes, occupation: Codes, work: Codes, region: Codes) -> Vector:
    """Return what the groups that people belong to add to the log-odds of a high income."""
    logits: Vector = (
        np.array([2.4, 0.0, 0.2, 0.0, 0.1])[marital]
        + np.array([0.7, 0.9, 0.6, 0.1, 0.3, 0.1, -0.3, -0.1, -0.9, -1.2, -0.8])[occupation]
        + np.array([0.0, 0.1, -0.4, 0.4, -2.0])[work]
        + np.array([0.1, 0.0, -0.4, 0.2, 0.0, -0.3])[region]
        + 0.3 * sex
    )
    return logits


def _score(
    groups: Vector, age: Vector, years: Vector, hours: Vector, gain: Vector, loss: Vector
) -> Vector:
    """Log-odds of a high income."""
    career = 0.055 * np.minimum(age - 40, 12) - 0.03 * np.maximum(age - 62, 0)
    effort = 0.33 * (years - 12) + 0.035 * (hours - 40)
    capital = 0.28 * np.log1p(gain) + 0.12 * np.log1p(loss)
    logits: Vector = -3.05 + 0.9 * (groups + career + effort + capital)
    return logits


def _choose(rng: np.random.Generator, weights: Vector) -> Codes:
    """One category per record with probability ∝ exp(weight): argmax of weight + Gumbel."""
    gumbel = -np.log(-np.log1p(-rng.random(weights.shape)) + 1e-300)
    return np.asarray(np.argmax(weights + gumbel, axis=1), np.int64)


def _logistic(rng: np.random.Generator) -> Vector:
    """Draw standard logistic noise, log(u/(1−u))."""
    u = np.clip(rng.random(RECORDS), 1e-16, None)
    noise: Vector = np.log(u) - np.log1p(-u)
    return noise


def _names(names: tuple[str, ...], codes: Codes, unknown: NDArray[np.bool_] | None = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=unknown), list(names))
