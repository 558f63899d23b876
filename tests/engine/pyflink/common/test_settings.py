"""ExecutionConfig, CheckpointConfig, restart strategies: defaults and errors are those of Flink 2.3."""

from datetime import timedelta

import pytest

from penstock.engine.pyflink.common import constants
from penstock.engine.pyflink.common.execution_config import (
    ExecutionConfig,
    RestartStrategies,
    RestartStrategyConfiguration,
)
from penstock.engine.pyflink.datastream.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from penstock.operators.common.configuration import Configuration
from penstock.operators.common.time import Duration


def test_constants_are_those_of_longs():
    assert (constants.MIN_LONG_VALUE, constants.MAX_LONG_VALUE) == (
        -0x8000_0000_0000_0000,
        0x7FFF_FFFF_FFFF_FFFF,
    )


def test_execution_defaults():
    config = ExecutionConfig()
    assert config.get_auto_watermark_interval() == 200
    assert config.get_latency_tracking_interval() == 0
    assert config.get_max_parallelism() == -1
    assert config.get_task_cancellation_interval() == 30_000
    assert config.get_task_cancellation_timeout() == 180_000
    assert config.get_global_job_parameters() == {}
    assert config.is_closure_cleaner_enabled()
    assert config.has_auto_generated_uids_enabled()
    assert not config.is_object_reuse_enabled()
    assert not config.is_use_snapshot_compression()


def test_execution_settings_are_options():
    options = Configuration()
    config = ExecutionConfig(options)
    assert config.set_parallelism(3).set_max_parallelism(7).set_auto_watermark_interval(500) is config
    config.set_latency_tracking_interval(5).set_task_cancellation_interval(4)
    config.set_task_cancellation_timeout(0).set_use_snapshot_compression(True)
    config.disable_closure_cleaner().enable_object_reuse().disable_auto_generated_uids()
    config.set_global_job_parameters({"a": 1, "b": "x, y"})
    assert options.to_dict() == {
        "parallelism.default": "3",
        "pipeline.max-parallelism": "7",
        "pipeline.auto-watermark-interval": "500 ms",
        "metrics.latency.interval": "5 ms",
        "task.cancellation.interval": "4 ms",
        "task.cancellation.timeout": "0 ms",
        "execution.checkpointing.snapshot-compression": "true",
        "pipeline.closure-cleaner-level": "NONE",
        "pipeline.object-reuse": "true",
        "pipeline.auto-generate-uids": "false",
        "pipeline.global-job-parameters": "'a:1','b:''x, y'''",
    }
    again = ExecutionConfig(Configuration.from_dict(options.to_dict()))
    assert (again.get_parallelism(), again.get_max_parallelism()) == (3, 7)
    assert (again.get_auto_watermark_interval(), again.get_latency_tracking_interval()) == (500, 5)
    assert (again.get_task_cancellation_interval(), again.get_task_cancellation_timeout()) == (4, 0)
    assert again.is_use_snapshot_compression()
    assert again.is_object_reuse_enabled()
    assert not again.is_closure_cleaner_enabled()
    assert not again.has_auto_generated_uids_enabled()
    assert again.get_global_job_parameters() == {"a": "1", "b": "x, y"}


def test_execution_settings_can_be_taken_back():
    config = ExecutionConfig().disable_closure_cleaner().enable_closure_cleaner()
    config.enable_object_reuse().disable_object_reuse()
    config.disable_auto_generated_uids().enable_auto_generated_uids()
    assert config.is_closure_cleaner_enabled()
    assert not config.is_object_reuse_enabled()
    assert config.has_auto_generated_uids_enabled()


def test_parallelisms():
    config = ExecutionConfig().set_parallelism(5)
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN).get_parallelism() == 5
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1
    assert (ExecutionConfig.PARALLELISM_DEFAULT, ExecutionConfig.PARALLELISM_UNKNOWN) == (-1, -2)


@pytest.mark.parametrize(
    "call",
    [
        lambda config: config.set_parallelism(0),
        lambda config: config.set_max_parallelism(0),
        lambda config: config.set_auto_watermark_interval(-1),
        lambda config: config.set_task_cancellation_timeout(-4),
    ],
)
def test_execution_settings_that_cannot_be(call):
    with pytest.raises(ValueError, match="at least"):
        call(ExecutionConfig())


@pytest.mark.parametrize(
    "name",
    [
        "enable_force_kryo",
        "disable_force_kryo",
        "is_force_kryo_enabled",
        "enable_generic_types",
        "disable_generic_types",
        "has_generic_types_disabled",
        "enable_force_avro",
        "disable_force_avro",
        "is_force_avro_enabled",
        "get_default_kryo_serializer_classes",
        "get_registered_kryo_types",
        "get_registered_pojo_types",
    ],
)
def test_execution_settings_that_flink_has_no_longer(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(ExecutionConfig(), name)()


def test_execution_configs_are_equal_by_their_options():
    assert ExecutionConfig().set_parallelism(2) == ExecutionConfig().set_parallelism(2)
    assert ExecutionConfig().set_parallelism(2) != ExecutionConfig()
    assert hash(ExecutionConfig().set_parallelism(2)) == hash(ExecutionConfig().set_parallelism(2))


def test_checkpoint_defaults():
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert config.is_fail_on_checkpointing_errors()
    retention = config.get_externalized_checkpoint_retention()
    assert retention is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == config.get_alignment_timeout() == Duration.of_millis(0)
    assert not config.is_force_unaligned_checkpoints()


def test_checkpoint_settings():
    config = CheckpointConfig().set_checkpoint_interval(10).set_checkpoint_timeout(10)
    assert config.is_checkpointing_enabled()
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    config.set_min_pause_between_checkpoints(1).set_max_concurrent_checkpoints(2)
    config.set_tolerable_checkpoint_failure_number(3).set_alignment_timeout(Duration.of_seconds(3))
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    config.enable_unaligned_checkpoints().set_force_unaligned_checkpoints()
    assert (config.get_checkpoint_interval(), config.get_checkpoint_timeout()) == (10, 10)
    assert (config.get_min_pause_between_checkpoints(), config.get_max_concurrent_checkpoints()) == (1, 2)
    assert (config.get_tolerable_checkpoint_failure_number(), config.is_fail_on_checkpointing_errors()) == (
        3,
        False,
    )
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(3000)
    assert config.is_externalized_checkpoints_enabled()
    assert config.is_unaligned_checkpoints_enabled()
    assert config.is_force_unaligned_checkpoints()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    config.enable_unaligned_checkpoints().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert not config.is_unaligned_checkpoints_enabled()
    assert (
        config.set_fail_on_checkpointing_errors(False).get_tolerable_checkpoint_failure_number() == 2**31 - 1
    )
    assert config.set_fail_on_checkpointing_errors(True).is_fail_on_checkpointing_errors()


def test_checkpoint_settings_from_options():
    options = {
        "execution.checkpointing.interval": "1 min",
        "execution.checkpointing.mode": "at_least_once",
        "execution.checkpointing.unaligned": "true",
        "execution.checkpointing.alignment-timeout": "2 s",
    }
    config = CheckpointConfig(Configuration.from_dict(options))
    assert config.get_checkpoint_interval() == 60_000
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_aligned_checkpoint_timeout() == Duration.of_seconds(2)
    assert config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE).is_unaligned_checkpoints_enabled()


def test_no_checkpoints_in_batch_mode():
    config = CheckpointConfig(Configuration.from_dict({"execution.runtime-mode": "BATCH"}))
    config.set_checkpoint_interval(1000)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


@pytest.mark.parametrize(
    "call",
    [
        lambda config: config.set_checkpoint_interval(9),
        lambda config: config.set_checkpoint_timeout(9),
        lambda config: config.set_min_pause_between_checkpoints(-1),
        lambda config: config.set_max_concurrent_checkpoints(0),
        lambda config: config.set_tolerable_checkpoint_failure_number(-1),
    ],
)
def test_checkpoint_settings_that_cannot_be(call):
    with pytest.raises(ValueError, match="at least"):
        call(CheckpointConfig())


def test_restart_strategies():
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=1))
    assert fixed == RestartStrategies.fixed_delay_restart(3, timedelta(milliseconds=1000))
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=1)
    rate = RestartStrategies.failure_rate_restart(3, 60_000, 10)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (3, timedelta(minutes=1))
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=10)
    strategies: list[RestartStrategyConfiguration] = [
        RestartStrategies.no_restart(),
        RestartStrategies.fall_back_restart(),
        fixed,
        rate,
    ]
    assert [strategy.get_description() for strategy in strategies] == [
        "Restart deactivated.",
        "Cluster level default restart strategy",
        "Restart with fixed delay (1000 ms). #3 restart attempts.",
        "Failure rate restart with maximum of 3 failures within interval 60000 ms and fixed delay 10 ms.",
    ]
    assert len(set(strategies)) == 4
    with pytest.raises(TypeError, match="timedelta"):
        RestartStrategies.fixed_delay_restart(3, "x")  # type: ignore[arg-type]
