"""Options of the whole suite."""

from hypothesis import settings

settings.register_profile(
    "untimed", deadline=None
)  # how long an example takes says more of the machine than of the code
settings.load_profile("untimed")


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="run the long property tests at full length")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
