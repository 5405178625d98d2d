"""The entries of Daytona's toolbox: by path below the sandbox, each for both bases."""

from pathlib import Path

from daemons import wait_until
from route_table import NO_ID, empty, has
from routes import Ask, Entry

BASES = ["/daytona/toolbox/{id}", "/daytona/toolbox/{id}/toolbox"]
NO_JSON = Ask(400, body=b"{")
NO_PATH = Ask(400)
FORM = {"Content-Type": "multipart/form-data; boundary=B"}
NOT_THERE = {"key": "not-there", "item": "not-there"}
RELAY = "/process/session/{key}/command/{item}"


def both(entries):
    """{"GET /version": …} for the base of new SDKs and for that of old ones."""
    return {f"{route.split()[0]} {base}{route.split()[1]}": entry
            for base in BASES for route, entry in entries.items()}


def part(name, data, filename=""):
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n\r\n'
    return head.encode() + data + b"\r\n"


def post(world, box, path, body):
    answer = world.mine.post(f"/daytona/toolbox/{box}{path}", body)
    assert answer.status < 300, answer.body
    return answer


def a_file(world):
    return world.file(world.box())


def a_session(world):
    box = world.box()
    post(world, box, "/process/session", {"sessionId": "s"})
    return {"id": box, "key": "s"}


def a_command(world):
    values = a_session(world)
    answer = post(world, values["id"], "/process/session/s/exec",
                  {"command": "echo begun; cat", "runAsync": True})
    return {**values, "item": answer.json["cmdId"]}


def a_terminal(world):
    box = world.box()
    post(world, box, "/process/pty", {"id": "t"})
    return {"id": box, "key": "t"}


def a_context(world):
    box = world.box()
    answer = post(world, box, "/process/interpreter/context", {})
    return {"id": box, "key": answer.json["id"]}


def a_process(world):
    box = world.box()
    answer = post(world, box, "/processes", {"argv": ["cat"], "stdin": "pipe", "name": "p"})
    return {"id": box, "item": answer.json["id"]}


def a_pty_process(world):
    box = world.box()
    return {"id": box, "item": post(world, box, "/processes", {"kind": "pty"}).json["id"]}


def an_ended_process(world):
    box = world.box()
    item = post(world, box, "/processes", {"shellCommand": "echo out"}).json["id"]
    assert world.mine.get(f"/daytona/toolbox/{box}/processes/{item}/wait").json["exitCode"] == 0
    return {"id": box, "item": item}


SERVER = {"languageId": "python", "pathToProject": "p"}
IN_SERVER = "?languageId=python&pathToProject=p"
DOCUMENT = {**SERVER, "uri": "file://p/a.py"}


def a_project(world):
    """A directory with a document, and a language server that is not started yet."""
    box = world.box()
    program = "#!/usr/bin/python3\n" + (Path(__file__).parent / "fake_lsp.py").read_text()
    answer = world.mine.put(f"/api/sandboxes/{box}/files", program.encode(), user="root", mode="755",
                            path="/usr/local/bin/pylsp")
    assert answer.status == 200, answer.body
    post(world, box, "/process/execute", {"command": "mkdir p; echo 'class Known: 0' >p/a.py"})
    return {"id": box}


def a_server(world):
    values = a_project(world)
    post(world, values["id"], "/lsp/start", SERVER)
    return values


def knows(answer, values):
    symbol, = answer.json
    return symbol["name"] == "Known" and symbol["location"]["uri"] == "file:///home/user/p/a.py"


HTTP_SERVER = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()
        self.wfile.write(b'ok')
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 8010), H)
print('ready', flush=True)
server.serve_forever()
"""


def an_http_server(world):
    box = world.box()
    item = post(world, box, "/processes", {"argv": ["python3", "-c", HTTP_SERVER]}).json["id"]
    wait_until(lambda: "ready" in str(world.mine.get(
        f"/daytona/toolbox/{box}/processes/{item}/logs").json), 30, lambda: "it does not listen")
    return {"id": box, "port": "8010", "rest": "x/y"}


TABLE = both({
    "GET /version": Entry(Ask(200, check=has("version")), Ask(404, at=NO_ID)),
    "POST /init": Entry(Ask(200, body={"token": "x"}), Ask(404, at=NO_ID)),
    "GET /user-home-dir": Entry(Ask(200, check=has("dir")), Ask(404, at=NO_ID)),
    "GET /work-dir": Entry(Ask(200, check=has("dir")), Ask(404, at=NO_ID)),
    "GET /project-dir": Entry(Ask(200, check=has("dir")), Ask(404, at=NO_ID)),
    "GET /system/metrics": Entry(Ask(200, check=has("memTotal")), Ask(404, at=NO_ID)),
    "GET /port": Entry(Ask(200, check=has("ports", value=[])), Ask(404, at=NO_ID)),
    "GET /port/{port}/in-use": Entry(Ask(200, check=has("isInUse", value=False)),
                                     Ask(400, at={"port": 80})),
    "POST /process/execute": Entry(Ask(200, body={"command": "echo a", "unknown": 1},
                                       check=has("result", value="a\n")),
                                   Ask(400, body={"command": ""})),
    "POST /process/code-run": Entry(Ask(200, body={"code": "print(2)", "language": "python"},
                                        check=has("result", value="2\n")),
                                    Ask(400, body={"code": "x", "language": "cobol"})),
    "GET /process/session": Entry(Ask(200), Ask(404, at=NO_ID), given=a_session),
    "POST /process/session": Entry(Ask(201, body={"sessionId": "s"}, check=empty), NO_JSON),
    "GET /process/session/entrypoint": Entry(Ask(200, check=has("sessionId")), Ask(404, at=NO_ID)),
    "GET /process/session/entrypoint/logs": Entry(Ask(200, check=has("output")),
                                                  Ask(400, "?follow=perhaps")),
    "GET /process/session/{key}": Entry(Ask(200, check=has("sessionId", value="s")),
                                        Ask(404, at=NOT_THERE), given=a_session),
    "DELETE /process/session/{key}": Entry(Ask(204, check=empty), Ask(404, at=NOT_THERE),
                                           given=a_session),
    "POST /process/session/{key}/exec": Entry(
        Ask(200, body={"command": "echo a"}, check=has("stdout", value="a\n")),
        Ask(400, body={"command": 1}), given=a_session),
    f"GET {RELAY}": Entry(Ask(200, check=has("command")), Ask(404, at={"item": "f" * 16}),
                          given=a_command),
    f"GET {RELAY}/logs": Entry(Ask(200, check=has("output")), Ask(404, at={"item": "x"}),
                               given=a_command),
    f"POST {RELAY}/input": Entry(Ask(204, body={"data": "x"}, check=empty), Ask(400, body={}),
                                 given=a_command),
    "GET /process/pty": Entry(Ask(200, check=has("sessions", 0, "id", value="t")),
                              Ask(404, at=NO_ID), given=a_terminal),
    "POST /process/pty": Entry(Ask(201, body={"id": "t"}, check=has("sessionId", value="t")),
                               Ask(400, body={"id": ""})),
    "GET /process/pty/create-connect": Entry(Ask(101, "?id=t", by="ws", check=has("status")),
                                             Ask(400, "?id=t&cols=5000", by="ws")),
    "GET /process/pty/{key}": Entry(Ask(200, check=has("cols")), Ask(404, at=NOT_THERE),
                                    given=a_terminal),
    "DELETE /process/pty/{key}": Entry(Ask(200, check=has("message")), Ask(404, at=NOT_THERE),
                                       given=a_terminal),
    "POST /process/pty/{key}/resize": Entry(
        Ask(200, body={"cols": 100, "rows": 30}, check=has("cols", value=100)),
        Ask(400, body={"cols": 0, "rows": 1}), given=a_terminal),
    "GET /process/pty/{key}/connect": Entry(
        Ask(101, by="ws", check=has("status", value="connected")), Ask(400), given=a_terminal),
    "GET /process/interpreter/context": Entry(Ask(200, check=has("contexts", 0, "id")),
                                              Ask(404, at=NO_ID), given=a_context),
    "POST /process/interpreter/context": Entry(Ask(200, body={}, check=has("id")),
                                               Ask(400, body={"language": "cobol"})),
    "DELETE /process/interpreter/context/{key}": Entry(
        Ask(200, check=has("message")), Ask(404, at=NOT_THERE), given=a_context),
    "GET /process/interpreter/execute": Entry(
        Ask(101, by="ws", body={"code": "print(1)"}, check=has("type", value="stdout")), Ask(400)),
    "GET /processes": Entry(Ask(200, "?state=running", check=has(0, "name", value="p")),
                            Ask(404, at=NO_ID), given=a_process),
    "POST /processes": Entry(Ask(201, body={"argv": ["true"]}, check=has("id")),
                             Ask(400, body={"argv": ["a"], "shellCommand": "b"})),
    "GET /processes/{item}": Entry(Ask(200, check=has("argv", value=["cat"])),
                                   Ask(404, at=NOT_THERE), given=a_process),
    "DELETE /processes/{item}": Entry(Ask(204, check=empty), Ask(404, at=NOT_THERE),
                                      given=an_ended_process),
    "GET /processes/{item}/logs": Entry(Ask(200, check=has("frames", 0, "data", value="out\n")),
                                        Ask(400, "?cursor=x"), given=an_ended_process),
    "GET /processes/{item}/wait": Entry(Ask(200, check=has("reason", value="exited")),
                                        Ask(400, "?timeoutMs=x"), given=an_ended_process),
    "GET /processes/{item}/attach": Entry(Ask(101, by="ws", check=has("status")),
                                          Ask(404, at=NOT_THERE, by="ws"), given=a_pty_process),
    "POST /processes/{item}/stdin": Entry(Ask(204, body={"data": "x"}, check=empty),
                                          Ask(400, body={}), given=a_process),
    "POST /processes/{item}/signals": Entry(Ask(204, body={"signal": "SIGUSR1"}, check=empty),
                                            Ask(400, body={"signal": "SIGNOT"}), given=a_process),
    "POST /processes/{item}/resize": Entry(Ask(200, body={"cols": 9, "rows": 9}, check=has("id")),
                                           Ask(400, body={"cols": 9}), given=a_pty_process),
    "GET /files": Entry(Ask(200, "?path={path}/.."), Ask(404, "?path=nothing"),
                        given=lambda world: {**a_file(world), "path": "."}),
    "DELETE /files": Entry(Ask(204, "?path={path}", check=empty), NO_PATH, given=a_file),
    "GET /files/info": Entry(Ask(200, "?path={path}", check=has("permissions")),
                             Ask(404, "?path=nothing"), given=a_file),
    "POST /files/folder": Entry(Ask(201, "?path=d&mode=755", check=empty),
                                Ask(400, "?path=d&mode=9")),
    "POST /files/move": Entry(Ask(200, "?source={path}&destination=g"),
                              Ask(409, "?source={path}&destination={path}"), given=a_file),
    "POST /files/permissions": Entry(Ask(200, "?path={path}&mode=600"),
                                     Ask(400, "?path={path}&mode=rwx"), given=a_file),
    "GET /files/find": Entry(Ask(200, "?path={path}&pattern=ata", check=has(0, "line", value=1)),
                             Ask(404, "?path=nothing&pattern=x"), given=a_file),
    "GET /files/search": Entry(Ask(200, "?path=.&pattern={path}", check=has("files", 0)),
                               Ask(400, "?path=."), given=a_file),
    "POST /files/replace": Entry(
        Ask(200, body=lambda v: {"files": [v["path"], "no"], "pattern": "data", "newValue": "x"},
            check=has(0, "success", value=True)), Ask(400, body={"files": []}), given=a_file),
    "POST /files/upload": Entry(
        Ask(200, "?path=u", body=part("file", b"x") + b"--B--\r\n", headers=FORM),
        Ask(400, body=b"x", headers=FORM)),
    "POST /files/upload-v2": Entry(
        Ask(200, "?path=u", body=part("file", b"x") + b"--B--\r\n", headers=FORM),
        Ask(400, "?path=u", body=b"x", headers=FORM)),
    "POST /files/bulk-upload": Entry(
        Ask(200, body=part("files[0].path", b"d/u") + part("files[0].file", b"abc", '; filename="u"')
            + b"--B--\r\n", headers=FORM, check=has("files", 0, "bytes", value=3)),
        Ask(400, body=part("files[0].file", b"x") + b"--B--\r\n", headers=FORM)),
    "GET /files/download": Entry(Ask(200, "?path={path}", check=lambda a, v: a.body == b"data"),
                                 Ask(404, "?path=nothing"), given=a_file),
    "POST /files/bulk-download": Entry(
        Ask(200, body=lambda v: {"paths": [v["path"], "no"]},
            check=lambda a, v: b"\r\n\r\ndata\r\n--DAYTONA" in a.body and b"FILE_NOT_F" in a.body),
        Ask(400, body={"paths": []}), given=a_file),
    "GET /files/watch": Entry(
        Ask(200, "?path=.", by="quiet stream"), Ask(404, "?path=nothing"), given=a_file),
    **{f"{method} /proxy/{{port}}/{{rest}}": Entry(Ask(200, check=lambda a, v: a.body == b"ok"),
                                                  Ask(404, at=NO_ID), given=an_http_server)
       for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")},
    "POST /env": Entry(Ask(204, body={"set": {"A": "b"}, "unset": ["C"]}, check=empty),
                       Ask(400, body={"set": ["A"]})),
    "POST /lsp/start": Entry(Ask(200, body=SERVER, check=empty),
                             Ask(400, body={**SERVER, "languageId": "cobol"}), given=a_project),
    "POST /lsp/stop": Entry(Ask(200, body=SERVER, check=empty),
                            Ask(400, body={**SERVER, "pathToProject": "q"}), given=a_server),
    "POST /lsp/did-open": Entry(Ask(200, body=DOCUMENT, check=empty),
                                Ask(404, body={**DOCUMENT, "uri": "file://p/b.py"}), given=a_server),
    "POST /lsp/did-close": Entry(Ask(200, body=DOCUMENT, check=empty), Ask(400, body=SERVER),
                                 given=a_server),
    "POST /lsp/completions": Entry(
        Ask(200, body={**DOCUMENT, "position": {"line": 1, "character": 2}},
            check=has("items", value=[{"label": "at-1-2"}])),
        Ask(400, body={**DOCUMENT, "position": 3}), given=a_server),
    "GET /lsp/document-symbols": Entry(Ask(200, IN_SERVER + "&uri=file://p/a.py", check=knows),
                                       Ask(400, IN_SERVER), given=a_server),
    "GET /lsp/workspacesymbols": Entry(Ask(200, IN_SERVER + "&query=know", check=knows),
                                       Ask(400, IN_SERVER), given=a_server),
    "GET /computeruse/{path}": Entry(Ask(503), Ask(404, at=NO_ID)),
    "POST /computeruse/{path}": Entry(Ask(503, body={}), Ask(404, at=NO_ID)),
    "DELETE /computeruse/{path}": Entry(Ask(503), Ask(404, at=NO_ID)),
})
