"""A client of MCP by hand: what the official clients do not show."""

import json


class Mcp:
    def __init__(self, rest, session=None, version="2025-06-18"):
        self.rest, self.session, self.count, self.version = rest, session, 0, version

    def post(self, message, **headers):
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        return self.rest.call("POST", "/mcp", message, headers)

    def ask(self, method, **params):
        self.count += 1
        answer = self.post({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        assert answer.json["id"] == self.count, answer.body
        return answer.json

    def tool(self, tool, /, **arguments):
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def begin(self):
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": self.version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        self.session = answer.headers["Mcp-Session-Id"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return answer.json["result"]

    def stream(self, method, message=None, **headers):
        """Opens an event stream: the answer and its events."""
        connection = self.rest.connection()
        headers = {**self.rest.headers, "Accept": "application/json, text/event-stream",
                   "MCP-Protocol-Version": self.version, **headers}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        connection.request(method, "/mcp", message and json.dumps(message), headers)
        return connection, Events(connection.getresponse())


class Events:
    """Events of a stream, one by one, as (id, message); the message is None for an empty event."""

    def __init__(self, answer):
        self.answer, self.status, self.headers = answer, answer.status, answer.headers

    def __iter__(self):
        return self

    def __next__(self):
        number, data = None, None
        for line in self.answer:
            text = line.decode().rstrip("\r\n")
            if text.startswith("id: "):
                number = text[4:]
            elif text.startswith("data: "):
                data = text[6:]
            elif not text and data is not None:
                return number, json.loads(data) if data else None
        raise StopIteration
