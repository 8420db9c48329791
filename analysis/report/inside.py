"""What a run's page shows of inside.json: samples, roles of heads, attention maps as images of a few hundred bytes."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.figures.inside import WEIGHT, matrix, short_name
from experiments.records import INSIDE, Damaged, read_json

MOST_MAPS = 48


def inside_section(directory: Path) -> dict[str, Any] | None:
    """Values for the page of a run; None where nobody has looked inside it, or the file cannot be trusted."""
    try:
        content = read_json(directory / INSIDE)
    except (FileNotFoundError, Damaged):
        return None
    roles = {(head["attention"], head["head"]): head for head in content["heads"]}
    shown = content["maps"][:MOST_MAPS]
    return {
        "tokens": content["tokens"], "source_tokens": content["source_tokens"], "samples": content["samples"],
        "answer": content["answer"], "cut": len(content["maps"]) - len(shown),
        "maps": [_map(one, roles.get((one["attention"], one["head"]))) for one in shown],
    }


def _map(one: Mapping[str, Any], role: Mapping[str, Any] | None) -> dict[str, str]:
    name = f"{short_name(one['attention'])}, head {one['head'] + 1}"
    score = None if role is None else role["scores"].get(role["role"])
    told = "" if role is None else role["role"] + (f" {score:.2f}" if score is not None else "")
    weights = matrix(one["rows"])
    return {"name": name, "role": told, "image": png(np.clip(weights, 0, 100).round().astype(np.uint8)),
            "alt": f"attention of {name}: {weights.shape[0]} queries on {weights.shape[1]} keys; {told}"}


def png(values: NDArray[np.uint8]) -> str:
    """Whole percents as a data URI of a palette image, one pixel a weight; a page that needs nothing else."""
    height, width = values.shape
    lines = b"".join(b"\0" + row.tobytes() for row in values)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", _palette()),
        (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


@lru_cache(maxsize=1)
def _palette() -> bytes:
    return bytes(round(255 * part) for percent in range(101) for part in WEIGHT(percent / 100)[:3])
