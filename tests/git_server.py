"""A git server over HTTP with basic authentication: git http-backend behind a socket of the test."""

import base64
import http.server
import os
import ssl
import subprocess
import threading
from pathlib import Path

USER, PASSWORD = "ann", "p%40ss w0rd:ÄÖ"
BACKEND = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True,
                              check=True).stdout.strip()) / "git-http-backend"


def git(*words, cwd=None, **environment):
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
             **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", "Test"), ("EMAIL", "test@example.org"))}}
    return subprocess.run(["git", *map(str, words)], cwd=cwd, check=True, capture_output=True,
                          text=True, env={**clean, **environment}).stdout


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def allowed(self):
        if self.path.startswith("/public/"):
            return True
        word, _, value = self.headers.get("Authorization", "").partition(" ")
        if word:
            self.server.offered.append(base64.b64decode(value).decode())
        return word == "Basic" and self.server.offered[-1] == f"{USER}:{PASSWORD}"

    def body(self):
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def serve(self):
        body = self.body()
        if not self.allowed():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.serving(self.path)
        path, _, query = self.path.partition("?")
        answer = subprocess.run([BACKEND], input=body, capture_output=True, env={
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": USER, "REMOTE_ADDR": "test",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}).stdout
        head, _, rest = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n"))
        self.send_response(int(headers.pop(b"Status", b"200").split()[0]))
        for name, value in headers.items():
            self.send_header(name.decode(), value.decode())
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    do_GET = do_POST = serve

    def log_message(self, *_):
        pass


class GitServer(http.server.ThreadingHTTPServer):
    """Serves the bare repositories below `root`; those in root/public without a password."""

    daemon_threads = True

    def __init__(self, listening, root, certificate=None):
        super().__init__(listening.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(listening, server_side=True)
        self.root, self.offered = Path(root), []
        self.port = self.socket.getsockname()[1]
        self.serving = lambda path: None  # called before an accepted request is answered
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def make(self, name, files=None, work=None):
        """A bare repository with one commit."""
        work = work or self.root / f"{name.replace('/', '-')}.work"
        git("init", "-q", "-b", "main", work)
        for path, text in (files or {"README": "hello\n"}).items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text)
        git("add", "-A", cwd=work)
        git("commit", "-q", "-m", "first", cwd=work)
        bare = self.root / f"{name}.git"
        git("clone", "-q", "--bare", work, bare)
        git("config", "http.receivepack", "true", cwd=bare)
        return work

    def close(self):
        self.shutdown()
        self.server_close()
