"""docs/lifecycle.md shows the tables that the program follows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script behind scripts/docs."""
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_diagrams_are_up_to_date(generator: ModuleType) -> None:
    """A block that differs from its table is stale."""
    page = generator.PAGE.read_text(encoding="utf-8")
    assert generator.refresh(page) == page, "docs/lifecycle.md is stale: run scripts/docs"


def test_the_page_shows_every_diagram(generator: ModuleType) -> None:
    """Route, receipt, run, the planning of subtasks, and findings."""
    page = generator.PAGE.read_text(encoding="utf-8")
    assert page.count("```mermaid\nstateDiagram-v2\n") == 5
    assert all(diagram in page for diagram in generator.diagrams().values())


def test_a_changed_block_is_noticed_and_mended(generator: ModuleType) -> None:
    """Whatever stands between the markers is replaced; the words around them stay."""
    page = generator.PAGE.read_text(encoding="utf-8")
    stale = page.replace("sealed --> consumed: consume", "sealed --> consumed: eat")
    assert stale != page
    assert generator.refresh(stale) == page


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("generated: run", "generated: walk", id="a name that is drawn nowhere"),
        pytest.param("<!-- generated: run -->", "", id="a marker that is gone"),
    ],
)
def test_a_page_without_its_markers_is_refused(generator: ModuleType, old: str, new: str) -> None:
    """A block that went missing is no up-to-date page."""
    page = generator.PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="expected are route, receipt, run"):
        generator.refresh(page.replace(old, new))
