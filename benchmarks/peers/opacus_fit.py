"""Fit logistic regression by DP-SGD with Opacus on the records in a file; prints JSON.

Run by benchmarks/peers.py in an environment of its own. ε = 1 and δ = 1e-4 (add or remove a
record), 20 epochs of expected batch size 1,024, clipping at norm 1, learning rate 4; not tuned.
"""

import json
import sys
import time
import warnings

import numpy as np
import opacus
import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
file = np.load(sys.argv[1])
X, y, held, truth = (torch.tensor(file[n]).float() for n in ("X", "y", "test_X", "test_y"))
EPOCHS, BATCH = 20, 1024


def fit(seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimiser = torch.optim.SGD(model.parameters(), lr=4.0)
    loader = DataLoader(TensorDataset(X, (y + 1) / 2), batch_size=BATCH)
    model, optimiser, loader = opacus.PrivacyEngine().make_private_with_epsilon(
        module=model, optimizer=optimiser, data_loader=loader, epochs=EPOCHS,
        target_epsilon=1.0, target_delta=1e-4, max_grad_norm=1.0,
    )  # fmt: skip
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        for batch, labels in loader:
            optimiser.zero_grad()
            loss(model(batch)[:, 0], labels).backward()
            optimiser.step()
    return model


seconds, errors = [], []
for seed in range(int(sys.argv[2])):
    started = time.process_time()
    model = fit(seed)
    seconds.append(time.process_time() - started)
    with torch.no_grad():
        errors.append(float((model(held)[:, 0] * truth <= 0).float().mean()))
print(json.dumps({"seconds": seconds, "errors": errors, "opacus": opacus.__version__}))
