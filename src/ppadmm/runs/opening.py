"""The records of a run: read as its specification says, with the knots of every curve settled."""

from ppadmm.data import Dataset, Partition, Schema, StreamedData, open_stream
from ppadmm.data.knots import settle_knots
from ppadmm.datasets import load
from ppadmm.runs.specification import RunSpec


def open_data(spec: RunSpec, data: object | None = None) -> Dataset | StreamedData:
    """Read what a spec names, or take the data that were given; every curve has its knots."""
    opened = _opened(spec, data)
    schema = settle_knots(opened.schema, opened.train_records, spec.mean_epsilon, spec.knots)
    return opened.with_schema(schema)


def _opened(spec: RunSpec, data: object | None) -> Dataset | StreamedData:
    if isinstance(data, Dataset | StreamedData):
        return data
    if data is None and spec.streamed:
        schema = Schema.from_toml(spec.schema) if isinstance(spec.schema, str) else spec.schema
        return open_stream(spec.data, schema, spec.memory)
    return load(
        spec.data if data is None else data,
        label=spec.label,
        data_dir=spec.data_dir,
        schema=spec.schema,
        holder=Partition.parse(spec.partition).column,
    )
