"""Env files that are pipes, endless or on a disk that hangs, alone and in the command."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from mcp_workbench.env_files import LARGEST, EnvFiles

from .workbench import fake, serving, toolboxes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / ".env"
    os.mkfifo(path)
    return path


async def test_the_text_of_a_file_has_the_same_ends_of_lines_everywhere(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes("A=1\r\nB=ä\rC=3\n".encode())
    assert await EnvFiles().read(str(tmp_path / ".env")) == "A=1\nB=ä\nC=3\n"


async def test_a_file_that_is_not_there_or_no_text_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await EnvFiles().read(str(tmp_path / ".env"))
    (tmp_path / ".env").write_bytes(b"A=\xff")
    with pytest.raises(UnicodeDecodeError):
        await EnvFiles().read(str(tmp_path / ".env"))


async def test_a_file_may_have_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"#" * LARGEST)
    assert len(await EnvFiles().read(str(tmp_path / ".env"))) == LARGEST
    for endless in (str(tmp_path / ".env"), "/dev/zero"):
        (tmp_path / ".env").write_bytes(b"#" * (LARGEST + 1))
        with pytest.raises(ValueError, match="it is larger than 1 MiB"):
            await EnvFiles().read(endless)


async def test_a_pipe_is_read_when_somebody_writes_to_it_in_as_many_parts_as_it_likes(pipe: Path) -> None:
    reading = asyncio.create_task(EnvFiles().read(str(pipe)))
    await asyncio.to_thread(write_in_parts, pipe, b"A=1\n", b"B=2\n")
    assert await reading == "A=1\nB=2\n"


def write_in_parts(path: Path, *parts: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        for part in parts:
            file.write(part)


async def test_who_reads_a_pipe_that_others_gave_up_gets_what_is_written(pipe: Path) -> None:
    files = EnvFiles()
    given_up = asyncio.create_task(files.read(str(pipe)))
    await asyncio.sleep(0)
    given_up.cancel()
    readers = [asyncio.create_task(files.read(str(pipe))) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.to_thread(write_in_parts, pipe, b"A=1\n")
    assert await asyncio.gather(*readers) == ["A=1\n", "A=1\n"]
    anew = asyncio.create_task(files.read(str(pipe)))
    await asyncio.to_thread(write_in_parts, pipe, b"A=2\n")
    assert await anew == "A=2\n"


async def test_an_env_file_that_nobody_writes_fails_its_server_alone(pipe: Path) -> None:
    waits = fake() | {"envFile": str(pipe), "startup_timeout_sec": 0.5}
    endless = fake() | {"envFile": "/dev/zero"}
    box = {"waits": waits, "endless": endless, "good": fake()}
    async with serving(toolboxes(box=box), pipe.parent) as client:
        assert await client.text("box", "good", "echo", text="meanwhile") == "meanwhile"
        opened = await client.open("box")
        assert opened["servers_connected"] == 1
        late, large = opened["_errors"]
        assert late.endswith(f"after 0.5 s, before it was started: its envFile '{pipe}' was still being read")
        assert large.endswith("envFile '/dev/zero' cannot be read: it is larger than 1 MiB")
        client.process.terminate()
        async with asyncio.timeout(6):
            assert await client.gone() == 0


async def test_an_env_file_that_is_written_in_time_is_one_like_any_other(pipe: Path) -> None:
    box = {"files": fake() | {"envFile": pipe.name}}
    async with serving(toolboxes(box=box), pipe.parent) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "box"}})
        await asyncio.to_thread(write_in_parts, pipe, b"TOKEN=from the pipe\n")
        assert not (await opening)["result"].get("isError")
        assert '"TOKEN": "from the pipe"' in await client.text("box", "files", "env")
