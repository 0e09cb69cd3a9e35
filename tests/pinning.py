"""A folder with a configuration whose servers can offer something else without a change to their entries."""

import json
import subprocess
from pathlib import Path
from typing import Any

from mcp_workbench import config
from mcp_workbench.approvals import Approvals
from mcp_workbench.offers import Offer
from mcp_workbench.pins.changes import Change
from mcp_workbench.pins.lock_file import Lock
from tests.workbench import COMMAND, Client, Json, fake

CANARY = "canary-0123456789abcdef"
LOCK = "workbench.lock"


class Project:
    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.config: Json = {"toolboxes": {}} | more
        self.lock = folder / LOCK

    def server(self, path: str = "dev/a", entry: Json | None = None, **script: Any) -> None:
        """Configure the server `toolbox/server`; `entry` is laid over its entry."""
        toolbox, name = path.split("/")
        base = self.folder / f"{toolbox}.{name}"
        own: Json = {"script": f"{base}.script", "starts": f"{base}.starts", "record": f"{base}.record"}
        servers = self.config["toolboxes"].setdefault(toolbox, {"mcpServers": {}})["mcpServers"]
        servers[name] = fake(**own) | (entry or {})
        self.offers(path, **script)

    def offers(self, path: str = "dev/a", **script: Any) -> None:
        """Have the server do this when it is started the next time."""
        (self.folder / f"{path.replace('/', '.')}.script").write_text(json.dumps(script))

    def entry(self, path: str = "dev/a") -> Json:
        toolbox, name = path.split("/")
        found: Json = self.config["toolboxes"][toolbox]["mcpServers"][name]
        return found

    def starts(self, path: str = "dev/a") -> int:
        """How often the server was started."""
        file = self.folder / f"{path.replace('/', '.')}.starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def calls(self, path: str = "dev/a") -> list[str]:
        """The tools that were called, as the server heard it."""
        lines = (self.folder / f"{path.replace('/', '.')}.record").read_text().splitlines()
        heard = [json.loads(line) for line in lines]
        return [it["params"]["name"] for it in heard if it.get("method") == "tools/call"]

    def write(self) -> None:
        (self.folder / "workbench-config.json").write_text(json.dumps(self.config))

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        self.write()
        options = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
            encoding="utf-8",
            **options,
        )

    def done(self, *arguments: str) -> str:
        """What a command prints that succeeds."""
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
        return done.stdout

    def approve(self) -> None:
        """Write the lock that approves what the scripts say now, as `lock` would."""
        self.write()
        configuration = config.parse(json.dumps(self.config).encode())
        approvals = Approvals(str(self.lock))
        changes: list[Change] = []
        for origin, server in configuration.servers().items():
            script = json.loads((self.folder / f"{origin.toolbox}.{origin.server}.script").read_text())
            said = json.dumps(script.get("initialize", {}).get("instructions")).encode()
            tools = {offer.name: offer for offer in map(_offer, script.get("tools", []))}
            changes += approvals.differing(Lock(), origin, server, tools, said)
        approvals.replace(Lock(), changes)

    def locked(self) -> Json:
        read: Json = json.loads(self.lock.read_text())
        return read


def _offer(entry: str | Json) -> Offer:
    """A tool of a script, as the fake server lists it."""
    if isinstance(entry, str):
        entry = {"name": entry, "inputSchema": {"type": "object"}}
    listed = {key: value for key, value in entry.items() if key not in ("does", "with")}
    return Offer(entry["name"], json.dumps(listed).encode())


def a_tool(name: str = "greet", **more: Any) -> Json:
    return {"name": name, "description": f"What {name} does.", "inputSchema": {"type": "object"}, **more}


async def opened(client: Client, toolbox: str = "dev", **how: Any) -> str:
    """The text of an opening."""
    result = await client.result("open_toolbox", {"toolbox_name": toolbox, **how})
    return str(result["content"][0]["text"])
