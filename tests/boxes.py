"""One sandbox over the REST API, for tests."""


class Box:
    def __init__(self, rest, **request):
        self.rest = rest
        answer = rest.post("/api/sandboxes", request)
        assert answer.status == 201, answer.body
        self.id = answer.json["id"]
        self.path = f"/api/sandboxes/{self.id}"

    @property
    def view(self):
        return self.rest.get(self.path).json

    @property
    def state(self):
        return self.view["state"]

    def get(self, what, /, **query):
        return self.rest.get(f"{self.path}/{what}", **query)

    def post(self, verb, body=None, /, **query):
        return self.rest.post(f"{self.path}/{verb}", body, **query)

    def do(self, verb, body=None):
        answer = self.post(verb, body)
        assert answer.status == 200, answer.body
        return answer.json

    def run(self, script, **fields):
        answer = self.post("execs", {"cmd": ["sh", "-c", script], **fields}, wait="true")
        assert answer.status == 200, answer.body
        return answer.json

    def out(self, script, **fields):
        ended = self.run(script, **fields)
        assert ended["result"].get("exit_code") == 0, ended
        return ended["stdout"].strip()

    def detach(self, script, **fields):
        answer = self.post("execs", {"cmd": ["sh", "-c", script], **fields})
        assert answer.status in (200, 201), answer.body
        return answer.json["exec_id"]

    def exec(self, exec_id):
        return self.get(f"execs/{exec_id}").json

    def output(self, exec_id, stream="stdout", **query):
        """What it wrote so far; with follow="true" all it writes."""
        lines = self.get(f"execs/{exec_id}/output", **query).lines
        return "".join(line["data"] for line in lines if line.get("stream") == stream)

    def destroy(self):
        return self.rest.delete(self.path).status
