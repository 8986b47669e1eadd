"""A service that tells Sluicegate the quota of each tenant, from plans in SQLite.

LIMITS_LISTEN is the address to listen on, LIMITS_DB the database file, and LIMITS_PLANS a file with
the plans of a new database.
"""

import json
import os
import sqlite3
from pathlib import Path
from typing import Literal

import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict

LISTEN = os.environ.get("LIMITS_LISTEN", "127.0.0.1:8080")
DATABASE = os.environ.get("LIMITS_DB", "limits.db")
PLANS = Path(os.environ.get("LIMITS_PLANS", Path(__file__).with_name("plans.json")))


class LimitsRequest(BaseModel):
    """The question about one caller of a limit."""

    key: str
    headers: dict[str, str] = {}
    method: str = ""
    path: str = ""
    key_parts: list[str] = []


class LimitsResponse(BaseModel):
    """The quota of a caller. Sluicegate's configuration decides about a field that is not said."""

    model_config = ConfigDict(extra="forbid")

    average: int
    burst: int | None = None
    period: str | None = None
    cache_max_age_seconds: int | None = None
    cache_no_store: bool | None = None
    tenant_key: str | None = None
    failure_policy: Literal["passThrough", "failClosed", "inMemoryFallback"] | None = None
    failure_code: int | None = None
    backend_url: str | None = None
    request_timeout: str | None = None
    backend_protocol: Literal["h1", "h2"] | None = None


# A plan has the fields of a response; the counter that tenants share stands with the tenants.
COLUMNS = [name for name in LimitsResponse.model_fields if name != "tenant_key"]


def open_database() -> None:
    """Makes the tables. A new database gets the plans and tenants of the file."""
    with sqlite3.connect(DATABASE) as database:
        database.execute(f"CREATE TABLE IF NOT EXISTS plans (name PRIMARY KEY, {', '.join(COLUMNS)})")
        database.execute("CREATE TABLE IF NOT EXISTS tenants (name PRIMARY KEY, plan, tenant_key)")
        if database.execute("SELECT count(*) FROM plans").fetchone() != (0,):
            return
        seed = json.loads(PLANS.read_text())
        marks = ", ".join("?" for _ in COLUMNS)
        for name, fields in seed["plans"].items():
            plan = LimitsResponse(**fields).model_dump()
            values = [name, *(plan[column] for column in COLUMNS)]
            database.execute(f"INSERT INTO plans VALUES (?, {marks})", values)
        for name, tenant in seed["tenants"].items():
            values = [name, tenant["plan"], tenant.get("tenant_key")]
            database.execute("INSERT INTO tenants VALUES (?, ?, ?)", values)


app = FastAPI(title="A limits service for Sluicegate")


@app.post("/limits", response_model_exclude_none=True)
def limits(request: LimitsRequest) -> LimitsResponse:
    """The quota of a tenant. An unknown one has the quota in Sluicegate's own file."""
    known = f"""SELECT {', '.join(COLUMNS)}, tenant_key FROM plans
                JOIN tenants ON tenants.plan = plans.name WHERE tenants.name = ?"""
    tenant = request.key_parts[0] if request.key_parts else None
    # FastAPI calls this in a thread of its own, and so does each request open its own connection.
    database = sqlite3.connect(DATABASE)
    database.row_factory = sqlite3.Row
    try:
        row = database.execute(known, [tenant]).fetchone()
    except sqlite3.Error as error:
        # Sluicegate keeps using the last response.
        raise HTTPException(503, str(error)) from error
    finally:
        database.close()
    if row is None:
        raise HTTPException(404, "this tenant is not known")
    return LimitsResponse(**dict(row))


if __name__ == "__main__":
    open_database()
    host, _, port = LISTEN.rpartition(":")
    print(f"limits of {DATABASE} at http://{LISTEN}/limits", flush=True)
    uvicorn.run(app, host=host, port=int(port), access_log=False, log_level="warning")
