"""What changed, as a person reads it before approving: field by field, with nothing invisible in it. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..errors import inside
from ..raw_json import Malformed
from .canonical import definition_hash, written
from .changes import Change, Kind
from .scan import visible
from .tree import DEEPEST_PLACE, Number, Object, Tree, parsed

_SHORT: Final = 60
_LONGEST_SHOWN: Final = 20_000
_MOST_COMPARED: Final = 2_000  # comparing takes the square of it
_AROUND: Final = 6  # words that are shown around those that changed

Fields = Mapping[str, Tree]


def differences(
    changes: Iterable[Change], current: Mapping[str, bytes], earlier: Callable[[str], bytes | None]
) -> str:
    """The changes, each under its name, one below the other; empty if there are none.

    `current` has what is there now by its hash: entries, instructions, definitions. `earlier` finds in the
    same way what was approved, if it is known on this machine, and is believed only if the hash is right.
    """
    return "\n".join(line for change in changes for line in _told(change, current, earlier))


def _told(
    change: Change, current: Mapping[str, bytes], earlier: Callable[[str], bytes | None]
) -> Iterator[str]:
    yield f"{_line(change.name)}: {change.kind.value}"
    if change.after is None:
        return
    if (now := current.get(change.after)) is None:
        yield "  (what is there now is not known)"
        return
    what = "instructions" if change.kind is Kind.INSTRUCTIONS_CHANGED else ""
    before: bytes | None = None
    if change.before is not None:
        before = earlier(change.before)
        if before is None or definition_hash(before) != change.before:
            yield "  (what was approved is not known on this machine; there is now:)"
            before = None
    yield from (f"  {line}" for line in _between(before, now, what))


def _between(before: bytes | None, now: bytes, what: str) -> Iterator[str]:
    old = {} if before is None else _fields(before, what)
    new, found = _fields(now, what), False
    for place in [*new, *(place for place in old if place not in new)]:
        if place in old and place in new and written(old[place]) == written(new[place]):
            continue
        found = True
        yield from _field(place, old, new)
    if not found and before is not None:
        # What is too odd to be read at length is hashed as it stands: white space counts there.
        yield "the fields are the same, but not how they are written:"
        yield from _lines("- ", before.decode(errors="replace"))
        yield from _lines("+ ", now.decode(errors="replace"))


def _field(place: str, old: Fields, new: Fields) -> Iterator[str]:
    name = _line(place) or "(the whole)"
    if place not in old:
        yield from _whole("+", name, new[place])
    elif place not in new:
        yield from _whole("-", name, old[place])
    else:
        before, after = old[place], new[place]
        if isinstance(before, str) and isinstance(after, str):
            yield from _texts(name, before, after)
        else:
            yield f"~ {name}: {_shown(before)} → {_shown(after)}"


def _whole(sign: str, name: str, value: Tree) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value:
        yield f"{sign} {name}:"
        yield from _lines(f"    {sign} ", value)
    else:
        yield f"{sign} {name}: {_shown(value)}"


def _texts(name: str, before: str, after: str) -> Iterator[str]:
    if "\n" in before or "\n" in after:
        yield f"~ {name}:"
        yield from (f"    {line}" for line in _by_lines(before.split("\n"), after.split("\n")))
    elif len(before) <= _SHORT and len(after) <= _SHORT:
        yield f"~ {name}: {_shown(before)} → {_shown(after)}"
    else:
        yield f"~ {name}:"
        yield f"    {_by_words(before.split(' '), after.split(' '))}"


def _by_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    import difflib  # only this command needs it

    if len(before) + len(after) > _MOST_COMPARED:
        yield from _lines("- ", "\n".join(before))
        yield from _lines("+ ", "\n".join(after))
        return
    for at, line in enumerate(difflib.unified_diff(before, after, lineterm="", n=2)):
        if at < 2 or line.startswith(("@@ -1,", "@@ -1 ")):
            continue  # what would name files, and the first lines
        yield from _lines(line[0] + " ", line[1:]) if line[0] in "+- " else ["…"]


def _by_words(before: Sequence[str], after: Sequence[str]) -> str:
    """The new text with `{+what was added+}` and `[-what was removed-]`."""
    import difflib

    if len(before) + len(after) > _MOST_COMPARED:
        steps: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(before), 0, len(after))]
    else:
        steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    parts = []
    for at, (step, from_, to, new_from, new_to) in enumerate(steps):
        if step == "equal":
            parts.append(_around(before[from_:to], first=at == 0, last=at == len(steps) - 1))
            continue
        if from_ < to:
            parts.append(f"[-{_cut(_unmarked(before[from_:to]))}-]")
        if new_from < new_to:
            parts.append(f"{{+{_cut(_unmarked(after[new_from:new_to]))}+}}")
    return " ".join(parts)


def _around(words: Sequence[str], *, first: bool, last: bool) -> str:
    """Words that stayed, but only those beside what changed."""
    start = [] if first else list(words[:_AROUND])
    end = [] if last else list(words[-_AROUND:])
    if len(words) <= len(start) + len(end):
        return _unmarked(words)
    return _unmarked([*start, "…", *end])


def _unmarked(words: Sequence[str]) -> str:
    """Without what would look like our own marks: nothing that is added may seem to be removed."""
    text = _line(" ".join(words))
    for mark in ("[-", "-]", "{+", "+}"):
        text = text.replace(mark, f"{mark[0]}\\{mark[1]}")
    return text


def _lines(prefix: str, text: str) -> Iterator[str]:
    """Each line behind its sign, so that none can look like one of ours."""
    for line in _cut(visible(text)).split("\n"):
        yield prefix + line


def _line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[:_LONGEST_SHOWN]}… and {len(text) - _LONGEST_SHOWN:,} more characters, not shown"


def _shown(value: Tree) -> str:
    if isinstance(value, str):
        return f'"{_cut(_line(value))}"'
    if isinstance(value, Number):
        return _cut(value.text)
    return _cut(_line(written(value).decode()))


def _fields(definition: bytes, what: str) -> Fields:
    """Each value by its place, in the order of the definition; lists of plain values stay whole."""
    try:
        tree = parsed(definition)
    except Malformed:
        tree = definition.decode(errors="replace")
    fields: dict[str, Tree] = {}
    waiting: list[tuple[str, int, Tree]] = [(what, 0, tree)]
    while waiting:
        place, depth, node = waiting.pop()
        parts = _parts(node) if depth < DEEPEST_PLACE else []
        if parts:
            waiting.extend((inside(place, key), depth + 1, value) for key, value in reversed(parts))
            continue
        times = 2
        name = place
        while name in fields:  # the key is written twice
            name, times = f"{place} (time {times})", times + 1
        fields[name] = node
    return fields


def _parts(node: Tree) -> list[tuple[str, Tree]] | list[tuple[int, Tree]]:
    if isinstance(node, Object):
        return node.members
    if isinstance(node, list) and any(isinstance(value, (list, Object)) for value in node):
        return list(enumerate(node))
    return []
