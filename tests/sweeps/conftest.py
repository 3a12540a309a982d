"""Settings for the tests of sweeps."""

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pictures for a report, which takes longer than a small run."""
    monkeypatch.setattr("transduce.analysis.overlaid_curves.draw_overlaid", lambda *_: None)
    monkeypatch.setattr("transduce.sweeps.reporting.search_picture.draw_search", lambda *_: False)
