"""Tables, schemas with public bounds, encoding, shards, partitions, named data sets.

    table ── schema ──▶ X, y ── partition ──▶ shards

Everything after a `Shard` may trust that ‖x‖ ≤ 1 and that y is one of the classes.
"""

from ppadmm.data.blocks import ShardStream, joined
from ppadmm.data.draft import draft_schema
from ppadmm.data.encode import normalise_rows
from ppadmm.data.named import NAMES, SOURCES, Dataset, Source, data_folder, load
from ppadmm.data.partition import (
    Deal,
    Partition,
    by_column,
    deal,
    dirichlet,
    even,
    shards,
    sized,
    split,
)
from ppadmm.data.schema import Categorical, Classes, Label, Numeric, Schema, Target
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.data.stream import MEMORY, Dealing, StreamedData, open_stream
from ppadmm.data.suggest import suggest_schema
from ppadmm.data.tables import as_table, read_table

__all__ = [
    "MEMORY",
    "NAMES",
    "SOURCES",
    "Categorical",
    "Classes",
    "Dataset",
    "Deal",
    "Dealing",
    "Label",
    "Matrix",
    "Numeric",
    "Partition",
    "Schema",
    "Shard",
    "ShardStream",
    "Source",
    "StreamedData",
    "Target",
    "Vector",
    "as_table",
    "by_column",
    "data_folder",
    "deal",
    "dirichlet",
    "draft_schema",
    "even",
    "joined",
    "load",
    "normalise_rows",
    "open_stream",
    "read_table",
    "shards",
    "sized",
    "split",
    "suggest_schema",
]
