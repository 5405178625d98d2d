"""A server that stands in for a model: it speaks the wire formats of Anthropic, OpenAI and Google. Its first answer
runs a command, the next one is a text."""

import http.server
import json
import threading

COMMAND = "printf 'written by the agent\\n' > note.txt"
WORDS = "The note is written."
TEXT = {"text": "written by the agent"}  # for a tool whose name ends with NOTE, instead of the command
NOTE = "note"
OF_MCP = "mcp__box__Bash"  # Bash of examples/tools/mcp_proxy.py, as the server "box"


def anthropic_events(body):
    """The Messages API."""
    tools = {tool["name"] for tool in body.get("tools", [])}
    answered = any(part.get("type") == "tool_result" for message in body["messages"]
                   if isinstance(message["content"], list) for part in message["content"])
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
             "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    note = next((tool for tool in tools if tool.endswith(NOTE)), None)
    tool = note or next((name for name in ("Bash", "bash", OF_MCP) if name in tools), None)
    if tool and not answered:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        given = TEXT if note else {"command": COMMAND, "description": "x"}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        reason = "tool_use"
    else:
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": WORDS}, "end_turn"
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                            "usage": {"output_tokens": 5}}
    yield "message_stop", {"type": "message_stop"}


def openai_call(given):
    # Servers of tools are namespaces.
    for space in given:
        for tool in space.get("tools", [space]):
            if tool.get("name", "").endswith(NOTE):
                inside = {"namespace": space["name"]} if space is not tool else {}
                return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool["name"], **inside,
                        "arguments": json.dumps(TEXT)}
    tools = {tool.get("name") for tool in given}
    arguments = {"exec_command": {"cmd": COMMAND}, "shell_command": {"command": COMMAND},
                 "shell": {"command": ["sh", "-c", COMMAND]}}
    name = next((name for name in arguments if name in tools), None)
    return name and {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
                     "arguments": json.dumps(arguments[name])}


def openai_events(body):
    """The Responses API."""
    answered = any(item.get("type") == "function_call_output" for item in body["input"])
    call = None if answered else openai_call(body.get("tools", []))
    item = call or {"type": "message", "id": "msg_1", "role": "assistant",
                    "content": [{"type": "output_text", "text": WORDS}]}
    yield "response.created", {"type": "response.created", "response": {"id": "resp_1"}}
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    yield "response.completed", {"type": "response.completed",
                                 "response": {"id": "resp_1", "output": [item], "usage": usage}}


def gemini_events(body):
    """generateContent of the Gemini API."""
    tools = {tool["name"]: tool for part in body.get("tools", []) for tool in part.get("functionDeclarations", [])}
    answered = any("functionResponse" in part for content in body["contents"] for part in content.get("parts", []))
    note = next((name for name in tools if name.endswith(NOTE)), None)
    call = note or next((name for name in tools if name == "run_shell_command"), None)
    if call and not answered:
        part = {"functionCall": {"name": call, "args": TEXT if note else {"command": COMMAND}}}
    else:
        part = {"text": WORDS}
    yield None, {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}}


def chat_events(body):
    """Chat Completions of OpenAI: aider reads files to edit from the text."""
    head = {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    text = f"note.txt\n```\n{TEXT['text']}\n```\n\n{WORDS}\n"
    yield None, {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]}
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield None, {**head, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        self.server.keys.add(self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or self.headers.get("Authorization"))
        path = self.path.partition("?")[0]
        if self.server.owner.refusal:
            status, kind, message = self.server.owner.refusal
            self.answer(json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode(), "application/json", status)
            return
        if path.endswith("/count_tokens"):
            self.answer(json.dumps({"input_tokens": 10}).encode(), "application/json")
            return
        if path.endswith(":generateContent"):
            self.answer(json.dumps(next(gemini_events(body))[1]).encode(), "application/json")
            return
        kinds = {"responses": openai_events, "messages": anthropic_events, "completions": chat_events}
        events = kinds.get(path.rpartition("/")[2], gemini_events)(body)
        text = "".join((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events)
        text += "data: [DONE]\n\n" if path.endswith("/completions") else ""
        self.answer(text.encode(), "text/event-stream")

    def do_GET(self):
        self.answer(b'{"data": [], "object": "list"}', "application/json")

    do_HEAD = do_GET

    def answer(self, body, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class ModelServer:
    """Serves on a listening socket; `keys` are those that clients have sent. `refusal` is (status, type, message) of the
    error that all requests get."""

    def __init__(self, listener, keys=None):
        self.server = http.server.ThreadingHTTPServer(listener.getsockname()[:2], Handler, False)
        self.server.socket = listener
        self.server.owner, self.refusal = self, None
        self.server.keys = self.keys = set() if keys is None else keys
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
