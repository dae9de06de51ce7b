"""Advice on samples whose truth is known: is a choice false and the best given up as seldom as claimed?"""

import numpy as np
import pytest
from simulated import DISTRIBUTIONS, error, lognormal, stays_below
from tiers import first_of

from fsage import advise as decisions
from fsage.advise import decide, probabilities
from fsage.advise.measured import Cost

FALSE = "a choice where the best are equal"


def costs_of(samples):
    """Choices 'a', 'b', ... of one state each, and the samples as `decide` takes them."""
    names = [chr(ord("a") + number) for number in range(len(samples))]
    seconds = {name: dict(enumerate(values)) for name, values in zip(names, samples, strict=True)}
    return [Cost((name,), {name: 1.0}, 1.0, 0.0, list(seconds[name].values())) for name in names], seconds


@pytest.fixture
def decided(monkeypatch):
    """Decide without the probabilities, which are tested alone."""
    monkeypatch.setattr(decisions, "probabilities", lambda costs, seconds: [None] * len(costs))
    return lambda samples, margin=0.0: decide(*costs_of(samples), "a", margin)


@pytest.mark.parametrize("draw", first_of(*DISTRIBUTIONS))
@pytest.mark.parametrize(("choices", "worse", "n"), [(2, 0, 5), (6, 4, 5), (3, 1, 9)])
def test_a_choice_between_equals_is_as_seldom_as_claimed(row, decided, choices, worse, n, draw):
    """Equal ones, and some that are twice as slow: hardest are two equal ones before many that are far behind."""
    trials, rng = 400, np.random.default_rng(choices * n)
    true = np.ones((choices, 1))
    true[choices - worse :] = 2
    hits = sum(decided(true * draw(rng, (choices, n))).verdict == "choose" for _ in range(trials))
    row(FALSE, f"{choices - worse} equal, {worse} worse, n={n}, {draw.__name__}", "<= 5%", hits, trials)
    assert stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("step", first_of(0.01, 0.0))
def test_the_best_is_not_told_worse(row, decided, step):
    """Six choices, each by a step slower than the one before, at a scatter of 5%: the first must not be given up."""
    trials, n, rng = 300, 6, np.random.default_rng(round(100 * step))
    true = (1 + step) ** np.arange(6)[:, None]
    lost = 0
    for _ in range(trials):
        lost += any("a" in each.cost.names for each in decided(true * lognormal(rng, (6, n))).with_standing("worse"))
    row("the best told worse", f"6 choices {step:.0%} apart, n={n}", "<= 5%", lost, trials)
    assert stays_below(lost, trials, 0.05)


def test_what_is_clearly_best_is_chosen_and_a_difference_below_the_margin_is_not(row, decided):
    trials, rng = 200, np.random.default_rng(3)
    true = np.array([1.0, 0.8, 1.1, 1.2, 0.98, 1.5])[:, None]
    found = [decided(true * lognormal(rng, (6, 5)) ** 0.4, 0.03) for _ in range(trials)]
    right = sum(each.verdict == "choose" and each.best.cost.name == "b" for each in found)
    row("the best of six chosen", "20% ahead at a scatter of 2%, n=5", "> 99%", right, trials)
    assert right > 0.99 * trials
    close = decided(np.array([[1.0], [0.985]]) * lognormal(rng, (2, 5)) ** 0.02, 0.03)
    assert (close.verdict, close.rivals[1].standing) == ("either", "alike")


def test_as_many_iterations_as_foretold_do_decide(row, decided):
    """A pilot as large as the number it foretells knows the scatter: power is then what was aimed at."""
    trials, rng = 400, np.random.default_rng(5)
    best, other = np.array([[1.0], [1.06]]) * lognormal(rng, (2, 5000))
    number = decisions._iterations(other, best, 1.0, 0.0)
    assert 9 < number < 20
    hits = sum(
        decided(np.array([[1.0], [1.06]]) * lognormal(rng, (2, number))).verdict == "choose" for _ in range(trials)
    )
    row("decided after the iterations foretold", f"6% apart at a scatter of 5%, n={number}", "about 80%", hits, trials)
    assert 0.72 < hits / trials < 0.9


def test_probability_of_being_best_is_kept(row, monkeypatch):
    """True means drawn far wider than the noise: of those called best with 90% about 90% are."""
    monkeypatch.setattr(decisions, "DRAWS", 2000)
    trials, rng = 500, np.random.default_rng(8)
    promised, right = [], []
    for _ in range(trials):
        true = np.exp(rng.normal(0, 0.15, (3, 1)))
        chances = probabilities(*costs_of(true * np.exp(0.1 * rng.standard_normal((3, 4)))))
        promised.append(max(chances))
        right.append(int(np.argmax(chances)) == int(true.argmin()))
    row("probability of being best", "3 choices, n=4", f"{np.mean(promised):.1%}", sum(right), trials)
    assert abs(np.mean(right) - np.mean(promised)) < 3.3 * error(np.mean(promised), trials) + 0.02
    assert probabilities(*costs_of([[1.0], [2.0]])) == [None, None], "one sample says nothing of its scatter"
