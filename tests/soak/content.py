"""Files up and down, archives, watching, and servers behind previews."""

import hashlib
import io
import json
import tarfile
import time

from box import Command
from ground import Gone

BYTES_MAX = 2 << 20


def some_bytes(chance, most=BYTES_MAX):
    n = int(most ** chance.random())
    return chance.randbytes(min(n, 4096)) * (n // 4096 + 1)


def upload(box, chance):
    """A file is the old one or the new one, and the new one when we were told so."""
    path = f"up-{chance.randint(0, 9)}/file"
    data, old = some_bytes(chance), box.files.get(path)
    try:
        answer = box.client.put(f"{box.path}/files", data, path=path)
        if answer.status == 507:  # the disk is small
            return
        box.need(answer, f"upload of {path}")
        box.check(answer.json["size"] == len(data), f"upload of {len(data)} bytes: {answer.json}")
        box.files[path] = data
        box.ledger.count("file bytes", len(data))
    except Gone:
        box.ground.wait_up()
        there = read(box, path)
        box.check(there in (data, old), f"{path} is neither the old file nor the new one")
        if there is None:
            box.files.pop(path, None)
        else:
            box.files[path] = there


def read(box, path):
    """The content, None when there is no such file."""
    while True:
        try:
            answer = box.client.get(f"{box.path}/files", path=path)
            if answer.status == 404 and b"sandbox" not in answer.body:
                return None
            box.need(answer, f"download of {path}")
            box.ledger.count("file bytes", len(answer.body))
            return answer.body
        except Gone:
            box.ground.wait_up()


def download(box, chance):
    if not box.files:
        upload(box, chance)
    for path in chance.sample(sorted(box.files), min(2, len(box.files))):
        box.check(read(box, path) == box.files[path], f"{path} is not what was uploaded")


def checksum(box, chance):
    """As the sandbox itself sees it."""
    if not box.files:
        upload(box, chance)
    for path, data in list(box.files.items())[:2]:
        digest = hashlib.sha256(data).hexdigest().encode()
        box.run(Command(f"sha256sum < {path}", digest + b"  -\n"))


def small_things(box, chance):
    files = [{"path": f"batch/{i}.txt", "data": f"number {i}\n"} for i in range(20)]
    box.need(box.post("files/batch", {"files": files}), "batch")
    listed = box.need(box.get("files/list", path="batch"), "list").json["entries"]
    box.check(len(listed) == 20, f"20 files were written and {len(listed)} are there")
    box.need(box.post("files/mkdir", None, path="a/b/c"), "mkdir")
    box.need(box.post("files/move", None, path="batch", to="a/b/c/moved"), "move")
    box.need(box.post("files/chmod", None, path="a/b/c/moved/1.txt", mode="0600"), "chmod", 204)
    seen = box.need(box.get("files/stat", path="a/b/c/moved/1.txt"), "stat").json
    box.check((seen["mode"], seen["size"]) == ("0600", 9), f"stat: {seen}")
    box.need(box.client.delete(f"{box.path}/files", path="a", recursive="true"), "remove", 204)


def archive(box, chance):
    """A tar goes in and comes out."""
    content = {f"t/{i}/{chance.randint(0, 9)}": some_bytes(chance, 100000) for i in range(8)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    box.others += 1  # the sandbox's own tar
    answer = box.client.put(f"{box.path}/archive", packed.getvalue(), path="unpacked")
    if b"No space" in answer.body or answer.status == 507:
        return
    box.need(answer, "unpack", 204)
    answer = box.need(box.get("archive", path="unpacked"), "pack")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        got = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    box.check(got == content, f"{sorted(content)} came back as {sorted(got)}")
    box.need(box.client.delete(f"{box.path}/files", path="unpacked", recursive="true"), "rm", 204)


def watch(box, chance):
    name = f"watched-{chance.randint(0, 1 << 30)}"
    mark = box.ground.mark()
    with box.client.websocket(f"{box.path}/files/watch?path=.") as ws:
        if ws.status != 101:
            raise box.explain(box.ground.disturbed(mark), f"watch: {ws.status}")
        box.need(box.client.put(f"{box.path}/files", b"x", path=name), "watched file")
        seen = []
        while True:
            opcode, payload = ws.recv()
            event = json.loads(payload) if opcode == ws.TEXT else {"kind": "end"}
            seen.append(event)
            if event.get("name") == name:
                break
            if event["kind"] == "end":
                raise box.explain(box.ground.disturbed(mark), f"watch ended: {seen[-5:]}")


SERVER = ("import http.server, socketserver, sys\n"
          "class H(http.server.SimpleHTTPRequestHandler):\n"
          "    def log_message(self, *a): pass\n"
          "socketserver.TCPServer.allow_reuse_address = True\n"
          "s = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H)\n"
          "print('ready', flush=True)\n"
          "s.serve_forever()\n")


def preview(box, chance):
    """A server inside, and traffic to it."""
    if box.provider != "native":
        return
    data = some_bytes(chance, 500000)
    box.need(box.client.put(f"{box.path}/files", data, path="served.bin"), "served file")
    box.need(box.client.put(f"{box.path}/files", SERVER.encode(), path="server.py"), "server")
    command = box.start(Command("exec python3 server.py", b"ready\n", kinds=(), whole=False))
    command.want["stderr"] = None  # a client that goes away may be complained of
    made = box.need(box.post("previews", {"port": 8000}), "preview", 201).json
    headers = {"X-Atoll-Preview-Token": made["token"]}
    path = made["path_url"].split("?")[0] + "served.bin"
    good, deadline = 0, time.monotonic() + 30
    while good < 5:
        answer = box.client.call("GET", path, None, headers)
        if answer.status == 200:
            box.check(answer.body == data, f"a preview of {len(data)} bytes gave "
                                           f"{len(answer.body)}")
            good += 1
            box.ledger.count("preview requests")
        elif answer.status != 502 or time.monotonic() > deadline:
            raise box.refused(answer, "request to a preview")
        else:
            time.sleep(0.1)
    with box.client.stream("GET", path) as abandoned:  # without the token, and not read
        if abandoned.status != 404:
            raise box.refused_stream(abandoned, "a preview without its token")
    command.killed = True
    if chance.random() < 0.5:
        box.need(box.client.delete(f"{box.path}/previews/8000"), "end of a preview", 204)
    answer = box.post(f"execs/{command.id}/signal", {"signal": "SIGKILL"})
    box.need(answer, "signal", 204)
    box.follow(command)


ACTIVITIES = [(upload, 5), (download, 5), (checksum, 2), (small_things, 3), (archive, 2),
              (watch, 2), (preview, 1)]
