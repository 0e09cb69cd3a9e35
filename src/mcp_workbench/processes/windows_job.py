"""A tree by a Windows job object: what is in it cannot leave it, and ends with its last handle, so with us.

Imported only on Windows. Only `trees` comes here.
"""

import asyncio
import ctypes
import sys
from ctypes import wintypes
from typing import Final

assert sys.platform == "win32"

_BASIC_ACCOUNTING: Final = 1
_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
_PROCESS_ACCESS: Final = 0x0001 | 0x0100 | 0x0800  # terminate, set quota, suspend and resume
_POLL: Final = 0.02

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_ntdll = ctypes.WinDLL("ntdll")
# Handles are pointers: without this they'd be cut to 32 bits.
_kernel32.CreateJobObjectW.restype = wintypes.HANDLE
_kernel32.CreateJobObjectW.argtypes = [ctypes.c_void_p, wintypes.LPCWSTR]
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.OpenProcess.argtypes = [wintypes.DWORD, wintypes.BOOL, wintypes.DWORD]
_kernel32.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
_kernel32.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]
_kernel32.CloseHandle.argtypes = [wintypes.HANDLE]
_kernel32.SetInformationJobObject.argtypes = [wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD]
_kernel32.QueryInformationJobObject.argtypes = [
    wintypes.HANDLE,
    ctypes.c_int,
    ctypes.c_void_p,
    wintypes.DWORD,
    ctypes.c_void_p,
]
_ntdll.NtResumeProcess.argtypes = [wintypes.HANDLE]


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
        ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
        ("LimitFlags", wintypes.DWORD),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", wintypes.DWORD),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", wintypes.DWORD),
        ("SchedulingClass", wintypes.DWORD),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_ulonglong * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("Times", wintypes.LARGE_INTEGER * 4),
        ("TotalPageFaultCount", wintypes.DWORD),
        ("TotalProcesses", wintypes.DWORD),
        ("ActiveProcesses", wintypes.DWORD),
        ("TotalTerminatedProcesses", wintypes.DWORD),
    )


class JobTree:
    """The tree of a process that was spawned suspended: it goes on when it's in the job."""

    started = 0

    def __init__(self, pid: int) -> None:
        self._job: int | None = _checked(_kernel32.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        _checked(_kernel32.SetInformationJobObject(self._job, _EXTENDED_LIMITS, ctypes.byref(limits), size))
        process = _checked(_kernel32.OpenProcess(_PROCESS_ACCESS, False, pid))
        try:
            _checked(_kernel32.AssignProcessToJobObject(self._job, process))
            _ntdll.NtResumeProcess(process)
        finally:
            _kernel32.CloseHandle(process)
        self._pid = pid

    async def left(self) -> list[int]:
        return [self._pid] * self._active()

    def sessions(self) -> list[tuple[int, int]]:
        return []  # the guard, who would be told of them, is not needed

    async def gone(self) -> None:
        while self._active():  # noqa: ASYNC110 - a completion port would be more than it is worth
            await asyncio.sleep(_POLL)

    async def terminate(self) -> None:
        """Windows has no polite signal for a process without a console: the end of stdin was the asking."""

    async def kill(self) -> None:
        _kernel32.TerminateJobObject(self._job, 1)

    def release(self) -> None:
        if self._job is not None:
            _kernel32.CloseHandle(self._job)
            self._job = None

    def _active(self) -> int:
        counts = _Accounting()
        size = ctypes.sizeof(counts)
        _checked(
            _kernel32.QueryInformationJobObject(
                self._job, _BASIC_ACCOUNTING, ctypes.byref(counts), size, None
            )
        )
        return int(counts.ActiveProcesses)


def _checked(result: int | None) -> int:
    if not result:
        raise ctypes.WinError(ctypes.get_last_error())
    return result
