"""Fit logistic regression by DP-SGD with Opacus on encoded records; see timed.py for arguments.

Run by benchmarks/peers.py and glassbox.py in an environment of its own. δ = 1e-4 (add or remove a
record), 20 epochs of expected batch size 1,024, clipping at norm 1, learning rate 4; not tuned.
"""

import warnings

import opacus
import torch
from timed import run
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
EPOCHS, BATCH = 20, 1024


def read(X, y, _):
    return torch.tensor(X).float(), torch.tensor((y + 1) / 2).float()


def fit(X, y, epsilon, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimiser = torch.optim.SGD(model.parameters(), lr=4.0)
    loader = DataLoader(TensorDataset(X, y), batch_size=BATCH)
    model, optimiser, loader = opacus.PrivacyEngine().make_private_with_epsilon(
        module=model, optimizer=optimiser, data_loader=loader, epochs=EPOCHS,
        target_epsilon=epsilon, target_delta=1e-4, max_grad_norm=1.0,
    )  # fmt: skip
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        for batch, labels in loader:
            optimiser.zero_grad()
            loss(model(batch)[:, 0], labels).backward()
            optimiser.step()
    return model


def score(model, X):
    with torch.no_grad():
        return model(X)[:, 0].numpy()


if __name__ == "__main__":
    run(read, fit, score, f"Opacus {opacus.__version__}")
