"""SlotSharingGroup, state backends, checkpoint storages: values and errors are those of PyFlink 2.3."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream.checkpoint_config import (
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    PredefinedOptions,
    StateBackend,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from penstock.operators.common.arguments import NoJavaError

NOTHING: Any = "neither size nor option"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 kb"),
        (1025, "1025 bytes"),
        (1536, "1536 bytes"),
        (1 << 20, "1 mb"),
        (5 << 30, "5 gb"),
        (1 << 40, "1099511627776 bytes"),
    ],
)
def test_text_of_memory_sizes(size, text):
    assert str(MemorySize(bytes_size=size)) == text


def test_memory_sizes():
    size = MemorySize.of_mebi_bytes(3 * 1024 * 1024)
    assert size.get_bytes() == 3 << 40
    assert (size.get_kibi_bytes(), size.get_mebi_bytes()) == (3 << 30, 3 << 20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (3072, 3)
    small, large = MemorySize(bytes_size=1), MemorySize(bytes_size=2)
    assert small < large
    assert small <= MemorySize(bytes_size=1)
    assert large > small
    assert small != 1
    assert len({small, MemorySize(bytes_size=1)}) == 1
    with pytest.raises(TypeError, match="compare"):
        sorted([small, NOTHING])


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (None, TypeError), (1.5, TypeError)])
def test_memory_sizes_that_cannot_be(size, error):
    with pytest.raises(error):
        MemorySize(bytes_size=size)


def full_group():
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(100)
    builder.set_task_off_heap_memory_mb(200).set_managed_memory_mb(300)
    return builder.set_external_resource("gpu", 1.0).set_external_resource("gpu", 2.0).build()


def test_slot_sharing_groups():
    group = full_group()
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.5)
    assert str(group.get_task_heap_memory()) == "100 mb"
    assert str(group.get_task_off_heap_memory()) == "200 mb"
    assert str(group.get_managed_memory()) == "300 mb"
    assert group.get_external_resources() == {"gpu": 2.0}
    assert group == full_group()
    assert hash(group) == hash(full_group())
    assert group != SlotSharingGroup.builder("g").build()


def test_slot_sharing_groups_that_say_little():
    empty = SlotSharingGroup.builder("g").build()
    assert (empty.get_cpu_cores(), empty.get_task_heap_memory(), empty.get_managed_memory()) == (None,) * 3
    assert (empty.get_task_off_heap_memory(), empty.get_external_resources()) == (None, {})
    least = SlotSharingGroup.builder("g").set_cpu_cores(1.0).set_task_heap_memory_mb(1).build()
    assert least.get_managed_memory() == least.get_task_off_heap_memory() == MemorySize(bytes_size=0)


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.set_cpu_cores(1.0).build(),
        lambda builder: builder.set_task_heap_memory_mb(1).build(),
        lambda builder: builder.set_task_off_heap_memory_mb(1).build(),
        lambda builder: builder.set_managed_memory_mb(1).build(),
        lambda builder: builder.set_external_resource("gpu", 1.0).build(),
        lambda builder: builder.set_cpu_cores(0.0),
        lambda builder: builder.set_task_heap_memory_mb(0),
        lambda builder: builder.set_task_heap_memory_mb(-1),
    ],
)
def test_slot_sharing_groups_that_cannot_be(build):
    with pytest.raises(ValueError, match=r"must include|must be positive|must not be negative"):
        build(SlotSharingGroup.builder("g"))


def test_rocks_db_defaults():
    backend = EmbeddedRocksDBStateBackend()
    assert isinstance(backend, StateBackend)
    assert not backend.is_incremental_checkpoints_enabled()
    assert EmbeddedRocksDBStateBackend(True).is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() is None
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert backend.get_options() is None
    assert backend.get_number_of_transfer_threads() == 4
    assert str(backend) == (
        "EmbeddedRocksDBStateBackend{, localRocksDbDirectories=null, "
        "enableIncrementalCheckpointing=UNDEFINED, numberOfTransferThreads=-1, writeBatchSize=-1}"
    )


def test_rocks_db_settings():
    backend = EmbeddedRocksDBStateBackend(False)
    backend.set_db_storage_paths("/a", "file:///b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(2)
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 2
    assert "localRocksDbDirectories=[/a, /b], enableIncrementalCheckpointing=FALSE" in str(backend)
    backend.set_db_storage_paths()
    assert backend.get_db_storage_paths() is None


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: EmbeddedRocksDBStateBackend(NOTHING), TypeError),
        (lambda: EmbeddedRocksDBStateBackend().set_db_storage_paths("relative"), ValueError),
        (lambda: EmbeddedRocksDBStateBackend().set_db_storage_paths("hdfs:///x"), ValueError),
        (lambda: EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(0), ValueError),
        (lambda: EmbeddedRocksDBStateBackend().set_predefined_options(NOTHING), TypeError),
        (lambda: EmbeddedRocksDBStateBackend().set_options("a.B"), NoJavaError),
        (lambda: CustomStateBackend(object()), NoJavaError),
        (lambda: CustomCheckpointStorage(object()), NoJavaError),
        (lambda: JobManagerCheckpointStorage("/no/scheme"), ValueError),
        (lambda: JobManagerCheckpointStorage(None, -1), ValueError),
        (FileSystemCheckpointStorage, ValueError),
        (lambda: FileSystemCheckpointStorage("relative"), ValueError),
        (lambda: FileSystemCheckpointStorage("file:///"), ValueError),
        (lambda: FileSystemCheckpointStorage("file:///x", 2 << 20), ValueError),
        (lambda: FileSystemCheckpointStorage("file:///x", -2), ValueError),
        (lambda: FileSystemCheckpointStorage("file:///x", 10, -3), ValueError),
    ],
)
def test_backends_and_storages_that_cannot_be(call, error):
    with pytest.raises(error):
        call()


def test_checkpoint_storages():
    memory = JobManagerCheckpointStorage()
    assert (memory.get_checkpoint_path(), memory.get_max_state_size()) == (None, 5 * 1024 * 1024)
    assert memory.get_savepoint_path() is None
    assert "maxStateSize: 5242880" in str(memory)
    assert JobManagerCheckpointStorage("file:///tmp/x", 100).get_checkpoint_path() == "file:/tmp/x"
    files = FileSystemCheckpointStorage("hdfs://h:1/tmp//x/")
    assert files.get_checkpoint_path() == "hdfs://h:1/tmp/x"
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20_480, 4096)
    files = FileSystemCheckpointStorage("file:///x", 5000, 0)
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (5000, 0)
    assert files.get_savepoint_path() is None
    assert "HashMapStateBackend" in str(HashMapStateBackend())
