"""Settings of all tests."""

from hypothesis import settings

# The first call of a kernel compiles it, and a shared machine may stop for a second anywhere: no test times examples.
settings.register_profile("xmtc", deadline=None)
settings.load_profile("xmtc")

#: Scripts that tests run in processes of their own; not test modules.
collect_ignore_glob = ["*/children/*"]
