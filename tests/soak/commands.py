"""What is done with commands: each activity takes a sandbox and a source of chance."""

import json
import threading
import time

from box import Command
from ground import Ended, Gone

LINES = ("i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo \"$0 $i\"; "
         "[ $((i % 3)) != 0 ] || echo \"$0 e$i\" >&2; {pause}; done; exit {code}")


def numbered(chance, lines=40, most_pause=0.08, **fields):
    """Numbered lines on both streams, at a pace."""
    n, code = chance.randint(1, lines), chance.choice([0, 0, 1, 7, 200])
    pause = chance.uniform(0, most_pause)
    script = LINES.format(n=n, code=code, pause=f"sleep {pause:.3f}" if pause > 0.005 else ":")
    return Command(script, b"".join(b"$0 %d\n" % i for i in range(1, n + 1)),
                   b"".join(b"$0 e%d\n" % i for i in range(3, n + 1, 3)), code, **fields)


def endless(**fields):
    """Lines until it is ended."""
    return Command("i=0; while :; do i=$((i+1)); echo \"$0 $i\"; sleep 0.05; done",
                   b"".join(b"$0 %d\n" % i for i in range(1, 5000)), kinds=(), whole=False,
                   **fields)


def now_and_then(chance, often):
    return lambda: chance.random() < often


def waited(box, chance):
    """The answer has everything."""
    command = box.prepare(numbered(chance, 15))
    try:
        answer = box.post("execs", command.request, wait="true")
    except Gone:
        box.unanswered.append(command)
        raise
    if answer.status >= 500:
        box.unanswered.append(command)
    whole = box.need(answer, f"run of {command.request}").json
    box.register(command, whole["exec_id"])
    command.got = {name: bytearray(whole[name].encode()) for name in ("stdout", "stderr")}
    command.result = whole["result"]
    box.judge(command)


def streamed(box, chance):
    command = box.prepare(numbered(chance))
    try:
        with box.client.stream("POST", f"{box.path}/execs?stream=true",
                               json.dumps(command.request)) as answer:
            if answer.status != 200:
                if answer.status >= 500:
                    box.unanswered.append(command)
                raise box.refused_stream(answer, "stream")
            if box.read_lines(command, answer, now_and_then(chance, 0.05)):
                box.judge(command)
                return
    except Gone:
        if command.id is None:
            box.unanswered.append(command)
            raise
        box.ground.wait_up()
    box.follow(command)


def detached(box, chance):
    box.run(numbered(chance), now_and_then(chance, 0.1))


def bulk(box, chance):
    n = chance.randint(1000, 150000)
    text = "".join(f"{i}\n" for i in range(1, n + 1)).encode()
    box.run(Command(f"seq {n}; exit 3", text, code=3), now_and_then(chance, 0.1))


def several(box, chance):
    """Side by side, read one after the other, and one of them twice."""
    commands = [box.start(numbered(chance)) for _ in range(chance.randint(2, 5))]
    for command in commands:
        box.follow(command)
    again = chance.choice(commands)
    first = again.got
    again.forget()
    box.follow(again)
    box.check(again.got == first, f"{again.id} reads differently the second time")


def input_as_text(box, chance):
    text = "".join(f"line {i}\n" for i in range(chance.randint(1, 3000)))
    box.run(Command("cat; exit 4", text.encode(), code=4, stdin=text))


def input_in_pieces(box, chance):
    pieces = [f"piece {i} {chance.random()}\n" * chance.randint(1, 400) for i in range(5)]
    text = "".join(pieces).encode()
    command = box.start(Command("cat", text, stdin=True))
    target = f"{box.path}/execs/{command.id}/stdin"
    try:
        for piece in pieces:
            answer = box.client.call("POST", target, piece.encode())
            box.need(answer, "stdin", 204)
        box.need(box.client.call("POST", f"{target}?close=true", b""), "end of stdin", 204)
    except Gone:  # nobody knows how much was taken
        box.ground.wait_up()
        box.end(command)
    box.follow(command)


def signalled(box, chance):
    command = box.start(endless())
    time.sleep(chance.uniform(0, 0.4))
    box.end(command, chance.choice(["SIGTERM", "SIGKILL"]))
    box.follow(command)


def timed_out(box, chance):
    box.run(Command(f"echo \"$0 1\"; sleep {chance.choice([1000, 2000])}", b"$0 1\n",
                    kinds=("timed_out",), timeoutSeconds=1))


def background(box, chance):
    """Leaves processes behind, which end with the sandbox."""
    box.run(Command("for i in 1 2 3; do (setsid sleep 5000 >/dev/null 2>&1 &); done; echo \"$0 1\"",
                    b"$0 1\n"))


def over_websocket(box, chance):
    """Input and output on one connection, which may vanish."""
    text = b"".join(b"echoed %d\n" % i for i in range(chance.randint(1, 2000)))
    command = box.prepare(Command("cat; exit 5", text, code=5, stdin=True))
    leave = chance.random() < 0.3
    try:
        with box.client.websocket(f"{box.path}/execs/stream") as ws:
            if ws.status != 101:
                raise box.explain(box.ground.disturbed(command.mark), f"upgrade: {ws.status}")
            ws.send(command.request)
            first = ws.text()
            if "error" in first:
                raise box.explain(box.ground.disturbed(command.mark), f"WebSocket: {first}")
            box.register(command, first["exec_id"])
            for at in range(0, len(text), 20000):
                ws.send(b"\0" + text[at:at + 20000])
            if not leave:
                ws.send(b"\0")
                out, err, texts, _ = ws.finish()
                command.got = {"stdout": bytearray(out), "stderr": bytearray(err)}
                box.check("result" in texts[-1], f"{command.id} ends with {texts[-1:]}")
                command.result = texts[-1]["result"]
                box.judge(command)
                return
    except Gone:
        if command.id is None:
            box.unanswered.append(command)
            raise
        box.ground.wait_up()
    box.end(command)
    box.follow(command)


def terminal(box, chance):
    """A terminal, left and come back to."""
    n = chance.randint(1, 30)
    command = Command("", b"".join(b"tty %d\r\n" % i for i in range(1, n + 1)), code=9)
    box.prepare(command)
    script = (f": {command.token}; i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo tty $i; "
              "sleep 0.02; done; exit 9")
    query = "command=" + script.replace("%", "%25").replace("+", "%2B").replace(
        " ", "%20").replace(";", "%3B")
    while command.result is None:
        try:
            with box.client.websocket(f"{box.path}/pty?{query}") as ws:
                if ws.status != 101:
                    if command.id is not None:
                        break
                    raise box.explain(box.ground.disturbed(command.mark), f"pty: {ws.status}")
                read_terminal(box, command, ws, now_and_then(chance, 0.05))
        except Gone:
            if command.id is None:
                box.unanswered.append(command)
                raise
            box.ground.wait_up()
        query = f"exec={command.id}&from={len(command.got['stdout'])}"
    if command.result is None:
        box.follow(command)
    else:
        box.judge(command)


def read_terminal(box, command, ws, leave):
    while True:
        opcode, payload = ws.recv()
        if opcode == ws.CLOSE:
            return
        if opcode == ws.BINARY:
            command.got["stdout"] += payload
            if leave():
                return
            continue
        said = json.loads(payload)
        if "exec_id" in said and command.id is None:
            box.register(command, said["exec_id"])
        elif "result" in said:
            command.result = said["result"]
        elif "error" in said:
            raise box.explain(box.ground.disturbed(command.mark), f"terminal: {said}")


def out_of_memory(box, chance):
    if box.provider != "native":
        return
    box.run(Command("exec tail /dev/zero", kinds=("oom_killed",)))


def fork_bomb(box, chance):
    """It has an end, one way or the other. Whatever it leaves would be in the way of the next."""
    if box.provider != "native":
        return
    box.doomed = True
    command = Command("f() { f | f & }; f; sleep 100", code=None, timeoutSeconds=1,
                      kinds=("timed_out", "exited", "signaled"))
    command.want = {"stdout": None, "stderr": None}
    box.run(command)
    raise Ended("bombed")


def by_command_line(box, chance):
    """`atoll exec` takes the output up again by itself."""
    n, mark = chance.randint(5, 60), box.ground.mark()
    token = f"cli-{box.id[:6]}-{n}"
    box.others += 1
    script = f"for i in $(seq {n}); do echo {token} $i; sleep 0.02; done; exit 6"
    done = box.ground.daemon.atoll("exec", box.id, "--", "sh", "-c", script, timeout=120)
    if done.returncode == 6:
        box.check(done.stdout == "".join(f"{token} {i}\n" for i in range(1, n + 1)),
                  f"atoll exec printed {len(done.stdout)} bytes: {done.stdout[-80:]!r}")
    else:
        raise box.explain(box.ground.disturbed(mark),
                          f"atoll exec: {done.returncode} {done.stderr}")


def destroyed_meanwhile(box, chance):
    """Destroys it while commands run; whoever reads is told."""
    command = box.start(endless())
    time.sleep(chance.uniform(0, 0.3))
    box.doomed = command.killed = True
    answered = threading.Event()

    def destroy():
        box.client.sure("DELETE", box.path)
        answered.set()

    deed = threading.Thread(target=destroy, daemon=True)
    target = f"{box.path}/execs/{command.id}/output?follow=true"
    try:
        with box.client.stream("GET", target) as answer:
            if answer.status == 200:
                deed.start()
                box.read_lines(command, answer)
                kind = command.result["kind"]
                box.ledger.count(f"ended: {kind}")
                if kind != "killed_by" and not (kind == "lost" and box.is_over()):
                    box.ledger.finding(f"{command.id} of a destroyed sandbox: {command.result}")
    except Gone:
        pass
    if not deed.ident:
        deed.start()
    deed.join(120)
    if not answered.is_set():
        box.ledger.finding(f"{box.id} cannot be destroyed while a command runs")
    raise Ended("destroyed")


ACTIVITIES = [(waited, 6), (streamed, 6), (detached, 8), (bulk, 3), (several, 3),
              (input_as_text, 3), (input_in_pieces, 3), (signalled, 3), (timed_out, 1),
              (background, 2), (over_websocket, 4), (terminal, 3), (out_of_memory, 1),
              (fork_bomb, 0.5), (by_command_line, 1)]
