#!/usr/bin/env python3
"""Tests of acp_drive.py: a recording of a stand-in agent, and the entries of agents.json."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

import acp_drive

# Answers initialize, session/new and one prompt, and says where it works.
STAND_IN = textwrap.dedent('''\
    #!%s
    import json, os, sys
    for line in sys.stdin:
        request = json.loads(line)
        def send(**message):
            print(json.dumps(dict({"jsonrpc": "2.0"}, **message)), flush=True)
        if request["method"] == "initialize":
            send(id=request["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        elif request["method"] == "session/new":
            send(id=request["id"], result={"sessionId": "s1"})
        elif request["method"] == "session/prompt":
            text = "%%s in %%s" %% (os.environ["STAND_IN"], os.getcwd())
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
            send(method="session/update", params={"sessionId": "s1", "update": update})
            send(id=request["id"], result={"stopReason": "end_turn"})
    ''') % sys.executable


class AcpDrive(unittest.TestCase):
    def test_a_conversation_is_recorded_without_paths_of_the_machine(self):
        with tempfile.TemporaryDirectory() as place:
            program = os.path.join(place, "adapters", "stand-in", "bin", "stand-in")
            os.makedirs(os.path.dirname(program))
            with open(program, "w") as f:
                f.write(STAND_IN)
            os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
            config = os.path.join(place, "agents.json")
            with open(config, "w") as f:
                json.dump({"stand-in": {"cmd": ["stand-in"], "env": {"STAND_IN": "{mock}"}}}, f)
            out = os.path.join(place, "out")
            command = [sys.executable, acp_drive.__file__, "stand-in", "prompt", "--text", "hi"]
            done = subprocess.run(
                command + ["--settle", "0", "--config", config, "--out", out,
                           "--adapters", os.path.join(place, "adapters")],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(out, "traces", "stand-in-prompt.ndjson")) as f:
                lines = [json.loads(line) for line in f]
        self.assertEqual([line["dir"] for line in lines],
                         ["out", "in", "out", "in", "out", "in", "in"])
        said = json.loads(lines[5]["line"])["params"]["update"]["content"]["text"]
        self.assertRegex(said, r"^http://127\.0\.0\.1:\d+ in /home/dev/project$")
        self.assertNotIn(place, "".join(line["line"] for line in lines))

    def test_every_entry_fits_the_scenarios(self):
        with open(os.path.join(acp_drive.ROOT, "agents.json")) as f:
            agents = json.load(f)
        for name, entry in agents.items():
            self.assertTrue(entry["cmd"], name)
            self.assertTrue(set(entry.get("no_auth_env", [])) <= set(entry["env"]), name)
            unknown = set(re.findall(r"\{(\w+)\}", json.dumps(entry["env"]))) - {"mock"}
            self.assertFalse(unknown, name)
            # Scenarios of the tests only, which record nothing.
            scenarios = set(acp_drive.SCENARIOS) | {"end-busy", "missing", "cli-run", "cli-approve"}
            self.assertTrue(set(entry["e2e"].get("lacks", {})) <= scenarios, name)


if __name__ == "__main__":
    unittest.main()
