"""The shape of the house: imports run one way, start-up stays light, randomness has one door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("transformer", "experiments", "analysis", "benchmarks")
MAY_IMPORT = {
    "transformer": set(),
    "experiments": {"transformer"},
    "analysis": {"experiments.records"},
    "benchmarks": {"transformer", "experiments", "analysis", "benchmarks"},
}
SEEDING = ("manual_seed", "np.random.seed", "random.seed")


def sources(*rooms):
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])


def allowed(room, name):
    top = name.split(".")[0]
    if top not in ROOMS and top not in ("run_all", "tests"):
        return True
    return top == room or top in MAY_IMPORT[room] or any(name == ok or name.startswith(f"{ok}.") for ok in MAY_IMPORT[room])


@pytest.mark.parametrize("room", ROOMS)
def test_imports_run_one_way(room):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(room)
        for name in imported(path)
        if not allowed(room, name) and not (room == "analysis" and name == "experiments")
    ]
    assert not wrong


def test_analysis_needs_neither_torch_nor_wandb():
    heavy = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("analysis")
        for name in imported(path)
        if name.split(".")[0] in ("torch", "wandb")
    ]
    assert not heavy


def test_records_need_only_the_standard_library():
    assert all(name.split(".")[0] in sys.stdlib_module_names for name in imported(ROOT / "experiments/records.py"))


def test_randomness_is_seeded_in_one_file_only():
    loose = []
    for path in sources("experiments", "analysis", "transformer"):
        if path.name != "seeds.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.manual_seed", *SEEDING[1:]):
                    loose.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not loose


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["status"], ["run", "--help"]])
def test_light_commands_import_nothing_heavy(arguments, tmp_path):
    code = (
        "import sys; sys.argv = ['run_all.py', *sys.argv[1:]]\n"
        "import run_all\n"
        "try: run_all.main()\n"
        "except SystemExit as end: assert end.code in (0, None), end.code\n"
        "heavy = {'torch', 'pandas', 'wandb', 'optuna', 'seaborn', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    where = ["--results", str(tmp_path)] if arguments == ["status"] else []
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, *where], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
