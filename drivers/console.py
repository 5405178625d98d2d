"""Bash and R that stay: keep their state from one request to the next (docs/interpreter.md).

Neither can read its own output or move its descriptors, so this process does it: it starts the
interpreter with pipes, hands it one piece of code after the other and wraps what comes back. Code
goes through a memory file the interpreter has open, commands through a pipe, and the interpreter
reports on a third one; nothing of this is on the descriptors 0, 1 and 2 that the code sees.
"""
import base64
import codecs
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PIECE = 16 * 1024  # characters: at most 64 KiB as bytes
LATE_MAX = 1024 * 1024  # kept of what is printed between two executions
REPORT_MAX = 16 * 1024 * 1024
CODE_FD, COMMAND_FD, REPORT_FD = 200, 201, 202


class Ended(Exception):
    """The interpreter ended; the argument is its wait status."""


# The interpreters


class Bash:
    """An interactive shell: only such a one goes back to its prompt when it is interrupted. What it
    runs before a prompt takes the code, if there is any, and reports the status and the directory:
    there, it says nothing of jobs and of its end, as it would of commands that are typed."""

    language = "bash"
    interrupted = "KeyboardInterrupt"
    argv = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    commands_on_stdin = True
    # One line: each line is answered by one prompt.
    setup = (
        "PS1= PS2= PROMPT_COMMAND='if IFS= read -r -d \"\" -u %d __atoll_code; then "
        "eval \"$__atoll_code\" </dev/null %d>&- %d>&- %d<&-; fi; "
        "printf \"status %%d\\n%%s\\0\" $? \"$PWD\" >&%d'; "
        "unset HISTFILE; set +o history +H; shopt -u checkwinsize\n"
        % (CODE_FD, COMMAND_FD, REPORT_FD, CODE_FD, REPORT_FD)
    )
    run_command = "\n"

    def clean(self, text, lines):
        """It counts the lines of syntax errors from its start, where each command was a line."""
        return re.sub(r"(?m)^(bash: )eval: line (\d+): ", lambda m: m[0] if int(m[2]) < lines
                      else "%sline %d: " % (m[1], int(m[2]) - lines + 1), text)

    def version(self):
        text = subprocess.run(["bash", "-c", "echo $BASH_VERSION"], stdout=subprocess.PIPE).stdout
        return text.decode().strip()

    def code(self, text):
        if "\0" in text:
            raise ValueError("a command cannot contain NUL characters")
        return text.encode("utf-8", "replace") + b"\0"

    def set_env(self, env):
        return "".join(
            "__atoll_was_{n}=${{{n}-}} __atoll_had_{n}=${{{n}+x}}${{{n}@a}}; "
            "export {n}={v}\n".format(n=name, v=quote_shell(value))
            for name, value in env.items())

    def restore_env(self, env):
        return "".join(
            "if [ \"$__atoll_had_{n}\" ]; then {n}=$__atoll_was_{n}; "
            "[[ ${{__atoll_had_{n}#x}} == *x* ]] || export -n {n}; else unset {n}; fi; "
            "unset __atoll_was_{n} __atoll_had_{n}\n".format(n=name) for name in env)

    def take(self, report, driver):
        """Reads one report; true when the code has ended."""
        head, _, driver.cwd = report.partition("\n")
        status = int(head.split()[1])
        if status and not driver.error:
            driver.error = {"name": "ExitStatus", "value": str(status),
                            "traceback": "the last command ended with status %d" % status}
        return True


class R:
    """Rscript running the loop below. Visible values are printed, the last one is the result; plots
    are drawn to files that are sent as PNG."""

    language = "r"
    interrupted = "KeyboardInterrupt"
    commands_on_stdin = False
    setup = ""
    run_command = "run\n"
    loop = r"""
local({
  report <- function(kind, ...) {
    text <- enc2utf8(paste0(...))
    writeLines(paste0(kind, "\n", gsub("\001", "", text, fixed = TRUE), "\001"), reports, sep = "")
    flush(reports)
  }
  plots <- Sys.getenv("ATOLL_PLOTS"); Sys.unsetenv("ATOLL_PLOTS")
  options(device = function(...) grDevices::png(file.path(plots, "%06d.png"), 960, 720, res = 120),
          menu.graphics = FALSE, warn = 1, keep.source = TRUE)
  finish_plots <- function() {
    grDevices::graphics.off()
    for (file in sort(list.files(plots, full.names = TRUE))) report("plot", file)
  }
  evaluate <- function(code, silent) {
    expressions <- parse(text = code, keep.source = TRUE, srcfile = srcfilecopy("<cell>", code))
    for (i in seq_along(expressions)) {
      shown <- withVisible(eval(expressions[[i]], globalenv()))
      if (!shown$visible || silent) next
      if (i < length(expressions)) { print(shown$value); next }
      assign(".Last.value", shown$value, envir = globalenv())
      text <- utils::capture.output(print(shown$value))
      if (length(text)) report("value", paste(text, collapse = "\n"))
    }
  }
  place <- function(e) {
    call <- conditionCall(e)
    own <- is.null(call) || list(call[[1]]) %in% list(quote(eval), quote(parse), quote(withVisible))
    if (own) "" else paste0(" in ", paste(deparse(call, nlines = 1L), collapse = " "))
  }
  fail <- function(e) report("error", class(e)[1], "\002", conditionMessage(e), "\002",
                             "Error", place(e), ": ", conditionMessage(e))
  warn <- function(w) {
    cat("Warning", place(w), ": ", conditionMessage(w), "\n", file = stderr(), sep = "")
    invokeRestart("muffleWarning")
  }
  commands <- file("/dev/fd/201", "r"); reports <- file("/dev/fd/202", "w")
  report("status 0")
  while (length(command <- readLines(commands, 1L))) {
    code <- readLines("/dev/fd/200", warn = FALSE, encoding = "UTF-8")
    tryCatch({
      withCallingHandlers(evaluate(code, command == "silent"), warning = warn)
      if (command == "run") finish_plots()
    }, error = fail, interrupt = function(e) { grDevices::graphics.off(); report("interrupt") })
    flush(stdout()); flush(stderr())
    report("status 0")
  }
})
"""

    def clean(self, text, lines):
        return text

    def __init__(self):
        self.plots = tempfile.mkdtemp(prefix="plots-")
        self.argv = ["Rscript", "--vanilla", "-e", self.loop]

    def version(self):
        text = subprocess.run(["Rscript", "--version"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout.decode()
        return next((w for w in text.split() if w[:1].isdigit()), text.strip())

    def code(self, text):
        return text.encode("utf-8", "replace")

    def set_env(self, env):
        return "".join("Sys.setenv(%s=%s)\n" % (quote_r(n), quote_r(v)) for n, v in env.items())

    def restore_env(self, env):
        return "".join(
            "Sys.setenv(%s=%s)\n" % (quote_r(n), quote_r(os.environ[n])) if n in os.environ
            else "Sys.unsetenv(%s)\n" % quote_r(n) for n in env)

    def take(self, report, driver):
        kind, _, text = report.partition("\n")
        if kind == "value":
            driver.send("result", text=text, is_main_result=True, extra={})
        elif kind == "plot":
            driver.send_plot(text)
        elif kind == "error":
            name, value, trace = text.split("\x02")
            driver.error = {"name": name, "value": value, "traceback": trace}
        elif kind == "interrupt":
            driver.interrupted = True
        return kind == "status 0"


def quote_shell(text):
    return "'" + text.replace("'", "'\\''") + "'"


def quote_r(text):
    return '"' + "".join(c if c.isalnum() or c in " _-./:" else "\\U{%x}" % ord(c)
                         for c in text) + '"'


# The driver


class Driver:
    def __init__(self, interpreter):
        self.interpreter = interpreter
        self.requests = os.fdopen(os.dup(0), "rb", 0)
        self.wire = os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        self.id = None
        self.count = 0
        self.waiting = {}
        self.late = []
        self.late_size = 0
        self.error = None
        self.interrupted = False
        self.interrupted_at = self.next_try = 0.0
        self.quiet = False
        self.cwd = os.getcwd()
        self.child = None
        self.jobs = []
        self.poll = select.poll()
        # A signal wakes poll() through this pipe, whenever it comes.
        self.woken, waker = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGINT, lambda *_: None)
        self.poll.register(self.woken, select.POLLIN)

    # To the daemon

    def write(self, line):
        data = json.dumps(line).encode("ascii") + b"\n"
        while data:
            data = data[os.write(self.wire, data):]

    def send(self, kind, **fields):
        self.write(dict(fields, id=self.id, type=kind))

    def send_text(self, kind, text):
        if self.id is None:
            if self.late_size + len(text) <= LATE_MAX:
                self.late.append((kind, text))
                self.late_size += len(text)
            return
        for start in range(0, len(text), PIECE):
            now = time.time_ns()
            stamp = "%s.%06dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)),
                                  now // 1000 % 10**6)
            self.send(kind, text=text[start:start + PIECE], timestamp=stamp)

    def send_plot(self, path):
        with open(path, "rb") as f:
            data = f.read(REPORT_MAX)
        os.unlink(path)
        self.send("result", png=base64.b64encode(data).decode("ascii"), text="<plot>",
                  is_main_result=False, extra={})

    # The interpreter

    def start(self):
        """A new one, in the directory the last one was in."""
        self.code_fd = os.memfd_create("code")
        commands, command_fd = os.pipe()
        report_fd, reports = os.pipe()
        out, out_child = os.pipe()
        err, err_child = os.pipe()
        stdin = commands if self.interpreter.commands_on_stdin else subprocess.DEVNULL
        env = dict(os.environ, ATOLL_PLOTS=getattr(self.interpreter, "plots", ""))
        if not env["ATOLL_PLOTS"]:
            del env["ATOLL_PLOTS"]

        private = ((self.code_fd, CODE_FD), (commands, COMMAND_FD), (reports, REPORT_FD))
        for fd, number in private:
            os.dup2(fd, number)
        self.child = subprocess.Popen(self.interpreter.argv, stdin=stdin, stdout=out_child,
                                      stderr=err_child, env=env, cwd=self.cwd,
                                      start_new_session=True,
                                      pass_fds=[number for _, number in private])
        for fd in (commands, reports, out_child, err_child, *(number for _, number in private)):
            os.close(fd)
        self.command_fd, self.report_fd, self.reported = command_fd, report_fd, b""
        self.outputs = {}
        for fd, kind in ((out, "stdout"), (err, "stderr")):
            os.set_blocking(fd, False)
            self.outputs[fd] = (kind, codecs.getincrementaldecoder("utf-8")("replace"))
        for fd in (out, err, report_fd):
            self.poll.register(fd, select.POLLIN)
        if self.interpreter.setup:
            os.write(command_fd, self.interpreter.setup.encode())
        self.lines = 1
        self.quiet = True  # an interactive shell complains that it has no terminal
        self.wait_for_report()
        self.quiet = False

    def stop(self):
        status = self.child.wait()
        for fd in (*self.outputs, self.report_fd):
            self.poll.unregister(fd)
            os.close(fd)
        os.close(self.command_fd)
        os.close(self.code_fd)
        self.child = None
        return status

    def drain(self):
        """Everything that is in the pipes now."""
        for fd, (kind, decoder) in self.outputs.items():
            while True:
                try:
                    data = os.read(fd, 4 * PIECE)
                except BlockingIOError:
                    break
                if not data:
                    break
                if not self.quiet:
                    self.take_text(kind, decoder.decode(data))

    def take_text(self, kind, text):
        """Whole lines are sent; the rest waits a moment for the end of its line."""
        text = self.waiting.pop(kind, "") + text
        end = text.rfind("\n") + 1 or (len(text) if len(text) > PIECE else 0)
        if text[:end]:
            self.send_text(kind, self.interpreter.clean(text[:end], self.lines))
        if text[end:]:
            self.waiting[kind] = text[end:]

    def flush(self):
        self.drain()
        waiting, self.waiting = self.waiting, {}
        for kind, text in waiting.items():
            self.send_text(kind, text)

    def wait_for_report(self):
        """Passes output on until the interpreter says that it has ended its code."""
        end = b"\0" if self.interpreter.commands_on_stdin else b"\1"
        while True:
            self.turn()
            *whole, self.reported = self.reported.split(end)
            if [self.interpreter.take(r.decode("utf-8", "replace"), self) for r in whole][-1:] == [
                    True]:
                return

    def turn(self):
        """Waits for something to come and takes it."""
        ready = dict(self.poll.poll(100 if self.waiting else 500 if self.interrupted else None))
        if not ready:
            self.flush()
        if self.woken in ready:
            os.read(self.woken, 64)
            self.interrupt()
        elif self.interrupted and time.monotonic() > self.next_try:
            self.interrupt()
        if any(fd in ready for fd in self.outputs):
            self.drain()
        if self.report_fd in ready:
            data = os.read(self.report_fd, 65536)
            self.flush()  # what was printed before the report
            if not data or len(self.reported) > REPORT_MAX:
                raise Ended(self.stop())
            self.reported += data

    def interrupt(self):
        """Tried again until the code has ended: a signal that comes while the interpreter starts a
        program is lost on that program; and one that ignores it is killed in the end."""
        if self.id is None:
            return
        if not self.interrupted:
            self.interrupted_at = time.monotonic()
        self.interrupted = True
        self.next_try = time.monotonic() + 0.4
        self.let_jobs_settle()
        os.killpg(self.child.pid, signal.SIGINT)
        if time.monotonic() - self.interrupted_at > 2:
            for pid in descendants(self.child.pid):
                kill(pid, signal.SIGKILL)

    def let_jobs_settle(self):
        """A background job of an earlier call that was only just started does not ignore SIGINT
        yet, and would die of a signal that is not meant for it."""
        for attempt in range(100):
            self.jobs = [pid for pid in self.jobs if not ignores_interrupt(pid)]
            if not self.jobs:
                return
            time.sleep(0.001)

    def sweep(self):
        """Ends what an interrupted shell was just starting: it would wait for that at its next
        command. Background jobs ignore SIGINT, which is how they are told apart."""
        for attempt in range(100):
            left = [pid for pid in descendants(self.child.pid) if not ignores_interrupt(pid)]
            if not left:
                return
            for pid in left:
                kill(pid, signal.SIGINT if attempt < 50 else signal.SIGKILL)
            time.sleep(0.01)

    def run(self, text, command):
        data = self.interpreter.code(text)
        os.ftruncate(self.code_fd, 0)
        os.lseek(self.code_fd, 0, os.SEEK_SET)
        while data:
            data = data[os.write(self.code_fd, data):]
        os.lseek(self.code_fd, 0, os.SEEK_SET)
        os.write(self.command_fd, command.encode())
        self.lines += 1
        self.wait_for_report()

    def run_silent(self, text):
        if text:
            kept, self.error = self.error, None
            self.run(text, self.interpreter.run_command.replace("run\n", "silent\n"))
            self.error = kept

    # Requests

    def execute(self, request):
        env = request.get("env") or {}
        self.id, self.error, self.interrupted = request["id"], None, False
        self.count += 1
        self.send("number_of_executions", execution_count=self.count)
        late, self.late, self.late_size = self.late, [], 0
        for kind, text in late:
            self.send_text(kind, text)
        try:
            if self.child is None:
                self.start()
            self.jobs = descendants(self.child.pid)
            self.run_silent(self.interpreter.set_env(env))
            self.run(request["code"], self.interpreter.run_command)
            if self.interrupted:
                self.sweep()
            self.run_silent(self.interpreter.restore_env(env))
        except Ended as ended:
            self.error = {"name": "InterpreterEnded", "value": end_text(ended.args[0]),
                          "traceback": "%s; its variables are gone, the next call starts a new one"
                          % end_text(ended.args[0])}
        except ValueError as error:
            self.error = {"name": "ValueError", "value": str(error), "traceback": str(error)}
        if self.interrupted:
            self.error = {"name": self.interpreter.interrupted, "value": "",
                          "traceback": self.interpreter.interrupted}
        if self.error:
            self.send("error", **self.error)
        self.send("end_of_execution")
        self.id = None

    def serve(self):
        self.start()
        self.write({"type": "ready", "language": self.interpreter.language,
                    "version": self.interpreter.version()})
        buffered = b""
        self.poll.register(self.requests.fileno(), select.POLLIN)
        while True:
            line, newline, rest = buffered.partition(b"\n")
            if newline:
                buffered = rest
                self.poll.unregister(self.requests.fileno())
                self.execute(json.loads(line))
                self.poll.register(self.requests.fileno(), select.POLLIN)
                continue
            data = self.wait_for_request()
            if not data:
                break
            buffered += data
        self.end()

    def wait_for_request(self):
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.requests.fileno():
                    return os.read(fd, 1 << 20)
                if fd == self.woken:
                    os.read(fd, 64)
                elif self.child and fd in self.outputs:
                    self.drain()
                elif self.child:
                    self.stop()

    def end(self):
        if self.child:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if getattr(self.interpreter, "plots", None):
            shutil.rmtree(self.interpreter.plots, ignore_errors=True)


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def ignores_interrupt(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            fields = dict(line.split(":", 1) for line in f if ":" in line)
        return bool(int(fields["SigIgn"], 16) & 1 << signal.SIGINT - 1) or "Z" in fields["State"]
    except OSError:
        return True


def descendants(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            children = [int(child) for child in f.read().split()]
    except OSError:
        return []
    return [p for child in children for p in [*descendants(child), child]]


def end_text(status):
    if status < 0:
        return "the interpreter was killed by signal %d" % -status
    return "the interpreter ended with status %d" % status


Driver({"bash": Bash, "r": R}[sys.argv[1]]()).serve()
