"""Peers of a run by sums, in memory: the local engine's model over any graph, and missing sites."""

import struct
import time
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.agent import Send
from ppadmm.algorithms import SharedState
from ppadmm.engines import local
from ppadmm.errors import ForeignError
from ppadmm.peers.messages import HEAD, SIGNATURE
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.parts import PART, PROPOSAL, PartCodec, Shelf, relayed
from ppadmm.problem import make_graph
from tests.peers.hub import Faults, Hub
from tests.peers.in_memory import agents_of, agreed, graph_of, join, key_of, peer_of, run_all

UNEQUAL = (60, 20, 400, 35, 150)
TRUSTS = [{"trust": "local"}, {"trust": "sum"}]
FAULTS = Faults(loss=0.3, repeat=0.3, delay=0.5, longest=6)


def by_sums(graph, records=UNEQUAL, **terms):
    return agreed(graph, records, **{"algorithm": "newton", "rounds": 5, **terms})


def model_of(agreement):
    return local.run(agents_of(agreement)).model(agreement.site_weights)[0]


@pytest.mark.parametrize("kind", ["ring", "star", "small-world", "complete"])
@pytest.mark.parametrize("trust", TRUSTS)
def test_peers_end_with_the_model_of_the_local_engine(kind, trust, tmp_path):
    agreement = by_sums(graph_of(5, kind), **trust)
    expected = model_of(agreement)
    peers, ends = join(agreement, agents_of(agreement), tmp_path)
    assert [end.reason for end in ends] == [""] * 5
    assert all(np.array_equal(end.model, expected) for end in ends)
    assert all(len(end.releases) == peers[0].rounds for end in ends)
    assert sum(peer.tally.refused for peer in peers) == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("trust", TRUSTS)
def test_loss_repetition_and_reordering_change_nothing(seed, trust, tmp_path):
    agreement = by_sums(graph_of(5), **trust)
    faults = replace(FAULTS, seed=seed)
    peers, ends = join(agreement, agents_of(agreement), tmp_path, faults)
    assert all(np.array_equal(end.model, model_of(agreement)) for end in ends)
    assert sum(peer.tally.repeated for peer in peers) > 0
