"""An engine of one's own: messages arrive late and out of order.

The numbers are those of the local engine, as noise is drawn from (seed, agent, round): they differ
by what the solvers' tolerance leaves open at most.
"""

import random

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.agent import Done, Send
from ppadmm.engines import local


def shuffled(roles, on_round=None):
    pairs = [role(lambda noise: noise) for role in roles]
    agents, post, over = [agent for agent, _ in pairs], [], set()
    rounds = [[None] * len(agents) for _ in range(agents[0].algorithm.rounds)]
    while len(over) < len(agents):
        i = random.randrange(len(agents))
        action = agents[i].next()
        if isinstance(action, Send):
            rounds[action.message.round][i] = action.release
            post += [(agents[j], action.message) for j in agents[i].neighbours]
        elif isinstance(action, Done):
            over.add(i)
        elif post:
            agent, message = post.pop(random.randrange(len(post)))
            agent.receive(message)
    return local.Trace.of(rounds), [local.ending(agent, risk) for agent, risk in pairs]


spec = RunSpec(agents=4, rounds=6, seed=1)
late, here = train(spec, engine=shuffled), train(spec)
print("the same numbers:", np.allclose(late.model, here.model, atol=1e-4))
