"""The interface of transports, on the ends that are joined in memory."""

import threading

import pytest

from ppadmm.errors import InputError, ProtocolError
from ppadmm.peers.transport import HELD, HISTORY, Inbox
from tests.peers.hub import Faults, Hub

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]


def started(hub, *numbers):
    ends = [hub.end(number) for number in numbers]
    for end in ends:
        end.start()
    return ends


def drain(end):
    found = []
    while (message := end.receive(0)) is not None:
        found.append(message)
    return found


def test_a_message_reaches_every_neighbour_and_nobody_else():
    ends = started(Hub(RING), *range(5))
    ends[0].publish(b"zero")
    assert [drain(end) for end in ends] == [[], [(0, b"zero")], [], [], [(0, b"zero")]]


def test_a_late_or_restarted_neighbour_gets_the_last_two_messages():
    hub = Hub(RING)
    (first,) = started(hub, 0)
    for text in (b"1", b"2", b"3"):
        first.publish(text)
    (late,) = started(hub, 1)
    assert drain(late) == [(0, b"2"), (0, b"3")]
    (again,) = started(hub, 1)
    assert drain(again) == [(0, b"2"), (0, b"3")]
    with pytest.raises(ProtocolError, match="not on the hub"):
        late.publish(b"from the dead")
    assert HISTORY == 2


def test_status_says_who_is_there_and_who_was_heard():
    hub = Hub([(0, 1)])
    a, b = started(hub, 0, 1)
    assert a.status().neighbours[1].connected
    assert a.status().neighbours[1].heard is None
    b.publish(b"x")
    assert a.status().neighbours[1].received == 1
    assert 0 <= a.status().neighbours[1].heard < 60
    b.close()
    b.close()
    assert not a.status().neighbours[1].connected


def test_a_message_above_the_cap_is_refused_before_it_is_read():
    with pytest.raises(ProtocolError, match="has 11 bytes; this run's cap is 10"):
        started(Hub([(0, 1)], cap=10), 0)[0].publish(bytes(11))
    inbox = Inbox([1], cap=10)
    inbox.put(1, 11, lambda: pytest.fail("it was read"))
    assert inbox.receive(0) is None
    assert inbox.neighbours()[1].refused == 1


def test_a_flood_pushes_out_its_own_messages_only_and_starves_nobody():
    inbox = Inbox([1, 2], cap=10)
    inbox.put(2, 1, lambda: b"q")
    for k in range(1000):
        inbox.put(1, 1, lambda k=k: bytes([k % 256]))
    first_two = {inbox.receive(0)[0], inbox.receive(0)[0]}
    assert first_two == {1, 2}
    left = 0
    while (found := inbox.receive(0)) is not None:
        last, left = found, left + 1
    assert (left, last) == (HELD - 1, (1, bytes([999 % 256])))


def test_a_flood_of_publishers_is_not_remembered_without_end():
    inbox = Inbox([1], cap=10)
    for k in range(1000):
        inbox.link(1, str(k), up=True)
    for k in range(HELD):
        assert inbox.neighbours()[1].connected
        inbox.link(1, str(k), up=False)
    assert not inbox.neighbours()[1].connected


def test_receive_waits_for_a_message_of_another_thread():
    a, b = started(Hub([(0, 1)]), 0, 1)
    timer = threading.Timer(0.05, a.publish, [b"late"])
    timer.start()
    assert b.receive(10) == (0, b"late")
    timer.join()


def arrivals(faults, count=300):
    a, b = started(Hub([(0, 1)], faults=faults), 0, 1)
    found = []
    for k in range(count):
        a.publish(k.to_bytes(2))
        found += [int.from_bytes(data) for _, data in drain(b)]
    for _ in range(faults.longest + 2):
        found += [int.from_bytes(data) for _, data in drain(b)]
    return found


def test_without_faults_everything_arrives_once_and_in_order():
    assert arrivals(Faults()) == list(range(300))


@pytest.mark.parametrize("seed", [0, 1])
def test_faults_come_at_their_rates_and_from_the_seed(seed):
    lossy = arrivals(Faults(loss=0.3, seed=seed))
    assert 160 < len(lossy) < 260
    assert lossy == sorted(set(lossy))
    twice = arrivals(Faults(repeat=0.3, seed=seed))
    assert 340 < len(twice) < 440
    assert set(twice) == set(range(300))
    late = arrivals(Faults(delay=0.5, longest=6, seed=seed))
    assert sorted(late) == list(range(300))
    assert late != sorted(late)
    assert lossy == arrivals(Faults(loss=0.3, seed=seed))
    assert lossy != arrivals(Faults(loss=0.3, seed=seed + 10))


def rounds(faults, last=30):
    """Five agents say their last two rounds until they have heard their neighbours' present one."""
    ends = started(Hub(RING, faults=faults), *range(5))
    heard = [set() for _ in ends]
    now = [0] * 5
    for _ in range(2000):
        for i, end in enumerate(ends):
            for k in range(max(0, now[i] - 1), now[i] + 1):
                end.publish(k.to_bytes(2))
            heard[i].update((j, int.from_bytes(data)) for j, data in drain(end))
            if all((j, now[i]) in heard[i] for j in ((i - 1) % 5, (i + 1) % 5)):
                now[i] = min(now[i] + 1, last)
        if now == [last] * 5:
            return True
    return False


def test_whoever_repeats_its_last_two_rounds_gets_through_any_loss_short_of_all():
    assert rounds(Faults(loss=0.3, repeat=0.3, delay=0.5))
    assert rounds(Faults(loss=0.9, delay=1.0, seed=3))
    assert not rounds(Faults(loss=1.0))


def test_faults_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match=r"Expected 0 ≤ loss ≤ 1, got 1\.5"):
        Faults(loss=1.5)
    with pytest.raises(InputError, match="Agent 7 has no neighbour"):
        Hub(RING).end(7)
