"""The environment mcp-gateway in a template of the host: the program as it is shipped, without packages of npm and PyPI."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_gateway(environments):
    """Puts the environment into the folder of a registry."""
    shipped = (ROOT / "registry/environments/mcp-gateway.Dockerfile").read_text()
    program = re.search(r"^COPY --chmod=755 <<'END' /usr/local/bin/mcp-gateway\n.*?^END\n", shipped, re.MULTILINE | re.DOTALL)
    (environments / "mcp-gateway.Dockerfile").write_text("FROM host\n" + program[0] + "RUN mkdir -m 755 /etc/mcp-gateway\n")
    (environments / "mcp-gateway.yaml").write_text("dockerfile: mcp-gateway.Dockerfile\nlanguage: bash\n"
                                                   "interpreters: {bash: {run: [bash, '{file}'], extension: sh}}\n")
