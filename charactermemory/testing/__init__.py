"""For tests: contract suites that any implementation of a port can be put through, and fakes of the ports."""
