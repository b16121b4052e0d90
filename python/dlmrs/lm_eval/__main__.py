"""``python -m dlmrs.lm_eval``: the harness's own command line, with the model ``dlmrs`` registered."""

from lm_eval.__main__ import cli_evaluate

if __name__ == "__main__":
    cli_evaluate()
