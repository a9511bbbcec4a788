"""Commands, their options and defaults, and exit codes: scripts of others rest on them.

After a change that is meant: `python -m tests.golden.made` writes commands.json anew.
"""

import pytest

from tests.golden import table
from tests.golden.made import kept

KEPT = kept("commands")


def test_no_command_came_or_went():
    assert sorted(table.commands()) == sorted(KEPT["commands"])


@pytest.mark.parametrize("command", KEPT["commands"])
def test_a_command_has_the_options_that_it_had(command):
    assert table.commands()[command] == KEPT["commands"][command]


def test_every_error_has_the_exit_code_that_it_had():
    assert table.exit_codes() == KEPT["exit codes"]
