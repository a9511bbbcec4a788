"""Files of made-up people."""

import csv

import numpy as np


def write_people(path, seed=0, records=400):
    """A small file of made-up people; who is ill depends on age and dose."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(0, 100, records), rng.uniform(0, 5, records)
    ill = rng.random(records) < 1 / (1 + np.exp(3 - 0.04 * age - 0.5 * dose))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "ill"])
        rows = zip(age, dose, ill, strict=True)
        writer.writerows([f"{a:.1f}", f"{b:.2f}", "yes" if i else "no"] for a, b, i in rows)
    return path
