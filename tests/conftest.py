"""What every test shares."""

pytest_plugins = ["tests.support.fixtures", "tests.support.databases"]
