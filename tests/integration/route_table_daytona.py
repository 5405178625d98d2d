"""The entries of Daytona's control plane. See route_table_daytona_toolbox.py for the toolbox."""

from route_table import has
from routes import Ask, Entry

BASE = "/daytona"

TABLE = {
    f"GET {BASE}/health": Entry(Ask(200, check=has("status")), None),  # takes no input
    f"GET {BASE}/health/ready": Entry(Ask(200, check=has("status")), None),
}
