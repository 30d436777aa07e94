"""Probing a SPARQL endpoint before a memory is trusted to it."""

from __future__ import annotations

import json
from contextlib import closing
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.probe import probe
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.testing.servers import OxigraphServer


def test_oxigraph_is_fit_and_left_clean(oxigraph_server: OxigraphServer) -> None:
    out = StringIO()
    call_command("memory_check", endpoint=oxigraph_server.url, json=True, stdout=out)
    findings = json.loads(out.getvalue())["findings"]
    assert [finding["fit"] for finding in findings] == [True, True, True]
    assert findings[0]["found"] == "a failing update leaves nothing"
    with closing(ServiceConnection(oxigraph_server.url)) as connection:
        assert not connection.ask(
            'ASK { GRAPH ?g { ?s ?p ?o } FILTER(STRSTARTS(STR(?g), "urn:charactermemory:probe:")) }'
        )


def test_an_endpoint_that_applies_half_an_update_is_unfit() -> None:
    class Halves(InMemoryConnection):
        def update(self, text: str) -> None:
            for part in text.split(" ; "):
                super().update(part)

    findings = {finding.experiment: finding for finding in probe(Halves())}
    assert not findings["all or nothing"].fit
    assert findings["all or nothing"].found == "half of a failing update was applied"


def test_an_endpoint_that_is_not_there_is_an_error_of_one_line() -> None:
    with pytest.raises(CommandError, match="unavailable"):
        call_command("memory_check", endpoint="http://127.0.0.1:9", stdout=StringIO())
