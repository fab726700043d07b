#!/usr/bin/env python3
"""acp_drive.py - a small ACP client which records what real agents do.

Spawns an Agent Client Protocol (ACP) agent over stdio, against mock_llm.py on
loopback, runs a named scenario and writes the complete raw traffic to

    OUT/traces/<agent>-<scenario>.ndjson   one line per message:
        {"dir":"in"|"out","ms":...,"proc":N,"line":"<raw line>"}
        "in" = from the agent, "out" = from this client; ms since the first
        spawn of the run; proc counts the agent processes of the run (the
        load scenarios start more than one). Paths of the run are written as
        /home/dev and /home/dev/project.
    OUT/traces/<agent>-<scenario>.stderr   the agent's stderr, as is
    OUT/results/<agent>-<scenario>.json    what the scenario observed

Python 3.9+ standard library only.  The agent gets a clean environment (only
PATH, HOME, TMPDIR, LANG, TERM and what its entry in agents.json says), a
fresh home and a fresh git repository per run, both under OUT/runs/.  The
client offers no fs and no terminal capability.

    acp_drive.py --list
    acp_drive.py AGENT[,AGENT] SCENARIO[,SCENARIO] --out DIR     ("all" for all)
    acp_drive.py AGENT prompt --text 'Hi [[say hello]]' --permission reject --out DIR

`cargo xtask e2e --all` installs the agents.  agents.json holds one entry per
agent; of it this program reads:

    "name": {
      "cmd":        [...],            the command line
      "env":        {...},            added to the clean environment
      "home_files": {"rel/path": "text" or JSON value},   written before spawn
      "authenticate": "method-id",    sent after initialize, if given
      "set_mode":   "mode-id",        sent after session/new, if given
      "new_params": {...},            merged into session/new, if given
      "no_auth_env": ["VAR", ...],    dropped in the noauth scenario
      "load_wait":  seconds,          between kill and restart in scenario load
      "transcripts": ["glob", ...]    below the home, for the report
    }

With BODIES=1 in the environment the mock also stores every request body and
response under OUT/runs/<agent>-<scenario>/bodies/.

The strings may use {home}, {cwd}, {run}, {mock} (the mock's URL) and {port}.
"""

import argparse
import glob
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

import mock_llm

ROOT = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("MAESTRO_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "maestro-dev")
RPC_TIMEOUT = 60.0


def substitute(value, names):
    """Fills {name} templates in every string of a JSON value."""
    if isinstance(value, str):
        for key, text in names.items():
            value = value.replace("{%s}" % key, text)
        return value
    if isinstance(value, list):
        return [substitute(v, names) for v in value]
    if isinstance(value, dict):
        return {substitute(k, names): substitute(v, names) for k, v in value.items()}
    return value


class RpcError(Exception):
    """An error response (or no response) to one of our requests."""


class Pending:
    """A request in flight."""

    def __init__(self, ident, method, session):
        self.ident, self.method, self.session = ident, method, session
        self.done = threading.Event()
        self.answer, self.sent_ms, self.done_ms = None, None, None

    def wait(self, timeout=RPC_TIMEOUT):
        if not self.done.wait(timeout):
            raise RpcError("no answer to %s within %gs" % (self.method, timeout))
        if "error" in self.answer:
            raise RpcError("%s: %s" % (self.method, json.dumps(self.answer["error"])))
        return self.answer.get("result")


# --------------------------------------------------------------------------
# /proc helpers
# --------------------------------------------------------------------------


def read_file(path, mode="r"):
    try:
        with open(path, mode) as f:
            return f.read()
    except OSError:
        return "" if mode == "r" else b""


def processes_with(marker):
    """Pids whose environment holds the marker (survives re-parenting)."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if marker.encode() in read_file("/proc/%s/environ" % pid, "rb"):
            state = read_file("/proc/%s/stat" % pid).rpartition(")")[2].split()
            if state and state[0] != "Z":
                found.append(int(pid))
    return sorted(found)


def tree(root):
    """root and its descendants."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = read_file("/proc/%s/stat" % pid).rpartition(")")[2].split()
        if len(fields) > 1:
            parents[int(pid)] = int(fields[1])
    out, frontier = [], [root]
    while frontier:
        pid = frontier.pop()
        out.append(pid)
        frontier += [p for p, pp in parents.items() if pp == pid]
    return out


def describe(pid):
    """The start of the command line."""
    return read_file("/proc/%d/cmdline" % pid).replace("\0", " ").strip()[:160]


def place(pid):
    """pid, process group, session and command line of a process."""
    fields = read_file("/proc/%d/stat" % pid).rpartition(")")[2].split()
    return {"pid": pid, "pgid": int(fields[2]) if len(fields) > 3 else 0,
            "sid": int(fields[3]) if len(fields) > 3 else 0, "cmd": describe(pid)}


def memory(pids):
    """Per-process and summed RSS and PSS in MiB."""
    rows = []
    for pid in pids:
        rss = pss = 0
        for line in read_file("/proc/%d/smaps_rollup" % pid).splitlines():
            if line.startswith("Rss:"):
                rss = int(line.split()[1])
            elif line.startswith("Pss:"):
                pss = int(line.split()[1])
        try:
            threads = len(os.listdir("/proc/%d/task" % pid))
        except OSError:
            threads = 0
        if rss:
            rows.append({"pid": pid, "rss_mib": round(rss / 1024, 1), "pss_mib":
                         round(pss / 1024, 1), "threads": threads, "cmd": describe(pid)})
    return {"processes": rows, "rss_mib": round(sum(r["rss_mib"] for r in rows), 1),
            "pss_mib": round(sum(r["pss_mib"] for r in rows), 1)}


# --------------------------------------------------------------------------
# One agent process
# --------------------------------------------------------------------------


class Agent:
    """An agent process and the JSON-RPC connection to it."""

    def __init__(self, run, proc_number):
        self.run, self.number = run, proc_number
        self.next_id, self.pending, self.lock = 0, {}, threading.Lock()
        self.held = []  # permission requests waiting for an answer
        self.events = queue.Queue()  # (kind, message) for wait_for
        self.eof = threading.Event()
        self.process = subprocess.Popen(
            run.cmd, cwd=run.cwd, env=run.env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.spawned_ms = run.now()
        threading.Thread(target=self.read_stdout, daemon=True).start()
        self.err = threading.Thread(target=self.read_stderr, daemon=True)
        self.err.start()

    # -- input -------------------------------------------------------------

    def read_stderr(self):
        for raw in self.process.stderr:
            self.run.stderr_file.write(raw)
            self.run.stderr_file.flush()

    def read_stdout(self):
        for raw in self.process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            ms = self.run.record("in", self.number, line)
            try:
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError
            except ValueError:
                self.run.observe("stdout_noise", line[:500])
                continue
            try:
                self.dispatch(message, ms)
            except Exception as error:
                self.run.observe("driver_error", repr(error))
        self.eof.set()
        for p in list(self.pending.values()):
            p.answer = {"error": {"code": 0, "message": "agent closed stdout"}}
            p.done.set()

    def dispatch(self, message, ms):
        if "method" not in message:
            p = self.pending.pop(message.get("id"), None)
            if p is None:
                self.run.observe("unexpected_response", message)
                return
            p.answer, p.done_ms = message, ms
            self.run.last_response_ms[p.session] = ms
            p.done.set()
            return
        self.events.put((message["method"], message))
        if "id" in message:
            self.serve(message)
        elif message["method"] == "session/update":
            params = message.get("params") or {}
            session = params.get("sessionId")
            turn = any(p.method == "session/prompt" and p.session == session
                       for p in self.pending.values())
            kind = (params.get("update") or {}).get("sessionUpdate")
            if not turn:
                self.run.observe("outside_turn", {"ms": ms, "kind": kind, "session": session})
        else:
            self.run.observe("other_notification", {
                "ms": ms, "method": message["method"],
                "params": json.dumps(message.get("params"))[:300]})

    def serve(self, message):
        method, ident = message["method"], message["id"]
        if method == "session/request_permission":
            options = message["params"].get("options") or []
            self.run.observe("permission_options", [
                {k: o.get(k) for k in ("optionId", "kind", "name")} for o in options])
            if self.run.policy == "hold":
                self.held.append(message)
            else:
                self.answer_permission(message, self.run.policy)
        elif method == "elicitation/create" and self.run.elicitation:
            schema = message["params"].get("requestedSchema") or {}
            self.send({"jsonrpc": "2.0", "id": ident, "result": {
                "action": "accept", "content": mock_llm.fill_schema(schema, text="Yes")}})
        else:
            self.run.observe("unserved_request", {"method": method})
            self.send({"jsonrpc": "2.0", "id": ident, "error": {
                "code": -32601, "message": "Method not found: %s" % method}})

    def answer_permission(self, message, policy):
        wanted = {"allow": ("allow_once", "allow_always"), "always": ("allow_always", "allow_once"),
                  "reject": ("reject_once", "reject_always"), "cancel": ()}[policy]
        outcome = {"outcome": "cancelled"}
        for kind in wanted:
            option = next((o for o in message["params"].get("options") or []
                           if o.get("kind") == kind), None)
            if option:
                outcome = {"outcome": "selected", "optionId": option["optionId"]}
                break
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})

    # -- output ------------------------------------------------------------

    def send(self, message):
        line = json.dumps(message, separators=(",", ":"))
        with self.lock:
            self.run.record("out", self.number, line)
            try:
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()
            except (OSError, ValueError) as error:
                self.run.observe("write_failed", repr(error))

    def start(self, method, params):
        """Sends a request without waiting for its answer."""
        with self.lock:
            ident = self.next_id
            self.next_id += 1
        p = Pending(ident, method, params.get("sessionId"))
        p.sent_ms = self.run.now()
        self.pending[ident] = p
        self.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        return p

    def call(self, method, params, timeout=RPC_TIMEOUT):
        return self.start(method, params).wait(timeout)

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, session):
        """session/cancel, then `cancelled` for held permission requests."""
        self.notify("session/cancel", {"sessionId": session})
        for message in self.held:
            self.answer_permission(message, "cancel")
        self.held = []

    def wait_for(self, *what, timeout=30.0):
        """Waits for one of these methods or update kinds."""
        end = time.time() + timeout
        while time.time() < end:
            try:
                method, message = self.events.get(timeout=0.2)
            except queue.Empty:
                if self.eof.is_set():
                    break
                continue
            update = (message.get("params") or {}).get("update") or {}
            if method in what or update.get("sessionUpdate") in what:
                return message
        self.run.observe("never_came", what)
        return None

    # -- end ---------------------------------------------------------------

    def kill(self, sig=signal.SIGKILL):
        """Signals the adapter process alone, as a crash would."""
        try:
            self.process.send_signal(sig)
        except OSError:
            pass

    def close(self, patience=5.0):
        """Closes stdin and notes how the agent goes."""
        start, how = time.time(), "stdin closed"
        try:
            self.process.stdin.close()
        except OSError:
            pass
        for sig in (None, signal.SIGTERM, signal.SIGKILL):
            if sig is not None:
                how = signal.Signals(sig).name
                self.kill(sig)
            try:
                self.process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                continue
        return {"ended_by": how, "exit_code": self.process.returncode,
                "seconds": round(time.time() - start, 2)}


# --------------------------------------------------------------------------
# One run: adapter x scenario
# --------------------------------------------------------------------------


class Run:
    def __init__(self, adapter, spec, scenario, out, adapters):
        self.adapter, self.scenario = adapter, scenario
        self.name = "%s-%s" % (adapter, scenario)
        self.dir = os.path.join(out, "runs", self.name)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.home, self.cwd = os.path.join(self.dir, "home"), os.path.join(self.dir, "repo")
        tmp = os.path.join(self.dir, "tmp")
        for d in (self.home, self.cwd, tmp, os.path.join(out, "traces"),
                  os.path.join(out, "results")):
            os.makedirs(d, exist_ok=True)
        self.marker = "ACP_DRIVE_RUN=%s" % uuid.uuid4().hex
        self.mock = mock_llm.MockServer(
            log=os.path.join(self.dir, "mock.ndjson"),
            bodies=os.path.join(self.dir, "bodies") if os.environ.get("BODIES") else None)
        self.mock.start()
        node = shutil.which("node") or "node"
        names = {"home": self.home, "cwd": self.cwd, "run": self.dir,
                 "mock": self.mock.url, "port": str(self.mock.port)}
        self.spec = substitute(spec, names)
        path = [os.path.join(adapters, adapter, "bin"), os.path.dirname(node),
                "/usr/local/bin", "/usr/bin", "/bin"]
        self.env = {"PATH": ":".join(path), "HOME": self.home, "TMPDIR": tmp,
                    "LANG": "C.UTF-8", "TERM": "dumb", "USER": "tester", "LOGNAME": "tester",
                    "SHELL": "/bin/bash"}
        self.env.update(self.spec.get("env", {}))
        key, value = self.marker.split("=")
        self.env[key] = value
        for rel, content in self.spec.get("home_files", {}).items():
            target = os.path.join(self.home, rel)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w") as f:
                f.write(content if isinstance(content, str) else json.dumps(content, indent=2))
        program = shutil.which(self.spec["cmd"][0], path=self.env["PATH"])
        if program is None:
            raise SystemExit("%s is not installed: cargo xtask e2e %s" % (adapter, adapter))
        self.cmd = [program] + self.spec["cmd"][1:]
        self.make_repo()
        self.trace_lock = threading.Lock()
        self.trace = open(os.path.join(out, "traces", self.name + ".ndjson"), "w")
        self.stderr_file = open(os.path.join(out, "traces", self.name + ".stderr"), "wb")
        self.result_path = os.path.join(out, "results", self.name + ".json")
        self.result = {"adapter": adapter, "scenario": scenario, "steps": []}
        self.policy, self.agent, self.count = "allow", None, 0
        self.elicitation = False  # offer and answer form elicitations?
        self.extra_capabilities = {}  # merged into clientCapabilities
        self.last_response_ms = {}
        self.t0 = time.monotonic()

    def make_repo(self):
        files = {"README.md": "# Sample\n\nhello old world\n", "main.py": "print('hi')\n"}
        for name, text in files.items():
            with open(os.path.join(self.cwd, name), "w") as f:
                f.write(text)
        env = {"PATH": self.env["PATH"], "HOME": self.home}
        for args in (["init", "-q", "-b", "main"], ["add", "."],
                     ["-c", "user.name=t", "-c", "user.email=t@example.invalid",
                      "commit", "-q", "-m", "start"]):
            subprocess.run(["git"] + args, cwd=self.cwd, env=env, check=True)

    # -- recording ---------------------------------------------------------

    def now(self):
        return round((time.monotonic() - self.t0) * 1000, 1)

    def record(self, direction, proc, line):
        # The longest first: one lies below the other.
        for path, name in ((self.cwd, "/home/dev/project"), (self.home, "/home/dev"),
                           (self.dir, "/home/dev/run")):
            line = line.replace(path, name)
        with self.trace_lock:
            ms = self.now()
            self.trace.write(json.dumps({"dir": direction, "ms": ms, "proc": proc,
                                         "line": line}) + "\n")
            self.trace.flush()
        return ms

    def observe(self, key, value):
        self.result.setdefault("observed", {}).setdefault(key, []).append(value)

    def step(self, name, **facts):
        self.result["steps"].append(dict({"step": name, "ms": self.now()}, **facts))

    # -- building blocks for scenarios ---------------------------------------

    def spawn(self):
        self.count += 1
        self.agent = Agent(self, self.count)
        return self.agent

    def initialize(self):
        started = self.agent.spawned_ms
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False},
                        "terminal": False}
        if self.elicitation:
            capabilities["elicitation"] = {"form": {}}
        capabilities.update(self.extra_capabilities)
        self.init = self.agent.call("initialize", {
            "protocolVersion": 1, "clientCapabilities": capabilities,
            "clientInfo": {"name": "acp-drive", "title": "ACP drive", "version": "0.1"}})
        self.step("initialize", took=round(self.now() - started, 1), result=self.init)
        method = self.spec.get("authenticate")
        if method:
            start = self.now()
            try:
                out = self.agent.call("authenticate", {"methodId": method})
                self.step("authenticate", took=round(self.now() - start, 1), result=out)
            except RpcError as error:
                self.step("authenticate", error=str(error))
        return self.init

    def new_session(self):
        start = self.now()
        params = dict({"cwd": self.cwd, "mcpServers": []}, **self.spec.get("new_params", {}))
        made = self.agent.call("session/new", params)
        self.session = made["sessionId"]
        self.step("session/new", took=round(self.now() - start, 1),
                  since_spawn=round(self.now() - self.agent.spawned_ms, 1), result=made)
        mode = self.spec.get("set_mode")
        if mode:
            self.attempt("session/set_mode", {"sessionId": self.session, "modeId": mode})
        return made

    def open(self):
        self.spawn()
        self.initialize()
        return self.new_session()

    def capability(self, *path):
        """A capability of the agent: truthy if offered ({} counts)."""
        value = self.init.get("agentCapabilities") or {}
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value is not None and value is not False

    def attempt(self, method, params, timeout=RPC_TIMEOUT):
        """A request whose failure is a finding, not the end of the run."""
        start = self.now()
        try:
            out = self.agent.call(method, params, timeout)
            self.step(method, took=round(self.now() - start, 1), result=out)
            return out
        except RpcError as error:
            self.step(method, took=round(self.now() - start, 1), error=str(error))
            return None

    def prompt_start(self, text, session=None):
        return self.agent.start("session/prompt", {
            "sessionId": session or self.session,
            "prompt": [{"type": "text", "text": text.replace("{cwd}", self.cwd)}]})

    def prompt_end(self, pending, timeout=RPC_TIMEOUT):
        try:
            out = pending.wait(timeout)
            self.step("session/prompt", took=round(pending.done_ms - pending.sent_ms, 1),
                      result=out)
            return out
        except RpcError as error:
            self.step("session/prompt", error=str(error))
            return None

    def prompt(self, text, timeout=RPC_TIMEOUT):
        return self.prompt_end(self.prompt_start(text), timeout)

    def settle(self, seconds=1.5):
        time.sleep(seconds)

    def survivors(self):
        """Processes of this run which outlived their adapter."""
        time.sleep(1.0)
        return [place(p) for p in processes_with(self.marker)]

    # -- end of the run ------------------------------------------------------

    def finish(self):
        if self.agent:
            if self.agent.process.poll() is None:
                self.step("close", **self.agent.close())
            left = self.survivors()
            if left:
                self.step("left behind", processes=left)
            for p in left:  # only processes of this run: they carry its marker
                try:
                    os.kill(p["pid"], signal.SIGKILL)
                except OSError:
                    pass
            self.agent.err.join(2)
        self.mock.stop()
        files = []
        for base, _, names in os.walk(self.home):
            for name in names:
                full = os.path.join(base, name)
                if os.path.isfile(full) and not os.path.islink(full):
                    files.append([os.path.relpath(full, self.home), os.path.getsize(full)])
        self.result["home_files"] = sorted(files)[:400]
        self.result["transcripts"] = sorted(
            os.path.relpath(p, self.home) for g in self.spec.get("transcripts", [])
            for p in glob.glob(os.path.join(self.home, g), recursive=True))
        with open(self.result_path, "w") as f:
            json.dump(self.result, f, indent=1)
        self.trace.close()
        self.stderr_file.close()


# --------------------------------------------------------------------------
# Scenarios
# --------------------------------------------------------------------------

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__.replace("_", "-")] = function
    return function


@scenario
def hello(r):
    """One turn with plain text."""
    r.open()
    r.prompt("Greet me. [[say Hello there, this is the mock model speaking.]]")
    r.settle()


@scenario
def bash_allow(r):
    """A shell command, permission granted once."""
    r.open()
    r.prompt("Run it. [[bash touch made.txt && echo made-it]]")
    r.step("effect", file_made=os.path.exists(os.path.join(r.cwd, "made.txt")))
    r.settle()


@scenario
def bash_always(r):
    """A shell command, permission granted for always, then once more."""
    r.policy = "always"
    r.open()
    r.prompt("Run it. [[bash touch made.txt && echo made-it]]")
    r.prompt("Again. [[bash touch made.txt && echo made-it]]")
    r.settle()


@scenario
def bash_deny(r):
    """A shell command, permission refused."""
    r.policy = "reject"
    r.open()
    r.prompt("Run it. [[bash touch made.txt && echo made-it]]")
    r.step("effect", file_made=os.path.exists(os.path.join(r.cwd, "made.txt")))
    r.prompt("And then? [[say still alive]]")
    r.settle()


@scenario
def cancel_stream(r):
    """session/cancel while text streams; then another turn."""
    r.open()
    p = r.prompt_start("Count. [[slow 20]]")
    r.agent.wait_for("agent_message_chunk")
    r.settle(1.5)
    r.step("cancel")
    r.agent.cancel(r.session)
    r.prompt_end(p)
    r.settle(3)
    r.prompt("Go on. [[say back again]]")
    r.settle()


@scenario
def cancel_permission(r):
    """session/cancel while a permission request is open; then another turn."""
    r.policy = "hold"
    r.open()
    p = r.prompt_start("Run it. [[bash touch made.txt && echo made-it]]")
    r.agent.wait_for("session/request_permission")
    r.settle(1)
    r.step("cancel")
    r.agent.cancel(r.session)
    r.prompt_end(p)
    r.step("effect", file_made=os.path.exists(os.path.join(r.cwd, "made.txt")))
    r.settle(2)
    r.policy = "allow"
    r.prompt("Go on. [[say back again]]")
    r.settle()


# Long commands are `timeout N tail -f /dev/null`: Claude Code refuses to run
# a long `sleep` in the foreground.


@scenario
def cancel_tool(r):
    """session/cancel while a shell command runs; does the command die?"""
    r.open()
    p = r.prompt_start("Run it. [[bash timeout 61 tail -f /dev/null; echo slept]]")
    r.agent.wait_for("tool_call", "session/request_permission")
    r.settle(3)
    r.step("cancel")
    r.agent.cancel(r.session)
    r.prompt_end(p)
    r.settle(2)
    left = [d for d in map(describe, tree(r.agent.process.pid)) if "timeout 61" in d]
    r.step("command still running", processes=left)
    r.prompt("Go on. [[say back again]]")
    r.settle()


@scenario
def write(r):
    """A new file and an edit of a read file, permissions granted."""
    r.open()
    r.prompt("Write it. [[write {cwd}/new.txt first line\\nsecond line]]")
    r.prompt("Change it. [[read {cwd}/README.md]] [[edit {cwd}/README.md "
             "hello old world => hello new world]]")
    r.step("effect", new=read_file(os.path.join(r.cwd, "new.txt")),
           readme=read_file(os.path.join(r.cwd, "README.md")))
    r.settle()


@scenario
def write_deny(r):
    """A new file, permission refused."""
    r.policy = "reject"
    r.open()
    r.prompt("Write it. [[write {cwd}/new.txt first line]]")
    r.step("effect", new=read_file(os.path.join(r.cwd, "new.txt")))
    r.settle()


@scenario
def todo(r):
    """A plan which moves on twice."""
    r.open()
    r.prompt("Plan it. [[todo]] [[todo]] [[todo]] [[todo]]")
    r.settle()


@scenario
def think(r):
    """Reasoning before text."""
    r.open()
    r.prompt("Think. [[think First I look at the question, then I answer it.]] "
             "[[say The answer is 42.]]")
    r.settle()


@scenario
def bg(r):
    """A background command which ends after the turn."""
    r.open()
    r.prompt("Start it. [[bg sleep 5; echo bg-finished]]")
    r.step("turn over")
    r.settle(12)
    r.step("asking")
    r.prompt("Anything new? [[say nothing new]]")
    r.settle(3)


@scenario
def bg_later(r):
    """A background command whose end makes the model run a tool by itself."""
    r.open()
    r.prompt("Start it. [[bg sleep 4; echo bg-finished]] "
             "[[later bash touch later.txt && echo later-ran]]")
    r.step("turn over")
    r.settle(12)
    r.step("effect", file_made=os.path.exists(os.path.join(r.cwd, "later.txt")))
    r.prompt("Anything new? [[say nothing new]]")
    r.settle(2)


@scenario
def bg_cancel(r):
    """session/cancel after a turn which left a background command: does it die?"""
    r.open()
    r.prompt("Start it. [[bg timeout 64 tail -f /dev/null]]")
    r.settle(1)
    before = [d for d in map(describe, processes_with(r.marker)) if "timeout 64" in d]
    r.step("cancel", running=before)
    r.agent.cancel(r.session)
    r.settle(3)
    r.step("after cancel", running=[d for d in map(describe, processes_with(r.marker))
                                    if "timeout 64" in d])


@scenario
def bg_tasks(r):
    """bg for a client with JetBrains' asyncTasks extension (claude, codex)."""
    r.extra_capabilities = {"_meta": {"jetbrains": {"air": {
        "version": 1, "capabilities": ["asyncTasks"]}}}}
    r.open()
    r.prompt("Start it. [[bg sleep 5; echo bg-finished]]")
    r.settle(9)
    r.prompt("Anything new? [[say nothing new]]")
    r.settle(2)


@scenario
def subagents(r):
    """agent for a client which declares the subagents capability."""
    r.extra_capabilities = {"subagents": {}, "session": {"notices": {}, "compaction": {}}}
    r.open()
    r.prompt("Delegate. [[agent bash touch sub.txt && echo from-sub]]", 60)
    r.settle(3)


@scenario
def steer(r):
    """_session/steering (claude, codex): a message into the running turn."""
    r.open()
    p = r.prompt_start("Count. [[slow 3]] [[bash touch steer.txt && echo one]] [[slow 2]]")
    r.agent.wait_for("agent_message_chunk")
    r.attempt("_session/steering", {"sessionId": r.session, "prompt": [
        {"type": "text", "text": "Also: [[say steered]]"}]}, 20)
    r.prompt_end(p)
    r.settle(2)


@scenario
def agent(r):
    """A subagent which runs one shell command."""
    r.open()
    r.prompt("Delegate. [[agent bash touch sub.txt && echo from-sub]]", 90)
    r.settle(2)


@scenario
def ask(r):
    """The agent asks the user a question; the client offers form elicitation."""
    r.elicitation = True
    r.open()
    r.prompt("Ask me. [[ask Shall I go on?]]")
    r.settle()


@scenario
def plan_mode(r):
    """Plan mode, then the tool which ends it."""
    made = r.open()
    modes = [m["id"] for m in (made.get("modes") or {}).get("availableModes") or []]
    options = [o["id"] for o in made.get("configOptions") or [] if o.get("category") == "mode"]
    if "plan" in modes:
        r.attempt("session/set_mode", {"sessionId": r.session, "modeId": "plan"})
    elif options:
        r.attempt("session/set_config_option", {
            "sessionId": r.session, "configId": options[0], "value": "plan"})
    r.prompt("Propose. [[plan 1. Read the code. 2. Change it.]]")
    r.settle()


@scenario
def parallel(r):
    """Three tool calls in one model response."""
    r.open()
    r.prompt("All at once. [[par]] [[bash touch a.txt && echo A]] [[read {cwd}/README.md]] "
             "[[bash touch b.txt && echo B]]")
    r.settle()


@scenario
def two_prompts(r):
    """A second session/prompt while the first is running."""
    r.open()
    first = r.prompt_start("Count. [[slow 4]]")
    r.agent.wait_for("agent_message_chunk")
    r.settle(0.5)
    r.step("second prompt")
    second = r.prompt_start("Say it. [[say second answer]]")
    r.prompt_end(first)
    r.prompt_end(second)
    r.settle(2)


@scenario
def two_prompts_cancel(r):
    """Two prompts at once, then one session/cancel."""
    r.open()
    first = r.prompt_start("Count. [[slow 15]]")
    r.agent.wait_for("agent_message_chunk")
    second = r.prompt_start("Count too. [[slow 6]]")
    r.settle(1.5)
    r.step("cancel")
    r.agent.cancel(r.session)
    r.prompt_end(first, 30)
    r.prompt_end(second, 30)
    r.settle(2)


@scenario
def two_sessions(r):
    """Two sessions in one process, both busy at once."""
    r.open()
    first = r.session
    r.new_session()
    a = r.prompt_start("Count. [[slow 4]]", first)
    b = r.prompt_start("Count. [[slow 3]] [[bash touch two.txt]]")
    r.prompt_end(b)
    r.prompt_end(a)
    r.step("memory", **memory(tree(r.agent.process.pid)))
    r.settle()


@scenario
def load(r):
    """Kill the agent, then list, load, resume, fork, close and delete."""
    r.open()
    r.prompt("First. [[think Let me see.]] [[say Working on it.]] "
             "[[bash touch made.txt && echo made-it]]")
    r.prompt("Second. [[write {cwd}/new.txt first line]] [[todo]]")
    session = r.session
    r.settle(1)
    r.agent.kill()
    r.agent.process.wait()
    r.step("killed", left=r.survivors())
    r.settle(r.spec.get("load_wait", 0))

    r.spawn()
    r.initialize()
    if r.capability("sessionCapabilities", "list"):
        r.attempt("session/list", {"cwd": r.cwd})
        r.attempt("session/list", {})
    where = {"sessionId": session, "cwd": r.cwd, "mcpServers": []}
    if r.capability("loadSession"):
        r.attempt("session/load", where)
        r.settle(1)
        r.prompt("After load. [[say loaded fine]]")
        r.settle(1)
    r.agent.kill()
    r.agent.process.wait()

    r.spawn()
    r.initialize()
    if r.capability("sessionCapabilities", "resume"):
        r.attempt("session/resume", where)
        r.settle(1)
        r.prompt("After resume. [[say resumed fine]]")
    if r.capability("sessionCapabilities", "fork"):
        forked = r.attempt("session/fork", where)
        if forked and forked.get("sessionId"):
            r.session = forked["sessionId"]
            r.prompt("In the fork. [[say forked fine]]")
            r.session = session
    if r.capability("loadSession"):
        r.attempt("session/load", dict(where, sessionId=str(uuid.uuid4())), 30)
    if r.capability("sessionCapabilities", "close"):
        r.attempt("session/close", {"sessionId": session})
    if r.capability("sessionCapabilities", "list"):
        r.attempt("session/list", {"cwd": r.cwd})
    if r.capability("sessionCapabilities", "delete"):
        r.attempt("session/delete", {"sessionId": session})
        r.attempt("session/list", {"cwd": r.cwd})
    r.settle()


@scenario
def load_midturn(r):
    """Kill the agent in the middle of a tool call, then load."""
    r.open()
    r.prompt("First. [[say one]]")
    r.prompt_start("Run it. [[say Starting.]] [[bash timeout 62 tail -f /dev/null; echo slept]]")
    r.agent.wait_for("tool_call", "session/request_permission")
    r.settle(3)
    r.agent.kill()
    r.agent.process.wait()
    r.step("killed", left=r.survivors())
    r.spawn()
    r.initialize()
    where = {"sessionId": r.session, "cwd": r.cwd, "mcpServers": []}
    if r.capability("loadSession"):
        r.attempt("session/load", where)
        r.settle(1)
        r.prompt("After load. [[say loaded fine]]")
    r.settle()


@scenario
def modes(r):
    """Sets every mode and a second value of every config option."""
    made = r.open()
    for mode in (made.get("modes") or {}).get("availableModes") or []:
        r.attempt("session/set_mode", {"sessionId": r.session, "modeId": mode["id"]})
    for option in made.get("configOptions") or []:
        values = []
        for entry in option.get("options") or []:
            values += [o["value"] for o in entry.get("options") or [entry] if "value" in o]
        for value in values:
            if value != option.get("currentValue"):
                r.attempt("session/set_config_option", {
                    "sessionId": r.session, "configId": option["id"], "value": value})
                break
    for model in ((made.get("models") or {}).get("availableModels") or [])[-1:]:
        r.attempt("session/set_model", {"sessionId": r.session, "modelId": model["modelId"]})
    r.prompt("Hello. [[say in another mode]]")
    r.settle()


@scenario
def llm_error(r):
    """The model API refuses with 400, then is overloaded twice, then works."""
    r.open()
    r.prompt("Fail. [[error 400 mock bad request]]", 90)
    r.prompt("Retry. [[flaky 2]] [[say fine after retries]]", 120)
    r.prompt("Go on. [[say still alive]]")
    r.settle()


@scenario
def long(r):
    """256 KiB of text in one turn, streamed fast."""
    r.open()
    r.prompt("Much. [[long 256]]", 120)
    r.settle()


@scenario
def noauth(r):
    """No credentials at all: what do initialize and session/new say?"""
    for name in r.spec.get("no_auth_env", []):
        r.env.pop(name, None)
    r.spec.pop("authenticate", None)
    r.spawn()
    r.initialize()
    try:
        r.new_session()
        r.prompt("Greet me. [[say hello]]", 30)
    except RpcError as error:
        r.step("session/new", error=str(error))


@scenario
def init_v2(r):
    """initialize with protocolVersion 2: what is agreed on, and how does it look?"""
    r.spawn()
    r.init = r.agent.call("initialize", {
        "protocolVersion": 2, "capabilities": {}, "clientCapabilities": {},
        "info": {"name": "acp-drive", "version": "0.1"},
        "clientInfo": {"name": "acp-drive", "version": "0.1"}})
    r.step("initialize", result=r.init)
    if r.init.get("protocolVersion") == 2:
        made = r.attempt("session/new", {"cwd": r.cwd, "mcpServers": []})
        if made:
            r.session = made["sessionId"]
            r.prompt("Run it. [[think Let me see.]] [[say Now.]] "
                     "[[bash touch made.txt && echo made-it]]")
            r.agent.wait_for("usage_update", timeout=10)
            r.settle(5)


@scenario
def bad_calls(r):
    """Protocol errors: unknown method, unknown session, broken JSON."""
    r.open()
    r.attempt("no/such_method", {}, 10)
    r.attempt("session/prompt", {"sessionId": "nope", "prompt": [
        {"type": "text", "text": "hi"}]}, 20)
    r.agent.notify("no/such_notification", {})
    r.agent.notify("session/cancel", {"sessionId": r.session})  # nothing runs
    with r.agent.lock:
        r.record("out", r.agent.number, "{broken")
        r.agent.process.stdin.write(b"{broken\n")
        r.agent.process.stdin.flush()
    r.settle(1)
    r.prompt("Still there? [[say still here]]", 20)
    r.settle()


@scenario
def measure(r):
    """Start-up times and memory at rest."""
    r.open()
    r.settle(5)
    r.step("memory", **memory(tree(r.agent.process.pid)))


@scenario
def kill_busy(r):
    """SIGKILL of the adapter alone while a command runs: what is left?"""
    r.open()
    r.prompt_start("Run it. [[bash timeout 63 tail -f /dev/null; echo slept]]")
    r.agent.wait_for("tool_call", "session/request_permission")
    r.settle(3)
    root = r.agent.process.pid
    r.step("tree", adapter=root, processes=[place(p) for p in tree(root)])
    r.agent.kill()
    r.agent.process.wait()
    left = r.survivors()
    r.step("killed", left=left, outside_group=[p["pid"] for p in left if p["pgid"] != root])
    r.settle(5)
    r.step("5 s later", left=r.survivors())


@scenario
def term_busy(r):
    """SIGTERM of the adapter alone while a command runs: what is left?"""
    r.open()
    p = r.prompt_start("Run it. [[bash timeout 65 tail -f /dev/null; echo slept]]")
    r.agent.wait_for("tool_call", "session/request_permission")
    r.settle(3)
    start = r.now()
    r.agent.kill(signal.SIGTERM)
    try:
        r.agent.process.wait(10)
        r.step("gone", took=round(r.now() - start, 1), code=r.agent.process.returncode)
    except subprocess.TimeoutExpired:
        r.step("ignores SIGTERM for 10 s")
    r.prompt_end(p, 1)
    r.step("after SIGTERM", left=r.survivors())


@scenario
def eof_busy(r):
    """stdin closed while a command runs: what is left?"""
    r.open()
    p = r.prompt_start("Run it. [[bash timeout 66 tail -f /dev/null; echo slept]]")
    r.agent.wait_for("tool_call", "session/request_permission")
    r.settle(3)
    start = r.now()
    r.agent.process.stdin.close()
    try:
        r.agent.process.wait(10)
        r.step("gone", took=round(r.now() - start, 1), code=r.agent.process.returncode)
    except subprocess.TimeoutExpired:
        r.step("lives on 10 s after its stdin was closed")
    r.prompt_end(p, 1)
    r.step("after EOF", left=r.survivors())


def run_one(adapter, spec, name, options):
    run = Run(adapter, spec, name, options.out, options.adapters)
    try:
        if name == "prompt":
            run.policy = options.permission
            run.open()
            for text in options.text or ["Greet me. [[say hello]]"]:
                run.prompt(text, options.timeout)
            run.settle(options.settle)
        else:
            SCENARIOS[name](run)
        run.result["ok"] = True
    except Exception as error:
        run.result["ok"] = False
        run.result["failure"] = "%s: %s" % (type(error).__name__, error)
    finally:
        run.finish()
    steps = [(s["step"], s.get("error") or (s.get("result") or {}).get("stopReason", ""))
             for s in run.result["steps"] if s["step"].startswith("session/")]
    verdict = "ok" if run.result["ok"] else "FAILED " + run.result["failure"]
    told = " ".join("%s%s" % (a[8:], "=" + str(b)[:90] if b else "") for a, b in steps)
    print("%-44s %s %s" % (run.name, verdict, told), flush=True)
    return run.result["ok"]


def main():
    parser = argparse.ArgumentParser(description="Record ACP traffic of real adapters.")
    parser.add_argument("agents", nargs="?", help="names from agents.json, or all")
    parser.add_argument("scenarios", nargs="?", help="scenario names, prompt, or all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--config", default=os.path.join(ROOT, "agents.json"))
    parser.add_argument("--adapters", default=os.path.join(CACHE, "adapters"),
                        help="where the agents are installed: <agent>/bin")
    parser.add_argument("--out", default="recordings", help="where traces/, results/, runs/ go")
    parser.add_argument("--text", action="append", help="prompt text (scenario prompt)")
    parser.add_argument("--permission", default="allow",
                        choices=["allow", "always", "reject", "cancel", "hold"])
    parser.add_argument("--timeout", type=float, default=RPC_TIMEOUT)
    parser.add_argument("--settle", type=float, default=1.5)
    options = parser.parse_args()
    options.out = os.path.abspath(options.out)
    with open(options.config) as f:
        config = json.load(f)
    if options.list or not options.scenarios:
        print("agents:", ", ".join(config))
        for name, function in SCENARIOS.items():
            print("  %-20s %s" % (name, function.__doc__))
        return 0
    agents = list(config) if options.agents == "all" else options.agents.split(",")
    names = list(SCENARIOS) if options.scenarios == "all" else options.scenarios.split(",")
    results = [run_one(a, config[a], n, options) for a in agents for n in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
