"""`python -m toughen.demo`: the same as `toughen demo`."""

import argparse
import sys

from ..cli.commands import demo

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m toughen.demo", description=demo.HELP)
    demo.add(parser)
    sys.exit(demo.run(parser.parse_args()))
