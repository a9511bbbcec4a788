"""What a function needs is said in at most ten parameters; more of them are a value of their own.

Commands are left out: a command's parameters are its options. So are constructors that a dataclass
makes from its fields.
"""

import ast
from pathlib import Path

import ppadmm

ROOT = Path(ppadmm.__file__).parent
MOST = 10


def parameters(function):
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [each.arg for each in every if each.arg not in ("self", "cls")]


def is_command(function):
    """Whether it is registered with Typer: @app.command(…), @group.command(…)."""
    calls = (each.func for each in function.decorator_list if isinstance(each, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr == "command" for call in calls)


def functions(tree):
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def too_long(tree, commands_too):
    return {
        function.name
        for function in functions(tree)
        if len(parameters(function)) > MOST and (commands_too or not is_command(function))
    }


def test_no_function_but_a_command_has_more_than_ten_parameters():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.parent == ROOT / "cli"
        names = too_long(ast.parse(path.read_text()), commands_too=not inside)
        found |= {str(path.relative_to(ROOT)): names} if names else {}
    assert found == {}


def test_the_test_sees_what_is_too_long():
    many = ", ".join("abcdefghijk")
    code = f"""
class A:
    def method(self, {many}): ...
    def fits(self, {many[:-3]}): ...
async def plain(a, b, /, c, d, *, {many[12:]}, l, m): ...
@app.command()
def command({many}): ...
"""
    tree = ast.parse(code)
    assert too_long(tree, commands_too=True) == {"method", "plain", "command"}
    assert too_long(tree, commands_too=False) == {"method", "plain"}
