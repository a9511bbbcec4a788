"""A run in ten lines: train privately over five agents, read the statement and the model."""

from ppadmm import RunSpec, train

spec = RunSpec(data="synthetic", algorithm="pp", agents=5, graph="ring", epsilon=1.0)
result = train(spec)
print(result.statement.text())
for name, weight in zip(result.setup.schema.feature_names, result.model, strict=True):
    print(f"{name:<24} {weight:+.3f}")
