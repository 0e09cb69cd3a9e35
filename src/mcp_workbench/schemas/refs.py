"""Where a JSON Schema's `$ref` leads within the schema itself. Pure."""

from typing import Final

NOWHERE: Final = object()


def target(root: object, ref: object) -> object:
    """What a `$ref` such as `#/$defs/Point` stands for in the schema that is read from `root`.

    NOWHERE if it leads to another document, to a name that only `$anchor` gives, or to nothing.
    """
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return NOWHERE
    place = root
    for step in ref.split("/")[1:]:
        key = (_unquoted(step) if "%" in step else step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isdecimal() and key.isascii() and int(key[:9]) < len(place):
            place = place[int(key)]
        else:
            return NOWHERE
    return place


def _unquoted(step: str) -> str:
    from urllib.parse import unquote  # hardly any `$ref` needs it

    return unquote(step)
