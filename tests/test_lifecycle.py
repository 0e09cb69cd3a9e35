"""Tier 1: when a server is waited for, restarted or only probed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench import lifecycle
from mcp_workbench.lifecycle import RestartPolicy

times = st.floats(0, 1e6)
jitters = st.floats(0, 1, exclude_max=True)
policies = st.builds(
    RestartPolicy, crashes=st.integers(1, 10_000), within=st.floats(0.001, 1e5, allow_nan=False)
)


@given(policies, st.lists(times, max_size=30), times, jitters)
def test_a_delay_is_never_negative_and_never_above_the_longest(
    policy: RestartPolicy, crashes: list[float], now: float, jitter: float
) -> None:
    delay = policy.delay(crashes, now, jitter)
    assert 0 <= delay <= policy.longest_delay or delay == policy.probe_every


@given(st.integers(1, 5000), jitters)
def test_however_many_crashes_are_allowed_the_delay_can_be_told(crashes: int, jitter: float) -> None:
    policy = RestartPolicy(crashes=10_000)
    assert 0 <= policy.delay([0.0] * crashes, 1.0, jitter) <= policy.longest_delay


@pytest.mark.parametrize(
    ("crashes", "delay"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (9, 25.6), (10, 30.0), (11, 30.0)]
)
def test_the_delay_doubles_from_a_tenth_of_a_second_to_half_a_minute(crashes: int, delay: float) -> None:
    policy = RestartPolicy(crashes=1000)
    assert policy.delay([10.0] * crashes, 10.0, 1.0) == pytest.approx(delay)


@given(policies, st.lists(st.just(5.0), min_size=1, max_size=9), jitters)
def test_the_jitter_is_full(policy: RestartPolicy, crashes: list[float], jitter: float) -> None:
    if len(crashes) < policy.crashes:
        assert policy.delay(crashes, 5.0, jitter) == jitter * policy.delay(crashes, 5.0, 1.0)
        assert policy.delay(crashes, 5.0, 0.0) == 0


@given(policies, st.integers(0, 20), times, jitters)
def test_after_so_many_crashes_it_is_only_probed(
    policy: RestartPolicy, more: int, now: float, jitter: float
) -> None:
    if policy.crashes < 100:
        assert policy.delay([now] * (policy.crashes + more), now, jitter) == policy.probe_every


def test_five_crashes_in_three_minutes_mean_one_probe_a_minute() -> None:
    crashes = [0.0, 45.0, 90.0, 135.0, 180.0]
    assert RestartPolicy().delay(crashes, 180.0, 0.5) == 60
    assert RestartPolicy().delay(crashes, 180.1, 0.5) == pytest.approx(0.4)


@given(policies, st.lists(times, max_size=10), st.integers(0, 8), jitters)
def test_old_crashes_are_forgotten(
    policy: RestartPolicy, recent: list[float], old: int, jitter: float
) -> None:
    now = 2e6
    fresh = [now] * len(recent)
    forgotten = [now - policy.within * 1.01 - 1] * old
    assert policy.delay([*forgotten, *fresh], now, jitter) == policy.delay(fresh, now, jitter)


def test_the_order_of_the_crashes_does_not_matter() -> None:
    policy = RestartPolicy()
    assert policy.delay([3.0, 1.0, 2.0], 4.0, 1.0) == policy.delay([1.0, 2.0, 3.0], 4.0, 1.0)


@pytest.mark.parametrize(
    ("command", "installs"),
    [
        ("npx", True),
        ("/usr/bin/npx", True),
        ("C:\\nodejs\\npx.cmd", True),
        ("UVX.EXE", True),
        ("uv", True),
        ("pipx", True),
        ("node", False),
        ("python3", False),
        ("npxx", False),
        ("npx/server", False),
        ("", False),
    ],
)
def test_installers_are_known_by_their_name(command: str, installs: bool) -> None:
    assert lifecycle.installs(command) is installs


@pytest.mark.parametrize(
    ("last_output", "installing", "limit", "deadline"),
    [
        (None, False, None, 160),
        (None, True, None, 160),
        (150, False, None, 160),
        (101, True, None, 161),
        (150, True, None, 210),
        (170, True, None, 220),
        (219, True, None, 220),
        (50, True, None, 160),
        (150, True, 5, 105),
        (None, False, 300, 400),
    ],
)
def test_the_deadline_of_connecting_is_a_minute_and_two_while_an_installer_prints(
    last_output: float | None, installing: bool, limit: float | None, deadline: float
) -> None:
    assert lifecycle.connect_deadline(100, last_output, installing=installing, limit=limit) == deadline


@given(times, st.none() | times, st.booleans(), st.none() | st.floats(0.001, 1e4))
def test_the_deadline_is_never_before_a_minute_nor_after_two_unless_configured(
    began: float, last_output: float | None, installing: bool, limit: float | None
) -> None:
    deadline = lifecycle.connect_deadline(began, last_output, installing=installing, limit=limit)
    if limit is None:
        assert began + 60 <= deadline <= began + 120
    else:
        assert deadline == began + limit


def test_a_server_that_is_only_probed_stays_so_until_it_serves() -> None:
    policy = RestartPolicy(crashes=5, within=180)
    assert policy.delay([0.0], 1000.0, 0.5, before=policy.probe_every) == policy.probe_every
    assert policy.delay([1000.0], 1000.0, 0.5, before=0) < policy.longest_delay
