"""`python -m xmtc` is the command `xmtc`."""

from xmtc.cli import run

if __name__ == "__main__":
    run()
