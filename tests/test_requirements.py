"""The manifest of requirements and the tests of the contract name each other."""

import ast
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = tomllib.loads((HERE / "requirements.toml").read_text())["requirement"]


def names_in(file: Path) -> set[str]:
    return {
        f"{file.name}::{node.name}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_requirement_has_an_id_of_its_own_a_sentence_and_a_test() -> None:
    ids = [requirement["id"] for requirement in REQUIREMENTS]
    assert len(set(ids)) == len(ids)
    assert all(requirement["sentence"] and requirement["tests"] for requirement in REQUIREMENTS)


def test_every_test_that_a_requirement_names_exists() -> None:
    named = {test for requirement in REQUIREMENTS for test in requirement["tests"]}
    files = {test.partition("::")[0] for test in named}
    assert named <= {test for file in files for test in names_in(HERE / file)}


def test_every_test_of_the_contract_belongs_to_a_requirement() -> None:
    named = {test for requirement in REQUIREMENTS for test in requirement["tests"]}
    assert {test for file in HERE.glob("test_contract_*.py") for test in names_in(file)} <= named
