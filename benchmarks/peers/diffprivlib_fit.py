"""Fit diffprivlib's logistic regression on the records in a file; prints JSON.

Run by benchmarks/peers.py in an environment of its own. ε = 1, rows of norm ≤ 1, an intercept
column among the features, C = 1/(n·10⁻³), a regulariser of 10⁻³; not tuned.
"""

import json
import sys
import time
import warnings

import numpy as np
import sklearn
from diffprivlib.models import LogisticRegression

warnings.filterwarnings("ignore")
file = np.load(sys.argv[1])
X, y, held, labels = (file[name] for name in ("X", "y", "test_X", "test_y"))
seconds, errors = [], []
for seed in range(int(sys.argv[2])):
    model = LogisticRegression(
        epsilon=1.0,
        data_norm=1.0,
        C=1 / (len(y) * 1e-3),
        fit_intercept=False,
        max_iter=1000,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(X, y)
    seconds.append(time.process_time() - started)
    errors.append(float(1 - model.score(held, labels)))
print(json.dumps({"seconds": seconds, "errors": errors, "scikit-learn": sklearn.__version__}))
