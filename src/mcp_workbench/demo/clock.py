"""Time and dates as an MCP server."""

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcp_workbench.demo.stdio_server import Arguments, Tool, serve


def now(arguments: Arguments) -> object:
    zone = arguments.get("timezone", "UTC")
    return {"timezone": zone, "now": datetime.now(_zone(str(zone))).isoformat(timespec="seconds")}


def days_between(arguments: Arguments) -> object:
    start, end = (date.fromisoformat(str(arguments[name])) for name in ("start", "end"))
    return {"days": (end - start).days}


def _zone(name: str) -> tzinfo:
    if name == "UTC":  # known even where no time zone database is installed
        return UTC
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        raise ValueError(f"Unknown time zone: {name}") from None


DAY = {"type": "string", "format": "date", "description": "A day, like 2024-02-29"}

TOOLS = (
    Tool(
        "now",
        "Tell the date and time in a time zone.",
        {"timezone": {"type": "string", "description": "An IANA name like Europe/Paris", "default": "UTC"}},
        (),
        now,
    ),
    Tool(
        "days_between",
        "Count the days from one day to another; negative if the second is earlier.",
        {"start": DAY, "end": DAY},
        ("start", "end"),
        days_between,
    ),
)

if __name__ == "__main__":
    serve("clock", TOOLS)
