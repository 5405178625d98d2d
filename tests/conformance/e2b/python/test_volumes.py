"""E2B's volumes with its client: files without a sandbox, and sandboxes that mount them."""

import asyncio
import uuid

import pytest
from e2b import AsyncVolume, Sandbox, Volume
from e2b.exceptions import VolumeException, VolumeNotFoundException, VolumePathNotFoundException


@pytest.fixture
def volume():
    made = Volume.create(f"made-{uuid.uuid4().hex[:8]}")
    yield made
    Volume.destroy(made.volume_id)


def test_life(volume):
    assert volume.volume_id in [one.volume_id for one in Volume.list()]
    assert Volume.connect(volume.volume_id).token == volume.token
    with pytest.raises(VolumeException):
        Volume.create(volume.name)
    assert Volume.destroy(volume.volume_id) and not Volume.destroy(volume.volume_id)
    with pytest.raises(VolumeNotFoundException):
        Volume.connect(volume.volume_id)


def test_files(volume):
    stat = volume.write_file("/f", b"data", uid=1000, gid=1000, mode=0o640)
    assert (stat.path, stat.size, stat.uid, stat.gid, stat.mode) == ("/f", 4, 1000, 1000, 0o640)
    assert volume.read_file("/f") == "data"
    assert bytes(volume.read_file("/f", format="bytes")) == b"data"
    assert b"".join(volume.read_file("/f", format="stream")) == b"data"
    with pytest.raises(VolumeException):
        volume.write_file("/f", "x")
    volume.write_file("/f", "other", force=True)
    volume.make_dir("/a/b", force=True)
    assert [one.path for one in volume.list("/")] == ["/a", "/f"]
    assert volume.update_metadata("/f", mode=0o755).mode == 0o755
    assert volume.exists("/f") and not volume.exists("/g")
    volume.remove("/a")
    with pytest.raises(VolumePathNotFoundException):
        volume.get_info("/a/b")


def test_mounts(volume):
    volume.write_file("/in", "outside")
    box = Sandbox.create(volume_mounts={"/mnt/v": volume})
    try:
        assert box.get_info().volume_mounts == [{"name": volume.name, "path": "/mnt/v"}]
        assert box.commands.run("cat /mnt/v/in; echo inside > /mnt/v/out").stdout == "outside"
        assert volume.read_file("/out") == "inside\n"
    finally:
        box.kill()


def test_async(volume):
    async def whole():
        same = await AsyncVolume.connect(volume.volume_id)
        await same.write_file("/f", "x" * 300000)
        return await same.read_file("/f")

    assert len(asyncio.run(whole())) == 300000
