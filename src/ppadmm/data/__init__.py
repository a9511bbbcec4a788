"""Tables, schemas with public bounds, encoding, shards, partitions, named data sets.

    table ── schema ──▶ X, y ── partition ──▶ shards

Everything after a `Shard` may trust that ‖x‖ ≤ 1 and that y is one of the classes.
"""

from ppadmm.data.draft import draft_schema
from ppadmm.data.encode import normalise_rows
from ppadmm.data.named import NAMES, Dataset, load
from ppadmm.data.partition import even, shards, sized, split
from ppadmm.data.schema import Categorical, Classes, Label, Numeric, Schema, Target
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.data.tables import as_table, read_table

__all__ = [
    "NAMES",
    "Categorical",
    "Classes",
    "Dataset",
    "Label",
    "Matrix",
    "Numeric",
    "Schema",
    "Shard",
    "Target",
    "Vector",
    "as_table",
    "draft_schema",
    "even",
    "load",
    "normalise_rows",
    "read_table",
    "shards",
    "sized",
    "split",
]
