"""The engine as a model of EleutherAI's lm-evaluation-harness (``pip install 'dlmrs[lm-eval]'``).

    import dlmrs.lm_eval                                # registers the model "dlmrs"
    import lm_eval

    results = lm_eval.simple_evaluate(model="dlmrs", model_args="model=tiny-sdar", tasks=["arc_easy"])

From a shell: ``python -m dlmrs.lm_eval run --model dlmrs --model_args model=tiny-sdar --tasks arc_easy``. The arguments of
the model are those of :class:`DlmrsLM`.

A task that generates gets its text from :meth:`dlmrs.LLM.generate`. A task that compares log-likelihoods gets one of two
estimates, which :mod:`dlmrs.likelihood` states with their formulas and sources: with an answer a of L tokens behind a
context c,

``left_to_right``
    the sum over i of log p(a_i | c, a_1 .. a_{i-1}, the rest masked);
``monte_carlo``
    the mean over ``mc_num`` random sets M of (L / |M|) times the sum over i in M of log p(a_i | c, a with M masked),
    where |M| runs evenly through 1..L (LLaDA, arXiv:2502.09992).
"""

from importlib.util import find_spec

if find_spec("lm_eval") is None:
    raise ImportError("dlmrs.lm_eval needs lm-evaluation-harness, which is not installed: pip install 'dlmrs[lm-eval]'")

from dlmrs.lm_eval.model import DlmrsLM

__all__ = ["DlmrsLM"]
