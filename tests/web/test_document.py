"""The list of routes and the OpenAPI document: what there is, what there is not, and that it is true."""

from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from penstock.apps.rewrite import refusals
from penstock.web.problems import PROBLEMS

ROUTES: Final = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): None,
    ("POST", "/rewrites"): "orchestrator",
    ("PUT", "/homes/{home_id}"): "orchestrator",
    ("PUT", "/homes/{home_id}/members/{user_id}"): "orchestrator",
    ("PUT", "/homes/{home_id}/members/{user_id}/preferences"): "orchestrator",
    ("GET", "/rewrites/stream"): "frontend",
    ("POST", "/reviews"): "orchestrator",
    ("GET", "/reviews/{review_id}"): "orchestrator",
    ("POST", "/items"): "frontend",
    ("GET", "/items"): "frontend",
    ("GET", "/items/{item_id}"): "frontend",
    ("POST", "/items/{item_id}/confirm"): "frontend",
    ("POST", "/items/{item_id}/discard"): "frontend",
    ("POST", "/items/{item_id}/enrich"): "frontend",
}


def declared(app: FastAPI) -> dict[tuple[str, str], Any]:
    return {
        (method, route.path): getattr(route, "needs", None)
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


@pytest.mark.contract("Q-48", "Q-84", "Q-87")
def test_there_are_these_routes_and_no_other(app: FastAPI) -> None:
    """No route starts a worker or a run, and none is asked whether a rewrite is done."""
    assert declared(app) == ROUTES
    others = {getattr(route, "path", None) for route in app.routes if not isinstance(route, APIRoute)}
    assert others == {"/openapi.json"}
    reads = {path for method, path in ROUTES if method == "GET"}
    by_id = {path for path in reads if "{" in path}
    assert by_id == {"/reviews/{review_id}", "/items/{item_id}"}, "no rewrite is asked for by its id"


@pytest.mark.contract("Q-48", "Q-47")
async def test_no_path_leads_to_runs_workers_or_statuses(client: httpx.AsyncClient) -> None:
    for path in ("/runs", "/run/rewrite_batch_submitter", "/workers", "/schedules", "/jobs", "/rewrites/status"):
        for method in ("GET", "POST", "PUT", "DELETE"):
            assert (await client.request(method, path)).status_code in (404, 405), (method, path)


async def test_the_document_is_served_and_complete(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for (method, path), scope in ROUTES.items():
        operation = document["paths"][path][method.lower()]
        assert operation.get("security", []) == ([{"key": [scope]}] if scope else [])
        for status, response in operation["responses"].items():
            assert status[0] == "2" or list(response["content"]) == ["application/problem+json"]
        needed = {"401", "403", "500", "503"} if scope else set()
        needed |= {"400", "408", "413", "415", "422"} if "requestBody" in operation else set()
        assert needed <= set(operation["responses"])


async def test_every_code_is_told_where_it_can_come_up(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).text
    elsewhere = {"method_not_allowed"}  # of methods that the document does not have
    assert {code for code in PROBLEMS if f"`{code}`" not in document} == elsewhere


def test_the_reference_names_every_route_and_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
    assert not [f"{method} {path}" for method, path in ROUTES if f"| `{method} {path}` |" not in page]
    for code, (status, _) in PROBLEMS.items():
        assert f"| `{code}` | {status} |" in page
    checked_before = {"surface_unknown", "reveal_delay_invalid", "idempotency_key_invalid"}  # these never get there
    assert not [code for code in set(refusals.WHY) - checked_before if f"`{code}`" not in page]
