"""The entries of Daytona's toolbox: by path below the sandbox, each for both bases."""

from route_table import NO_ID, has
from routes import Ask, Entry

BASES = ["/daytona/toolbox/{id}", "/daytona/toolbox/{id}/toolbox"]


def both(entries):
    """{"GET /version": …} for the base of new SDKs and for that of old ones."""
    return {f"{route.split()[0]} {base}{route.split()[1]}": entry
            for base in BASES for route, entry in entries.items()}


TABLE = both({
    "GET /version": Entry(Ask(200, check=has("version")), Ask(404, at=NO_ID)),
})
