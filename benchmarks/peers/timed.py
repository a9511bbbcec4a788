"""What the scripts in this folder have in common: fits from the command line, timed one by one.

    python NAME_fit.py RECORDS.npz SCORES.npz '[{"epsilon": 1.0, "seed": 0}, …]'

RECORDS has X, y, test_X and test_y, labels −1 and +1. A fit gets its settings by name. SCORES gets
the log-odds of the test records, a row for each fit; standard output the CPU seconds, as JSON. One
fit on a thousand records comes first and is not counted: it loads what is loaded late.
"""

import json
import sys
import time

import numpy as np

WARM_UP = 1000


def run(read, fit, score, version):
    """`read` makes what `fit` takes out of arrays, `score` judges a model; neither is timed."""
    file, out, fits = np.load(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    columns = str(file["columns"]) if "columns" in file else None
    X, y = file["X"], file["y"]
    fit(*read(X[:WARM_UP], y[:WARM_UP], columns), **fits[0])
    records, held = read(X, y, columns), read(file["test_X"], file["test_y"], columns)
    seconds, scores = [], []
    for settings in fits:
        started = time.process_time()
        model = fit(*records, **settings)
        seconds.append(time.process_time() - started)
        scores.append(score(model, held[0]))
    np.savez(out, scores=np.array(scores, dtype=np.float64))
    print(json.dumps({"seconds": seconds, "version": version}))
