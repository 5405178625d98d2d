"""One sandbox under soak, with every command that was started in it and what each must come to."""

import base64
import itertools
import json

from ground import Ended, Gone

NUMBERS = itertools.count(1)


class Command:
    """A command, all it is to print, and how it may end.

    The script gets its token as $0; what was started by a request that was never answered is found
    again by it.
    """

    def __init__(self, script, out=b"", err=b"", code=0, kinds=("exited",), whole=True, **fields):
        self.token = f"soak-{next(NUMBERS)}"
        self.script = script
        self.request = {"cmd": ["sh", "-c", script, self.token], **fields}
        self.want = {"stdout": out.replace(b"$0", self.token.encode()),
                     "stderr": err.replace(b"$0", self.token.encode())}
        self.code, self.kinds = code, kinds
        self.whole = whole  # when it ends like that, all of its output is there
        self.id = self.result = self.mark = self.fates = None
        self.killed = False  # somebody of us has ended it, or is about to
        self.forget()

    def forget(self):
        self.got = {"stdout": bytearray(), "stderr": bytearray()}


class Box:
    def __init__(self, client, view, mark, request):
        self.client, self.ground = client, client.ground
        self.ledger = client.ground.ledger
        self.id = view["id"]
        self.path = f"/api/sandboxes/{self.id}"
        self.provider = view["provider"]
        self.persistent = bool(request.get("persistent"))
        self.mark = mark  # from when on deeds concern it
        self.fates, self.fates_seen = [], 0
        self.doomed = False  # we destroy it, or have given it up
        self.commands = {}  # by exec id
        self.unanswered = []
        self.others = 0  # commands that are started for us: interpreters, tar
        self.files = {}  # path: content
        self.counter = None

    # What may be blamed on others.

    def is_over(self, mark=None, fates=None):
        mark = self.mark if mark is None else mark
        fates = self.fates_seen if fates is None else fates
        return len(self.fates) > fates or self.ground.ended_since(mark)

    def explain(self, disturbed, what):
        """Why something did not work."""
        if self.is_over() or self.doomed:
            return Ended(what)
        if disturbed:
            return Gone(what)
        self.finding(what)
        return Ended(what)

    def refused(self, answer, what):
        return self.explain(answer.disturbed, f"{what}: {answer.status} {answer.body[:300]}")

    def refused_stream(self, answer, what):
        answer.body = answer.read()
        answer.disturbed = self.ground.disturbed(answer.mark)
        return self.refused(answer, what)

    def finding(self, text):
        self.ledger.finding(f"sandbox {self.id}: {text}")
        self.doomed = True

    def check(self, true, text):
        if not true:
            self.finding(text)
            raise Ended(text)

    def need(self, answer, what, *statuses):
        if answer.status not in (statuses or (200,)):
            raise self.refused(answer, what)
        return answer

    def get(self, what, /, **query):
        return self.client.get(f"{self.path}/{what}", **query)

    def post(self, what, body=None, /, **query):
        return self.client.post(f"{self.path}/{what}", body, **query)

    # Commands.

    def register(self, command, exec_id):
        command.id = exec_id
        self.commands[exec_id] = command
        self.ledger.count("commands")

    def prepare(self, command):
        # A fate that was announced and not met yet may still strike.
        command.mark, command.fates = self.ground.mark(), self.fates_seen
        return command

    def start(self, command):
        self.prepare(command)
        try:
            answer = self.post("execs", command.request)
        except Gone:
            self.unanswered.append(command)
            raise
        if answer.status >= 500:
            self.unanswered.append(command)
        self.need(answer, f"start of {command.request}", 201)
        self.register(command, answer.json["exec_id"])
        return command

    def take(self, command, line):
        """One line of a stream; True when it is the last."""
        if "exec_id" in line and "stream" not in line:
            self.register(command, line["exec_id"])
        if "truncated" in line:
            self.finding(f"output of {command.id} was not kept: {line}")
        if "stream" in line:
            data = (base64.b64decode(line["data_base64"]) if "data_base64" in line
                    else line["data"].encode())
            got = command.got[line["stream"]]
            self.check(line["offset"] == len(got),
                       f"{command.id} {line['stream']}: bytes from {line['offset']} on after "
                       f"{len(got)}: {data[:80]}")
            got += data
            self.ledger.count("output bytes", len(data))
        if "result" in line:
            command.result = line["result"]
        return "result" in line

    def read_lines(self, command, answer, leave=lambda: False):
        """To the result: True; or until leave() says so."""
        while True:
            line = answer.readline()
            if not line.endswith(b"\n"):
                raise EOFError("the stream was cut off")
            if self.take(command, json.loads(line)):
                return True
            if leave():
                return False

    def follow(self, command, leave=lambda: False):
        """Reads to the end, however often the connection is lost or left."""
        while True:
            sizes = [len(command.got[name]) for name in ("stdout", "stderr")]
            target = (f"{self.path}/execs/{command.id}/output?follow=true"
                      f"&stdout={sizes[0]}&stderr={sizes[1]}")
            try:
                with self.client.stream("GET", target) as answer:
                    if answer.status != 200:
                        answer.body = answer.read()
                        answer.disturbed = self.ground.disturbed(answer.mark)
                        raise self.refused(answer, f"output of {command.id}")
                    if self.read_lines(command, answer, leave):
                        break
                    self.ledger.count("followers that left and came back")
            except Gone:
                self.ledger.count("followers that were cut off")
                self.ground.wait_up()
        self.judge(command)

    def judge(self, command):
        """Is the result true, and is every byte there once?"""
        result, kind = command.result, command.result["kind"]
        self.ledger.count(f"ended: {kind}")
        text = f"{command.id} ({command.script[:60]}) ended as {result}"
        over = self.is_over(command.mark, command.fates)
        if kind in command.kinds:
            whole = command.whole
            if kind == "exited" and command.code is not None:
                self.check(result["exit_code"] == command.code, f"{text}, not {command.code}")
        else:
            whole = False
            explained = {"lost": over, "oom_killed": over,  # gVisor's go whole at their memory limit
                         "killed_by": over or command.killed or self.doomed}
            self.check(explained.get(kind), text)
        for name in ("stdout", "stderr"):
            want, got = command.want[name], bytes(command.got[name])
            if want is None:
                continue
            good = got == want if whole else want.startswith(got)
            self.check(good, f"{text}; {name} is {len(got)} bytes of {len(want)}, "
                             f"different at {first_difference(got, want)}")
            self.check(result[f"{name}_bytes"] == len(got), f"{text}; {name} has {len(got)} bytes")
        self.look_again(command)

    def look_again(self, command):
        """What the daemon says later is what it said."""
        answer = self.client.sure("GET", f"{self.path}/execs/{command.id}")
        if answer.status != 200:
            raise self.refused(answer, f"record of {command.id}")
        self.check(answer.json["result"] == command.result,
                   f"{command.id} was {command.result} and is {answer.json['result']}")

    def end(self, command, signal="SIGKILL"):
        """By a request; it may have ended before."""
        command.killed = True
        answer = self.client.sure("POST", f"{self.path}/execs/{command.id}/signal",
                                  {"signal": signal, "tree": True})
        if answer.status not in (204, 409):
            raise self.refused(answer, "signal")

    def run(self, command, leave=lambda: False):
        self.follow(self.start(command), leave)
        return command

    # The end.

    def adopt(self, command, exec_id):
        """One that was started by a request without an answer."""
        self.register(command, exec_id)
        self.ledger.count("commands found again")

    def audit(self):
        """Every command that was ever started is in the list, once, with its one result."""
        answer = self.client.sure("GET", f"{self.path}/execs")
        if answer.status != 200:
            raise self.refused(answer, "list of commands")
        listed = answer.json["execs"]
        ids = [entry["exec_id"] for entry in listed]
        self.check(len(ids) == len(set(ids)), f"a command is listed twice: {ids}")
        missing = set(self.commands) - set(ids)
        self.check(not missing, f"commands without a record: {missing}")
        strangers = []
        for entry in listed:
            command = self.commands.get(entry["exec_id"])
            if command is None:
                strangers.append(entry)
            elif command.result is not None:
                self.check(entry.get("result") == command.result,
                           f"{command.id} was {command.result} and is {entry}")
        strangers = [entry for entry in strangers if not self.find_again(entry)]
        self.check(len(strangers) <= self.others, f"commands nobody asked for: {strangers}")
        for command in list(self.commands.values()):
            if command.result is None:
                # It may wait for input that nobody sends, or have no end of its own.
                if command in self.unanswered or not command.kinds:
                    self.end(command)
                self.follow(command)
        self.ledger.count("audits")

    def find_again(self, entry):
        """Is it one whose start was never answered?"""
        text = " ".join(entry["cmd"])
        for command in self.unanswered:
            if command.token not in text:
                continue
            if command.id is None:
                self.adopt(command, entry["exec_id"])
                if entry.get("result", {}).get("kind") == "lost":  # it never began
                    command.kinds, command.whole = (*command.kinds, "lost"), False
            return True
        return False


def first_difference(got, want):
    n = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    return f"{n}: {got[n:n + 40]} instead of {want[n:n + 40]}"
