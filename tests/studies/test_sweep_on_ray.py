"""Sweeps over Ray: the same numbers, and a dead worker or driver costs the cell it was in."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ppadmm.engines import processes
from ppadmm.engines.ray import tasks
from ppadmm.errors import InfeasibleError, InputError, WorkerError
from ppadmm.studies.sweep import sweep
from tests.processes import descendants, name_of
from tests.small_problems import assert_alike
from tests.studies.test_sweep import finished, gone, wait_for

DRIVER = """
import pickle, sys
from functools import partial
from pathlib import Path
from ppadmm.engines.ray import tasks
from ppadmm.studies.sweep import sweep
if __name__ == "__main__":
    cells = pickle.loads(Path(sys.argv[1]).read_bytes())
    sweep(cells, Path(sys.argv[2]), runner=partial(tasks.run, jobs=2))
"""
over_ray = partial(tasks.run, jobs=2)


def diary(path, function):
    """Return `function` that first writes down which item it runs in which process."""

    def noted(item):
        with path.open("a") as file:
            file.write(f"{os.getpid()} {item.digest()}\n")
        return function(item)

    return noted


def lines(path):
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_the_same_numbers_as_here(ray_cluster, tmp_path, cells):
    here = sweep(cells)
    there = sweep(cells[::-1], tmp_path / "cells", runner=over_ray)
    assert there.ran == len(cells)
    assert there.results == here.results
    again = sweep(cells, tmp_path / "cells", runner=over_ray)
    assert (again.ran, again.results) == (0, here.results)


def test_a_killed_worker_costs_only_its_cell(ray_cluster, tmp_path, cell, capfd):
    many = [replace(cell, split=k, rounds=60) for k in range(8)]
    log = tmp_path / "log"

    def kill_one():
        wait_for(lambda: len(lines(log)) >= 4)
        os.kill(int(lines(log)[3][0]), signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = sweep(
        many,
        tmp_path / "cells",
        runner=lambda run_cell, left: over_ray(diary(log, run_cell), left),
    )
    killer.join()
    ran = [digest for _, digest in lines(log)]
    assert {digest: ran.count(digest) for digest in ran} == {
        cell.digest(): 2 if cell.digest() == ran[3] else 1 for cell in many
    }
    assert done.results == sweep(many).results
    assert capfd.readouterr() == ("", "")


def test_a_killed_driver_leaves_no_worker_and_its_sweep_continues(ray_cluster, tmp_path, cell):
    folder, log = tmp_path / "cells", tmp_path / "log"
    many = [replace(cell, split=k, rounds=60) for k in range(12)]
    (tmp_path / "cells.pickle").write_bytes(pickle.dumps(many))
    (tmp_path / "driver.py").write_text(DRIVER)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "driver.py", tmp_path / "cells.pickle", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: len(finished(folder)) >= 2 or process.poll() is not None)
    # Ray's two helpers called Agent take half a minute to end
    workers = {pid for pid in descendants(process.pid) if b"Agent" not in name_of(pid)}
    process.kill()
    assert process.communicate() == (b"", b"")
    kept = {path: path.stat().st_mtime_ns for path in finished(folder)}
    assert 2 <= len(kept) < len(many)
    assert len(workers) > 2

    done = sweep(many, folder, runner=lambda run_cell, left: over_ray(diary(log, run_cell), left))
    ran = [digest for _, digest in lines(log)]
    assert sorted(ran) == sorted({cell.digest() for cell in many} - {path.stem for path in kept})
    assert done.ran == len(ran)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert done.results == sweep(many).results
    wait_for(lambda: all(gone(pid) for pid in workers))


def test_an_error_of_ours_arrives_as_it_is_and_what_was_finished_is_kept(
    ray_cluster, tmp_path, cell
):
    hopeless = replace(cell, eta=1e-9, epsilons=(0.1,))
    with pytest.raises(InfeasibleError) as here:
        sweep([hopeless])
    with pytest.raises(InfeasibleError) as there:
        sweep([cell, hopeless], tmp_path / "cells", runner=partial(tasks.run, jobs=1))
    assert str(there.value) == str(here.value)
    assert type(there.value) is InfeasibleError
    assert there.value.__cause__ is None
    assert len(finished(tmp_path / "cells")) == 1


def test_an_error_that_is_a_bug_keeps_its_type_and_the_place_it_comes_from(ray_cluster):
    with pytest.raises(ZeroDivisionError) as error:
        list(over_ray(lambda x: 1 / x, [0]))
    assert "ray::" in str(error.value.__cause__)


def test_work_that_always_kills_its_worker_is_given_up(ray_cluster, tmp_path):
    log = tmp_path / "log"

    def die(code):
        with log.open("a") as file:
            file.write("tried\n")
        os._exit(code)

    with pytest.raises(WorkerError, match="lost more often than is put up with"):
        list(tasks.run(die, [3], jobs=2, retries=1))
    assert len(lines(log)) == 2


def test_items_are_taken_as_workers_become_free(ray_cluster):
    taken = []

    def items():
        for k in range(20):
            taken.append(k)
            yield k

    ahead = []
    for done, (item, square) in enumerate(tasks.run(lambda k: k * k, items(), jobs=3)):
        assert square == item * item
        ahead.append(len(taken) - done)
    assert len(ahead) == 20
    assert max(ahead) == 3
    for _ in tasks.run(lambda k: k, items()):
        assert len(taken) - 20 <= 3
        break


def test_workers_have_one_thread_the_folder_and_the_data_directory(ray_cluster, tmp_path):
    found = dict(over_ray(os.getenv, processes.THREADS))
    assert found == dict.fromkeys(processes.THREADS, "1")
    (here,) = over_ray(lambda _: Path.cwd(), [0])
    assert here == (0, tmp_path)


def test_a_cluster_started_here_is_not_to_be_seen_from_outside(ray_cluster):
    assert ray_cluster.get_runtime_context().gcs_address.startswith("127.0.0.1:")


def test_a_node_with_another_version_is_refused(ray_cluster, monkeypatch):
    monkeypatch.setattr(tasks, "Home", partial(tasks.Home, version="0.0.0"))
    with pytest.raises(InputError, match=r"and this is 0\.0\.0; install the same version"):
        list(over_ray(abs, [1]))


def test_nothing_to_do_starts_nothing(monkeypatch):
    monkeypatch.setattr(tasks, "connected", None)
    assert list(tasks.run(abs, [])) == []


def test_without_ray_the_way_out_is_named(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for words in (["compare", "--seeds", "1"], ["train"]):
        ended = command(*words, "--engine", "ray")
        assert ended.code == 2
        assert ended.out == ""
        sentence = "needs Ray; install it with: pip install 'ppadmm[ray]'."
        assert ended.err == f"Error: The engine 'ray' {sentence}\n"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "No Ray cluster answers at '127.0.0.1:1' (Connection refused)"),
        ("nowhere", "Expected a Ray address HOST:PORT or auto, got 'nowhere'."),
        ("host:99999999", "No Ray cluster answers at 'host:99999999'"),
    ],
)
def test_an_address_where_nobody_is(address, message):
    with pytest.raises(InputError) as error:
        tasks._require_answer(address)
    assert message in str(error.value)


SMALL = ("--seeds", "2", "--splits", "2", "--rounds", "3", "--agents", "3", "--graph", "ring")


def test_the_command_gives_the_same_table(ray_cluster, command):
    grid = ("compare", *SMALL, "--algorithms", "pp,non-private", "--epsilons", "1", "--json")
    there = command(*grid, "--engine", "ray", "--jobs", "2", "--out", "cells")
    assert_alike(there.json, command(*grid).json)
    assert there.err == ""
    assert len(list(Path("cells").iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "dask"), "Unknown engine 'dask'; choose one of: pool, ray."),
        (("--ray-address", "auto"), "--ray-address auto needs --engine ray."),
        (("--jobs", "0"), "jobs"),
    ],
)
def test_bad_options(command, arguments, message):
    ended = command("compare", *arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert json.dumps(ended.out) == '""'
