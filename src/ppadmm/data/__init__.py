"""Tables, schemas with public bounds, encoding, shards, partitions, named data sets.

    table ── schema ──▶ X, y ── partition ──▶ shards

Everything after a `Shard` may trust that ‖x‖ ≤ 1 and that y is one of the classes.
"""

from ppadmm.data.dataset import DataFile, Dataset
from ppadmm.data.encode import normalise_rows
from ppadmm.data.features import Categorical, Numeric
from ppadmm.data.infer import infer_schema
from ppadmm.data.interactions import Interaction
from ppadmm.data.partition import (
    Assignment,
    Partition,
    assign,
    by_column,
    deal,
    dirichlet,
    even,
    shards,
    sized,
    split,
)
from ppadmm.data.schema import Classes, Label, Schema, Target
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.data.sites import SiteFiles, find_sites
from ppadmm.data.stream.blocks import ShardStream, joined
from ppadmm.data.stream.streamed import MEMORY, StreamAssignment, StreamedData, open_stream
from ppadmm.data.suggest import suggest_schema
from ppadmm.data.tables import as_table, read_table

__all__ = [
    "MEMORY",
    "Assignment",
    "Categorical",
    "Classes",
    "DataFile",
    "Dataset",
    "Interaction",
    "Label",
    "Matrix",
    "Numeric",
    "Partition",
    "Schema",
    "Shard",
    "ShardStream",
    "SiteFiles",
    "StreamAssignment",
    "StreamedData",
    "Target",
    "Vector",
    "as_table",
    "assign",
    "by_column",
    "deal",
    "dirichlet",
    "even",
    "find_sites",
    "infer_schema",
    "joined",
    "normalise_rows",
    "open_stream",
    "read_table",
    "shards",
    "sized",
    "split",
    "suggest_schema",
]
