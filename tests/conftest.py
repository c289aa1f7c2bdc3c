"""Options of the whole suite."""


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="run the long property tests at full length")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
