import io
import json
import tarfile
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "torch"


@pytest.fixture(scope="session")
def cases() -> dict[str, str]:
    """The hand-made CSVs by file name."""
    return {p.name: p.read_bytes().decode() for p in sorted((DATA / "cases").glob("*.csv"))}


@pytest.fixture(scope="session")
def corpus() -> dict[str, str]:
    """The CSVs that PyTorch's own classes wrote, by file name."""
    with tarfile.open(fileobj=io.BytesIO((DATA / "corpus" / "schedules.tar.gz").read_bytes())) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers() if m.isfile()}


@pytest.fixture(scope="session")
def corpus_index() -> dict[str, dict]:
    return {e["file"]: e for e in json.loads((DATA / "corpus" / "index.json").read_text())["entries"]}
